"""Whether the file of a model is still the one a comparison began with."""

from pathlib import Path
from typing import NamedTuple

from app.compare.results import Column
from models import ModelsError, fingerprint, read_gguf_info

_CHUNK_BYTES = 1 << 22
_MOST_OF_MEMORY = 0.5  # a file that takes more would push out of memory what it has just brought in


class FileFault(NamedTuple):
    """Why a file cannot be used any more: one sentence, and what to do."""

    message: str
    hint: str


class WatchedFile:
    """The file of one column.

    Args:
        column: without a fingerprint, as of the engine without a model, nothing is watched.
    """

    def __init__(self, column: Column) -> None:
        self._path = Path(column.path)
        self._label = column.label
        self._fingerprint = column.fingerprint
        self._signature: tuple[int, ...] | None = None
        self._is_read = False

    def fault(self) -> FileFault | None:
        """Return what has happened to it; None where it is still the same model."""
        if not self._fingerprint:
            return None
        hint = "Put the file back, and compare again."
        try:
            signature = self._sign()
            if signature == self._signature:
                return None
            is_same = fingerprint(read_gguf_info(self._path)) == self._fingerprint
        except FileNotFoundError:
            return FileFault(f"The file of {self._label} was removed during the run.", hint)
        except OSError as error:
            reason = error.strerror or str(error)
            return FileFault(f"The file of {self._label} cannot be read any more: {reason}.", hint)
        except ModelsError:
            is_same = False
        if not is_same:
            return FileFault(f"The file of {self._label} was replaced during the run: it is another one now.", hint)
        self._signature = signature
        return None

    def read_through(self) -> None:
        """Read it once, so that the system's cache has it: else the first load would be timed with the disk in it."""
        import psutil

        if self._is_read or not self._fingerprint:
            return
        self._is_read = True
        try:
            if self._path.stat().st_size > _MOST_OF_MEMORY * psutil.virtual_memory().available:
                return
            with self._path.open("rb", buffering=0) as file:
                while file.read(_CHUNK_BYTES):
                    pass
        except OSError:
            return  # loading it will say what is wrong

    def _sign(self) -> tuple[int, ...]:
        status = self._path.stat()
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
