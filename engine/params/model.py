"""How a model is loaded: context, threads, device, cache types."""

import enum
from typing import Annotated

import msgspec

from engine.errors import InvalidParams
from engine.params.declare import ParamInfo, check_params

# What llama.cpp accepts as KV cache types; ids outside this list print garbage or abort in native code.
CACHE_TYPES = ("f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")


class FlashAttention(enum.Enum):
    """Whether attention is computed in the fused way; a quantised V cache needs it."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class ModelParams(msgspec.Struct, frozen=True, kw_only=True):
    """Loading settings of one model.

    Attributes:
        type_k, type_v: element types of the KV cache, from CACHE_TYPES.

    Raises:
        InvalidParams: a value is out of range, or a pair of values cannot work together.
    """

    n_ctx: Annotated[
        int,
        ParamInfo(
            label="Context",
            help="Tokens the model can hold at once: all chats of this model share them. 0 chooses what fits.",
            minimum=0,
            maximum=16_777_216,
            soft_maximum=131_072,
            step=1024,
        ),
    ] = 0
    n_batch: Annotated[
        int,
        ParamInfo(
            label="Batch",
            help="Most tokens in one step; raised where it could not hold a token of every slot.",
            minimum=1,
            maximum=65_536,
            step=256,
        ),
    ] = 2048
    n_ubatch: Annotated[
        int,
        ParamInfo(label="Micro-batch", help="Tokens computed at a time in prefill.", minimum=1, maximum=8192, step=64),
    ] = 512
    n_seq_max: Annotated[
        int,
        ParamInfo(label="Slots", help="Replies and cached chats kept at once.", minimum=1, maximum=64, step=1),
    ] = 4
    n_threads: Annotated[
        int,
        ParamInfo(
            label="Threads",
            help="Threads that compute. 0 chooses the physical cores this program may use.",
            minimum=0,
            maximum=512,
            soft_maximum=64,
            step=1,
        ),
    ] = 0
    n_gpu_layers: Annotated[
        int | None,
        ParamInfo(
            label="GPU layers",
            help="Layers computed on the graphics processor where there is one.",
            minimum=0,
            maximum=10_000,
            soft_maximum=128,
            step=1,
            none_label="auto",
        ),
    ] = None
    flash_attn: FlashAttention = FlashAttention.AUTO
    type_k: str = "f16"
    type_v: str = "f16"

    def __post_init__(self) -> None:
        check_params(self)
        for name in ("type_k", "type_v"):
            if getattr(self, name) not in CACHE_TYPES:
                raise InvalidParams(
                    f"{name} is {getattr(self, name)!r}, which is no cache type.",
                    f"Use one of {', '.join(CACHE_TYPES)}.",
                )
        if self.flash_attn is FlashAttention.OFF and self.type_v not in ("f16", "f32", "bf16"):
            raise InvalidParams(
                f"A {self.type_v} value cache needs flash attention, which is switched off.",
                "Switch flash attention to auto, or use f16 for the value cache.",
            )
