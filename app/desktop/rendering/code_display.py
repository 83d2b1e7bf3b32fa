"""What of a code block is shown: signs for what is no text, long lines cut, long code folded. Copying ignores it."""

import re

from app.desktop.rendering.plain import visible

MAX_LINE_CHARS = 2_000
MAX_LINES = 3_000
FOLDED_LINES = 40

# Marks that turn the direction of what follows: code that looks other than it is.
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069\u2028\u2029]")


class CodeDisplay:
    """Turns code into what is shown, piece by piece.

    Args:
        max_lines: how many lines are shown.
    """

    def __init__(self, *, max_lines: int = MAX_LINES) -> None:
        self._max_lines = max_lines
        self._num_lines = 1
        self._line_chars = 0
        self.num_cut_lines = 0
        self.has_more = False

    def feed(self, piece: str) -> str:
        """Return what is shown of the next piece of the code."""
        shown: list[str] = []
        for number, line in enumerate(piece.split("\n")):
            if number:
                if self._num_lines >= self._max_lines:
                    self.has_more = True
                    break
                self._num_lines += 1
                self._line_chars = 0
                shown.append("\n")
            elif self.has_more:
                break
            free = MAX_LINE_CHARS - self._line_chars
            if len(line) > free and self._line_chars <= MAX_LINE_CHARS:
                self.num_cut_lines += 1
            shown.append(line[: max(0, free)])
            self._line_chars += len(line)
        return _TURNING.sub("\ufffd", visible("".join(shown)))
