"""What finished replies leave to be read while the engine is idle: the tokens that the next message's prompt has behind
a reply, so that it starts there. Of the lowest priority: whatever arrives drops it."""

import logging
import threading

from engine.backend import Backend, BatchPart, DecodeStatus
from engine.errors import EngineError
from engine.kv_cache import KVCache
from engine.slot import Slot

_LOG = logging.getLogger(__name__)


class ReadAhead:
    """Reads on in idle slots, one a step; never evicts anything for it.

    Args:
        backend: computes the steps.
        cache: its slots.
    """

    def __init__(self, backend: Backend, cache: KVCache) -> None:
        self._backend = backend
        self._cache = cache
        self._lock = threading.Lock()  # guards the two below: `drop` is called on another thread
        self._due: dict[Slot, list[int]] = {}
        self._is_in_step = False

    @property
    def is_due(self) -> bool:
        """Whether `step()` has something to do."""
        return bool(self._due)

    def note(self, slot: Slot, tokens: list[int]) -> None:
        """Read `tokens` behind what a slot holds when there is time; none takes an earlier call back."""
        with self._lock:
            self._due.pop(slot, None)
            if tokens:
                self._due[slot] = tokens

    def drop(self) -> None:
        """Give up what is due, and break off the step that runs; safe from any thread."""
        with self._lock:
            self._due.clear()
            if self._is_in_step:
                self._backend.raise_abort()

    def step(self) -> None:
        """Read on in one slot, the one whose reply ended last."""
        with self._lock:
            slot, tokens = next(reversed(self._due.items()), (None, []))
        if slot is None:
            return
        tokens = tokens[: self._backend.max_step_tokens]
        has_room = self._cache.num_used_cells + len(tokens) <= self._cache.n_ctx
        can_read = has_room and bool(slot.tokens) and slot.owner is None
        if can_read and not self._backend.shares_cells_only:
            self._cache.checkpoint(slot)  # the way back for a chat that goes on otherwise, and from a step broken off
        with self._lock:
            if slot not in self._due or not can_read:
                self._due.pop(slot, None)
                return
            self._backend.clear_abort()
            self._is_in_step = True
        try:
            self._read(slot, tokens)
        finally:
            with self._lock:
                self._is_in_step = False
                self._due.pop(slot, None)
                self._backend.clear_abort()

    def _read(self, slot: Slot, tokens: list[int]) -> None:
        try:
            self._backend.use_adapters(slot.adapters)
            status = self._backend.decode([BatchPart(slot.seq_id, len(slot.tokens), tokens, wants_logits=False)])
        except EngineError as error:
            _LOG.info("the end of a turn could not be read ahead: %s", error.message)
            self._cache.clear(slot)
            if not self._backend.survives_abort:
                self._cache.distrust()
            return
        if status is DecodeStatus.DONE:
            self._cache.append(slot, tokens)
        elif status is DecodeStatus.ABORTED:
            self._cache.resync(slot, tokens)
