"""A reply as it comes: in a terminal its thinking is dimmed, anywhere else only the answer is printed."""

from app.cli.terminal_text import safe_text
from engine import Delta

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_WAS_THINKING = "(What stands above was thinking.)"


class ReplyPrinter:
    """Turns the events of one reply into what is to be printed.

    Args:
        can_think: whether the answer may turn out to have been thinking: what is no terminal then gets it only when
            that is settled.
    """

    def __init__(self, *, is_terminal: bool, can_think: bool = False) -> None:
        self._is_terminal = is_terminal
        self._is_held = can_think and not is_terminal
        self._held = ""
        self._is_dimmed = False

    def delta(self, delta: Delta) -> str:
        """Return what is to be printed of new text."""
        if not self._is_terminal:
            if delta.was_thinking:
                self._held = ""
            if delta.was_thinking or delta.thinking:
                self._is_held = False
            if self._is_held:
                self._held += delta.text
                return ""
            return delta.text
        note = f"\n{_DIM}{_WAS_THINKING}{_PLAIN}\n" if delta.was_thinking else ""
        return note + self._dimmed(safe_text(delta.thinking)) + self._answer(safe_text(delta.text))

    def end(self) -> str:
        """Return what is to be printed at the end of the reply."""
        held, self._held = self._held, ""
        if self._is_dimmed:
            self._is_dimmed = False
            return held + _PLAIN
        return held

    def _dimmed(self, text: str) -> str:
        if not text or self._is_dimmed:
            return text
        self._is_dimmed = True
        return _DIM + text

    def _answer(self, text: str) -> str:
        if not text or not self._is_dimmed:
            return text
        self._is_dimmed = False
        return f"{_PLAIN}\n\n{text}"
