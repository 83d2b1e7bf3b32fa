"""Writing a file so that a reader sees the old one or the new one, whole, even after a power cut."""

import contextlib
import os
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Put `data` in the place of a file; a link to a file kept elsewhere stays a link.

    Args:
        mode: the rights of the new file, less those that the user's mask takes away.

    Raises:
        OSError: it could not be written; the old file is untouched.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".fireside-{os.urandom(8).hex()}")  # as long as the name may be, this one fits
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    with contextlib.suppress(OSError):  # the file is whole and in its place; not all file systems can do more
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder reach the disk."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
