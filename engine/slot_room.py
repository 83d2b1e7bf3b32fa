"""Who has a slot and who makes way: chats leave the context for memory, and come back from there or from the disk."""

import logging
import time
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from engine.backend import AdapterKey, Backend
from engine.chat_saver import MIN_KEPT_TOKENS, ChatSaver
from engine.checkpoints import new_checkpoint
from engine.file_reads import FileReads
from engine.folder_entry import FileRead
from engine.kv_cache import KVCache
from engine.messages import KeptPrompt, MemoryKind
from engine.metrics import CacheMissCause, CacheSource
from engine.prompt_cache import PromptCache
from engine.prompt_store import Match, PromptStore, StoredPrompt, has_memory
from engine.reuse_cost import ReuseCost
from engine.sequence import Sequence
from engine.slot import Acquired, Slot, Snapshot
from engine.snapshot_file import FileFault
from engine.usable_files import UsableFiles

_LOG = logging.getLogger(__name__)
_LONGEST_STALL_S = 0.05  # of running replies, for a copy that only makes the next steps faster


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


class SlotRoom:
    """The room of one context, and what is kept beside it.

    Args:
        cache: the slots; it tells here what it drops.
        prompt_cache: limits, and the folder that all models of this worker share.
    """

    def __init__(self, backend: Backend, cache: KVCache, prompt_cache: PromptCache) -> None:
        description = backend.description
        self._cache = cache
        self._keys = backend.state_keys
        self._model_name = description.name
        self._kv_bytes = description.kv_bytes_per_token
        self._can_cut = backend.shares_cells_only
        self._may_leave = description.memory is not MemoryKind.RECURRENT  # its idle chats cost the others nothing
        self._prompt_cache = prompt_cache
        self._store = PromptStore(max_bytes=prompt_cache.ram_bytes(), common=cache.common, can_cut=self._can_cut)
        self.cost = ReuseCost()
        self.reads = FileReads(
            cache,
            self._store,
            prompt_cache,
            self.cost,
            files=UsableFiles(self._keys, n_ctx=cache.n_ctx, n_vocab=len(backend.vocabulary.pieces)),
            can_cut=self._can_cut,
        )
        self.saver = ChatSaver(
            cache,
            self._store,
            prompt_cache,
            self.cost,
            snapshot_of=self._snapshot_of,
            keys=self._keys,
            model_name=self._model_name,
            bytes_per_token=self._kv_bytes,
            can_cut=self._can_cut,
        )
        cache.on_give_up = self._keep

    @property
    def can_reuse(self) -> bool:
        """Whether requests may go on from what others have left."""
        return self._prompt_cache.params.reuse

    # --- requests ---

    def admit(self, sequence: Sequence) -> tuple[Acquired, CameBack]:
        """Give a request its slot, with as much of its prompt as can be had; return what that was."""
        tokens, adapters = [*sequence.prompt_tokens, *sequence.generated], sequence.adapters
        read = self.reads.take(sequence.request_id)
        # Where its cells lie changes how sums are rounded: a reproducible request finds the pool empty each time.
        is_alone = sequence.is_reproducible or not self._prompt_cache.params.reuse
        while is_alone and self._cache.evict_idle():
            pass
        back = CameBack()
        if not is_alone:
            back = self._bring_back(sequence.request_id, tokens, adapters, read)
        acquired = self._cache.acquire(sequence.request_id, tokens, adapters)
        sequence.slot = acquired.slot
        acquired.slot.chat_id, acquired.slot.is_private = sequence.prompt.chat_id, sequence.is_private
        acquired.slot.rewritten = None  # until a reply ends here
        num_covered = len(tokens) - (len(acquired.tokens) - acquired.num_cached)
        if back.entry is not None and num_covered <= back.num_had:
            self._discard(back.entry, "nothing of it could be used")
            back = CameBack(num_lost=len(tokens))
        if not is_alone:
            self._let_idle_leave(len(acquired.tokens) - acquired.num_cached, sequence.prompt.sampling.max_tokens)
        return acquired, back

    def note_end(self, sequence: Sequence) -> None:
        """Note that a request has left its slot with what a later one may go on from."""
        self._prompt_cache.note_chat(sequence.prompt.chat_id, self._keys)
        self.note_use(sequence)
        self.saver.note_end()

    def note_use(self, sequence: Sequence) -> None:
        """Note when a request came: what is forgotten from then on, by any process, is not written."""
        came_at = time.time() - (time.perf_counter() - sequence.prompt.received_at)
        self._prompt_cache.note_use(sequence.prompt.chat_id, came_at)

    def note_prefill(self, s_per_token: float | None) -> None:
        """Note what reading a prompt takes here, None where it is not known yet."""
        if s_per_token is not None:
            self.cost.prefill_s_per_token = s_per_token

    def first_cause(self, chat_id: str | None) -> CacheMissCause:
        """Return why nothing is known of a chat since the model was loaded."""
        return self._prompt_cache.first_cause(chat_id, self._keys)

    def set_busy(self) -> None:
        """Note that replies are computed: what is written meanwhile must not slow them."""
        if self._prompt_cache.folder is not None:
            self._prompt_cache.folder.set_calm(False)

    def close(self) -> None:
        """Have all chats written, before the model goes."""
        self.saver.save_all()
        self._store.clear()

    # --- what is kept ---

    def describe(self) -> list[KeptPrompt]:
        """Return what slots and memory hold."""
        held = [
            KeptPrompt(
                source=CacheSource.SLOT,
                model_name=self._model_name,
                num_tokens=len(slot.tokens),
                num_bytes=self._bytes_of(slot),
                chat_id=slot.chat_id,
                last_used=None,
            )
            for slot in self._cache.idle_slots()
        ]
        return held + self._store.describe(self._model_name)

    @property
    def ram_bytes(self) -> tuple[int, int]:
        """What snapshots in memory take, and may take."""
        return self._store.num_bytes, self._store.max_bytes

    def set_ram_bytes(self, max_bytes: int) -> None:
        """Keep to another limit from now on."""
        self._store.max_bytes = max_bytes
        self._store.make_room(0)

    def forget(self, chat_ids: Iterable[str] | None) -> None:
        """Drop what is kept of some chats, or of all; of one that is computed, nothing will be written."""
        gone = None if chat_ids is None else set(chat_ids)
        self.reads.drop_all()  # what a file has given would be kept
        if gone is None:
            self._store.clear()
        else:
            self._store.forget(gone)
        for slot in self._cache.slots:
            if gone is None or slot.chat_id in gone:
                if slot.owner is None:
                    self._cache.clear(slot)
                else:
                    slot.is_private = True

    def forget_named(self, names: Iterable[str]) -> None:
        """Drop what is kept under names; chats that have begun with it go on."""
        self.reads.drop_all()
        for tokens in self._store.forget_named(names):
            for slot in self._cache.idle_slots():
                if slot.tokens == tokens:
                    self._cache.clear(slot)

    # --- leaving ---

    def _bytes_of(self, slot: Slot) -> int:
        return len(slot.tokens) * self._kv_bytes

    def _let_idle_leave(self, num_unread: int, max_tokens: int | None) -> None:
        if not self._may_leave or not self._store.max_bytes:
            return
        others_run = sum(slot.owner is not None for slot in self._cache.slots) > 1
        for slot in self._cache.idle_slots():
            if others_run and self.cost.restore_s(self._bytes_of(slot)) > _LONGEST_STALL_S:
                continue
            num_alone = self._cache.num_cells_alone(slot)
            if self.cost.leaving_pays(num_alone, self._bytes_of(slot), num_unread, max_tokens) and self._keep(slot):
                self._cache.clear(slot)

    def _keep(self, slot: Slot) -> bool:
        """Keep what a slot holds in memory; False where that cannot be."""
        if not self._store.max_bytes or len(slot.tokens) < MIN_KEPT_TOKENS:
            return False
        if (holder := self._store.holder_of(slot.tokens, slot.adapters)) is not None:
            self._store.use(holder)
            return True
        num_bytes = self._bytes_of(slot)
        if not has_memory(num_bytes) or not self._store.make_room(num_bytes):
            return False
        entry = self._snapshot_of(slot)
        return entry is not None and self._store.put(entry)

    def _snapshot_of(self, slot: Slot) -> StoredPrompt | None:
        if not has_memory(self._bytes_of(slot)):
            return None
        began = time.perf_counter()
        try:
            snapshot = self._cache.snapshot(slot)
        except MemoryError:
            _LOG.warning("there is no memory for a snapshot of %d tokens", len(slot.tokens))
            return None
        if not snapshot.state:
            return None
        self.cost.note_copy(len(snapshot.state), time.perf_counter() - began)
        return StoredPrompt(snapshot, chat_id=slot.chat_id, is_private=slot.is_private, rewritten=slot.rewritten)

    # --- coming back ---

    def _bring_back(
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
            loaded = self._loaded(read)
            num_lost = len(tokens) if read.fault not in (None, FileFault.GONE) else 0
        while True:
            num_had = self._cache.longest_prefix(tokens, adapters).num_covered
            found = [self._store.find(prompt, adapters)]
            if loaded is not None:
                found.append(self._store.match(loaded, prompt))
            match = max((m for m in found if m is not None), key=lambda m: m.num_covered, default=None)
            if match is None or not self.cost.pays(match.entry.num_bytes, match.num_covered - num_had):
                return CameBack(num_had, num_lost=num_lost)
            entry, began = match.entry, time.perf_counter()
            is_done = self._restore(owner, match)
            if is_done is None:
                return CameBack(num_had, num_lost=num_lost)
            if is_done:
                cost_s = time.perf_counter() - began + entry.cost_s
                source, entry.source, entry.cost_s = entry.source, CacheSource.RAM, 0.0
                self._store.put(entry)
                self._store.use(entry)
                num_known = self._cache.common(entry.tokens, prompt)[1]
                return CameBack(num_had, source, cost_s, num_lost, num_known, entry)
            self._discard(entry, "it could not be restored")
            loaded = None if entry is loaded else loaded
            num_lost = max(num_lost, match.num_covered)

    def _restore(self, owner: str, match: Match) -> bool | None:
        """Put a snapshot into an idle slot and cut it to what is of use; None where there is no room."""
        entry, cache = match.entry, self._cache
        slot = cache.take_empty(owner)
        try:
            while cache.num_used_cells + len(entry.tokens) > cache.n_ctx and cache.evict_idle():
                pass
            if cache.num_used_cells + len(entry.tokens) > cache.n_ctx:
                return None
            began = time.perf_counter()
            if not cache.restore(slot, entry.snapshot):
                return False
            self.cost.note_copy(len(entry.snapshot.state), time.perf_counter() - began)
            slot.chat_id, slot.is_private = entry.chat_id, entry.is_private
            cache.trim(slot, match.num_cached)
            return True
        finally:
            cache.release(slot)

    def _loaded(self, read: FileRead) -> StoredPrompt | None:
        entry, content = read.entry, read.content
        if content is None:
            return None
        self.cost.note_file(entry.num_bytes, read.seconds)
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

    def _discard(self, entry: StoredPrompt, reason: str) -> None:
        _LOG.info("a snapshot was discarded: %s", reason)
        self._store.remove(entry)
        if entry.file_name is not None and self._prompt_cache.folder is not None:
            self._prompt_cache.folder.discard(entry.file_name, reason)
