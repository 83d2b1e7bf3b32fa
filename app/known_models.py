"""Which model files were loaded before, unchanged and with which settings: those need not be tried out first."""

import dataclasses
import logging
import os
from pathlib import Path

import msgspec

from app.atomic_file import write_atomically
from app.paths import Paths
from engine import ModelParams

# What takes long to import is imported where they are used: the first paint of the window does not wait for them.
_LOG = logging.getLogger(__name__)
_FILE_NAME = "known-models.json"
_MAX_ENTRIES = 200
_MAX_FILE_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class KnownModels:
    """The record, kept in a small file; losing it costs a trial for each model and nothing else.

    Attributes:
        path: of the file.
    """

    path: Path

    @classmethod
    def in_paths(cls, paths: Paths) -> "KnownModels":
        """Return the record of this user."""
        return cls(paths.data_dir / _FILE_NAME)

    def has(self, model: str, params: ModelParams) -> bool:
        """Return whether this file, as it is now, was loaded with these settings by the same llama.cpp."""
        key = _key(model, params)
        return key is not None and key in self._read()

    def add(self, model: str, params: ModelParams) -> None:
        """Remember a file that was loaded; one that cannot be looked at, or a full disk, is passed over."""
        key = _key(model, params)
        if key is None:
            return
        before = self._read()
        if key not in before:
            self._write([*before, key][-_MAX_ENTRIES:])

    def forget(self, model: str, params: ModelParams) -> None:
        """Have a file tried again before its next load; for one that the engine died of after all."""
        before = self._read()
        key = _key(model, params)
        if key in before:
            self._write([entry for entry in before if entry != key])

    def _write(self, entries: list[str]) -> None:
        import json

        text = json.dumps(entries, indent=0)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self.path, text.encode())
        except OSError as error:
            _LOG.info("loaded models are not remembered: %s", error)

    def _read(self) -> list[str]:
        import json

        try:
            if self.path.stat().st_size > _MAX_FILE_BYTES:
                return []
            entries = json.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return []
        return [entry for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []


def _key(model: str, params: ModelParams) -> str | None:
    """Return what stands for a file and settings, None where there is no such file."""
    import hashlib

    try:
        path = Path(model).resolve()
        status = path.stat()
    except (OSError, ValueError):
        return None
    # The number of threads changes nothing about what the file makes llama.cpp do.
    matters = msgspec.json.encode(msgspec.structs.replace(params, n_threads=0))
    parts = (os.fsencode(path), b"%d %d" % (status.st_size, status.st_mtime_ns), matters, _engine_version().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _engine_version() -> str:
    """Return the version of what reads the files: another one may stumble over what this one took."""
    import importlib.metadata

    try:
        return importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError:
        return ""
