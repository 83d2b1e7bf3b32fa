"""What is known of a folder of snapshots: which files there are, which are being written, which were handed over."""

import threading
from array import array
from collections.abc import Callable, Iterable, Sequence

from engine.backend import AdapterKey, StateKeys
from engine.folder_entry import FolderEntry, file_name_of
from engine.snapshot_file import SnapshotHeader, tokens_to_bytes

SUFFIX = ".snapshot"
_MAX_TAKEN = 4096


class KnownFiles:
    """Safe from any thread; names are those of files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all below
        self._lost: set[str] = set()  # chats whose files could not be used
        self._entries: dict[str, FolderEntry] = {}
        self._writing: dict[str, SnapshotHeader] = {}  # what is taken out is not written
        self._taken: dict[str, bool] = {}  # handed over before, as a shared one or not: what was refused is not again
        self._num_waiting = 0

    @property
    def entries(self) -> list[FolderEntry]:
        """The files."""
        with self._lock:
            return list(self._entries.values())

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(entry.num_bytes for entry in self.entries)

    @property
    def is_writing(self) -> bool:
        """Whether something is being written, or waits for it."""
        with self._lock:
            return self._num_waiting > 0

    def find(self, entry: FolderEntry) -> None:
        """Note a file that was found, unless it is known."""
        with self._lock:
            self._entries.setdefault(entry.name, entry)

    def drop(self, names: Iterable[str]) -> None:
        """Note that files are gone."""
        with self._lock:
            for name in names:
                self._entries.pop(name, None)

    def note_fault(self, name: str, chat_id: str | None) -> None:
        """Note that a file is of no use, which may be written again; of whom its chat is to be told."""
        self.drop([name])
        with self._lock:
            self._taken.pop(name, None)
            if chat_id is not None:
                self._lost.add(chat_id)

    def has_lost(self, chat_id: str) -> bool:
        """Whether a file of a chat could not be used; told once."""
        with self._lock:
            was_lost = chat_id in self._lost
            self._lost.discard(chat_id)
        return was_lost

    def forget(self, is_gone: Callable[[str, str], bool]) -> None:
        """Drop what is of some chats or names, and have none of it written."""
        with self._lock:
            self._writing = {name: h for name, h in self._writing.items() if not is_gone(h.chat_id, h.name)}
            self._entries = {k: entry for k, entry in self._entries.items() if not is_gone(entry.chat_id, entry.label)}
        self.offer_all_again()

    # --- what is handed over ---

    def has(
        self, keys: StateKeys, adapters: AdapterKey, tokens: Sequence[int], *, can_cut: bool, is_shared: bool
    ) -> bool:
        """See SnapshotFolder.has."""
        name = _name_of(keys, adapters, tokens)
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and (entry.is_shared or not is_shared):
                return True
            if name in self._taken and (self._taken[name] or not is_shared):
                return True
        numbers = array("i", tokens)
        return can_cut and any(entry.begins_with(keys, adapters, numbers) for entry in self.entries)

    def offer_all_again(self) -> None:
        """Let everything be handed over once more."""
        with self._lock:
            self._taken = {name: header.is_shared for name, header in self._writing.items()}

    def offer_again(self, keys: StateKeys, adapters: AdapterKey, tokens: Sequence[int]) -> None:
        """See SnapshotFolder.offer_again."""
        name = _name_of(keys, adapters, tokens)
        with self._lock:
            if name not in self._entries and name not in self._writing:
                self._taken.pop(name, None)

    def take(self, name: str, header: SnapshotHeader) -> bool:
        """Note that a file is to be written; False where that is needless."""
        with self._lock:
            entry = self._entries.get(name)
            if name in self._writing or (entry is not None and (entry.is_shared or not header.is_shared)):
                return False
            self._writing[name] = header
            self._taken[name] = header.is_shared
            if len(self._taken) > _MAX_TAKEN:
                del self._taken[next(iter(self._taken))]
            self._num_waiting += 1
        return True

    def is_wanted(self, name: str) -> bool:
        """Whether a file is still to be written."""
        with self._lock:
            return name in self._writing

    def note_written(self, entry: FolderEntry) -> bool:
        """Note a file that was just written; False where it was forgotten this very moment."""
        with self._lock:
            is_wanted = entry.name in self._writing
            if is_wanted:
                self._entries[entry.name] = entry
        return is_wanted

    def note_end(self, name: str) -> None:
        """Note that writing has ended, well or not."""
        with self._lock:
            self._writing.pop(name, None)
            self._num_waiting -= 1


def _name_of(keys: StateKeys, adapters: AdapterKey, tokens: Sequence[int]) -> str:
    return f"{file_name_of(keys, adapters, tokens_to_bytes(tokens))}{SUFFIX}"
