"""The library: all models on this machine, found in place, kept in an index, and removed to a trash if they are ours."""

from collections.abc import Callable, Sequence
from pathlib import Path

from models.library_entry import LibraryEntry, LibraryScan, RemovedModel, ScanProgress
from models.scan_roots import ScanRoot


class Library:
    """The models on this machine.

    Its methods may be called from any thread; a scan takes a while, so a window calls it from a thread of its own.

    Args:
        models_dir: our own folder; the only one in which files are ever removed.
        state_dir: where the index and the list of the user's folders are kept.
        roots: what is scanned beside the user's folders; see `find_roots`.
    """

    def __init__(self, *, models_dir: Path, state_dir: Path, roots: Sequence[ScanRoot]) -> None:
        raise NotImplementedError

    def entries(self) -> tuple[LibraryEntry, ...]:
        """Return what the last scan found, in this process or before it; looks at no model file."""
        raise NotImplementedError

    def scan(
        self,
        on_progress: Callable[[ScanProgress], None] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> LibraryScan:
        """Look through all folders, and read what is new or has changed; never raises for what it finds there."""
        raise NotImplementedError

    def roots(self) -> tuple[ScanRoot, ...]:
        """Return all folders that are scanned, those of the user last."""
        raise NotImplementedError

    def user_folders(self) -> tuple[Path, ...]:
        """Return the folders that the user added."""
        raise NotImplementedError

    def add_root(self, folder: Path) -> None:
        """Have a folder of the user scanned from the next scan on, at any depth.

        Raises:
            LibraryError: there is no such folder, or it cannot be remembered.
        """
        raise NotImplementedError

    def remove_root(self, folder: Path) -> None:
        """Scan a folder of the user no more; nothing in it is touched.

        Raises:
            LibraryError: it is none of those, or it cannot be remembered.
        """
        raise NotImplementedError

    def remove(self, entry: LibraryEntry) -> RemovedModel:
        """Put the files of a model into the trash.

        Raises:
            NotRemovable: it is another program's, and the message says whose.
            EntryInUse: the system does not let go of a file.
            LibraryError: a file cannot be moved.
        """
        raise NotImplementedError

    def removed(self) -> tuple[RemovedModel, ...]:
        """Return what is in the trash, the latest first."""
        raise NotImplementedError

    def undo(self, removed: RemovedModel) -> None:
        """Put a removed model back where it was.

        Raises:
            LibraryError: it is no longer in the trash, or another file is in its place.
        """
        raise NotImplementedError

    def empty_trash(self, *, before: float | None = None) -> int:
        """Delete what is in the trash for good, and return the bytes that became free.

        Args:
            before: keeps what was removed later; seconds since 1970.
        """
        raise NotImplementedError
