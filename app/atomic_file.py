"""Writing a file so that a reader sees the old one or the new one, whole, even after a power cut."""

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(target: Path, data: bytes) -> None:
    """Put `data` in the place of a file.

    Raises:
        OSError: it could not be written; the old file is untouched.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if os.name == "posix":  # the new name itself must reach the disk
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
