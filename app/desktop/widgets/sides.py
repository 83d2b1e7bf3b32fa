"""The sides of the window: which of them are seen, and whether beside the conversation or over it.

All lengths are pixels of the design, so that a larger zoom is the same as a narrower window.
"""

import dataclasses
import enum

MIN_CENTRE = 480


class SideName(enum.Enum):
    """The two sides."""

    SIDEBAR = "sidebar"
    INSPECTOR = "inspector"


class Placement(enum.Enum):
    """Where a side is; OVER the conversation there is at most one."""

    HIDDEN = "hidden"
    BESIDE = "beside"
    OVER = "over"


@dataclasses.dataclass(kw_only=True)
class Side:
    """One side.

    Attributes:
        collapse_below: width of the window below which it hides by itself.
        is_wanted: what the user chose; None lets the width of the window decide.
    """

    usual: int
    narrowest: int
    widest: int
    collapse_below: int
    width: int = 0
    is_wanted: bool | None = None
    exists: bool = True

    def __post_init__(self) -> None:
        self.set_width(self.width or self.usual)

    def set_width(self, width: int) -> None:
        """Take another width, within the limits."""
        self.width = min(max(width, self.narrowest), self.widest)

    def shows_itself(self, available: float) -> bool:
        """Tell whether it is seen in a window of this width if the user wants nothing else."""
        return available >= self.collapse_below

    def is_due(self, available: float) -> bool:
        """Tell whether it should be seen in a window of this width."""
        return self.exists and (self.shows_itself(available) if self.is_wanted is None else self.is_wanted)


class Sides:
    """Both sides, and the rules by which they share a window."""

    def __init__(self) -> None:
        self._sides = {
            SideName.SIDEBAR: Side(usual=236, narrowest=180, widest=420, collapse_below=1000),
            SideName.INSPECTOR: Side(usual=284, narrowest=240, widest=480, collapse_below=1180),
        }
        self._front = SideName.SIDEBAR  # the one that was opened last: it stays where there is no room for both

    def __getitem__(self, name: SideName) -> Side:
        return self._sides[name]

    def other(self, name: SideName) -> SideName:
        """Return the name of the opposite side."""
        return SideName.INSPECTOR if name is SideName.SIDEBAR else SideName.SIDEBAR

    def place(self, available: float) -> dict[SideName, Placement]:
        """Return where each side is in a window of this width."""
        due = [name for name, side in self._sides.items() if side.is_due(available)]
        if available - sum(self._sides[name].width for name in due) < MIN_CENTRE and len(due) > 1:
            due = [self._front]
        places = dict.fromkeys(SideName, Placement.HIDDEN)
        is_beside = available - sum(self._sides[name].width for name in due) >= MIN_CENTRE
        return places | dict.fromkeys(due, Placement.BESIDE if is_beside else Placement.OVER)

    def toggle(self, name: SideName, available: float) -> None:
        """Show a side that is hidden, or hide it; where there is room for one only, the other one goes."""
        is_shown = self.place(available)[name] is not Placement.HIDDEN
        side, other = self._sides[name], self._sides[self.other(name)]
        shows_itself = side.shows_itself(available)
        # A wish that the width fulfils is none: the side then goes on to follow the width.
        side.is_wanted = None if is_shown is not shows_itself else not is_shown
        if not is_shown:
            self._front = name
        places = self.place(available)
        if Placement.OVER in (places[name], places[self.other(name)]) and other.is_wanted:
            other.is_wanted = None

    def room_for(self, name: SideName, available: float) -> int:
        """Return how wide a side may become in a window of this width."""
        other, places = self.other(name), self.place(available)
        if places[name] is Placement.OVER:
            return self._sides[name].widest
        taken = self._sides[other].width if places[other] is Placement.BESIDE else 0
        return max(self._sides[name].narrowest, int(available) - taken - MIN_CENTRE)
