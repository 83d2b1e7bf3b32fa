"""What each pair of cache types costs and brings with a loaded model: its bytes, and its speed as measured here."""

import ctypes
import statistics
import time
from typing import Any, NamedTuple

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
)
WHOLE_LIMIT_S = 6.0  # what is not measured by then has its sizes only; one step may still run past it
_N_CTX = 512
_MAX_PREFILL, _MIN_PREFILL = 128, 8
_MIN_DECODE, _MAX_DECODE = 3, 12
_PHASE_LIMIT_S = 0.5  # of prefill, and of decode: a large model is measured over fewer tokens
_TIME_IS_UP = "the time for measuring was up"


class _Rates(NamedTuple):
    """Tokens a second, and why one is missing."""

    prefill: float | None = None
    decode: float | None = None
    reason: str = ""


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
    ends_at = time.perf_counter() + WHOLE_LIMIT_S
    return tuple(_row(model, params, pair, size, abort, ends_at=ends_at) for pair in pairs)


def _row(
    model: Any, params: ModelParams, pair: tuple[str, str], size: ContextSize, abort: AbortFlag, *, ends_at: float
) -> CacheTypeRow:
    type_k, type_v = pair
    total = _scaled(size.key_bytes, size.type_k, type_k) + _scaled(size.value_bytes, size.type_v, type_v)
    reason = types_reason(model, type_k, type_v, params.flash_attn)
    rates = _Rates(reason=reason) if reason else _measure(model, params, pair, abort, ends_at=ends_at)
    return CacheTypeRow(
        type_k=type_k,
        type_v=type_v,
        bytes_per_token=total // size.n_ctx,
        total_bytes=total + size.state_bytes,
        prefill_rate=rates.prefill,
        decode_rate=rates.decode,
        reason=rates.reason,
    )


def _scaled(num_bytes: int, source: str, target: str) -> int:
    old, new = CACHE_TYPE_TABLE[source], CACHE_TYPE_TABLE[target]
    return num_bytes * new.block_bytes * old.block_elements // (new.block_elements * old.block_bytes)


def _measure(model: Any, params: ModelParams, pair: tuple[str, str], abort: AbortFlag, *, ends_at: float) -> _Rates:
    """Return the rates of prefill from an empty context, and of decode after it."""
    if time.perf_counter() >= ends_at:
        return _Rates(reason=_TIME_IS_UP)
    library = native.library()
    small = msgspec.structs.replace(params, n_seq_max=1, n_batch=_MAX_PREFILL, n_ubatch=_MAX_PREFILL)
    settings = context_settings(small, n_ctx=_N_CTX, type_k=pair[0], type_v=pair[1])
    settings.swa_full = False  # as the loader has it
    settings.abort_callback, settings.abort_callback_data = abort.callback, abort.data
    context = library.llama_init_from_model(model, settings)
    if not context:
        return _Rates(reason="llama.cpp makes no such cache for this model")
    try:
        return _rates(context, ends_at)
    finally:
        library.llama_free(context)


def _rates(context: Any, ends_at: float) -> _Rates:
    first_s = _step_s(context, 1)  # warms up, and tells how much can be measured
    if first_s is None:
        return _Rates(reason="a step failed")
    if time.perf_counter() >= ends_at:
        return _Rates(reason=_TIME_IS_UP)
    # A token of prefill takes no longer than one of decode.
    count = min(max(int(_PHASE_LIMIT_S / first_s), _MIN_PREFILL), _MAX_PREFILL)
    prefill_s = _step_s(context, count)
    if prefill_s is None:
        return _Rates(reason="a step failed")
    prefill = count / prefill_s
    steps: list[float] = []
    while len(steps) < _MIN_DECODE or (len(steps) < _MAX_DECODE and sum(steps) < _PHASE_LIMIT_S):
        if time.perf_counter() >= ends_at:
            break
        step_s = _step_s(context, 1)
        if step_s is None:
            return _Rates(prefill, reason="a step failed")
        steps.append(step_s)
    if len(steps) < _MIN_DECODE:
        return _Rates(prefill, reason=_TIME_IS_UP)
    return _Rates(prefill, 1 / statistics.median(steps))  # not the mean: other programs delay single steps


def _step_s(context: Any, count: int) -> float | None:
    """Return how long a step of some tokens took, None if it failed."""
    library = native.library()
    tokens = (library.llama_token * count)()  # which tokens they are makes no difference to the time
    for place in range(count):
        tokens[place] = place % 2
    began = time.perf_counter()
    if library.llama_decode(context, library.llama_batch_get_one(tokens, count)):
        return None
    _synchronize(context)
    return max(time.perf_counter() - began, 1e-9)


def _synchronize(context: Any) -> None:
    native.native_function("llama_synchronize", None, ctypes.c_void_p)(ctypes.cast(context, ctypes.c_void_p))
