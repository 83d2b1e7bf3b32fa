"""Which models of a comparison have no room here, reckoned from their headers before anything is loaded."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from app.bench import BenchDriver
from app.compare.results import Column
from app.compare.watched_file import FileFault
from app.memory_record import MemoryRecord
from app.paths import Paths
from app.room import room_of, wish_of
from engine import EngineClient, EngineDescription, EngineError
from models import Fit, ModelsError, Room, Verdict, fit, parts_of, read_gguf_info

_GIB = 1 << 30
_HINT = "Close other programs, or compare a smaller file or context."


class RoomCheck:
    """Looks at columns that are to be loaded together.

    Args:
        make_client: returns an engine that is not started; asked for graphics devices where memory alone is not enough.
    """

    def __init__(self, paths: Paths, make_client: Callable[[], EngineClient]) -> None:
        self._record = MemoryRecord.in_paths(paths)
        self._make_client = make_client
        self._engine: EngineDescription | None = None
        self._has_asked = False

    def __call__(self, columns: Sequence[Column]) -> dict[str, FileFault]:
        """Return why there is no room, by the id of the column; what cannot be reckoned is left to the engine."""
        lacking: dict[str, FileFault] = {}
        taken = 0
        for column in columns:
            found = self._fit(column, taken)
            if found is None or found.verdict is Verdict.UNKNOWN:
                continue
            if found.verdict is not Verdict.DOES_NOT_FIT:
                taken += found.needed_bytes
                continue
            beside = " beside the others" if taken else ""
            sizes = f"needs {found.needed_bytes / _GIB:.1f} GiB{beside}; {found.free_bytes / _GIB:.1f} GiB are free"
            lacking[column.id] = FileFault(f"{column.label} {sizes}.", _HINT)
        return lacking

    def _fit(self, column: Column, taken_bytes: int) -> Fit | None:
        if not column.fingerprint:  # of the engine without a model
            return None
        try:
            info = read_gguf_info(Path(column.path))
            parts = [read_gguf_info(path) for path in parts_of(info)[1:]]
            adapter_bytes = sum(Path(adapter.path).stat().st_size for adapter in column.adapters)
            wish = wish_of(column.params, adapter_bytes=adapter_bytes)
            found = fit(info, wish, self._room(taken_bytes), parts=parts)
            if found.verdict is Verdict.DOES_NOT_FIT and self._has_devices():
                found = fit(info, wish, self._room(taken_bytes), parts=parts)
        except (ModelsError, OSError):  # loading it says what is wrong
            return None
        return found

    def _room(self, taken_bytes: int) -> Room:
        room = room_of(self._engine, read_bandwidth={}, offset_bytes=self._record.offset_bytes())
        return dataclasses.replace(room, free_bytes=max(0, room.free_bytes - taken_bytes))

    def _has_devices(self) -> bool:
        """Ask an engine which devices there are, once."""
        if not self._has_asked:
            self._has_asked = True
            try:
                with BenchDriver(self._make_client()) as driver:
                    self._engine = driver.describe()
            except EngineError:
                return False
        return self._engine is not None and bool(self._engine.devices)
