"""Places for the labels of points, so that none covers another, a point, or the frame."""

import math
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

SIZE = 12.0  # of the letters, as the style of the report sets it
_LETTER, _WIDE = 0.6, 1.05  # of that size: about the mean width of a sans-serif letter, and of a Chinese one
_GAP, _RING, _NUM_RINGS, _NUM_ANGLES = 5.0, 15.0, 12, 12
_MARK = 6.0  # between two boxes that stand for a line
_LEADER_FROM = 2  # rings further out need a line to their point


class Box(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether two rectangles have a point in common."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def is_inside(self, other: "Box") -> bool:
        """Whether this rectangle lies within another."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


Segment = tuple[tuple[float, float], tuple[float, float]]
"""A straight line between two points."""


class Label(NamedTuple):
    """Where a label stands.

    Attributes:
        x, y: of the left end of its base line.
        leader: from the point to the label, where it is not beside it.
    """

    x: float
    y: float
    box: Box
    leader: tuple[float, float, float, float] | None = None


def text_width(text: str) -> float:
    """Return about how wide a text is."""
    return SIZE * sum(_WIDE if unicodedata.east_asian_width(character) in "WF" else _LETTER for character in text)


def shortened(text: str, count: int) -> str:
    """Return a text of at most so many characters, cut in the middle: the ends of file names tell most."""
    if len(text) <= count:
        return text
    head = (count - 1) // 2
    return f"{text[:head]}…{text[len(text) - (count - 1 - head) :]}"


def fitted(text: str, width: float) -> str:
    """Return a text cut in its middle so that it is no wider than that."""
    count = len(text)
    while count > 1 and text_width(shortened(text, count)) > width:
        count -= 1
    return shortened(text, count)


def place_labels(
    labels: Sequence[str],
    places: Sequence[tuple[float, float]],
    frame: Box,
    dot: float,
    *,
    lines: Sequence[Segment] = (),
) -> list[Label | None]:
    """Return a place for each label, None where there is no free one: then the table alone names the point.

    Args:
        places: of the points.
        dot: their radius.
        lines: that a label had better not lie on.
    """
    reach = dot + 1.5
    dots = [Box(x - reach, y - reach, x + reach, y + reach) for x, y in places]
    marks = [mark for line in lines for mark in _marks(line)]
    taken: list[Box] = []
    placed: list[Label | None] = [None] * len(labels)
    # Points with the fewest neighbours last: they have room anyway.
    crowded = sorted(range(len(labels)), key=lambda place: _room(places, place))
    for number in crowded:
        found = _free_place(labels[number], places[number], (frame, dot), [*dots, *taken, *marks])
        found = found or _free_place(labels[number], places[number], (frame, dot), [*dots, *taken])
        placed[number] = found
        if found is not None:
            taken.append(found.box)
    return placed


def _marks(line: Segment) -> list[Box]:
    """Return small boxes along a line."""
    (left, top), (right, bottom) = line
    count = max(1, int(math.dist(*line) / _MARK))
    steps = [(left + (right - left) * step / count, top + (bottom - top) * step / count) for step in range(count + 1)]
    return [Box(x - 1, y - 1, x + 1, y + 1) for x, y in steps]


def _room(places: Sequence[tuple[float, float]], place: int) -> float:
    others = [math.dist(places[place], other) for number, other in enumerate(places) if number != place]
    return min(others, default=math.inf)


def _free_place(
    label: str, place: tuple[float, float], limits: tuple[Box, float], taken: Sequence[Box]
) -> Label | None:
    frame, dot = limits
    x, y = place
    width = text_width(label)
    for ring in range(_NUM_RINGS):
        distance = dot + _GAP + ring * _RING
        for step in range(_NUM_ANGLES):
            # Right first, then left, above, below and between.
            angle = math.pi * (0, 1, 1.5, 0.5, 1.75, 0.25, 1.25, 0.75, 1.875, 0.125, 1.125, 0.875)[step]
            anchor_x, anchor_y = x + distance * math.cos(angle), y + distance * math.sin(angle)
            left = anchor_x - width * (1 - math.cos(angle)) / 2
            top = anchor_y - SIZE * (1 - math.sin(angle)) / 2
            box = Box(left, top, left + width, top + SIZE)
            if box.is_inside(frame) and not any(box.meets(other) for other in taken):
                end_x, end_y = min(max(x, box.left), box.right), min(max(y, box.top), box.bottom)
                leader = (x, y, end_x, end_y) if ring >= _LEADER_FROM else None
                return Label(left, top + SIZE * 0.82, box, leader)
    return None
