"""The files in a folder of the prompt cache, as its disk threads see them: prepared, listed, deleted, made safe."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from engine.folder_key import folder_key
from engine.folder_lock import delete_unless_locked, folder_lock, try_lock

PART_SUFFIX = ".part"
_LOCK_NAME = "lock"
_LOCK_WAIT_S = 2.0
# A change within one tick of the file system's clock leaves the time of change as it is.
_SETTLED_S = 0.1


class FolderFiles:
    """The files of one kind in a folder.

    Args:
        path: made by `prepare()` where it is not there.
        suffix: of their names.
    """

    def __init__(self, path: Path, suffix: str) -> None:
        self.path = path
        self._suffix = suffix
        self._seen_at: int | None = None

    def prepare(self) -> bytes:
        """Make the folder, delete what killed processes have left half written, and return the folder's key.

        Raises:
            OSError: it cannot be used.
            ValueError: its name is none.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.locked():
            for part in self.path.glob(f"*{PART_SUFFIX}"):
                delete_unless_locked(part)
            return folder_key(self.path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from changing the folder while the body runs; not for ever where one of them hangs."""
        with folder_lock(self.path / _LOCK_NAME, wait_s=_LOCK_WAIT_S):
            yield

    def paths(self) -> list[Path]:
        """Return the files there are, none where the folder cannot be read."""
        try:
            return sorted(self.path.glob(f"*{self._suffix}"))
        except (OSError, ValueError):
            return []

    def has_changed(self) -> bool:
        """Whether files may have come or gone since the last call; asks for one time only."""
        try:
            changed_at = self.path.stat().st_mtime_ns
        except (OSError, ValueError):
            return False
        was_seen, self._seen_at = changed_at == self._seen_at, changed_at
        if abs(time.time() - changed_at / 1e9) < _SETTLED_S:
            self._seen_at = None
        return not was_seen

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; what cannot be deleted stays."""
        for name in names:
            with contextlib.suppress(OSError, ValueError):
                (self.path / name).unlink(missing_ok=True)

    def sync(self) -> None:
        """Make names that were given, taken or changed safe."""
        if os.name == "posix":
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def new_file(path: Path) -> BinaryIO:
    """Open a file that is not there yet, for this user and this process alone."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    try_lock(file.fileno())
    return file


def sync(file: BinaryIO) -> None:
    """Make what was written to a file safe."""
    file.flush()
    os.fsync(file.fileno())
