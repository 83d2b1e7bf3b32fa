"""What a load will take, before it is taken: tries the file, chooses what fits, and says in numbers what does not."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.backend_llama import devices, probing
from engine.backend_llama import library as native
from engine.backend_llama.probing import Budget, ContextSize, ProbeRequest, ProbeResult
from engine.errors import OutOfMemory, UnsupportedModel
from engine.free_memory import FreeMemory, free_memory
from engine.params import ModelParams
from engine.probe_child import TIME_LIMIT_S, Death, NoChild, try_file

_LOG = logging.getLogger(__name__)
_GIB, _MIB = 1 << 30, 1 << 20
_DAMAGED = "The file may be damaged, or of a kind this version does not know."


class LoadPlan(NamedTuple):
    """How a model is going to be loaded.

    Attributes:
        params: what was asked for, but for what has no effect here.
        kv_bytes_per_token: see ModelDescription; 0 where no cache grows.
        size: what the context will take; None where llama.cpp plans none, for example of a file that cannot chat.
        repacks: whether weights may be copied into a layout that computes faster.
        notices: what a person should know about these choices.
    """

    params: ModelParams
    n_ctx: int
    type_k: str
    type_v: str
    size: ContextSize | None
    placement: devices.Placement
    repacks: bool
    notices: tuple[str, ...]
    kv_bytes_per_token: int = 0


def plan_load(
    path: str,
    params: ModelParams,
    is_wanted: Callable[[], bool],
    *,
    is_known: bool,
    time_limit_s: float = TIME_LIMIT_S,
) -> LoadPlan | None:
    """Return how to load a file, or None where it was given up meanwhile.

    Args:
        is_known: whether the file was loaded before with these settings; any other is tried in a child process first.
        time_limit_s: of that child.

    Raises:
        InvalidParams: there is no such device.
        UnsupportedModel: llama.cpp cannot load the file, or dies of it.
        OutOfMemory: the context that was asked for does not fit.
    """
    found = native.devices()
    graphics = devices.find_devices(params.device, found)
    notices: tuple[str, ...] = ()
    if params.experts_on_cpu and not graphics:
        params = msgspec.structs.replace(params, experts_on_cpu=0)
        notices = ("Keeping experts on the CPU has no effect: there is no graphics device to keep them from.",)
    free = free_memory()
    request = ProbeRequest(
        path=path,
        params=params,
        budget=_budget(free, params, [found[i].free_bytes for i in graphics]),
        has_graphics=bool(graphics),
    )
    result = probing.probe(request) if is_known else try_file(request, is_wanted, time_limit_s)
    if result is None:
        return None
    if isinstance(result, NoChild):
        _LOG.warning("the model is loaded without a trial: its process could not be started (%s)", result.cause)
        result = probing.probe(request)
    if isinstance(result, Death):
        name = Path(path).name
        raise UnsupportedModel(
            f"{name} ended the process that tried it ({result.cause})."
            if result.cause
            else f"llama.cpp could not read {name} within {time_limit_s:.0f} seconds.",
            _DAMAGED,
            "\n".join(result.last_words),
        )
    if result.error:
        text = f"llama.cpp cannot load {Path(path).name}: {result.error}"
        raise UnsupportedModel(text, _DAMAGED, "\n".join(result.error_lines))
    return make_plan(result, request, free, notices)


def _budget(free: FreeMemory, params: ModelParams, device_bytes: list[int | None]) -> Budget:
    on_devices = 0
    if params.n_gpu_layers != 0:
        on_devices = sum(max((size or 0) - devices.MARGIN_BYTES, 0) for size in device_bytes)
    return Budget(resident_bytes=free.resident_bytes + on_devices, address_bytes=free.address_bytes)


def make_plan(result: ProbeResult, request: ProbeRequest, free: FreeMemory, notices: tuple[str, ...] = ()) -> LoadPlan:
    """Return how to load a file that a probe has looked at.

    Raises:
        OutOfMemory: the context that was asked for does not fit.
    """
    params, budget = request.params, request.budget
    size = _choose_size(result, params, budget, free)
    n_ctx = size.n_ctx if size else params.n_ctx or probing.MIN_CTX
    placement = devices.place(
        params, _layer_bytes(result, params, size), compute_bytes=size.compute_bytes if size else 0
    )
    is_short = result.weight_bytes + (size.total_bytes if size else 0) > budget.resident_bytes
    if size is not None:
        notices += _ctx_notices(result, size, params)
        if result.types_reason:
            notices += (
                f"The cache is kept as f16: keys as {params.type_k} with values as {params.type_v} cannot be used "
                f"({result.types_reason}).",
            )
    if is_short:
        notices += (
            f"The weights ({size_text(result.weight_bytes)}) are more than the free memory "
            f"({size_text(free.resident_bytes)}): parts are read from disk again and again, which is slow.",
        )
    return LoadPlan(
        params=params,
        n_ctx=n_ctx,
        type_k=size.type_k if size else "f16",
        type_v=size.type_v if size else "f16",
        size=size,
        placement=placement,
        repacks=not is_short,
        notices=notices + placement.notices,
        kv_bytes_per_token=result.kv_bytes_per_token,
    )


def _layer_bytes(result: ProbeResult, params: ModelParams, size: ContextSize | None) -> list[int]:
    cache_bytes = size.cache_bytes if size else 0
    if not result.layer_bytes:  # nothing is known of single tensors
        return [(result.weight_bytes + cache_bytes) // (result.n_layer + 1)] * (result.n_layer + 1)
    return devices.layer_bytes_on_device(result.layer_bytes, result.expert_bytes, cache_bytes, params.experts_on_cpu)


def _choose_size(result: ProbeResult, params: ModelParams, budget: Budget, free: FreeMemory) -> ContextSize | None:
    if not result.sizes:
        return None
    fitting = next((size for size in result.sizes if probing.fits(size, result.weight_bytes, params, budget)), None)
    if fitting is result.sizes[0] or (fitting is not None and not params.n_ctx):
        return fitting
    asked = result.sizes[0]
    is_by_address = free.address_bytes is not None and free.address_bytes <= free.resident_bytes
    extra = result.weight_bytes if is_by_address or not probing.is_mapped(params) else 0
    what = f"A context of {asked.n_ctx:,} tokens{' with the weights' if extra else ''}"
    raise OutOfMemory(
        f"{what} needs {size_text(asked.total_bytes + extra)}; {size_text(budget.resident_bytes)} are free.",
        _ways_out(result, fitting, params, budget),
    )


def _ways_out(result: ProbeResult, fitting: ContextSize | None, params: ModelParams, budget: Budget) -> str:
    ways = []
    if fitting is not None:
        ways.append(f"a context of {fitting.n_ctx:,} tokens ({size_text(fitting.total_bytes)})")
    saving = result.saving
    if saving is not None and probing.fits(saving, result.weight_bytes, params, budget):
        ways.append(f"a {saving.type_k} cache ({size_text(saving.total_bytes)})")
    if not ways:
        return "Close other programs, or choose a smaller model."
    return f"Try {', or '.join(ways)}."


def _ctx_notices(result: ProbeResult, size: ContextSize, params: ModelParams) -> tuple[str, ...]:
    if params.n_ctx > result.n_ctx_train > 0:
        return (
            f"The context of {params.n_ctx:,} tokens is longer than the {result.n_ctx_train:,} "
            "the model was trained for.",
        )
    if not params.n_ctx and size is not result.sizes[0]:
        return (f"The context is {size.n_ctx:,} tokens, because little memory is free.",)
    return ()


def size_text(num_bytes: int) -> str:
    """Return a size as a person reads it."""
    if num_bytes < _GIB // 10:
        return f"{num_bytes / _MIB:.0f} MiB"
    return f"{num_bytes / _GIB:.1f} GiB"
