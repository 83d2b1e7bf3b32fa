"""How a model is loaded: context, threads, device, cache types."""

import enum
from typing import Annotated

import msgspec

from engine.errors import InvalidParams
from engine.params.declare import ParamInfo, check_params

_MAX_DEVICE_NAME = 128
_MIN_ROPE_SCALE = 0.001
# What llama.cpp accepts as KV cache types; ids outside this list print garbage or abort in native code.
CACHE_TYPES = ("f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")


class FlashAttention(enum.Enum):
    """Whether attention is computed in the fused way; a quantised V cache needs it."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class SplitMode(enum.Enum):
    """How a model is shared out among several graphics devices."""

    NONE = "none"  # one device has it all
    LAYER = "layer"  # each has some layers
    ROW = "row"  # each has some rows of every weight


class LoadMode(enum.Enum):
    """How weights come from the file."""

    AUTO = "auto"
    MMAP = "mmap"  # mapped: pages come when they are used, and go when memory is short
    READ = "read"  # read into memory of our own
    DIRECT = "direct"  # read past the system's file cache


class RopeScaling(enum.Enum):
    """How positions beyond the trained context are squeezed into it."""

    AUTO = "auto"  # as the file says
    NONE = "none"
    LINEAR = "linear"
    YARN = "yarn"


class ModelParams(msgspec.Struct, frozen=True, kw_only=True):
    """Loading settings of one model.

    Attributes:
        type_k, type_v: element types of the KV cache, from CACHE_TYPES.
        device: name of the device to compute on, as the engine lists it; "" chooses, "CPU" is the processor.

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
            help="Threads that compute. 0 chooses the best count, and makes way for other programs.",
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
    experts_on_cpu: Annotated[
        int,
        ParamInfo(
            label="Experts on the CPU",
            help="Layers whose experts stay with the processor, counted from the first. Saves graphics memory.",
            minimum=0,
            maximum=10_000,
            soft_maximum=128,
            step=1,
            is_advanced=True,
        ),
    ] = 0
    rope_freq_base: Annotated[
        float,
        ParamInfo(
            label="RoPE base",
            help="Base frequency of the positions. 0 takes the file's.",
            minimum=0,
            maximum=1e9,
            soft_maximum=1e6,
            step=1000,
            is_advanced=True,
        ),
    ] = 0.0
    rope_freq_scale: Annotated[
        float,
        ParamInfo(
            label="RoPE scale",
            help="Factor on the positions; 0.5 doubles the context a model can use. 0 takes the file's.",
            minimum=0,
            maximum=16,
            soft_maximum=1,
            step=0.05,
            is_advanced=True,
        ),
    ] = 0.0
    yarn_orig_ctx: Annotated[
        int,
        ParamInfo(
            label="YaRN context",
            help="Context the model was trained for before YaRN stretches it; used with YaRN only. 0 takes the file's.",
            minimum=0,
            maximum=16_777_216,
            soft_maximum=131_072,
            step=1024,
            is_advanced=True,
        ),
    ] = 0
    flash_attn: FlashAttention = FlashAttention.AUTO
    type_k: str = "f16"
    type_v: str = "f16"
    device: str = ""
    split_mode: SplitMode = SplitMode.LAYER
    load_mode: LoadMode = LoadMode.AUTO
    rope_scaling: RopeScaling = RopeScaling.AUTO

    def __post_init__(self) -> None:
        check_params(self)
        self._check_cache()
        self._check_device()
        self._check_rope()

    def _check_cache(self) -> None:
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

    def _check_device(self) -> None:
        if not isinstance(self.device, str) or len(self.device) > _MAX_DEVICE_NAME or not self.device.isprintable():
            raise InvalidParams("The name of the device is no name.", "`fireside doctor` lists the devices.")
        if self.device.upper() == "CPU" and self.n_gpu_layers:
            raise InvalidParams(
                f"{self.n_gpu_layers} layers cannot go to a graphics processor when the device is the CPU.",
                "Choose another device, or no layers.",
            )

    def _check_rope(self) -> None:
        if self.rope_scaling is RopeScaling.NONE and self.rope_freq_scale not in (0, 1):
            raise InvalidParams(
                "A RoPE scale has no effect when scaling is switched off.",
                "Use linear or yarn, or leave the scale at 0.",
            )
        if 0 < self.rope_freq_base < 1:
            raise InvalidParams("The RoPE base is below 1.", "Leave it at 0 to take the file's.")
        if 0 < self.rope_freq_scale < _MIN_ROPE_SCALE:
            raise InvalidParams(f"The RoPE scale is below {_MIN_ROPE_SCALE}.", "Leave it at 0 to take the file's.")
