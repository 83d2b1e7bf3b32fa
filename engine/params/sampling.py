"""How the next token of a request is chosen, and when the reply ends."""

from typing import Annotated

import msgspec

from engine.errors import InvalidParams
from engine.params.declare import ParamInfo, check_params
from engine.text import clean_text

MAX_STOP_STRINGS = 64
MAX_LOGIT_BIASES = 1024
MAX_BIAS = 1000.0
# The usual order, that of llama.cpp's default chain. Top-k comes early: the steps after it then see few tokens.
SAMPLER_NAMES = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typical_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)
MAX_SEED = 2**32 - 2  # 2**32 - 1 is llama.cpp's mark for "random"


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling settings of one request; the neutral value of each step switches it off.

    Attributes:
        seed: None draws a fresh seed for each request; the seed used is reported with the reply. 0 is a legal seed.
        max_tokens: most tokens to generate; None goes on to the end of the context.
        stop: stop strings, matched in generated text only. Empty entries are dropped.
        samplers: the steps to take, in this order, from SAMPLER_NAMES; empty takes all in their usual order.
        logit_bias: (token, what is added to its logit).
        grammar: GBNF text that the answer has to follow, checked by the engine.
        reproducible: compute this reply alone, with one thread count and an empty cache, so that the same seed gives
            the same text whatever else goes on. Other replies wait, and cached chats are read again afterwards.
        json_schema: JSON Schema text that the answer has to follow; not together with a grammar.

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
    spare_line_breaks: Annotated[
        int,
        ParamInfo(
            label="Spare line breaks",
            help="1 keeps the penalties of the repeat window off line breaks and end tokens, so that lists keep their "
            "lines and turns end. 0 counts them like all others.",
            minimum=0,
            maximum=1,
            step=1,
            is_advanced=True,
        ),
    ] = 0
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
    dynatemp_range: Annotated[
        float,
        ParamInfo(
            label="Dynamic temperature",
            help="The temperature moves this far around its value, up where the model is unsure. 0 is off.",
            minimum=0.0,
            maximum=10.0,
            soft_maximum=2.0,
            step=0.05,
            is_advanced=True,
        ),
    ] = 0.0
    dynatemp_exponent: Annotated[
        float,
        ParamInfo(
            label="Dynamic exponent",
            help="How strongly the model's doubt moves the dynamic temperature.",
            minimum=0.01,
            maximum=10.0,
            soft_maximum=4.0,
            step=0.05,
            is_advanced=True,
        ),
    ] = 1.0
    typical_p: Annotated[
        float,
        ParamInfo(
            label="Typical-p",
            help="Only tokens about as surprising as expected, that together reach this probability. 1 is off.",
            minimum=0.0,
            maximum=1.0,
            step=0.01,
            is_advanced=True,
        ),
    ] = 1.0
    top_n_sigma: Annotated[
        float,
        ParamInfo(
            label="Top-n-sigma",
            help="Only tokens whose logit is within n standard deviations of the largest. 0 is off.",
            minimum=0.0,
            maximum=100.0,
            soft_maximum=5.0,
            step=0.1,
            is_advanced=True,
        ),
    ] = 0.0
    xtc_probability: Annotated[
        float,
        ParamInfo(
            label="XTC probability",
            help="How often the likeliest of several good tokens are left out, for variety. 0 is off.",
            minimum=0.0,
            maximum=1.0,
            step=0.01,
            is_advanced=True,
        ),
    ] = 0.0
    xtc_threshold: Annotated[
        float,
        ParamInfo(
            label="XTC threshold",
            help="Tokens above this probability count as good for XTC. Above 0.5 it does nothing.",
            minimum=0.0,
            maximum=1.0,
            step=0.01,
            is_advanced=True,
        ),
    ] = 0.1
    dry_multiplier: Annotated[
        float,
        ParamInfo(
            label="DRY multiplier",
            help="Makes it costly to go on with a sequence that stood in the text before. 0 is off.",
            minimum=0.0,
            maximum=100.0,
            soft_maximum=5.0,
            step=0.05,
            is_advanced=True,
        ),
    ] = 0.0
    dry_base: Annotated[
        float,
        ParamInfo(
            label="DRY base",
            help="How fast that cost grows with the length of the repeated sequence.",
            minimum=1.0,
            maximum=10.0,
            soft_maximum=4.0,
            step=0.05,
            is_advanced=True,
        ),
    ] = 1.75
    dry_allowed_length: Annotated[
        int,
        ParamInfo(
            label="DRY allowed length",
            help="Repeated sequences up to this length cost nothing.",
            minimum=1,
            maximum=1000,
            soft_maximum=20,
            step=1,
            is_advanced=True,
        ),
    ] = 2
    dry_last_n: Annotated[
        int,
        ParamInfo(
            label="DRY window",
            help="How many of the latest tokens DRY looks at. 0 looks at none.",
            minimum=0,
            maximum=65536,
            soft_maximum=4096,
            step=64,
            is_advanced=True,
        ),
    ] = 1024
    frequency_penalty: Annotated[
        float,
        ParamInfo(
            label="Frequency penalty",
            help="Makes tokens less likely by how often they stand in the repeat window. 0 is off.",
            minimum=-2.0,
            maximum=2.0,
            step=0.05,
            is_advanced=True,
        ),
    ] = 0.0
    presence_penalty: Annotated[
        float,
        ParamInfo(
            label="Presence penalty",
            help="Makes tokens less likely that stand in the repeat window at all. 0 is off.",
            minimum=-2.0,
            maximum=2.0,
            step=0.05,
            is_advanced=True,
        ),
    ] = 0.0
    mirostat: Annotated[
        int,
        ParamInfo(
            label="Mirostat",
            help="1 or 2 steers the surprise of the text and takes the place of the filters. 0 is off.",
            minimum=0,
            maximum=2,
            step=1,
            is_advanced=True,
        ),
    ] = 0
    mirostat_tau: Annotated[
        float,
        ParamInfo(
            label="Mirostat tau",
            help="The surprise that mirostat aims at; higher is freer.",
            minimum=0.0,
            maximum=100.0,
            soft_maximum=10.0,
            step=0.1,
            is_advanced=True,
        ),
    ] = 5.0
    mirostat_eta: Annotated[
        float,
        ParamInfo(
            label="Mirostat eta",
            help="How fast mirostat corrects itself.",
            minimum=0.0,
            maximum=1.0,
            step=0.01,
            is_advanced=True,
        ),
    ] = 0.1
    adaptive_target: Annotated[
        float | None,
        ParamInfo(
            label="Adaptive-p target",
            help="Prefers tokens near this probability, corrected by what was chosen. Off by default.",
            minimum=0.0,
            maximum=1.0,
            step=0.01,
            none_label="off",
            is_advanced=True,
        ),
    ] = None
    adaptive_decay: Annotated[
        float,
        ParamInfo(
            label="Adaptive-p decay",
            help="How long adaptive-p remembers what was chosen.",
            minimum=0.0,
            maximum=0.99,
            step=0.01,
            is_advanced=True,
        ),
    ] = 0.9
    thinking_budget: Annotated[
        int | None,
        ParamInfo(
            label="Thinking budget",
            help="A model that thinks before it answers is made to answer after this many tokens. 0 skips thinking.",
            minimum=0,
            maximum=10_000_000,
            soft_maximum=8192,
            step=64,
            none_label="no limit",
            is_advanced=True,
        ),
    ] = None
    stop: tuple[str, ...] = ()
    samplers: tuple[str, ...] = ()
    logit_bias: tuple[tuple[int, float], ...] = ()
    grammar: str | None = None
    json_schema: str | None = None
    reproducible: bool = False

    def __post_init__(self) -> None:
        check_params(self)
        stop = tuple(dict.fromkeys(clean_text(text) for text in self.stop if text))
        if len(stop) > MAX_STOP_STRINGS:
            raise InvalidParams(
                f"There are {len(stop)} stop strings; {MAX_STOP_STRINGS} is the most.", "Remove some stop strings."
            )
        msgspec.structs.force_setattr(self, "stop", stop)
        self._check_order()
        self._check_biases()
        if self.grammar is not None and self.json_schema is not None:
            raise InvalidParams("There are a grammar and a JSON schema.", "Give one of them.")

    def _check_order(self) -> None:
        wrong = next((name for name in self.samplers if name not in SAMPLER_NAMES), None)
        if wrong is not None:
            raise InvalidParams(f"{wrong!r} is no sampler.", f"The samplers are {', '.join(SAMPLER_NAMES)}.")
        if len(set(self.samplers)) < len(self.samplers):
            raise InvalidParams("A sampler is named twice.", "Name each sampler once.")

    def _check_biases(self) -> None:
        if len(self.logit_bias) > MAX_LOGIT_BIASES:
            raise InvalidParams(f"There are more than {MAX_LOGIT_BIASES} logit biases.", "Give fewer.")
        for token, bias in self.logit_bias:
            if type(token) is not int or type(bias) not in (int, float):
                raise InvalidParams("A logit bias is not a token and a number.", "Give pairs such as (42, -5.0).")
            if not 0 <= token < 2**31 or not -MAX_BIAS <= bias <= MAX_BIAS:  # also refuses NaN
                raise InvalidParams(
                    f"The logit bias of token {token} is not legal.",
                    f"Tokens are numbers from 0, biases lie between -{MAX_BIAS:g} and {MAX_BIAS:g}.",
                )
