"""The folders that a user had added to the library, kept in a small file of their own."""

import contextlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from models.errors import LibraryError
from models.gguf_info import printable
from models.library_entry import ScanProblem
from models.library_index import is_text, write_whole

_LOG = logging.getLogger(__name__)
_MAX_FILE_BYTES = 1 << 20


class UserFolders:
    """The list of folders; a damaged file is set aside when the next one is written.

    Attributes:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def list(self) -> tuple[Path, ...]:
        """Return the folders, in the order in which they were added; none where the file cannot be read."""
        try:
            return self._read()
        except (OSError, ValueError) as error:  # msgspec's own errors are ValueErrors
            _LOG.info("the list of the user's folders of models cannot be read: %s", error)
            return ()

    def problem(self) -> ScanProblem | None:
        """Return why the list cannot be used, None where it can."""
        try:
            self._read()
        except (OSError, ValueError):
            message = "The list of your folders of models is damaged, and is not used."
            hint = "Add the folders again."
            return ScanProblem(path=self.path, message=message, hint=hint)
        return None

    def add(self, folder: Path) -> None:
        """Add a folder, unless it is on the list.

        Raises:
            LibraryError: there is no such folder, or it cannot be remembered.
        """
        name = printable(str(folder))
        try:
            folder = folder.expanduser().absolute()
            is_folder = folder.is_dir()
        except (OSError, ValueError, RuntimeError):
            is_folder = False
        if not is_folder:
            raise LibraryError(f"There is no folder {name}.", "Give the path of a folder that holds .gguf files.")
        if not is_text(folder):
            raise LibraryError(f"The name of {name} holds characters that are no text.", "Rename the folder.")
        folders = self.list()
        if folder not in folders:
            self._write((*folders, folder))

    def remove(self, folder: Path) -> None:
        """Take a folder off the list.

        Raises:
            LibraryError: it is not on it, or that cannot be remembered.
        """
        folders = self.list()
        folder = folder.expanduser().absolute()
        if folder not in folders:
            raise LibraryError(f"{printable(str(folder))} is none of the folders that were added.", "")
        self._write([kept for kept in folders if kept != folder])

    def _read(self) -> tuple[Path, ...]:
        try:
            if self.path.stat().st_size > _MAX_FILE_BYTES:
                raise ValueError("it is too large")
            folders = tuple(map(Path, msgspec.json.decode(self.path.read_bytes(), type=list[str])))
        except FileNotFoundError:
            return ()
        if not all(folder.is_absolute() and "\0" not in str(folder) for folder in folders):
            raise ValueError("it names what is no folder")
        return folders

    def _write(self, folders: Sequence[Path]) -> None:
        if self.problem() is not None:
            with contextlib.suppress(OSError):
                self.path.replace(self.path.with_name(self.path.name + ".damaged"))
        try:
            write_whole(self.path, msgspec.json.encode([os.fspath(folder) for folder in folders]))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise LibraryError(f"The list of folders cannot be kept: {reason}.", "Look at the free space.") from error
