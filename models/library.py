"""The library: all models on this machine, found in place, kept in an index, and removed to a trash if ours."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from models.errors import NotGGUF
from models.file_walk import FileWalk, FoundFile
from models.fingerprint import file_fingerprint
from models.grouping import make_entries
from models.library_entry import LibraryEntry, LibraryScan, RemovedModel, ScanProblem, ScanProgress
from models.library_index import (
    FileRecord,
    LibraryIndex,
    file_key,
    id_of,
    is_text,
    read_record,
)
from models.removal import ModelTrash
from models.scan_roots import ScanRoot
from models.user_folders import UserFolders

_INDEX_NAME = "library-index.json"
_FOLDERS_NAME = "library-folders.json"


class Library:
    """The models on this machine.

    Its methods may be called from any thread; a scan takes a while, so a window calls it from a thread of its own.

    Args:
        models_dir: our own folder; the only one in which files are ever removed.
        state_dir: where the index and the list of the user's folders are kept.
        roots: what is scanned beside the user's folders; see `find_roots`.
    """

    def __init__(self, *, models_dir: Path, state_dir: Path, roots: Sequence[ScanRoot]) -> None:
        self._trash = ModelTrash(models_dir)
        self._index = LibraryIndex(state_dir / _INDEX_NAME)
        self._folders = UserFolders(state_dir / _FOLDERS_NAME)
        self._fixed_roots = tuple(roots)
        self._lock = threading.RLock()  # held by a scan, and by whatever changes files
        self._records: tuple[FileRecord, ...] | None = None
        self._entries: tuple[LibraryEntry, ...] | None = None

    def entries(self) -> tuple[LibraryEntry, ...]:
        """Return what the last scan found, in this process or before it; looks at no model file."""
        entries = self._entries
        if entries is not None:  # also while a scan runs
            return entries
        with self._lock:
            if self._entries is None:
                self._entries = make_entries(self._known(), lambda record: record.fingerprint)
            return self._entries

    def scan(
        self,
        on_progress: Callable[[ScanProgress], None] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> LibraryScan:
        """Look through all folders, and read what is new or has changed; never raises for what it finds there."""
        started_at = time.perf_counter()
        with self._lock:
            self.entries()  # from now on they are there for whoever asks meanwhile
            scan = _Scan(self._known(), on_progress, is_cancelled)
            folders = self.user_folders()
            is_complete = scan.run((*self._fixed_roots, *_user_roots(folders)), folders)
            records = scan.records()
            entries = make_entries(records, scan.content_of)
            records = scan.with_fingerprints(records)
            if records != self._records:
                self._index.save(records)
            self._records, self._entries = records, entries
        damage = self._folders.problem()
        return LibraryScan(
            entries=entries,
            problems=(*([damage] if damage else []), *scan.problems),
            num_files=scan.num_files,
            num_read=scan.num_read,
            seconds=time.perf_counter() - started_at,
            is_complete=is_complete,
        )

    def _known(self) -> tuple[FileRecord, ...]:
        if self._records is None:
            self._records = self._index.load()
        return self._records

    # --- folders ---

    def roots(self) -> tuple[ScanRoot, ...]:
        """Return all folders that are scanned, those of the user last."""
        return (*self._fixed_roots, *_user_roots(self.user_folders()))

    def user_folders(self) -> tuple[Path, ...]:
        """Return the folders that the user added."""
        return self._folders.list()

    def add_root(self, folder: Path) -> None:
        """Have a folder of the user scanned from the next scan on, at any depth.

        Raises:
            LibraryError: there is no such folder, or it cannot be remembered.
        """
        with self._lock:
            self._folders.add(folder)

    def remove_root(self, folder: Path) -> None:
        """Scan a folder of the user no more; nothing in it is touched.

        Raises:
            LibraryError: it is none of those, or that cannot be remembered.
        """
        with self._lock:
            self._folders.remove(folder)

    # --- removal ---

    def remove(self, entry: LibraryEntry) -> RemovedModel:
        """Put the files of a model into the trash.

        Raises:
            NotRemovable: it is another program's, and the message says whose.
            EntryInUse: the system does not let go of a file.
            LibraryError: a file cannot be moved.
        """
        with self._lock:
            removed = self._trash.put(entry)
            gone = {os.fspath(path) for path in entry.paths}
            self._records = tuple(record for record in self._known() if record.path not in gone)
            self._entries = make_entries(self._records, lambda record: record.fingerprint)
            self._index.save(self._records)
            return removed

    def removed(self) -> tuple[RemovedModel, ...]:
        """Return what is in the trash, the latest first."""
        return self._trash.list()

    def undo(self, removed: RemovedModel) -> None:
        """Put a removed model back where it was; the next scan finds it.

        Raises:
            LibraryError: it is no longer in the trash, or another file is in its place.
        """
        with self._lock:
            self._trash.take_back(removed)

    def empty_trash(self, *, before: float | None = None) -> int:
        """Delete what is in the trash for good, and return the bytes that became free.

        Args:
            before: keeps what was removed later; seconds since 1970.
        """
        with self._lock:
            return self._trash.empty(before)


def _user_roots(folders: Iterable[Path]) -> tuple[ScanRoot, ...]:
    return tuple(ScanRoot(folder, str(folder)) for folder in folders)


class _Scan:
    """One scan: what was known, what is there, and what had to be read."""

    def __init__(
        self,
        known: Sequence[FileRecord],
        on_progress: Callable[[ScanProgress], None] | None,
        is_cancelled: Callable[[], bool] | None,
    ) -> None:
        self.num_files = 0
        self.num_read = 0
        self.problems: list[ScanProblem] = []
        self._known = {record.path: record for record in known}
        self._paths_of_ids = {record.id: record.path for record in known}
        self._by_file = {record.file_key: record for record in known}
        self._found: dict[str, FileRecord] = {}
        self._fingerprints: dict[tuple[int, int], str] = {}
        self._on_progress = on_progress
        self._is_cancelled = is_cancelled or (lambda: False)
        self._is_complete = True

    def run(self, roots: Sequence[ScanRoot], asked_for: Sequence[Path]) -> bool:
        """Look through all roots; returns False where it was cancelled."""
        walk = FileWalk(self._was_cancelled, self._report)
        for found in walk.find(roots, asked_for):
            if self._was_cancelled():
                break
            path = os.fspath(found.path)
            if path not in self._found:
                self.num_files += 1
                self._found[path] = self._record(found)
                self._report(found.path.parent)
        self.problems = walk.problems
        return self._is_complete

    def _was_cancelled(self) -> bool:
        self._is_complete = self._is_complete and not self._is_cancelled()
        return not self._is_complete

    def _report(self, folder: Path) -> None:
        if self._on_progress is not None:
            self._on_progress(ScanProgress(folder=folder, num_files=self.num_files, num_read=self.num_read))

    def _record(self, found: FoundFile) -> FileRecord:
        path = os.fspath(found.path)
        record = self._known.get(path)
        if record is None or not record.is_of(found.status):
            record = self._moved(found) or self._read(found)
        shown = {"source": found.root.label, "is_ours": found.root.is_ours, "alias": found.alias}
        return msgspec.structs.replace(record, **shown)

    def _moved(self, found: FoundFile) -> FileRecord | None:
        """Return what is known of a file that was renamed, under its old id; of a second name, under a new one."""
        record = self._by_file.get(file_key(found.status))
        if record is None or not record.is_content_of(found.status) or record.problem or not is_text(found.path):
            return None
        if record.path == os.fspath(found.path):  # not moved, but changed in a way that only one time shows
            return None
        is_second_name = os.path.lexists(record.path)
        return msgspec.structs.replace(
            record,
            path=os.fspath(found.path),
            ctime_ns=found.status.st_ctime_ns,
            id=self._new_id(found) if is_second_name else record.id,
        )

    def _read(self, found: FoundFile) -> FileRecord:
        self.num_read += 1
        return msgspec.structs.replace(read_record(found.path, found.status), id=self._new_id(found))

    def _new_id(self, found: FoundFile) -> str:
        """Return an id for a file that is new: that of its path, unless a file that was moved away took it along."""
        identity = id_of(os.fsencode(found.path))
        if self._paths_of_ids.get(identity, os.fspath(found.path)) == os.fspath(found.path):
            return identity
        return id_of(b"%b\0%d" % (os.fsencode(found.path), found.status.st_ino))

    def records(self) -> tuple[FileRecord, ...]:
        """Return what is there; of a scan that was cancelled, also what was known and not looked at again."""
        if self._is_complete:
            return tuple(self._found.values())
        return tuple((self._found | {path: r for path, r in self._known.items() if path not in self._found}).values())

    def content_of(self, record: FileRecord) -> str:
        """Return the fingerprint of a file, "" where it cannot be read."""
        if record.fingerprint:
            return record.fingerprint
        try:
            found = file_fingerprint(Path(record.path), record.header_bytes)
        except (OSError, NotGGUF):
            return ""
        self._fingerprints[record.file_key] = found
        return found

    def with_fingerprints(self, records: Iterable[FileRecord]) -> tuple[FileRecord, ...]:
        """Return the records with the fingerprints that were taken in this scan."""
        return tuple(
            msgspec.structs.replace(record, fingerprint=self._fingerprints[record.file_key])
            if record.file_key in self._fingerprints
            else record
            for record in records
        )
