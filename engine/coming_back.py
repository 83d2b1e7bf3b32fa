"""How snapshots come back into the context: from memory, or from a file that was read."""

import concurrent.futures
import logging
import time
from array import array
from typing import NamedTuple

from engine.backend import AdapterKey
from engine.checkpoints import new_checkpoint
from engine.folder_entry import FileRead
from engine.kv_cache import KVCache
from engine.metrics import CacheSource
from engine.prompt_cache import PromptCache
from engine.prompt_store import Match, PromptStore, StoredPrompt
from engine.reuse_cost import ReuseCost
from engine.slot import Slot, Snapshot
from engine.snapshot_file import FileFault

_LOG = logging.getLogger(__name__)

Reading = concurrent.futures.Future[FileRead]


class CameBack(NamedTuple):
    """What a request got from outside the context.

    Attributes:
        num_had: tokens of its prompt that the slots had.
        cost_s: seconds it took.
        num_lost: tokens of its prompt in a snapshot that turned out to be damaged.
        num_known: tokens of its prompt in the one that was used, though its memory may not be able to go back to them.
    """

    num_had: int = 0
    source: CacheSource = CacheSource.NONE
    cost_s: float = 0.0
    num_lost: int = 0
    num_known: int = 0
    entry: StoredPrompt | None = None


class ComingBack:
    """Puts snapshots of one model into the slots of its context; one that fails is dropped."""

    def __init__(self, cache: KVCache, store: PromptStore, prompt_cache: PromptCache, cost: ReuseCost) -> None:
        self._cache = cache
        self._store = store
        self._prompt_cache = prompt_cache
        self._cost = cost

    def bring_back(
        self,
        owner: str,
        tokens: list[int],
        adapters: AdapterKey,
        read: FileRead | None,
    ) -> CameBack:
        """Put the best snapshot of a prompt into a slot, if that is faster than reading; one that fails is dropped."""
        prompt, num_lost = array("i", tokens), 0
        loaded = None
        if read is not None:
            loaded = self.loaded(read)
            num_lost = len(tokens) if read.fault not in (None, FileFault.GONE) else 0
        while True:
            num_had = self._cache.longest_prefix(tokens, adapters).num_covered
            found = [self._store.find(prompt, adapters)]
            if loaded is not None:
                found.append(self._store.match(loaded, prompt))
            match = max((m for m in found if m is not None), key=lambda m: m.num_covered, default=None)
            if match is None or not self._cost.pays(match.entry.num_bytes, match.num_covered - num_had):
                return CameBack(num_had, num_lost=num_lost)
            entry, began = match.entry, time.perf_counter()
            slot = self._cache.take_empty(owner)
            try:
                if not self._make_room(len(entry.tokens)):
                    return CameBack(num_had, num_lost=num_lost)
                is_done = self.restore(slot, match)
            finally:
                self._cache.release(slot)
            if is_done:
                cost_s = time.perf_counter() - began + entry.cost_s
                source, entry.source, entry.cost_s = entry.source, CacheSource.RAM, 0.0
                self._store.put(entry)
                self._store.use(entry)
                num_known = self._cache.common(entry.tokens, prompt)[1]
                return CameBack(num_had, source, cost_s, num_lost, num_known, entry)
            self.discard(entry, "it could not be restored")
            loaded = None if entry is loaded else loaded
            num_lost = max(num_lost, match.num_covered)

    def restore(self, slot: Slot, match: Match) -> bool:
        """Put a snapshot into an empty slot, cut to what is of use; False leaves it empty."""
        entry, began = match.entry, time.perf_counter()
        if not self._cache.restore(slot, entry.snapshot):
            return False
        self._cost.note_copy(len(entry.snapshot.state), time.perf_counter() - began)
        slot.chat_id, slot.is_private, slot.rewritten = entry.chat_id, entry.is_private, entry.rewritten
        self._cache.trim(slot, match.num_cached)
        return True

    def _make_room(self, num_tokens: int) -> bool:
        cache = self._cache
        while cache.num_used_cells + num_tokens > cache.n_ctx and cache.evict_idle():
            pass
        return cache.num_used_cells + num_tokens <= cache.n_ctx

    def loaded(self, read: FileRead) -> StoredPrompt | None:
        """Return the snapshot that a file held, None where it could not be read."""
        entry, content = read.entry, read.content
        if content is None:
            return None
        self._cost.note_file(entry.num_bytes, read.seconds)
        checkpoints = [
            new_checkpoint(num_tokens, state, is_rolling=False)
            for (num_tokens, _), state in zip(content.header.checkpoints, content.checkpoint_states, strict=True)
        ]
        snapshot = Snapshot(content.state, entry.tokens, entry.adapters, checkpoints)
        self._cache.adopt(snapshot)
        stored = StoredPrompt(snapshot, chat_id=entry.chat_id or None, is_private=False, name=entry.label)
        stored.rewritten = content.header.rewritten
        stored.source, stored.file_name, stored.cost_s = CacheSource.DISK, entry.name, read.seconds
        return stored

    def discard(self, entry: StoredPrompt, reason: str) -> None:
        """Drop a snapshot, and its file."""
        _LOG.info("a snapshot was discarded: %s", reason)
        self._store.remove(entry)
        if entry.file_name is not None and self._prompt_cache.folder is not None:
            self._prompt_cache.folder.discard(entry.file_name, reason)
