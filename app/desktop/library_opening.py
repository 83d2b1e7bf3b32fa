"""Opening the shelf of this user: the library of the data folder, the room there is now, and an engine for matrices."""

from collections.abc import Callable
from pathlib import Path

import psutil

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.library_shelf import LibraryShelf
from app.desktop.session.user_settings import UserSettings
from app.importance_building import build_importance
from app.memory_record import MemoryRecord
from app.model_library import open_library
from app.paths import Paths
from app.room import room_of
from engine import EngineClient
from models import Room


def open_shelf(
    paths: Paths, user: UserSettings, bridge: EngineBridge, new_client: Callable[[], EngineClient]
) -> LibraryShelf:
    """Return the shelf; nothing is looked at before it is asked.

    Args:
        new_client: makes an engine of its own, not started, for importance matrices.
    """
    record = MemoryRecord.in_paths(paths)

    def room() -> Room:
        return room_of(
            bridge.engine,
            read_bandwidth=user.now.read_bandwidth,
            offset_bytes=record.offset_bytes(),
            released_bytes=_released_bytes(bridge.worker_pid),
        )

    def build_matrix(
        model: Path,
        output: Path,
        text_path: Path | None,
        *,
        report: Callable[[float], None],
        is_cancelled: Callable[[], bool],
    ) -> bool:
        text = "" if text_path is None else text_path.read_text("utf-8", errors="replace")
        name = "bundled" if text_path is None else text_path.name
        return build_importance(
            new_client(), model, output, text, text_name=name, report=report, is_cancelled=is_cancelled
        )

    return LibraryShelf(
        open_library(paths),
        models_dir=paths.models_dir,
        room=room,
        used_at=lambda: user.now.models_used,
        build_matrix=build_matrix,
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
