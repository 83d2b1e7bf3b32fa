"""What a comparison tells while it runs, for whoever shows it."""

from typing import NamedTuple

from app.compare.plan import Place
from app.compare.results import Cell
from engine import ModelDescription


class ColumnLoading(NamedTuple):
    """The model of a column begins to be loaded."""

    column: str


class ColumnLoaded(NamedTuple):
    """The model of a column can answer."""

    column: str
    description: ModelDescription


class ColumnFailed(NamedTuple):
    """Nothing more comes of a column; the others go on."""

    column: str
    message: str
    hint: str


class CellStarted(NamedTuple):
    """A reply was asked for."""

    place: Place


class CellText(NamedTuple):
    """A piece of a reply.

    Attributes:
        was_thinking: whether all text so far turned out to be thinking; it comes before this event's own text.
        num_tokens: generated so far.
        decode_s: seconds since the first token.
    """

    place: Place
    text: str
    thinking: str
    was_thinking: bool
    num_tokens: int
    decode_s: float


class CellDone(NamedTuple):
    """A reply is there, or has failed, and was saved where that is possible."""

    cell: Cell


class Progress(NamedTuple):
    """How far it is.

    Attributes:
        num_total: replies there are to be, those of failed columns left out.
        left_s: seconds that are left, None before that can be told.
    """

    num_done: int
    num_total: int
    left_s: float | None


class Paused(NamedTuple):
    """It waits until it is told to go on."""


class Notice(NamedTuple):
    """A sentence for the user."""

    text: str


RunEvent = ColumnLoading | ColumnLoaded | ColumnFailed | CellStarted | CellText | CellDone | Progress | Paused | Notice
