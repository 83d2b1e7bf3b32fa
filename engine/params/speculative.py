"""Whether and how tokens of a reply are drafted ahead, to be checked several at a time."""

import enum
from typing import Annotated

import msgspec

from engine.params.declare import ParamInfo, check_params

MAX_DRAFT = 32


class DraftMode(enum.Enum):
    """What may draft; each only while it is measurably not slower than plain decoding."""

    OFF = "off"
    AUTO = "auto"  # whatever there is
    NGRAM = "ngram"  # what followed when the chat held the same tokens before
    MODEL = "model"  # the draft model
    BOTH = "both"


class SpeculativeParams(msgspec.Struct, frozen=True, kw_only=True):
    """Speculative decoding of one request. It changes the speed of a reply, not what it is drawn from.

    Attributes:
        strict: keep greedy text equal to that of plain decoding to the token: plain steps take one thread, and no step
            checks more tokens than this model computes the same way as one.

    Raises:
        InvalidParams: a value is out of range.
    """

    draft_max: Annotated[
        int | None,
        ParamInfo(
            label="Most drafted tokens",
            help="Tokens drafted at a time; auto chooses by what steps take and how many are accepted.",
            minimum=1,
            maximum=MAX_DRAFT,
            step=1,
            none_label="auto",
            is_advanced=True,
        ),
    ] = None
    mode: DraftMode = DraftMode.OFF
    strict: bool = False

    def __post_init__(self) -> None:
        check_params(self)
