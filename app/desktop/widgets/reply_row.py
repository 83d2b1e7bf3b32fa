"""ReplyRow: what the model answered, with its thinking, its error and its numbers."""

from collections.abc import Iterator
from typing import cast

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton, QToolButton, QWidget

from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.turns import ReplyState, ReplyTurn, TurnAction
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.error_block import ErrorBlock
from app.desktop.widgets.message_rows import MessageRow, TextWidget, time_text
from app.desktop.widgets.reply_body import ReplyBody
from app.desktop.widgets.reply_contents import Part
from app.desktop.widgets.reply_ledger import LedgerLabel, ledger_text
from app.desktop.widgets.reply_outcome import (
    dropped_details,
    dropped_text,
    outcome_details,
    outcome_mark,
    outcome_numbers,
    progress_text,
)
from app.desktop.widgets.shown_turn import ShownTurn
from app.desktop.widgets.thinking_fold import ThinkingFold
from engine import ErrorInfo

_COPIED_MS = 1500


class ReplyRow(MessageRow):
    """A reply: name, what was left out, thinking, body, an error in place, what of its prompt was reused, and a line of
    numbers of fixed height.

    Signals:
        load_requested: the button of the error.
        link_activated, link_hovered: see SafeBrowser.
        save_requested: see CodeBlock.
    """

    load_requested = Signal()
    link_activated = Signal(str)
    link_hovered = Signal(str)
    save_requested = Signal(str, str)

    def __init__(
        self,
        theme: Theme,
        shown: ShownTurn,
        lexer: CodeLexer,
        parent: QWidget | None = None,
        *,
        formulas: FormulaImages | None = None,
    ) -> None:
        super().__init__(theme, shown, parent)
        assert shown.contents is not None
        self._can_load = False
        self._told: ErrorInfo | None = None
        self._name = QLabel(self)
        self._name.setTextFormat(Qt.TextFormat.PlainText)
        self._name.setProperty("role", "model")
        self._dropped: QLabel | None = None
        self._fold: ThinkingFold | None = None
        self._error: ErrorBlock | None = None
        self.body = ReplyBody(theme, shown.contents, lexer, self, formulas=formulas)
        self.body.height_changed.connect(self._on_height_changed)
        self.body.unfolded.connect(self._on_unfolded)
        self.body.segment_made.connect(self.text_made)
        self.body.link_activated.connect(self.link_activated)
        self.body.link_hovered.connect(self.link_hovered)
        self.body.save_requested.connect(self.save_requested)
        self._meta = ElidedLabel(self)
        self._meta.setProperty("role", "meta")
        self._ledger: LedgerLabel | None = None
        self._copied_timer = QTimer(self)
        self._copied_timer.setSingleShot(True)
        self._copied_timer.setInterval(_COPIED_MS)
        self._copied_timer.timeout.connect(lambda: self.actions_bar.copy.set_glyph("copy"))
        if shown.is_fold_open:
            self.fold.set_open(True)
        self.refresh()

    @property
    def reply(self) -> ReplyTurn:
        """What it shows."""
        return cast(ReplyTurn, self._shown.turn)

    @property
    def fold(self) -> ThinkingFold:
        """The thinking, made when it is first needed."""
        if self._fold is None:
            self._fold = ThinkingFold(self._theme, self.reply, self.body.contents.measures, self)
            self._fold.height_changed.connect(self._on_height_changed)
            self._fold.toggled.connect(self._on_fold_toggled)
        return self._fold

    @property
    def error(self) -> ErrorBlock:
        """What went wrong, made when it is first needed."""
        if self._error is None:
            self._error = ErrorBlock(self._theme, self)
            self._error.hide()
            self._error.retry_requested.connect(self._on_error_retry)
            self._error.load_requested.connect(self.load_requested)
        return self._error

    @property
    def meta_text(self) -> str:
        """The line below the reply."""
        return self._meta.whole

    @property
    def dropped_text(self) -> str:
        """The line that says what the model did not see, empty where it saw everything."""
        return "" if self._dropped is None or self._dropped.isHidden() else self._dropped.text()

    @property
    def ledger_text(self) -> str:
        """The line that says what was reused; empty where it says nothing."""
        return "" if self._ledger is None or self._ledger.isHidden() else self._ledger.text()

    @property
    def continue_button(self) -> QPushButton:
        """Lets the model go on; visible where it can."""
        return self.actions_bar.continue_button

    @property
    def retry_button(self) -> QToolButton:
        """Asks again."""
        return self._retry

    @property
    def _retry(self) -> QToolButton:
        return self.actions_bar.retry

    def texts(self) -> Iterator[tuple[Part | None, TextWidget]]:
        """See MessageRow."""
        for part, _ in self.body.realised():
            yield part, cast(TextWidget, self.body.text_of(part))

    def append(self, text: str, *, is_seen: bool) -> None:
        """Show a piece of the answer, which the turn has already; out of sight it only grows."""
        self._refresh_fold()
        self.body.append(text, is_seen=is_seen)

    def append_thinking(self, text: str) -> None:
        """Show a piece of the thinking, which the turn has already."""
        was_hidden = self.fold.isHidden()
        self.fold.append(text)
        if was_hidden:
            self._on_height_changed()

    def take_back(self) -> None:
        """Show the answer so far as thinking, which it turned out to be."""
        self.body.reread()
        self.fold.reread()
        self._on_height_changed()

    def set_can_load(self, can_load: bool, told: ErrorInfo | None = None) -> None:
        """Offer to load the model instead of asking again: there is none at present.

        Args:
            told: an error that need not be told here.
        """
        if (can_load, told) != (self._can_load, self._told):
            self._can_load, self._told = can_load, told
            self.refresh()

    def refresh(self) -> None:
        """See MessageRow."""
        turn = self.reply
        name = isolated(shortened(turn.model_name, 120))
        self._name.setText(name)
        self._name.setToolTip(time_text(turn))
        self.setAccessibleName(name)
        self.body.set_name(name)
        if not turn.is_open:
            self.body.finish()
        before = self._parts()
        self._refresh_fold()
        self._refresh_dropped()
        self._refresh_ledger()
        is_failed = turn.state is ReplyState.FAILED and turn.error is not None
        if turn.error is not None and is_failed:
            is_told = turn.error == self._told
            self.error.show_error(turn.error, can_load=self._can_load, can_retry=True, is_told=is_told)
        if self._error is not None:
            self._error.setVisible(is_failed)
        text = progress_text(turn) if turn.is_open else self._outcome_text()
        self._meta.set_whole(text)
        # The whole line too: in a narrow window its end is cut.
        self._meta.setToolTip("" if turn.is_open else "\n".join((text, outcome_details(turn))).strip())
        self.body.setVisible(self.editor is None)
        self._refresh_actions()
        if is_failed or before != self._parts():
            self._on_height_changed()
        elif self._width:
            self._place()

    def copy(self) -> None:
        """See MessageRow; as Markdown."""
        super().copy()
        if self._actions is not None:
            self._actions.copy.set_glyph("check")
            self._copied_timer.start()

    def realise(self, top: int, bottom: int, deadline: float = float("inf")) -> bool:
        """See MessageRow."""
        if self.editor is not None:
            return False
        has_changed = False
        if self._fold is not None and self._fold.is_open:
            y = self._fold.y()
            has_changed = self._fold.realise(top - y, bottom - y, deadline)
            if has_changed:
                self._place()
        y = self.body.y()
        if self.body.realise(top - y, bottom - y, deadline):
            has_changed = True
            self._place()
        return has_changed

    def is_realised(self, top: int, bottom: int) -> bool:
        """See MessageRow."""
        if self.editor is not None:
            return True
        y = self.body.y()
        is_fold_ready = self._fold is None or self._fold.is_realised(top - self._fold.y(), bottom - self._fold.y())
        return is_fold_ready and self.body.is_realised(top - y, bottom - y)

    def drop_outside(self, top: int, bottom: int) -> None:
        """See MessageRow."""
        self.body.drop_outside(top - self.body.y(), bottom - self.body.y())
        if self._fold is not None:
            self._fold.drop_outside(top - self._fold.y(), bottom - self._fold.y())

    def part_at(self, y: int) -> Part | None:
        """See MessageRow."""
        if self.editor is not None:
            return None
        part = self._fold.part_at(y - self._fold.y()) if self._fold is not None else None
        return part or self.body.part_at(y - self.body.y())

    def top_of(self, part: Part) -> int | None:
        """See MessageRow."""
        top = self.body.top_of(part)
        if top is not None:
            return self.body.y() + top
        top = self._fold.top_of(part) if self._fold is not None else None
        return self._fold.y() + top if self._fold is not None and top is not None else None

    def restyle(self) -> None:
        """See MessageRow."""
        self._refresh_actions()
        if self._fold is not None:
            self._fold.restyle()
        self.body.restyle()
        if self.editor is not None:
            self.editor.restyle()

    def _parts(self) -> tuple[bool, str, bool, str]:
        """Return what the height depends on beside the texts."""
        has_error = self._error is not None and not self._error.isHidden()
        return has_error, self.dropped_text, self._fold is None or self._fold.isHidden(), self.ledger_text

    def _refresh_fold(self) -> None:
        turn = self.reply
        if turn.thinking:
            self.fold.refresh()
            if self._shown.was_open and not turn.is_open and not turn.text.strip():
                self.fold.set_open(True)  # else the reply would look empty
            self._shown.is_fold_open = self.fold.is_open
        elif self._fold is not None:
            self._fold.refresh()
        self._shown.was_open = turn.is_open

    def _refresh_dropped(self) -> None:
        dropped = self.reply.dropped
        if self._dropped is None:
            if dropped is None:
                return
            self._dropped = QLabel(self)
            self._dropped.setTextFormat(Qt.TextFormat.PlainText)
            self._dropped.setWordWrap(True)
            self._dropped.setProperty("role", "meta")
        self._dropped.setVisible(dropped is not None)
        if dropped is not None:
            self._dropped.setText(dropped_text(dropped))
            self._dropped.setToolTip(dropped_details(dropped))

    def _refresh_ledger(self) -> None:
        if self._ledger is None:
            if not ledger_text(self.reply):
                return
            self._ledger = LedgerLabel(self)
            self._ledger.clicked.connect(lambda: self.action_requested.emit(TurnAction.DETAILS))
        self._ledger.show_turn(self.reply)

    def _on_fold_toggled(self) -> None:
        self._shown.is_fold_open = self.fold.is_open
        self._on_unfolded()

    def _on_unfolded(self) -> None:
        if self._width:
            self._place()
            (self.resized if self.reply.is_open else self.unfolded).emit()

    def _on_error_retry(self) -> None:
        action = TurnAction.CONTINUE if self.reply.is_continuation and self._is_last else TurnAction.RETRY
        self.action_requested.emit(action)

    def _outcome_text(self) -> str:
        parts = (outcome_mark(self.reply), outcome_numbers(self.reply))
        return " · ".join(part for part in parts if part)

    def _copy_thinking(self) -> None:
        QGuiApplication.clipboard().setText(self.reply.thinking)

    def _place(self) -> int:
        px, width = self._theme.px, self._width
        size = self._name.sizeHint()
        self._name.setGeometry(0, 0, min(width, size.width()), size.height())
        y = size.height() + px(6)
        if self._dropped is not None and not self._dropped.isHidden():
            height = self._dropped.heightForWidth(width)
            self._dropped.setGeometry(0, y, width, height)
            y += height + px(4)
        if self._fold is not None and not self._fold.isHidden():
            height = self._fold.fit(width)
            self._fold.move(0, y - px(2))
            y += height + px(8 if self._fold.is_open else 2)
        y = self._place_body(y)
        if self._error is not None and not self._error.isHidden():
            height = self._error.fit(width)
            self._error.setGeometry(0, y + px(4), width, height)
            y += height + px(8)
        if self._ledger is not None and not self._ledger.isHidden():
            height = self._ledger.heightForWidth(width)
            self._ledger.setGeometry(0, y + px(3), width, height)
            y += px(3) + height
        # The line keeps its height in every state, so nothing jumps when a reply ends.
        line, x = px(26), width
        if self._actions is not None:
            x -= self._actions.width()
            self._actions.move(x, y + (line - self._actions.height()) // 2)
        self._meta.setGeometry(0, y, max(0, x - px(8)), line)
        return y + line

    def _place_body(self, y: int) -> int:
        px, width = self._theme.px, self._width
        if self.editor is not None:
            height = self.editor.fit(width)
            self.editor.setGeometry(0, y, width, height)
            return y + height + px(6)
        self.body.move(0, y)
        height = self.body.fit(width)
        return y + height + px(6) if self.body.contents.parts else y
