"""CompareChat: the conversation of one column, to be read: its messages can be copied, not changed."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu

from app.compare.results import MEASURES
from app.desktop.session.compare_board import ComparedReply
from app.desktop.widgets.chat_view import ChatView
from app.desktop.widgets.conversation_column import Anchor
from app.desktop.widgets.figures import rate_with_unit, seconds_text, tokens_text
from app.desktop.widgets.message_rows import MessageRow, UserRow
from app.desktop.widgets.reply_outcome import outcome_mark
from app.desktop.widgets.reply_row import ReplyRow


def _copy_menu(row: MessageRow) -> QMenu:
    menu = QMenu(row)
    menu.aboutToHide.connect(menu.deleteLater)
    menu.addAction(row.tr("Copy"), row.copy)
    row.menu_made.emit(menu)
    return menu


class _Prompt(UserRow):
    """What the model is asked."""

    def menu(self) -> QMenu:
        return _copy_menu(self)

    def _refresh_actions(self) -> None:
        """Offer nothing: it cannot be changed here."""


class _Reply(ReplyRow):
    """What it answered."""

    def menu(self) -> QMenu:
        return _copy_menu(self)

    def refresh(self) -> None:
        super().refresh()
        if self._error is not None and self.reply.error is not None:
            self._error.show_error(self.reply.error, can_load=False, can_retry=False)
            self._on_height_changed()

    def _refresh_actions(self) -> None:
        """Offer nothing: it cannot be changed here."""

    def _outcome_text(self) -> str:
        turn = self.reply
        values = turn.cell.values if isinstance(turn, ComparedReply) and turn.cell is not None else {}
        parts = [outcome_mark(turn)]
        if "num_generated_tokens" in values:
            parts.append(tokens_text(round(values["num_generated_tokens"])))
        if "decode_rate" in values:
            parts.append(rate_with_unit(values["decode_rate"]))
        if "ttft_s" in values:
            parts.append(self.tr("first after {time}").format(time=seconds_text(values["ttft_s"])))
        return " · ".join(part for part in parts if part)


class CompareChat(ChatView):
    """See above.

    Signals:
        scrolled: the user looks elsewhere.
    """

    scrolled = Signal()
    _user_row = _Prompt
    _reply_row = _Reply

    @property
    def is_at_end(self) -> bool:
        """Whether the newest text is in view."""
        return self._is_at_end()

    def scroll_point(self) -> tuple[int, float]:
        """Return which message is at the top of the view, and which share of it lies above."""
        value = self.verticalScrollBar().value()
        shown = self._column.turn_at(value)
        return (0, 0.0) if shown is None else (shown.index, (value - shown.top) / max(1, shown.height))

    def go_to_point(self, number: int, share: float) -> None:
        """Show the same place of another conversation, as `scroll_point` told it."""
        turns = self._column.turns
        if turns:
            shown = turns[min(number, len(turns) - 1)]
            self._go_to(Anchor(shown, None, round(share * shown.height)))

    def _on_user_scrolled(self) -> None:
        super()._on_user_scrolled()
        self.scrolled.emit()

    def _after_turns(self) -> None:
        super()._after_turns()
        self.empty_state.hide()


def measure_text(name: str, value: float | None) -> str:
    """Return a measure with its unit, or a dash."""
    return "–" if value is None else MEASURES[name].shown(value)
