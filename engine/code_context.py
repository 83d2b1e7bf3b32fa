"""Tells code from prose in a stream of Markdown."""


class CodeContext:
    """Whether text stands in code: in a fence, or between backticks on one line.

    Attributes:
        last: the last character.
    """

    def __init__(self) -> None:
        self.last = ""
        self._fence = ""
        self._head = ""
        self._num_ticks = 0

    @property
    def is_inside(self) -> bool:
        """Whether what comes next is code."""
        return bool(self._fence) or self._num_ticks % 2 == 1

    def note(self, text: str) -> None:
        """Take text that was passed over."""
        for number, line in enumerate(text.split("\n")):
            if number:
                self._end_line()
            self._num_ticks += line.count("`")
            if len(self._head) < 3:
                self._head = (self._head + line).lstrip()[:3]
        self.last = text[-1:] or self.last

    def _end_line(self) -> None:
        if self._head in ("```", "~~~") and self._fence in ("", self._head):
            self._fence = "" if self._fence else self._head
        self._head, self._num_ticks = "", 0
