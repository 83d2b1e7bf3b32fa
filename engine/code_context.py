"""Tells code from prose in a stream of Markdown."""

_SHORTEST_FENCE = 3


class CodeContext:
    """Whether text stands in code: in a fence, or between backticks on one line.

    A fence ends with a line of as many of its signs or more, and nothing else: another fence may stand in it.

    Attributes:
        last: the last character.
    """

    def __init__(self) -> None:
        self.last = ""
        self._fence = ""
        self._begin_line()

    @property
    def is_inside(self) -> bool:
        """Whether what comes next is code."""
        return bool(self._fence) or self._num_ticks % 2 == 1

    def note(self, text: str) -> None:
        """Take text that was passed over."""
        for number, part in enumerate(text.split("\n")):
            if number:
                self._end_line()
            self._num_ticks += part.count("`")
            self._note_part(part)
        self.last = text[-1:] or self.last

    def _begin_line(self) -> None:
        self._num_ticks = 0
        self._run = ""  # of signs of a fence, which the line begins with
        self._is_after_run = False
        self._has_rest = False  # whether something else follows

    def _note_part(self, part: str) -> None:
        if not self._is_after_run:
            part = part if self._run else part.lstrip()
            sign = (self._run or part)[:1]
            if sign and sign in "`~":
                rest = part.lstrip(sign)
                self._run += part[: len(part) - len(rest)]
                part = rest
            self._is_after_run = bool(part)
        self._has_rest = self._has_rest or bool(part.strip())

    def _end_line(self) -> None:
        if self._fence:
            if self._run.startswith(self._fence) and not self._has_rest:
                self._fence = ""
        elif len(self._run) >= _SHORTEST_FENCE and (self._run[0] == "~" or self._num_ticks == len(self._run)):
            self._fence = self._run
        self._begin_line()
