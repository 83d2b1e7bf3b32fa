"""Settings of a model as llama.cpp takes them; shared by the loader and by the probe, which must ask for the same."""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.backend_llama import library as native
from engine.params import MAX_DRAFT, FlashAttention, LoadMode, ModelParams, RopeScaling, SplitMode
from engine.processors import default_threads

PROBE_TOKENS = 2  # of the first step after a load


class CacheType(NamedTuple):
    """llama.cpp's number of an element type, and (bytes, elements) of a block."""

    number: int
    block_bytes: int
    block_elements: int

    def row_bytes(self, num_elements: int) -> int:
        """Return the bytes of a row."""
        return num_elements * self.block_bytes // self.block_elements


CACHE_TYPE_TABLE = {
    "f32": CacheType(0, 4, 1),
    "f16": CacheType(1, 2, 1),
    "bf16": CacheType(30, 2, 1),
    "q8_0": CacheType(8, 34, 32),
    "q5_1": CacheType(7, 24, 32),
    "q5_0": CacheType(6, 22, 32),
    "q4_1": CacheType(3, 20, 32),
    "q4_0": CacheType(2, 18, 32),
    "iq4_nl": CacheType(20, 18, 32),
}
_FLASH_ATTENTION = {FlashAttention.AUTO: -1, FlashAttention.OFF: 0, FlashAttention.ON: 1}
_SPLIT_MODES = {SplitMode.NONE: 0, SplitMode.LAYER: 1, SplitMode.ROW: 2}
_LOAD_MODES = {LoadMode.AUTO: -1, LoadMode.READ: 0, LoadMode.MMAP: 1, LoadMode.DIRECT: 4}
_ROPE_SCALING = {RopeScaling.AUTO: -1, RopeScaling.NONE: 0, RopeScaling.LINEAR: 1, RopeScaling.YARN: 2}
_MAX_LAYERS = 512  # of llama.cpp
_EXPERT_TENSORS = r"ffn_(up|down|gate_up|gate)_(ch|)exps"


class _BufferOverride(ctypes.Structure):
    """Where tensors go whose names match; the binding does not declare it."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


class ModelSettings(NamedTuple):
    """Loading settings, and what must live as long as the call that takes them."""

    native: Any
    keep_alive: tuple[Any, ...]


def model_settings(
    params: ModelParams, *, n_gpu_layers: int, devices: Sequence[int] = (), repacks: bool = True
) -> ModelSettings:
    """Return how to load the weights.

    Args:
        n_gpu_layers: layers that go to graphics devices, the output counted as one.
        devices: handles of the devices to use; none lets llama.cpp take all graphics devices.
        repacks: whether weights may be copied into a layout that computes faster.
    """
    chosen = native.library().llama_model_default_params()
    keep_alive: list[Any] = []
    chosen.n_gpu_layers = n_gpu_layers
    chosen.split_mode = _SPLIT_MODES[params.split_mode]
    chosen.load_mode = _LOAD_MODES[params.load_mode]
    chosen.use_extra_bufts = repacks
    if devices:
        handles = (ctypes.c_void_p * (len(devices) + 1))(*devices, None)
        keep_alive.append(handles)
        chosen.devices = ctypes.cast(handles, ctypes.c_void_p)
    if params.experts_on_cpu:
        cpu = native.native_function("ggml_backend_cpu_buffer_type", ctypes.c_void_p)()
        overrides = (_BufferOverride * 2)(_BufferOverride(expert_pattern(params.experts_on_cpu).encode(), cpu))
        keep_alive.append(overrides)
        chosen.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p)
        if params.load_mode is LoadMode.AUTO:
            chosen.load_mode = _LOAD_MODES[LoadMode.READ]  # mapped weights could not be repacked there
    return ModelSettings(chosen, tuple(keep_alive))


def expert_pattern(num_layers: int) -> str:
    """Return the pattern of the names of expert tensors in the first layers."""
    # The regular expressions of the C++ library recurse over alternatives: no more of them than a model has layers.
    numbers = "|".join(str(number) for number in range(num_layers)) if num_layers < _MAX_LAYERS else r"\d+"
    return rf"blk\.({numbers})\.{_EXPERT_TENSORS}"


def context_settings(params: ModelParams, *, n_ctx: int, type_k: str, type_v: str) -> Any:
    """Return how to make the context, but for what it shares with nobody: its abort flag."""
    chosen = native.library().llama_context_default_params()
    threads = params.n_threads or default_threads()
    chosen.n_ctx = n_ctx
    chosen.n_batch = max(params.n_batch, params.n_ubatch, params.n_seq_max, PROBE_TOKENS)
    chosen.n_ubatch = max(params.n_ubatch, params.n_seq_max)  # some memories need a token of each in one micro-batch
    chosen.n_seq_max = params.n_seq_max
    # A row of logits for each sequence, and for drafts: by default half a gigabyte goes to rows nobody asks for. Room
    # for their results is taken now, room to hand them out when a step first asks for so many.
    chosen.n_outputs_max = params.n_seq_max + MAX_DRAFT
    chosen.n_threads = chosen.n_threads_batch = threads
    chosen.flash_attn_type = _FLASH_ATTENTION[params.flash_attn]
    chosen.type_k = CACHE_TYPE_TABLE[type_k].number
    chosen.type_v = CACHE_TYPE_TABLE[type_v].number
    chosen.rope_scaling_type = _ROPE_SCALING[params.rope_scaling]
    chosen.rope_freq_base = params.rope_freq_base
    chosen.rope_freq_scale = params.rope_freq_scale
    chosen.yarn_orig_ctx = params.yarn_orig_ctx
    chosen.kv_unified = True
    chosen.no_perf = True
    return chosen
