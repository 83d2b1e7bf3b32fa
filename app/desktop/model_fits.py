"""Whether models fit the memory that is free at this moment, loaded as the user loads them."""

from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.itemmodels.model_rows import Fit, FitFigures
from app.desktop.library_shelf import MeasureFit
from app.desktop.session.user_settings import UserSettings
from app.memory_record import MemoryRecord
from app.room import room_of, wish_of
from engine import ModelParams
from models import GGUFInfo, Room, Verdict, fit

_FITS = {
    Verdict.FITS: Fit.FITS,
    Verdict.TIGHT: Fit.TIGHT,
    Verdict.DOES_NOT_FIT: Fit.TOO_LARGE,
    Verdict.UNKNOWN: Fit.UNKNOWN,
}


def look_at_memory(record: MemoryRecord, user: UserSettings, bridge: EngineBridge) -> MeasureFit:
    """Look at what is free now, counting what the loaded model gives back, and return what tells who fits in there."""
    room = room_beside(bridge, read_bandwidth=user.now.read_bandwidth, offset_bytes=record.offset_bytes())
    return lambda infos: fit_figures(infos, user.load_params(str(infos[0].path)), room)


def room_beside(bridge: EngineBridge, *, read_bandwidth: Mapping[str, Any], offset_bytes: int = 0) -> Room:
    """Return what is free now, and what the loaded model gives back."""
    return room_of(
        bridge.engine,
        read_bandwidth=read_bandwidth,
        offset_bytes=offset_bytes,
        released_bytes=_released_bytes(bridge.worker_pid),
    )


def fit_figures(infos: Sequence[GGUFInfo], params: ModelParams, room: Room) -> FitFigures:
    """Return what a model needs when it is loaded in a certain way.

    Args:
        infos: of its files, the first one first.
    """
    found = fit(infos[0], wish_of(params), room, parts=infos[1:])
    is_separate = not room.is_unified  # else the graphics device takes of the same memory
    return FitFigures(
        fit=_FITS[found.verdict],
        needed_bytes=found.needed_bytes + is_separate * found.device_needed_bytes,
        free_bytes=found.free_bytes + is_separate * found.device_free_bytes,
        max_ctx=found.largest_n_ctx or 0,
        tokens_per_s=found.decode_rate,
    )


def _released_bytes(pid: int | None) -> int:
    """Return what the loaded model gives back; files that are mapped into memory count as free already."""
    if pid is None:
        return 0
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:  # it has just ended
        return 0
    return max(0, int(memory.rss) - int(getattr(memory, "shared", 0)))
