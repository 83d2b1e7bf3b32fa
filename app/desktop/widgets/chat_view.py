"""ChatView: the conversation of a chat, of which only what is near the view are widgets."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from app.desktop.rendering.blocks import BlockParser
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.session.turns import ReplyTurn, Turn, TurnAction, UserTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.conversation_column import MAX_COLUMN, Anchor
from app.desktop.widgets.conversation_scroll import ConversationScroll
from app.desktop.widgets.conversation_selection import ConversationSelection
from app.desktop.widgets.empty_state import EmptyState
from app.desktop.widgets.find_marks import FindMarks
from app.desktop.widgets.focus_ring import FocusRing
from app.desktop.widgets.kept_colours import KeptColours
from app.desktop.widgets.link_target import LinkTarget
from app.desktop.widgets.message_rows import MessageRow, TextWidget, UserRow
from app.desktop.widgets.reply_contents import Part
from app.desktop.widgets.reply_row import ReplyRow
from app.desktop.widgets.shown_turn import ShownTurn
from app.desktop.widgets.typed_key import is_typed
from app.settings import FollowMode
from engine import ErrorInfo

__all__ = ("MAX_COLUMN", "ChatView")


class ChatView(ConversationScroll):
    """Shows turns; text at the end is followed while the user stays at the end.

    Args:
        parser: gives the parser of replies, when the first one is seen.
        formulas: draws formulas; without it their source is shown.

    Signals:
        action_requested: TurnAction, turn id.
        edit_submitted: turn id, the new text; the text before is kept as another variant.
        load_requested: the model is to be loaded again.
        link_activated: a target of a reply, allowed but not yet agreed to.
        save_requested: code of a reply, a file name for it.
        typed: a letter that means nothing here: somebody goes on writing.
    """

    action_requested = Signal(object, str)
    edit_submitted = Signal(str, str)
    load_requested = Signal()
    link_activated = Signal(str)
    save_requested = Signal(str, str)
    typed = Signal(str)
    _user_row: type[UserRow] = UserRow
    _reply_row: type[ReplyRow] = ReplyRow

    def __init__(
        self,
        theme: Theme,
        parser: Callable[[], BlockParser],
        lexer: CodeLexer,
        parent: QWidget | None = None,
        *,
        formulas: FormulaImages | None = None,
    ) -> None:
        self._formulas = formulas
        super().__init__(theme, parser, self._new_row, parent)
        self._lexer = KeptColours(lexer, self)
        self._can_load = False
        self._told: ErrorInfo | None = None
        self._marks = FindMarks(theme, self._column)
        self._selection = ConversationSelection(self, self._column)
        self._selection.scroll_requested.connect(self._scroll_by)
        self._ring = FocusRing(theme, self._column)
        self.setAccessibleName(self.tr("Conversation"))
        self.empty_state = EmptyState(theme, self)
        self._target = LinkTarget(theme, self)
        QGuiApplication.instance().focusObjectChanged.connect(self._on_focus_changed)  # type: ignore[union-attr]
        theme.changed.connect(self._on_theme_changed)

    @property
    def rows(self) -> Sequence[MessageRow]:
        """The rows there are, oldest first: those near the view."""
        return self._column.rows

    @property
    def selection(self) -> ConversationSelection:
        """What is selected across messages."""
        return self._selection

    def row(self, turn_id: str) -> MessageRow | None:
        """Return the row of a turn, if it is near the view."""
        shown = self._column.shown(turn_id)
        return self._column.row(shown) if shown is not None else None

    def reply_row(self, turn_id: str) -> ReplyRow | None:
        """Return the row of a reply, if it is near the view."""
        row = self.row(turn_id)
        return row if isinstance(row, ReplyRow) else None

    def append_text(self, turn_id: str, text: str) -> None:
        """Show a piece of a reply's answer, which the turn has already."""
        if row := self.reply_row(turn_id):
            bottom = row.y() + row.height()
            row.append(text, is_seen=self._is_near_view(bottom - self._theme.px(60), bottom))
        elif shown := self._column.shown(turn_id):
            self._column.grow_unseen(shown, text)
            self._after_growth()

    def append_thinking(self, turn_id: str, text: str) -> None:
        """Show a piece of a reply's thinking, which the turn has already."""
        if row := self.reply_row(turn_id):
            row.append_thinking(text)

    def take_back(self, turn_id: str) -> None:
        """Show the answer so far as thinking, which it turned out to be."""
        if row := self.reply_row(turn_id):
            row.take_back()
        else:
            self._column.reread(turn_id)

    def refresh(self, turn_id: str) -> None:
        """Show the present state of a turn."""
        shown = self._column.shown(turn_id)
        if shown is not None and (row := self._column.row(shown)):
            row.refresh()
            self._marks.mark_row(shown, row)
        else:
            self._column.reread(turn_id)

    def toggle_thinking(self, turn_id: str) -> None:
        """Show or hide what the model thought before a reply."""
        shown = self._column.shown(turn_id)
        if shown is None or not isinstance(shown.turn, ReplyTurn) or not shown.turn.thinking:
            return
        row = self._column.realise_turn(shown)
        assert isinstance(row, ReplyRow)
        row.fold.head.toggle()

    def copy_turn(self, turn_id: str) -> bool:
        """Put a message on the clipboard, as it was written; False where there is none."""
        shown = self._column.shown(turn_id)
        if shown is None:
            return False
        row = self._column.row(shown)
        if row is not None:
            row.copy()
        else:
            QGuiApplication.clipboard().setText(shown.turn.text)
        return True

    def copy_last_code(self) -> bool:
        """Put the last code block on the clipboard; False where there is none."""
        for shown in reversed(self._column.turns):
            row = self._column.row(shown)
            blocks = row.body.code_blocks if isinstance(row, ReplyRow) else ()
            code = self._column.last_code(shown)
            if code is None:
                continue
            if blocks and blocks[-1].code == code:
                blocks[-1].copy()
            else:
                QGuiApplication.clipboard().setText(code)
            return True
        return False

    def set_turns(self, turns: Sequence[Turn], *, place: tuple[str, int] | None = None) -> None:
        """Show other turns; rows of those that are shown already stay.

        Args:
            place: where to be, as `place` told; else the view stays where it is as long as it shows something of
                what is left, and goes to the end of another chat.
        """
        anchor = self._anchor() if self._column.turns else None
        was_following = self._is_following
        is_open = bool(turns) and isinstance(turns[-1], ReplyTurn) and turns[-1].is_open
        self._is_syncing = True
        num_kept = self._column.set_turns(turns)
        self._is_syncing = False
        self._after_turns()
        shown = self._column.shown(place[0]) if place is not None else None
        if shown is not None and place is not None:
            self._go_to(Anchor(shown, None, place[1]))
        elif not num_kept or (was_following and is_open):
            self.follow()
        else:
            self._is_following = False
            self._sync(anchor if anchor is not None and self._column.y_of(anchor) is not None else None)
            self._is_following = self._is_at_end() and self.follow_mode is not FollowMode.OFF

    def add_turn(self, turn: Turn) -> None:
        """Add a turn at the end; a message of the user is gone to."""
        was_following = self._is_following
        shown = self._column.add(turn)
        self._after_turns()
        if isinstance(turn, UserTurn) or was_following:
            self.follow()
        if isinstance(turn, ReplyTurn) and self.follow_mode is FollowMode.START and self._is_following:
            self._start = shown

    def set_can_load(self, can_load: bool, told: ErrorInfo | None = None) -> None:
        """Tell failed replies whether a model has to be loaded before they can be asked for again.

        Args:
            told: the error that the crash card tells of, so that they need not.
        """
        self._can_load, self._told = can_load, told
        for _, row in self._column.realised():
            if isinstance(row, ReplyRow):
                row.set_can_load(can_load, told)

    def begin_edit(self, turn_id: str) -> None:
        """Let the user change a message where it stands."""
        if row := self._reveal(turn_id):
            row.begin_edit()
            self._show_row(row)

    def place(self) -> tuple[str, int] | None:
        """Return the first turn in view and how far it is scrolled; None at the end, which is followed."""
        value = self.verticalScrollBar().value()
        shown = self._column.turn_at(value)
        if shown is None or self._is_at_end():
            return None
        return shown.turn.turn_id, value - shown.top

    def set_highlight(self, text: str) -> None:
        """Mark all places of a text, whatever its case; an empty one removes the marks."""
        self._marks.set_text(text)
        self._marks.mark_all()

    def set_tinted(self, is_on: bool) -> None:
        """Tint what came from accepted drafts in finished replies, or do not."""
        self._marks.set_tinted(is_on)

    def show_turn(self, turn_id: str, *, text: str = "", number: int = 0) -> bool:
        """Bring a message into view; False where there is none.

        Args:
            text: a text in it, whose `number`-th place, from 0, is brought into view and marked stronger.
        """
        shown = self._column.shown(turn_id)
        if shown is None:
            return False
        self._is_following = False
        self._start = None
        self._go_to(Anchor(shown, None, -self._theme.px(12)))
        if text:
            self._show_place(shown, text, number)
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget; arrows, J and K go from message to message."""
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_K: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_J: 1}
        is_plain = event.modifiers() in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
        if is_plain and (step := steps.get(Qt.Key(event.key()))) is not None:
            self._move_focus(step)
        elif not self._selection.take_key(event):
            super().keyPressEvent(event)
            if not event.isAccepted() and is_typed(event):
                self.typed.emit(event.text())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._target.place(self.viewport().geometry())

    def _new_row(self, shown: ShownTurn) -> MessageRow:
        turn_id = shown.turn.turn_id
        if isinstance(shown.turn, UserTurn):
            row: MessageRow = self._user_row(self._theme, shown, self._column)
        else:
            reply = row = self._reply_row(self._theme, shown, self._lexer, self._column, formulas=self._formulas)
            reply.set_can_load(self._can_load, self._told)
            reply.load_requested.connect(self.load_requested)
            reply.link_activated.connect(self.link_activated)
            reply.save_requested.connect(self.save_requested)
            reply.link_hovered.connect(self._on_link_hovered)
        row.resized.connect(lambda: self._on_row_resized(shown))
        row.unfolded.connect(lambda: self._on_row_unfolded(shown))
        row.action_requested.connect(lambda action: self.action_requested.emit(action, turn_id))
        row.edit_submitted.connect(lambda text: self.edit_submitted.emit(turn_id, text))
        row.text_made.connect(lambda part, text: self._on_text_made(shown, part, text))
        row.menu_made.connect(self._selection.extend_menu)
        if isinstance(row, UserRow):
            self._on_text_made(shown, None, row.text_widget)
        return row

    def _on_text_made(self, shown: ShownTurn, part: Part | None, text: TextWidget) -> None:
        self._selection.watch(shown, part, text)
        self._marks.mark(shown, part, text)

    def _on_row_resized(self, shown: ShownTurn) -> None:
        if self._is_syncing:
            return
        anchor = None if self._is_following else self._anchor()
        self._is_syncing = True
        self._column.refit(shown)
        self._is_syncing = False
        self._hold(anchor)
        self._sync(anchor)
        self._ring.follow()

    def _on_row_unfolded(self, shown: ShownTurn) -> None:
        """Leave the place where the user pressed under the pointer, also at the end of the conversation."""
        self._is_following = False
        self._is_syncing = True
        value = self.verticalScrollBar().value()
        self._column.refit(shown)
        self.verticalScrollBar().setValue(value)
        self._is_syncing = False
        self._on_user_scrolled()
        self._sync(Anchor(shown, None, value - shown.top))

    def _after_turns(self) -> None:
        self._selection.prune()
        self.empty_state.setVisible(not self._column.turns)
        self._place_overlays()

    def _after_growth(self) -> None:
        if self._is_following:
            self._to_end()
        self._sync()

    def _after_sync(self) -> None:
        super()._after_sync()
        self._ring.follow()

    def _place_overlays(self) -> None:
        super()._place_overlays()
        self.empty_state.setGeometry(self.viewport().geometry())
        self._target.place(self.viewport().geometry())

    def _reveal(self, turn_id: str) -> MessageRow | None:
        """Return the row of a turn, brought into view if it is not there."""
        shown = self._column.shown(turn_id)
        if shown is None:
            return None
        row = self._column.realise_turn(shown)
        self._show_row(row)
        return row

    def _show_row(self, row: MessageRow) -> None:
        """Scroll as little as it takes to see a row, or its beginning where it is higher than the view."""
        value, page, edge = self.verticalScrollBar().value(), self.viewport().height(), self._theme.px(12)
        top, bottom = row.y() - edge, row.y() + row.height() + edge
        if top < value or bottom - top > page:
            self._scroll_by(top - value)
        elif bottom > value + page:
            self._scroll_by(bottom - value - page)

    def step_variant(self, step: int) -> None:
        """Ask for another version of the message that has the keys, or else of the newest that has some."""
        number, turns = self.focused_number, self._column.turns
        newest = next((s for s in reversed(turns) if s.turn.num_variants > 1), None)
        shown = turns[number] if number is not None else newest
        if shown is not None and 0 <= shown.turn.variant + step < shown.turn.num_variants:
            action = TurnAction.NEXT_VARIANT if step > 0 else TurnAction.PREVIOUS_VARIANT
            self.action_requested.emit(action, shown.turn.turn_id)

    def _move_focus(self, step: int) -> None:
        turns = self._column.turns
        if not turns:
            return
        now = self.focused_number
        if now is None:
            value, page = self.verticalScrollBar().value(), self.viewport().height()
            target = self._column.turn_at(value + page - 1 if step < 0 else value)
        else:
            target = turns[max(0, min(len(turns) - 1, now + step))]
        if target is not None and (row := self._reveal(target.turn.turn_id)):
            row.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _on_focus_changed(self, focus: object) -> None:
        self._ring.show_around(focus if isinstance(focus, MessageRow) and self._column.isAncestorOf(focus) else None)

    def _show_place(self, shown: ShownTurn, text: str, number: int) -> None:
        self._column.realise_turn(shown)
        part = self._marks.choose(shown, text, number)
        if part is not None:
            self._go_to(Anchor(shown, part, -self.viewport().height() // 3))
        self._marks.mark_all()
        y = self._marks.y_of_chosen()
        if y is not None:
            self._scroll_into_view(y)

    def _scroll_into_view(self, y: int) -> None:
        value, page, edge = self.verticalScrollBar().value(), self.viewport().height(), self._theme.px(60)
        if not value + edge <= y <= value + page - edge:
            self._scroll_by(y - page // 3 - value)

    def _on_link_hovered(self, target: str) -> None:
        self._target.show_target(target, self.viewport().geometry())

    def _on_theme_changed(self) -> None:
        anchor = None if self._is_following else self._anchor()
        self._column.restyle()
        self.verticalScrollBar().setSingleStep(self._theme.px(40))
        self._relayout(anchor)
        self._marks.mark_all()
