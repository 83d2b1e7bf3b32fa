"""Who has a slot and who makes way: chats leave the context for memory, and come back from there or from the disk."""

import logging
import time
from collections.abc import Iterable

from engine.backend import Backend
from engine.chat_saver import MIN_KEPT_TOKENS, ChatSaver
from engine.coming_back import CameBack, ComingBack
from engine.file_reads import FileReads
from engine.free_memory import has_memory
from engine.kv_cache import KVCache
from engine.messages import KeptPrompt, MemoryKind
from engine.metrics import CacheMissCause, CacheSource
from engine.opened_chat import OpenedChat
from engine.prompt_cache import PromptCache
from engine.prompt_store import PromptStore, StoredPrompt
from engine.reuse_cost import ReuseCost
from engine.sequence import Sequence
from engine.slot import Acquired, Slot
from engine.usable_files import UsableFiles

_LOG = logging.getLogger(__name__)
_LONGEST_STALL_S = 0.05  # of running replies, for a copy that only makes the next steps faster


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
        self._files = UsableFiles(self._keys, n_ctx=cache.n_ctx, n_vocab=len(backend.vocabulary.pieces))
        self.cost = ReuseCost()
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
        self._coming_back = ComingBack(cache, self._store, prompt_cache, self.cost)
        self.opened = OpenedChat(
            cache,
            self._store,
            self._coming_back,
            files=self._files,
            prompt_cache=prompt_cache,
            cost=self.cost,
            keep=self._keep,
            bytes_per_token=self._kv_bytes,
        )
        self.reads = FileReads(
            cache,
            self._store,
            prompt_cache,
            self.cost,
            files=self._files,
            opened=self.opened,
            can_cut=self._can_cut,
        )
        cache.on_give_up = self._keep

    @property
    def can_reuse(self) -> bool:
        """Whether requests may go on from what others have left."""
        return self._prompt_cache.params.reuse

    # --- requests ---

    @property
    def rest_s(self) -> float | None:
        """Seconds of rest after which there is something to do, None where there is not."""
        return min((s for s in (self.saver.rest_s, self.opened.rest_s) if s is not None), default=None)

    def admit(self, sequence: Sequence, *, is_asked: bool = True) -> tuple[Acquired, CameBack]:
        """Give a request its slot, with as much of its prompt as can be had; return what that was.

        Args:
            is_asked: whether somebody waits for it; what it gets is else still to be told to who asks.
        """
        self.opened.note_request(sequence.prompt.chat_id)
        tokens, adapters = [*sequence.prompt_tokens, *sequence.generated], sequence.adapters
        read = self.reads.take(sequence.request_id)
        # Where its cells lie changes how sums are rounded: a reproducible request finds the pool empty each time.
        is_alone = sequence.is_reproducible or not self._prompt_cache.params.reuse
        while is_alone and self._cache.evict_idle():
            pass
        back = CameBack()
        if not is_alone:
            back = self._coming_back.bring_back(sequence.request_id, tokens, adapters, read)
        ahead = None if is_alone or back.entry is not None else self.opened.ahead_of(tokens, adapters)
        acquired = self._cache.acquire(sequence.request_id, tokens, adapters)
        if is_asked and ahead is not None:
            back = self.opened.claim(ahead, tokens, back)
        elif not is_asked:
            self.opened.pass_on(ahead, acquired, back)
        sequence.slot = acquired.slot
        acquired.slot.chat_id, acquired.slot.is_private = sequence.prompt.chat_id, sequence.is_private
        acquired.slot.rewritten = None  # until a reply ends here
        num_covered = len(tokens) - (len(acquired.tokens) - acquired.num_cached)
        if back.entry is not None and num_covered <= back.num_had:
            self._coming_back.discard(back.entry, "nothing of it could be used")
            back = CameBack(num_lost=len(tokens))
        if not is_alone:
            self._let_idle_leave(len(acquired.tokens) - acquired.num_cached, sequence.prompt.sampling.max_tokens)
        return acquired, back

    def note_end(self, sequence: Sequence) -> None:
        """Note that a request has left its slot with what a later one may go on from."""
        self._prompt_cache.note_chat(sequence.prompt.chat_id, self._keys)
        self.note_use(sequence)
        self.saver.note_end()
        self.opened.put_off()

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
        self.opened.close()
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
        self.opened.close()
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
