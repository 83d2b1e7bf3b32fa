"""The chat that was opened last: its file is read, and while nothing is computed its newest snapshot is put into a
slot, so that the next message finds it there."""

import time
from array import array
from collections.abc import Callable
from typing import NamedTuple

from engine.backend import AdapterKey
from engine.chat_saver import MIN_KEPT_TOKENS
from engine.coming_back import CameBack, ComingBack, Reading
from engine.folder_entry import FileRead, FolderEntry
from engine.free_memory import has_memory
from engine.kv_cache import KVCache
from engine.metrics import CacheSource
from engine.prompt_cache import PromptCache
from engine.prompt_store import Match, PromptStore, StoredPrompt
from engine.reuse_cost import ReuseCost
from engine.slot import Acquired, Slot
from engine.snapshot_file import FileFault
from engine.usable_files import UsableFiles

_SETTLE_S = 0.2  # after what came last: who looks through chats opens another one by then
# Of one copy, which nothing breaks off. The opened chat's own request would wait as long for it anyway; another one,
# that has just missed it, waits for nothing. So what takes longer is left to the request that needs it.
_LONGEST_COPY_S = 0.5
_LOOK_S = 0.02  # between looks whether the file is read
_LONGEST_READ_S = 60.0  # a disk that does not answer is looked at no more
_OWNER = "opened chat"


class Ahead(NamedTuple):
    """What was put into a slot ahead of its request.

    Attributes:
        num_tokens: of the snapshot that the slot begins with.
        cost_s: seconds that it took.
    """

    slot: Slot
    entry: StoredPrompt
    num_tokens: int
    cost_s: float


class OpenedChat:
    """Brings one chat back ahead of its next message, a copy at a time; whatever arrives puts the next copy off.

    Args:
        keep: keeps what a slot holds in memory; False where that cannot be.
    """

    def __init__(
        self,
        cache: KVCache,
        store: PromptStore,
        coming_back: ComingBack,
        *,
        files: UsableFiles,
        prompt_cache: PromptCache,
        cost: ReuseCost,
        keep: Callable[[Slot], bool],
        bytes_per_token: int,
    ) -> None:
        self._cache = cache
        self._store = store
        self._coming_back = coming_back
        self._files = files
        self._prompt_cache = prompt_cache
        self._cost = cost
        self._keep = keep
        self._bytes_per_token = bytes_per_token
        self._chat_id: str | None = None  # None where nothing is to be done
        self._settled_at = self._ends_at = 0.0
        self._reading: tuple[FolderEntry, Reading] | None = None  # the file that was asked for last
        self._is_read_later = False  # a request needed the disk first
        self._ahead: Ahead | None = None

    # --- the file ---

    def open(self, chat_id: str) -> None:
        """Begin to read the newest file of a chat, which is about to be gone on with; one chat at a time."""
        if self._reading is not None and self._reading[0].chat_id != chat_id:
            self._close_reading()
        self._chat_id, self._ends_at = chat_id, time.monotonic() + _LONGEST_READ_S
        self.put_off()
        self._read_newest(chat_id)
        folder = self._prompt_cache.folder
        if folder is not None and folder.look() is not None:
            self._is_read_later = True  # another process may have written a newer one

    def close(self) -> None:
        """Do no more for the chat that was opened."""
        self._chat_id = None
        self._close_reading()

    def hand_over(self, entry: FolderEntry) -> Reading | None:
        """Give the reading of a file to a request, None where it is another one that is read: that has to wait."""
        reading = self._reading
        if reading is None or reading[0].name == entry.name:
            self._reading = None
            return None if reading is None else reading[1]
        self._close_reading()
        self._is_read_later = True
        return None

    def _read_newest(self, chat_id: str) -> None:
        """Have the newest file of a chat read, where it holds what neither memory nor a slot does."""
        self._is_read_later = False
        folder = self._prompt_cache.folder
        files = [] if folder is None else [entry for entry in self._files.of(folder) if entry.chat_id == chat_id]
        newest = max(files, key=lambda entry: entry.last_used, default=None)
        if folder is None or newest is None or self._store.holder_of(newest.tokens, newest.adapters) is not None:
            return
        if self._is_in_slot(newest.tokens, newest.adapters):
            return
        if self._reading is not None and self._reading[0].name == newest.name:
            return
        if has_memory(newest.num_bytes) and self._store.make_room(newest.num_bytes):
            self._close_reading()
            self._reading = (newest, folder.read(newest))

    def _close_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading[1].cancel()  # what is already being read comes to its end

    def _is_in_slot(self, tokens: "array[int]", adapters: AdapterKey) -> bool:
        numbers = list(tokens)
        slots = (slot for slot in self._cache.slots if slot.adapters == adapters)
        return any(slot.tokens[: len(numbers)] == numbers for slot in slots)

    # --- the slot ---

    @property
    def rest_s(self) -> float | None:
        """Seconds of rest after which there is something to do or to look at, None where there is not."""
        if self._chat_id is None:
            return None
        is_read = self._reading is None or self._reading[1].done() or time.monotonic() > self._ends_at
        return max(self._settled_at - time.monotonic(), 0.0 if is_read else _LOOK_S)

    @property
    def is_due(self) -> bool:
        """Whether `step()` has something to do."""
        return self.rest_s == 0.0

    def put_off(self) -> None:
        """Let what has come go first; safe from any thread."""
        self._settled_at = time.monotonic() + _SETTLE_S

    def step(self) -> None:
        """Make one copy: of what has to leave the context for memory, or of the snapshot into its slot."""
        chat_id = self._chat_id
        if chat_id is None:
            return
        if self._is_read_later:
            self._read_newest(chat_id)
            return
        self._take_file(chat_id)
        entry = self._store.newest_of(chat_id)
        if entry is not None and self._is_worth(entry):
            if not self._has_room(entry) and self._make_room():
                return  # and look again: who waits is looked for before the next copy
            if self._has_room(entry):
                self._restore(entry)
        self._chat_id = None

    def _take_file(self, chat_id: str) -> None:
        """Keep in memory what was read of the chat's file."""
        read = self._read_of(chat_id)
        if read is None:
            return
        self._reading = None
        if (loaded := self._coming_back.loaded(read)) is not None:
            self._store.put(loaded)
        self._note_fault(read)

    def _read_of(self, chat_id: str) -> FileRead | None:
        if self._reading is None or self._reading[0].chat_id != chat_id:
            return None
        reading = self._reading[1]
        return reading.result() if reading.done() and not reading.cancelled() else None

    def _note_fault(self, read: FileRead) -> None:
        """Have the next reply tell that the file was damaged: its request finds it no more."""
        folder = self._prompt_cache.folder
        if read.fault not in (None, FileFault.GONE) and folder is not None:
            folder.discard(read.entry.name, "it was opened", chat_id=read.entry.chat_id)

    def _is_worth(self, entry: StoredPrompt) -> bool:
        """Whether the chat's next message would have the snapshot brought back, in a time that others can wait for."""
        if not self._prompt_cache.params.reuse or self._cost.restore_s(entry.num_bytes) > _LONGEST_COPY_S:
            return False
        is_newer_in_slot = any(slot.chat_id == entry.chat_id for slot in self._cache.slots)
        if is_newer_in_slot or self._is_in_slot(entry.tokens, entry.adapters):
            return False
        num_had = self._cache.longest_prefix(list(entry.tokens), entry.adapters).num_covered
        return self._cost.pays(entry.num_bytes, len(entry.tokens) - num_had)

    def _has_room(self, entry: StoredPrompt) -> bool:
        has_slot = any(slot.owner is None and not slot.tokens for slot in self._cache.slots)
        return has_slot and self._cache.num_used_cells + len(entry.tokens) <= self._cache.n_ctx

    def _make_room(self) -> bool:
        """Empty one idle slot whose tokens memory keeps; False where there is none."""
        idle = self._cache.idle_slots()
        if self._ahead is not None and self._ahead.slot in idle:  # opened before, and not gone on with
            idle.insert(0, self._ahead.slot)
        for slot in idle:
            is_quick = self._cost.restore_s(len(slot.tokens) * self._bytes_per_token) <= _LONGEST_COPY_S
            if len(slot.tokens) < MIN_KEPT_TOKENS or (is_quick and self._keep(slot)):
                self._cache.clear(slot)
                return True
        return False

    def _restore(self, entry: StoredPrompt) -> None:
        began, num_tokens = time.perf_counter(), len(entry.tokens)
        slot = self._cache.take_empty(_OWNER)
        try:  # where it fails, the request that needs it finds out, and tells
            if self._coming_back.restore(slot, Match(entry, num_tokens, num_tokens)):
                self._ahead = Ahead(slot, entry, num_tokens, time.perf_counter() - began)
        finally:
            self._cache.release(slot)
        self._store.use(entry)

    # --- the request ---

    def note_request(self, chat_id: str | None) -> None:
        """Do no more for a chat whose request has come."""
        if chat_id is not None and chat_id == self._chat_id:
            self._chat_id = None
            if (read := self._read_of(chat_id)) is not None:
                self._note_fault(read)

    def ahead_of(self, tokens: list[int], adapters: AdapterKey) -> Ahead | None:
        """Return what was put into a slot ahead, if that is where a request will go on from."""
        ahead = self._ahead
        if ahead is None:
            return None
        held = ahead.slot.tokens[: ahead.num_tokens]
        if held != list(ahead.entry.tokens[: ahead.num_tokens]) or ahead.slot.adapters != ahead.entry.adapters:
            self._ahead = None  # it has left the context since
            return None
        return ahead if self._cache.longest_prefix(tokens, adapters).slot is ahead.slot else None

    def claim(self, ahead: Ahead, tokens: list[int], back: CameBack) -> CameBack:
        """Return what a request got that has found its chat in a slot: it came from where it was before."""
        self._ahead, entry = None, ahead.entry
        source, cost_s = entry.source, entry.cost_s + ahead.cost_s
        entry.source, entry.cost_s = CacheSource.RAM, 0.0
        self._store.use(entry)
        num_known = self._cache.common(entry.tokens, array("i", tokens))[1]
        return CameBack(0, source, cost_s, back.num_lost, num_known, entry)

    def pass_on(self, ahead: Ahead | None, acquired: Acquired, back: CameBack) -> None:
        """Note that a slot was read on from ahead of the request that will ask where it came from."""
        if ahead is not None:
            self._ahead = ahead._replace(slot=acquired.slot, num_tokens=min(ahead.num_tokens, acquired.num_cached))
        elif back.entry is not None:
            back.entry.source, back.entry.cost_s = back.source, back.cost_s
            num_tokens = min(len(back.entry.tokens), acquired.num_cached)
            self._ahead = Ahead(acquired.slot, back.entry, num_tokens, 0.0)
