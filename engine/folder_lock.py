"""Locks on files, for processes that share a folder; the system takes them back from a process that ends."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_RETRY_S = 0.01

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        """Lock an open file, for this process alone; False where another one has it."""
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock an open file, for this process alone; False where another one has it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


@contextlib.contextmanager
def folder_lock(path: Path, *, wait_s: float) -> Iterator[bool]:
    """Hold the lock on a file while the body runs; yields False where it could not be had in time.

    Args:
        path: made where it is not there, and left.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        ends_at, has_it = time.monotonic() + wait_s, try_lock(descriptor)
        while not has_it and time.monotonic() < ends_at:
            time.sleep(_RETRY_S)
            has_it = try_lock(descriptor)
        yield has_it
    finally:
        os.close(descriptor)


def delete_unless_locked(path: Path) -> None:
    """Delete what a process left that ended while it wrote."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            is_left = try_lock(descriptor)
        finally:
            os.close(descriptor)
        if is_left:
            path.unlink(missing_ok=True)
