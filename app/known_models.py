"""Which model files were loaded before, unchanged and with which settings: those need not be tried out first."""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import tempfile
from pathlib import Path

import msgspec

from app.paths import Paths
from engine import ModelParams

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
        """Return whether this file, as it is now, was loaded with these settings."""
        key = _key(model, params)
        return key is not None and key in self._read()

    def add(self, model: str, params: ModelParams) -> None:
        """Remember a file that was loaded; one that cannot be looked at, or a full disk, is passed over."""
        key = _key(model, params)
        if key is None:
            return
        before = self._read()
        if key in before:
            return
        text = json.dumps([*before, key][-_MAX_ENTRIES:], indent=0)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(name, self.path)  # noqa: PTH105 (mkstemp gives a text)
            except OSError:
                with contextlib.suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            _LOG.info("loaded models are not remembered: %s", error)

    def _read(self) -> list[str]:
        try:
            if self.path.stat().st_size > _MAX_FILE_BYTES:
                return []
            entries = json.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return []
        return [entry for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []


def _key(model: str, params: ModelParams) -> str | None:
    """Return what stands for a file and settings, None where there is no such file."""
    try:
        path = Path(model).resolve()
        status = path.stat()
    except (OSError, ValueError):
        return None
    # The number of threads changes nothing about what the file makes llama.cpp do.
    matters = msgspec.json.encode(msgspec.structs.replace(params, n_threads=0))
    parts = (os.fsencode(path), b"%d %d" % (status.st_size, status.st_mtime_ns), matters)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
