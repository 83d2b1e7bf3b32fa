"""How the next token of a request is chosen, and when the reply ends."""

from typing import Annotated

import msgspec

from engine.errors import InvalidParams
from engine.params.declare import ParamInfo, check_params
from engine.text import clean_text

MAX_STOP_STRINGS = 64
MAX_SEED = 2**32 - 2  # 2**32 - 1 is llama.cpp's mark for "random"


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling settings of one request; the neutral value of each step switches it off.

    Attributes:
        seed: None draws a fresh seed for each request; the seed used is reported with the reply. 0 is a legal seed.
        max_tokens: most tokens to generate; None goes on to the end of the context.
        stop: stop strings, matched in generated text only. Empty entries are dropped.

    Raises:
        InvalidParams: a value is out of range.
    """

    temperature: Annotated[
        float,
        ParamInfo(
            label="Temperature",
            help="How freely the model picks among likely tokens. 0 always takes the likeliest one.",
            minimum=0.0,
            maximum=100.0,
            soft_maximum=2.0,
            step=0.05,
        ),
    ] = 0.8
    top_k: Annotated[
        int,
        ParamInfo(
            label="Top-k",
            help="Only the k likeliest tokens can be chosen. 0 is off.",
            minimum=0,
            maximum=1_000_000,
            soft_maximum=200,
            step=1,
        ),
    ] = 40
    top_p: Annotated[
        float,
        ParamInfo(
            label="Top-p",
            help="Only the likeliest tokens that together reach this probability can be chosen. 1 is off.",
            minimum=0.0,
            maximum=1.0,
            step=0.01,
        ),
    ] = 0.95
    min_p: Annotated[
        float,
        ParamInfo(
            label="Min-p",
            help="Tokens less likely than this share of the likeliest one are left out. 0 is off.",
            minimum=0.0,
            maximum=1.0,
            step=0.01,
        ),
    ] = 0.05
    repeat_penalty: Annotated[
        float,
        ParamInfo(
            label="Repeat penalty",
            help="Makes recent tokens less likely. Above 1 it also harms lists, code and line breaks. 1 is off.",
            minimum=0.1,
            maximum=10.0,
            soft_maximum=2.0,
            step=0.01,
        ),
    ] = 1.0
    repeat_last_n: Annotated[
        int,
        ParamInfo(
            label="Repeat window",
            help="How many of the latest tokens the repeat penalty looks at.",
            minimum=0,
            maximum=65_536,
            soft_maximum=512,
            step=16,
        ),
    ] = 64
    max_tokens: Annotated[
        int | None,
        ParamInfo(
            label="Max tokens",
            help="The reply ends after this many tokens. Without a limit it may fill the context.",
            minimum=1,
            maximum=10_000_000,
            soft_maximum=4096,
            step=64,
            none_label="no limit",
        ),
    ] = None
    seed: Annotated[
        int | None,
        ParamInfo(
            label="Seed",
            help="The same seed, settings and cache state give the same reply. Random draws a new one each time.",
            minimum=0,
            maximum=MAX_SEED,
            step=1,
            none_label="random",
        ),
    ] = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_params(self)
        stop = tuple(dict.fromkeys(clean_text(text) for text in self.stop if text))
        if len(stop) > MAX_STOP_STRINGS:
            raise InvalidParams(
                f"There are {len(stop)} stop strings; {MAX_STOP_STRINGS} is the most.", "Remove some stop strings."
            )
        msgspec.structs.force_setattr(self, "stop", stop)
