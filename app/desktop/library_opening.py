"""Opening the shelf of this user: the library of the data folder, and an engine that computes importance matrices."""

from collections.abc import Callable
from pathlib import Path

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.library_shelf import LibraryShelf
from app.desktop.model_fits import look_at_memory
from app.desktop.model_records import times_of_use
from app.desktop.session.user_settings import UserSettings
from app.importance_building import build_importance
from app.memory_record import MemoryRecord
from app.model_library import open_library
from app.paths import Paths
from engine import EngineClient


def open_shelf(
    paths: Paths, user: UserSettings, bridge: EngineBridge, new_client: Callable[[], EngineClient]
) -> LibraryShelf:
    """Return the shelf; nothing is looked at before it is asked.

    Args:
        new_client: makes an engine of its own, not started, for importance matrices.
    """
    record = MemoryRecord.in_paths(paths)

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
        look_at_memory=lambda: look_at_memory(record, user, bridge),
        used_at=lambda: times_of_use(user),
        build_matrix=build_matrix,
    )
