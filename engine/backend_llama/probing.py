"""The probe of a model file: llama.cpp reads it and plans contexts without taking their memory, and its log is read.

Runs in a process that may die of it, so it imports no more than it needs.
"""

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from engine.backend_llama import library as native
from engine.backend_llama.layer_weights import LayerWeights, layer_weights
from engine.backend_llama.native_params import CACHE_TYPE_TABLE, context_settings, model_settings
from engine.params import FlashAttention, LoadMode, ModelParams

MIN_CTX = 256  # llama.cpp rounds context sizes up to multiples of it
_AUTO_CTX = 8192  # more is a choice: its memory is taken at once
_MAX_PLANNED_CTX = 262_144  # a plan itself takes some bytes a token
_SAVING_TYPE = "q8_0"
_MIB = 1 << 20
_PLAIN_TYPES = ("f16", "f32", "bf16")

_KV_LINE = re.compile(
    r"llama_kv_cache\w*: size = +[\d.]+ MiB \( *(?P<cells>\d+) cells.*?"
    r"K \(\w+\): +(?P<keys>[\d.]+) MiB, V \(\w+\): +(?P<values>[\d.]+) MiB"
)
_STATE_LINE = re.compile(r"(?:llama_memory_recurrent: size = +|state buffer size = +)([\d.]+) MiB")
_COMPUTE_LINE = re.compile(r"sched_reserve: +(\S+) compute buffer size = +([\d.]+) MiB")
_OUTPUT_LINE = re.compile(r"(\S+) +output buffer size = +([\d.]+) MiB")


class ContextSize(msgspec.Struct, frozen=True, kw_only=True):
    """What a context takes.

    Attributes:
        key_bytes, value_bytes: of the KV cache.
        state_bytes: of recurrent layers, for all sequences.
        compute_bytes: buffers for the results of a step, those of graphics devices left out.
    """

    n_ctx: int
    type_k: str
    type_v: str
    key_bytes: int = 0
    value_bytes: int = 0
    state_bytes: int = 0
    compute_bytes: int = 0

    @property
    def cache_bytes(self) -> int:
        """What holds the context."""
        return self.key_bytes + self.value_bytes + self.state_bytes

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.cache_bytes + self.compute_bytes


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What a load may take.

    Attributes:
        resident_bytes: for the context, and for weights that are not mapped.
        address_bytes: for all of it, mapped weights too; None is no limit.
    """

    resident_bytes: int
    address_bytes: int | None = None


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A file to try.

    Attributes:
        has_graphics: whether layers may go to a graphics device.
    """

    path: str
    params: ModelParams
    budget: Budget
    has_graphics: bool = False


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe found.

    Attributes:
        n_layer: without the output.
        types_reason: why the cache types that were asked for cannot be used; empty where they can.
        sizes: what was asked for first, then halves of it down to one that fits the budget; empty where llama.cpp
            makes no context of this file.
        saving: what was asked for, with a smaller cache type, where it did not fit.
        kv_bytes_per_token: see ModelDescription; of the types in `sizes`.
        layer_bytes, expert_bytes: weights of each layer, the output last, and the part of them that is experts; empty
            where no graphics device may take any.
        error: why the file could not be loaded.
    """

    n_ctx_train: int = 0
    n_layer: int = 0
    weight_bytes: int = 0
    types_reason: str = ""
    sizes: tuple[ContextSize, ...] = ()
    saving: ContextSize | None = None
    kv_bytes_per_token: int = 0
    layer_bytes: tuple[int, ...] = ()
    expert_bytes: tuple[int, ...] = ()
    error: str = ""
    error_lines: tuple[str, ...] = ()


def fits(size: ContextSize, weight_bytes: int, params: ModelParams, budget: Budget) -> bool:
    """Return whether a context and its weights stay within a budget."""
    resident = size.total_bytes + (0 if is_mapped(params) else weight_bytes)
    is_within_addresses = budget.address_bytes is None or size.total_bytes + weight_bytes <= budget.address_bytes
    return resident <= auto_share(params, weight_bytes, budget.resident_bytes) and is_within_addresses


def auto_share(params: ModelParams, weight_bytes: int, free_bytes: int) -> int:
    """Return what a context may take: all that is free where its size was asked for, else what leaves room."""
    if params.n_ctx:
        return free_bytes
    return min(free_bytes // 2, max(free_bytes - weight_bytes, free_bytes // 8))


def is_mapped(params: ModelParams) -> bool:
    """Return whether weights stay in the file, from where the system reads them when they are used."""
    return params.load_mode is LoadMode.MMAP or (params.load_mode is LoadMode.AUTO and not params.experts_on_cpu)


def probe(request: ProbeRequest) -> ProbeResult:
    """Load a file without its weights and plan contexts; a malformed file may end the process."""
    library, params = native.library(), request.params
    native.native_log.errors.clear()
    settings = model_settings(
        msgspec.structs.replace(params, load_mode=LoadMode.READ, experts_on_cpu=0), n_gpu_layers=0
    )
    settings.native.no_alloc = True  # ends the process with any other load mode
    model = library.llama_model_load_from_file(os.fsencode(request.path), settings.native)
    if not model:
        return ProbeResult(error=load_reason(), error_lines=tuple(native.native_log.errors))
    try:
        return _plan(library, model, request)
    finally:
        library.llama_model_free(model)


def load_reason() -> str:
    """Return what the library's last errors say of a load."""
    errors = list(native.native_log.errors)
    reason = next((line for line in errors if "error" in line.lower()), errors[0] if errors else "no reason given")
    return reason.partition(": ")[2] or reason


def _plan(library: Any, model: Any, request: ProbeRequest) -> ProbeResult:
    params = request.params
    weight_bytes, n_ctx_train = library.llama_model_size(model), library.llama_model_n_ctx_train(model)
    result = ProbeResult(n_ctx_train=n_ctx_train, n_layer=library.llama_model_n_layer(model), weight_bytes=weight_bytes)
    if library.llama_vocab_type(library.llama_model_get_vocab(model)) == 0 or library.llama_model_has_encoder(model):
        return result  # no chat model: the loader says so
    n_ctx = params.n_ctx or min(n_ctx_train or _AUTO_CTX, _AUTO_CTX)
    type_k, type_v = params.type_k, params.type_v
    reason = types_reason(model, type_k, type_v, params.flash_attn)
    first = None if reason else context_size(model, params, n_ctx=n_ctx, type_k=type_k, type_v=type_v)
    if first is None and (type_k, type_v) != ("f16", "f16"):
        reason = reason or load_reason()
        type_k = type_v = "f16"
        first = context_size(model, params, n_ctx=n_ctx, type_k=type_k, type_v=type_v)
    if first is None:
        return result
    sizes = [first]
    while not fits(sizes[-1], weight_bytes, params, request.budget) and sizes[-1].n_ctx > MIN_CTX:
        smaller = max(_power_below(sizes[-1].n_ctx), MIN_CTX)
        size = context_size(model, params, n_ctx=smaller, type_k=type_k, type_v=type_v)
        if size is None:
            break
        sizes.append(size)
    saving = None
    if (
        len(sizes) > 1
        and type_k in _PLAIN_TYPES
        and not types_reason(model, _SAVING_TYPE, _SAVING_TYPE, params.flash_attn)
    ):
        saving = context_size(model, params, n_ctx=n_ctx, type_k=_SAVING_TYPE, type_v=_SAVING_TYPE)
    found = msgspec.structs.replace(result, types_reason=reason, sizes=tuple(sizes), saving=saving)
    weights = layer_weights(request.path, result.n_layer) if request.has_graphics else LayerWeights((), ())
    return msgspec.structs.replace(
        found,
        kv_bytes_per_token=cell_bytes(model, params, first),
        layer_bytes=weights.layer_bytes,
        expert_bytes=weights.expert_bytes,
    )


def _power_below(number: int) -> int:
    return 1 << ((number - 1).bit_length() - 1)


def types_reason(model: Any, type_k: str, type_v: str, flash_attn: FlashAttention) -> str:
    """Return why a model cannot use a pair of cache types, empty where nothing is known against it."""
    if type_v not in _PLAIN_TYPES and flash_attn is FlashAttention.OFF:
        return "quantised values need flash attention"
    architecture = meta(model, "general.architecture") or ""
    if type_k != type_v and (architecture == "deepseek4" or meta(model, f"{architecture}.attention.key_length_mla")):
        return "this model needs the same type for keys and values"
    for cache_type, what in ((type_k, "key"), (type_v, "value")):
        block = CACHE_TYPE_TABLE[cache_type].block_elements
        if odd := [size for size in head_sizes(model, what) if size % block]:
            return f"the heads of {odd[0]} {what} numbers are no whole blocks of {cache_type}"
    return ""


def head_sizes(model: Any, what: str) -> list[int]:
    """Return the sizes of a model's heads, `what` being "key" or "value"; of sliding windows too."""
    library = native.library()
    architecture = meta(model, "general.architecture") or ""
    default = library.llama_model_n_embd(model) // max(library.llama_model_n_head(model), 1)
    written = [meta(model, f"{architecture}.attention.{what}_length{suffix}") for suffix in ("", "_swa")]
    sizes = [int(text) for text in written if text and text.isdigit()]
    return sizes if written[0] else [default, *sizes]


def context_size(model: Any, params: ModelParams, *, n_ctx: int, type_k: str, type_v: str) -> ContextSize | None:
    """Return what a context takes of a model that was loaded without memory; None where there can be none."""
    if n_ctx > _MAX_PLANNED_CTX:
        # From here on everything grows with the context.
        half = _planned(model, params, n_ctx=_MAX_PLANNED_CTX // 2, type_k=type_k, type_v=type_v)
        full = _planned(model, params, n_ctx=_MAX_PLANNED_CTX, type_k=type_k, type_v=type_v)
        return _extended(half, full, n_ctx) if half and full else None
    return _planned(model, params, n_ctx=n_ctx, type_k=type_k, type_v=type_v)


def _extended(half: ContextSize, full: ContextSize, n_ctx: int) -> ContextSize:
    steps = (n_ctx - full.n_ctx) / (full.n_ctx - half.n_ctx)

    def grown(name: str) -> int:
        before, after = getattr(half, name), getattr(full, name)
        return int(after + (after - before) * steps)

    return msgspec.structs.replace(
        full,
        n_ctx=n_ctx,
        key_bytes=grown("key_bytes"),
        value_bytes=grown("value_bytes"),
        compute_bytes=grown("compute_bytes"),
    )


def _planned(model: Any, params: ModelParams, *, n_ctx: int, type_k: str, type_v: str) -> ContextSize | None:
    library = native.library()
    settings = context_settings(params, n_ctx=n_ctx, type_k=type_k, type_v=type_v)
    settings.swa_full = False  # as the loader has it
    with log_lines() as lines:
        context = library.llama_init_from_model(model, settings)
        if not context:
            return None
        library.llama_free(context)
    return read_size(lines, n_ctx=n_ctx, type_k=type_k, type_v=type_v)


def cell_bytes(model: Any, params: ModelParams, size: ContextSize) -> int:
    """Return what one more token takes in the caches that grow with the context.

    Layers with a window are left out, since they keep no more than it, unless the model has no others; so are
    recurrent states. 0 where nothing else is there.
    """
    growing = _cell_bytes(model, params, size, with_windows=False)
    if not growing and size.key_bytes:
        growing = _cell_bytes(model, params, size, with_windows=True)
    return round(growing) or (size.key_bytes + size.value_bytes) // size.n_ctx


def _cell_bytes(model: Any, params: ModelParams, size: ContextSize, *, with_windows: bool) -> float:
    # So many cells that the rounding of the log is no part of the result; nothing is allocated.
    small = msgspec.structs.replace(params, n_seq_max=1, n_batch=32, n_ubatch=32)
    settings = context_settings(small, n_ctx=_MAX_PLANNED_CTX, type_k=size.type_k, type_v=size.type_v)
    settings.swa_full = with_windows
    with log_lines() as lines:
        context = native.library().llama_init_from_model(model, settings)
        if context:
            native.library().llama_free(context)
    whole = (match for match in map(_KV_LINE.search, lines) if match and int(match["cells"]) >= _MAX_PLANNED_CTX)
    return sum((float(match["keys"]) + float(match["values"])) * _MIB / int(match["cells"]) for match in whole)


@contextlib.contextmanager
def log_lines() -> Iterator[list[str]]:
    """Collect what the library says meanwhile."""
    lines: list[str] = []
    native.native_log.listener = lines.append
    try:
        yield lines
    finally:
        native.native_log.listener = None


def read_size(lines: list[str], *, n_ctx: int, type_k: str, type_v: str) -> ContextSize:
    """Return what llama.cpp said a context takes."""
    keys = values = state = 0.0
    compute: dict[str, float] = {}
    for line in lines:
        if match := _KV_LINE.search(line):
            keys, values = keys + float(match["keys"]), values + float(match["values"])
        elif match := _STATE_LINE.search(line):
            state += float(match[1])
        elif match := _COMPUTE_LINE.search(line):
            compute[match[1]] = float(match[2])  # a later plan replaces the one before
        elif match := _OUTPUT_LINE.search(line):
            compute[f"output of {match[1]}"] = float(match[2])
    on_host = (size for name, size in compute.items() if name.endswith(("CPU", "_Host", "REPACK")))
    return ContextSize(
        n_ctx=n_ctx,
        type_k=type_k,
        type_v=type_v,
        key_bytes=round(keys * _MIB),
        value_bytes=round(values * _MIB),
        state_bytes=round(state * _MIB),
        compute_bytes=round(sum(on_host) * _MIB),
    )


def meta(model: Any, key: str) -> str | None:
    """Return what a file says under a key, as text."""
    buffer = ctypes.create_string_buffer(512)
    length = native.library().llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if length >= 0 else None
