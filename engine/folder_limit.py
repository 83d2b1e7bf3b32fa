"""How much a folder of the prompt cache may hold, and why it does not take something more."""

import contextlib
import errno
import shutil
from pathlib import Path

from engine.errors import CacheNotWritten

_MOST_BYTES, _DISK_SHARE = 8 << 30, 0.05  # unless a limit was set
_SPARE_BYTES = 64 << 20  # left free whatever the limit
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


class FolderLimit:
    """The limit of one folder.

    Args:
        max_bytes: of all files together; None takes 8 GiB, or 5 % of the free disk where that is less.
    """

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self._path = path
        self.max_bytes = max_bytes
        self._last_bytes = 0

    @property
    def seen_bytes(self) -> int:
        """Bytes that all files may take, as the disk said last; asks no disk."""
        return self._last_bytes if self.max_bytes is None else self.max_bytes

    def ask(self, num_own_bytes: int) -> int:
        """Return the bytes that all files may take now.

        Args:
            num_own_bytes: that they take already.
        """
        if self.max_bytes is not None:
            return self.max_bytes
        with contextlib.suppress(OSError, ValueError):
            available = shutil.disk_usage(self._path).free + num_own_bytes
            self._last_bytes = min(_MOST_BYTES, int(available * _DISK_SHARE))
        return self._last_bytes

    def takes(self, num_bytes: int, num_own_bytes: int) -> bool:
        """Whether so many bytes more can be written; False where they are beyond a limit that somebody has set.

        Raises:
            CacheNotWritten: there is too little free space.
            OSError: the disk cannot be asked.
        """
        if num_bytes > self.ask(num_own_bytes):
            if self.max_bytes is None:
                raise _no_space()
            return False
        if shutil.disk_usage(self._path).free <= num_bytes + _SPARE_BYTES:
            raise _no_space()
        return True


def refusal_of(error: OSError | ValueError, path: Path) -> CacheNotWritten:
    """Return what to tell a person of a folder that could not be written."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return _no_space(str(error))
    return CacheNotWritten(
        "What was read of chats could not be kept on disk: its folder cannot be written.",
        f"Make {path} a folder that you can write to; until then each start reads long chats again.",
        str(error),
    )


def _no_space(details: str = "") -> CacheNotWritten:
    return CacheNotWritten(
        "What was read of chats could not be kept on disk: there is too little free space.",
        "Free some space; until then each start reads long chats again.",
        details,
    )
