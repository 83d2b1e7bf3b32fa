"""ChatView: the conversation as a column of rows that follows the newest text unless the user looks elsewhere."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractSlider, QFrame, QLabel, QPushButton, QScrollArea, QWidget

from app.desktop.rendering.blocks import BlockParser
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.plain import shortened
from app.desktop.session.turns import ReplyTurn, Turn, TurnAction, UserTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.empty_state import EmptyState
from app.desktop.widgets.message_rows import MessageRow, ReplyRow, UserRow
from app.settings import FollowMode

MAX_COLUMN = 760
_GAP = 22
_STICK_DISTANCE = 4


class ChatView(QScrollArea):
    """Shows turns; text at the end is followed while the user stays at the end.

    Args:
        parser: gives the parser of replies, when the first one comes.

    Signals:
        action_requested: TurnAction, turn id.
        edit_submitted: turn id, the new text; the text before is kept as another variant.
        load_requested: the model is to be loaded again.
        link_activated: a target of a reply, allowed but not yet agreed to.
    """

    action_requested = Signal(object, str)
    edit_submitted = Signal(str, str)
    load_requested = Signal()
    link_activated = Signal(str)

    def __init__(
        self, theme: Theme, parser: Callable[[], BlockParser], lexer: CodeLexer, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._parser = parser
        self._lexer = lexer
        self._rows: list[MessageRow] = []
        self._row_of: dict[str, MessageRow] = {}
        self._last_row: MessageRow | None = None
        self._tops: list[int] = []
        self._is_following = True
        self._can_load = False
        self.follow_mode = FollowMode.END
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Conversation")
        self._column = QWidget()
        self._column.setObjectName("conversation")
        self.setWidget(self._column)
        self.empty_state = EmptyState(theme, self)
        self._latest = QPushButton("↓ Latest", self)
        self._latest.setProperty("kind", "pill")
        self._latest.setToolTip("Go to the newest text")
        self._latest.setCursor(Qt.CursorShape.PointingHandCursor)
        self._latest.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._latest.clicked.connect(self.follow)
        self._latest.hide()
        self._target = QLabel(self)
        self._target.setObjectName("linkTarget")
        self._target.setTextFormat(Qt.TextFormat.PlainText)
        self._target.hide()
        bar = self.verticalScrollBar()
        bar.setSingleStep(theme.px(40))
        bar.actionTriggered.connect(self._on_user_scrolled)
        bar.sliderMoved.connect(self._on_user_scrolled)
        bar.rangeChanged.connect(self._on_range_changed)
        bar.valueChanged.connect(self._update_latest)
        self._on_range_changed()
        theme.changed.connect(self._on_theme_changed)

    @property
    def is_following(self) -> bool:
        """Whether new text scrolls into view."""
        return self._is_following

    @property
    def rows(self) -> Sequence[MessageRow]:
        """The rows, oldest first."""
        return self._rows

    @property
    def latest_button(self) -> QPushButton:
        """Goes to the newest text; visible while the user looks elsewhere."""
        return self._latest

    def reply_row(self, turn_id: str) -> ReplyRow | None:
        """Return the row of a reply."""
        row = self._row_of.get(turn_id)
        return row if isinstance(row, ReplyRow) else None

    def append_text(self, turn_id: str, text: str) -> None:
        """Show a piece of a reply's answer, which the turn has already."""
        if row := self.reply_row(turn_id):
            row.append(text)

    def append_thinking(self, turn_id: str, text: str) -> None:
        """Show a piece of a reply's thinking, which the turn has already."""
        if row := self.reply_row(turn_id):
            row.append_thinking(text)

    def take_back(self, turn_id: str) -> None:
        """Show the answer so far as thinking, which it turned out to be."""
        if row := self.reply_row(turn_id):
            row.take_back()

    def restart(self, turn_id: str) -> None:
        """Remove the earlier text of a reply: the new one begins."""
        if row := self.reply_row(turn_id):
            row.restart()

    def refresh(self, turn_id: str) -> None:
        """Show the present state of a turn."""
        if row := self.reply_row(turn_id):
            row.refresh()

    def place(self) -> tuple[str, int] | None:
        """Return the first message in view and how far it is scrolled."""
        return None

    def set_highlight(self, text: str) -> None:
        """Mark a text wherever it is shown."""

    def show_turn(self, turn_id: str, *, text: str = "", number: int = 0) -> None:
        """Bring a place of a message into view."""

    def begin_edit(self, turn_id: str) -> None:
        """Open a message for editing."""

    def toggle_thinking(self, turn_id: str) -> None:
        """Show or hide what the model thought before a reply."""
        row = self.reply_row(turn_id)
        if row is not None and row.fold.isVisible():
            row.fold.head.toggle()

    def copy_turn(self, turn_id: str) -> bool:
        """Put a reply on the clipboard, as it was written; False where there is none."""
        row = self.reply_row(turn_id)
        if row is not None:
            row.copy()
        return row is not None

    def copy_last_code(self) -> bool:
        """Put the last code block on the clipboard; False where there is none."""
        for row in reversed(self._rows):
            if isinstance(row, ReplyRow) and row.body.code_blocks:
                row.body.code_blocks[-1].copy()
                return True
        return False

    def set_turns(self, turns: Sequence[Turn], *, place: tuple[str, int] | None = None) -> None:
        """Show other turns."""
        for row in self._rows:
            row.hide()
            row.deleteLater()
        self._rows, self._tops = [], []
        self._last_row = None
        self._row_of = {}
        for turn in turns:
            self._append_row(turn)
            self._mark_last()
        self._relayout(0)
        self.follow()

    def add_turn(self, turn: Turn) -> None:
        """Add a turn at the end and go there."""
        self._append_row(turn)
        self._mark_last()
        self._relayout(len(self._rows) - 1)
        self.follow()

    def remove_turn(self, turn_id: str) -> None:
        """Remove a turn."""
        row = self._row_of.pop(turn_id, None)
        if row is not None:
            self._rows.remove(row)
            if row is self._last_row:
                self._last_row = None
            row.hide()
            row.deleteLater()
            self._mark_last()
            self._relayout(0)

    def set_can_load(self, can_load: bool) -> None:
        """Tell failed replies whether a model has to be loaded before they can be asked for again."""
        self._can_load = can_load
        for row in self._rows:
            if isinstance(row, ReplyRow):
                row.set_can_load(can_load)

    def follow(self) -> None:
        """Go to the newest text and stay with it."""
        self._is_following = True
        self._to_end()

    def go_to_start(self) -> None:
        """Go to the oldest message."""
        self._is_following = False
        self.verticalScrollBar().setValue(0)
        self._update_latest()

    def scroll_page(self, direction: int) -> None:
        """Scroll by a page as if the user had pressed the key."""
        action = QAbstractSlider.SliderAction
        add, sub = action.SliderPageStepAdd, action.SliderPageStepSub
        self.verticalScrollBar().triggerAction(add if direction > 0 else sub)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """See QWidget; an upward turn stops following at once."""
        if event.angleDelta().y() > 0 and self.verticalScrollBar().maximum() > 0:
            self._is_following = False
        super().wheelEvent(event)
        if event.angleDelta().y() < 0:
            self._is_following = self._is_at_end()
        self._update_latest()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget; Home and End go to the ends."""
        if event.key() == Qt.Key.Key_End:
            self.follow()
        elif event.key() == Qt.Key.Key_Home:
            self.go_to_start()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget; what was at the top of the view stays there."""
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._relayout_in_place()
        elif self._is_following:
            self._to_end()
        self._place_overlays()

    def _append_row(self, turn: Turn) -> None:
        row = self._new_row(turn)
        row.resized.connect(lambda: self._on_row_resized(row))
        row.unfolded.connect(lambda: self._on_row_unfolded(row))
        self._rows.append(row)
        self._tops.append(0)
        self._row_of[turn.turn_id] = row
        row.show()

    def _new_row(self, turn: Turn) -> MessageRow:
        if isinstance(turn, UserTurn):
            return UserRow(self._theme, turn, self._column)
        return self._new_reply_row(turn)

    def _new_reply_row(self, turn: ReplyTurn) -> ReplyRow:
        row = ReplyRow(self._theme, turn, self._parser, self._lexer, self._column)
        row.set_can_load(self._can_load)
        row.retry_requested.connect(lambda: self.action_requested.emit(TurnAction.RETRY, turn.turn_id))
        row.continue_requested.connect(lambda: self.action_requested.emit(TurnAction.CONTINUE, turn.turn_id))
        row.load_requested.connect(self.load_requested)
        row.link_activated.connect(self.link_activated)
        row.link_hovered.connect(self._on_link_hovered)
        return row

    def _mark_last(self) -> None:
        last = self._rows[-1] if self._rows else None
        for row in (self._last_row, last):
            if isinstance(row, ReplyRow):
                row.set_is_last(row is last)
        self._last_row = last

    def _on_row_resized(self, row: MessageRow) -> None:
        if row in self._rows:
            self._relayout(self._rows.index(row))
            if self._is_following:
                self._to_end()

    def _on_row_unfolded(self, row: MessageRow) -> None:
        """Leave the place where the user pressed under the pointer, also at the end of the conversation."""
        self._is_following = False
        self._on_row_resized(row)
        self._on_user_scrolled()

    def _relayout_in_place(self) -> None:
        bar = self.verticalScrollBar()
        anchor = next((i for i, top in enumerate(self._tops) if top + self._rows[i].height() > bar.value()), None)
        offset = bar.value() - self._tops[anchor] if anchor is not None else 0
        self._relayout(0)
        if self._is_following:
            self._to_end()
        elif anchor is not None:
            bar.setValue(self._tops[anchor] + offset)

    def _relayout(self, first: int) -> None:
        px = self._theme.px
        available = self.viewport().width()
        width = min(px(MAX_COLUMN), available - 2 * self._margin())
        left = (available - width) // 2
        top = self._tops[first - 1] + self._rows[first - 1].height() + px(_GAP) if first else px(20)
        for index in range(first, len(self._rows)):
            height = self._rows[index].fit(width)
            self._tops[index] = top
            self._rows[index].setGeometry(left, top, width, height)
            top += height + px(_GAP)
        self._column.resize(available, max(top, 1) if self._rows else 1)
        self.empty_state.setVisible(not self._rows)
        self._place_overlays()

    def _margin(self) -> int:
        return self._theme.px(24 if self.viewport().width() > self._theme.px(560) else 14)

    def _place_overlays(self) -> None:
        px = self._theme.px
        area = self.viewport().geometry()
        self.empty_state.setGeometry(area)
        width = min(px(MAX_COLUMN), area.width() - 2 * self._margin())
        size = self._latest.sizeHint()
        right = area.left() + (area.width() + width) // 2
        self._latest.setGeometry(
            right - size.width(), area.bottom() - size.height() - px(8), size.width(), size.height()
        )
        hint = self._target.sizeHint()
        self._target.setGeometry(
            area.left() + px(4), area.bottom() - hint.height() - px(4), min(hint.width(), area.width()), hint.height()
        )

    def _is_at_end(self) -> bool:
        bar = self.verticalScrollBar()
        return bar.sliderPosition() >= bar.maximum() - _STICK_DISTANCE

    def _to_end(self) -> None:
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())
        self._update_latest()

    def _on_user_scrolled(self) -> None:
        self._is_following = self._is_at_end()
        self._update_latest()

    def _on_range_changed(self) -> None:
        bar = self.verticalScrollBar()
        bar.setEnabled(bar.maximum() > 0)  # the stylesheet hides the handle of a disabled bar
        if self._is_following:
            bar.setValue(bar.maximum())
        self._update_latest()

    def _update_latest(self) -> None:
        bar = self.verticalScrollBar()
        self._latest.setVisible(not self._is_following and bar.value() < bar.maximum() - _STICK_DISTANCE)

    def _on_link_hovered(self, target: str) -> None:
        self._target.setText(shortened(target, 160))
        self._target.setVisible(bool(target))
        self._place_overlays()

    def _on_theme_changed(self) -> None:
        for row in self._rows:
            row.restyle()
        self.verticalScrollBar().setSingleStep(self._theme.px(40))
        self._relayout_in_place()
