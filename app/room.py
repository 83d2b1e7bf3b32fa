"""What this machine has for a model right now, and how it would be loaded, for the reckoning of models.fit()."""

import math
import sys
from collections.abc import Mapping
from typing import Any

from app.speculation import draft_params
from engine import EngineDescription, FlashAttention, ModelParams, free_memory
from models import CacheSettings, GGUFInfo, Room, Wish, repacked_types

_GRAPHICS = ("gpu", "integrated gpu")


def room_of(
    engine: EngineDescription | None,
    *,
    read_bandwidth: Mapping[str, Any],
    offset_bytes: int = 0,
    released_bytes: int = 0,
    wants_graphics: bool = True,
) -> Room:
    """Return the room there is at this moment.

    Args:
        engine: tells the devices; None knows of none.
        read_bandwidth: as the settings have it, by the number of threads.
        offset_bytes: what the record of loads has learned.
        released_bytes: what is given back by models that are unloaded first.
        wants_graphics: whether graphics devices may be used.
    """
    graphics = [] if engine is None or not wants_graphics else list(engine.devices)
    kinds = {device.kind for device in graphics}
    kind = next((name for name in _GRAPHICS if name in kinds), "")
    chosen = [device for device in graphics if device.kind == kind]
    return Room(
        free_bytes=free_memory().resident_bytes,
        released_bytes=released_bytes,
        device_free_bytes=tuple(device.free_bytes or 0 for device in chosen),
        # What such a device has is the machine's own memory, and must not be counted twice.
        is_unified=bool(chosen) and (kind == "integrated gpu" or sys.platform == "darwin"),
        offset_bytes=offset_bytes,
        read_bandwidth=bandwidth_of(read_bandwidth, engine.default_threads if engine is not None else None),
        repacked_types=repacked_types(engine.features if engine is not None else ""),
    )


def wish_of(
    params: ModelParams,
    *,
    draft: GGUFInfo | None = None,
    draft_gpu_layers: int | None = None,
    adapter_bytes: int = 0,
) -> Wish:
    """Return how a model would be loaded.

    Args:
        draft: a second model that proposes tokens.
        draft_gpu_layers: of that model, where it has a place of its own.
        adapter_bytes: of all adapters.
    """
    cache = CacheSettings(
        type_k=params.type_k,
        type_v=params.type_v,
        n_seq_max=params.n_seq_max,
        n_batch=params.n_batch,
        n_ubatch=params.n_ubatch,
        has_flash=params.flash_attn is not FlashAttention.OFF,
    )
    return Wish(
        n_ctx=params.n_ctx,
        cache=cache,
        n_gpu_layers=_layers_of(params),
        experts_on_cpu=params.experts_on_cpu,
        draft=draft,
        draft_gpu_layers=_layers_of(draft_params(params, draft_gpu_layers)),
        adapter_bytes=adapter_bytes,
    )


def bandwidth_of(measured: Mapping[str, Any], n_threads: int | None) -> float:
    """Return the bandwidth that was measured with so many threads, else the best; 0 where none was."""
    sound = {key: float(value) for key, value in measured.items() if _is_sound(value)}
    return sound.get(str(n_threads), max(sound.values(), default=0.0))


def _layers_of(params: ModelParams) -> int | None:
    return 0 if params.device.upper() == "CPU" else params.n_gpu_layers


def _is_sound(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
