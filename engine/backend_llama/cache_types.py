"""What each pair of cache types costs and brings with a loaded model: its bytes, and its speed as measured here."""

import ctypes
import time
from typing import Any

import msgspec

from engine.backend_llama import library as native
from engine.backend_llama.context import AbortFlag
from engine.backend_llama.native_params import CACHE_TYPE_TABLE, context_settings
from engine.backend_llama.probing import ContextSize, types_reason
from engine.messages import CacheTypeRow
from engine.params import ModelParams

PAIRS = (  # the most useful first: time may run out
    ("f16", "f16"),
    ("q8_0", "q8_0"),
    ("q4_0", "q4_0"),
    ("q8_0", "q4_0"),
    ("q8_0", "f16"),
    ("q5_1", "q5_1"),
    ("bf16", "bf16"),
    ("f32", "f32"),
)
_N_CTX = 512
_N_PREFILL, _CHUNK = 256, 32
_N_DECODE = 24
_WHOLE_LIMIT_S = 8.0  # what is not measured by then has its sizes only
_PHASE_LIMIT_S = 0.4  # of prefill, and of decode: a large model is measured over fewer tokens


def measure_cache_types(
    model: Any, params: ModelParams, size: ContextSize, abort: AbortFlag
) -> tuple[CacheTypeRow, ...]:
    """Return a row for each pair; those in use first, where they are none of the usual ones.

    Args:
        size: of the context in use; the bytes of the others follow from it.
        abort: ends the measuring when it is raised.
    """
    used = (size.type_k, size.type_v)
    pairs = PAIRS if used in PAIRS else (used, *PAIRS)
    ends_at = time.perf_counter() + _WHOLE_LIMIT_S
    # A first run pays for pages and caches that the others find warm.
    _measure(model, params, used, abort)
    return tuple(_row(model, params, pair, size, abort if time.perf_counter() < ends_at else None) for pair in pairs)


def _row(
    model: Any, params: ModelParams, pair: tuple[str, str], size: ContextSize, abort: AbortFlag | None
) -> CacheTypeRow:
    type_k, type_v = pair
    total = _scaled(size.key_bytes, size.type_k, type_k) + _scaled(size.value_bytes, size.type_v, type_v)
    reason = types_reason(model, type_k, type_v, params.flash_attn)
    prefill, decode = None, None
    if not reason and abort is None:
        reason = "the time for measuring was up"
    elif not reason and abort is not None:
        prefill, decode = _measure(model, params, pair, abort)
        if decode is None:
            reason = "llama.cpp makes no such cache for this model"
    return CacheTypeRow(
        type_k=type_k,
        type_v=type_v,
        bytes_per_token=total // size.n_ctx,
        total_bytes=total + size.state_bytes,
        prefill_rate=prefill,
        decode_rate=decode,
        reason=reason,
    )


def _scaled(num_bytes: int, source: str, target: str) -> int:
    old, new = CACHE_TYPE_TABLE[source], CACHE_TYPE_TABLE[target]
    return num_bytes * new.block_bytes * old.block_elements // (new.block_elements * old.block_bytes)


def _measure(
    model: Any, params: ModelParams, pair: tuple[str, str], abort: AbortFlag
) -> tuple[float | None, float | None]:
    """Return tokens a second of prefill, and of decode after it."""
    library = native.library()
    small = msgspec.structs.replace(params, n_seq_max=1, n_batch=_CHUNK, n_ubatch=_CHUNK)
    settings = context_settings(small, n_ctx=_N_CTX, type_k=pair[0], type_v=pair[1])
    settings.swa_full = False  # as the loader has it
    settings.abort_callback, settings.abort_callback_data = abort.callback, abort.data
    context = library.llama_init_from_model(model, settings)
    if not context:
        return None, None
    try:
        prefill = _rate(library, context, count=_CHUNK, num_steps=_N_PREFILL // _CHUNK)
        return prefill, _rate(library, context, count=1, num_steps=_N_DECODE) if prefill else None
    finally:
        library.llama_free(context)


def _rate(library: Any, context: Any, *, count: int, num_steps: int) -> float | None:
    tokens = (library.llama_token * count)()  # which tokens they are makes no difference to the time
    for place in range(count):
        tokens[place] = place % 2
    num_done, began = 0, time.perf_counter()
    for _ in range(num_steps):
        if library.llama_decode(context, library.llama_batch_get_one(tokens, count)):
            return None
        num_done += count
        if time.perf_counter() - began > _PHASE_LIMIT_S:
            break
    _synchronize(context)
    return num_done / (time.perf_counter() - began)


def _synchronize(context: Any) -> None:
    native.native_function("llama_synchronize", None, ctypes.c_void_p)(ctypes.cast(context, ctypes.c_void_p))
