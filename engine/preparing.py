"""Beginnings of prompts that are read before anything is asked, while no reply is computed, and kept under a name."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Set
from typing import NamedTuple

from engine.backend import Backend, BatchPart, DecodeStatus
from engine.errors import DecodeFailed, EngineError, RequestError, overflow_error
from engine.kv_cache import KVCache
from engine.messages import Event, Failed, PrepareCancelled, Prepared
from engine.metrics import CacheReport, CacheSource
from engine.prompt_store import StoredPrompt
from engine.reuse_cost import followed_rate
from engine.sequence import Prompt, Sequence
from engine.slot import Slot
from engine.slot_room import SlotRoom
from engine.threads import StepThreads

_LOG = logging.getLogger(__name__)
_DISK_WAIT_S = 0.02
_RATE_MIN_TOKENS = 16  # fewer say little about the prefill rate
_STEP_S, _STEP_TOKENS = 0.5, 64  # of a step, about; tokens in whole blocks


class Preparation(NamedTuple):
    """A beginning that is to be read.

    Attributes:
        prompt: its tokens, and one more that may follow them.
        name: under which it is kept; empty where it is a chat that may be gone on with, kept as any other.
    """

    prompt: Prompt
    name: str


class _Open:
    """One that is not answered yet.

    Attributes:
        is_begun: whether its slots were looked through, and `sequence.cache` says what was there.
    """

    def __init__(self, sequence: Sequence, name: str) -> None:
        self.sequence = sequence
        self.name = name
        self.is_begun = False


class Preparations:
    """Reads one beginning after the other, in short steps; between them its slot is as idle as any.

    So a request that comes may take the slot over, and what was read is found again, in the context or in memory.

    Args:
        threads: sets the threads of each step.
    """

    def __init__(self, backend: Backend, cache: KVCache, room: SlotRoom, threads: StepThreads) -> None:
        self._backend = backend
        self._cache = cache
        self._room = room
        self._threads = threads
        self._lock = threading.Lock()  # guards the three below: Abort arrives on another thread
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._abort_wanted: set[str] = set()
        self._in_step: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether `step()` has something to do."""
        return bool(self._open)

    def add(self, preparation: Preparation) -> list[Event]:
        """Take one in; it is read when nothing else is computed."""
        prompt = preparation.prompt
        try:
            if not self._room.can_reuse:
                raise RequestError("Nothing is kept of prompts here.", "Switch the cache on to read documents ahead.")
            if len(prompt.tokens) > self._cache.n_ctx:
                raise overflow_error(len(prompt.tokens), self._cache.n_ctx)
            adapters = self._backend.load_adapters(prompt.adapters)
        except EngineError as refusal:
            return [Failed(request_id=prompt.request_id, error=refusal.info())]
        opened = _Open(Sequence(prompt, self._backend.vocabulary, adapters), preparation.name)
        self._room.reads.expect(opened.sequence)
        with self._lock:
            self._open[prompt.request_id] = opened
        return []

    def request_abort(self, request_id: str) -> None:
        """Give one up; safe from any thread, ignored when it is none."""
        with self._lock:
            if request_id in self._open:
                self._abort_wanted.add(request_id)
                if self._in_step == request_id:
                    self._backend.raise_abort()

    def break_off(self) -> None:
        """Make way for what has come: end the step that runs; safe from any thread."""
        with self._lock:
            if self._in_step is not None:
                self._backend.raise_abort()

    def give_way(self, chat_id: str | None) -> None:
        """Give up what has no name and is of a chat whose request has come: that reads more of it."""
        for request_id, opened in self._open.items():
            if chat_id is not None and not opened.name and opened.sequence.prompt.chat_id == chat_id:
                self.request_abort(request_id)

    def fail_all(self, error: EngineError) -> list[Event]:
        """Fail all, before the model goes."""
        return [self._failed(opened, error) for opened in list(self._open.values())]

    def forget(self, chat_ids: Set[str] | None) -> None:
        """Give up those of some chats; write nothing of any where all chats are meant."""
        for request_id, opened in self._open.items():
            if chat_ids is None:
                opened.sequence.is_private = True
            elif opened.sequence.prompt.chat_id in chat_ids:
                self.request_abort(request_id)

    def step(self) -> list[Event]:
        """Read on in the one that came first."""
        events = self._cancelled()
        opened = next(iter(self._open.values()), None)
        if opened is None or events:
            return events
        if not self._room.reads.is_ready(opened.sequence):
            self._room.reads.wait(opened.sequence, _DISK_WAIT_S)
            return []
        if not opened.name and not opened.is_begun and self._is_known(opened.sequence):
            return [self._answer(opened, len(opened.sequence.prompt_tokens) - 1, None)]
        try:
            slot = self._take_slot(opened)
        except EngineError as error:
            return [self._failed(opened, error)]
        try:
            return self._go_on(opened, slot)
        except EngineError as error:
            self._cache.clear(slot)
            if not self._backend.survives_abort:
                self._cache.distrust()
            return [self._failed(opened, error)]
        finally:
            self._cache.release(slot)

    def _go_on(self, opened: _Open, slot: Slot) -> list[Event]:
        sequence = opened.sequence
        if not opened.is_begun:  # who waits is told before the step, which may take seconds
            opened.is_begun = True
            return [sequence.progress()]
        if len(slot.tokens) < len(sequence.prompt_tokens) - 1:
            return [*self._read(sequence, slot), sequence.progress()]
        return [self._kept(opened, slot)]

    def _cancelled(self) -> list[Event]:
        with self._lock:
            gone = [request_id for request_id in self._open if request_id in self._abort_wanted]
        for request_id in gone:
            self._end(request_id)
        return [PrepareCancelled(request_id=request_id) for request_id in gone]

    def _take_slot(self, opened: _Open) -> Slot:
        """Return the slot with as much of the beginning as can be had, the one of the last step as a rule."""
        sequence = opened.sequence
        slot, tokens = sequence.slot, sequence.prompt_tokens
        is_mine = slot is not None and slot.owner is None and slot.adapters == sequence.adapters
        if slot is not None and is_mine and slot.tokens and slot.tokens == tokens[: len(slot.tokens)]:
            slot.owner = sequence.request_id
            slot.chat_id, slot.is_private = sequence.prompt.chat_id, sequence.is_private
            return slot
        acquired, back = self._room.admit(sequence, is_asked=bool(opened.name))
        sequence.prompt_tokens = acquired.tokens
        if not opened.is_begun:
            source = CacheSource.SLOT if back.source is CacheSource.NONE else back.source
            sequence.cache = CacheReport(
                num_cached_tokens=acquired.num_cached,
                source=source if acquired.num_cached else CacheSource.NONE,
                miss_cause=None,
            )
        if not self._backend.shares_cells_only:
            sequence.plan_checkpoints()
        return acquired.slot

    def _read(self, sequence: Sequence, slot: Slot) -> list[Event]:
        """Read on; a step that is broken off leaves what the memory has kept of it."""
        unread = sequence.prompt_tokens[len(slot.tokens) : -1]
        limit = self._step_tokens()
        chunk = unread[: min(limit, sequence.num_to_checkpoint or limit)]
        while self._cache.num_used_cells + len(chunk) > self._cache.n_ctx and self._cache.evict_idle():
            pass
        part = BatchPart(slot.seq_id, len(slot.tokens), chunk, wants_logits=False)
        with self._lock:
            if sequence.request_id in self._abort_wanted:
                return []
            self._backend.clear_abort()
            self._in_step = sequence.request_id
        try:
            self._room.set_busy()
            self._threads.begin([part])
            began = time.perf_counter()
            self._backend.use_adapters(sequence.adapters)
            status = self._backend.decode([part])
            seconds = time.perf_counter() - began
        finally:
            with self._lock:
                self._in_step = None
                self._backend.clear_abort()
        if status is DecodeStatus.ABORTED:
            self._cache.resync(slot, chunk)
            return []
        if status is DecodeStatus.NO_ROOM:
            if not self._cache.evict_idle():
                raise DecodeFailed("The context has no room for this step.", "Load a larger context.")
            return []
        self._cache.append(slot, chunk)
        if len(chunk) >= _RATE_MIN_TOKENS:
            known_s = self._room.cost.prefill_s_per_token
            self._room.note_prefill(followed_rate(known_s, seconds / len(chunk)))
        if sequence.is_checkpoint_due:
            self._cache.checkpoint(slot)
        elif not self._backend.survives_abort:
            self._cache.checkpoint(slot, is_rolling=True)
        changed = self._threads.end(seconds)
        return [] if changed is None else [changed]

    def _step_tokens(self) -> int:
        """Return how many tokens to read in a step: one that is broken off is lost, and how far it is is seen."""
        most = min(self._backend.description.n_ubatch, self._backend.max_step_tokens)
        rate = self._room.cost.prefill_s_per_token
        fitting = int(_STEP_S / rate) // _STEP_TOKENS * _STEP_TOKENS if rate else 2 * _STEP_TOKENS
        return min(max(fitting, _STEP_TOKENS), most)

    def _is_known(self, sequence: Sequence) -> bool:
        """Whether next to nothing of a chat would be read: then its slots stay as they are."""
        return len(sequence.prompt_tokens) - 1 - self._room.reads.num_kept(sequence) < _RATE_MIN_TOKENS

    def _kept(self, opened: _Open, slot: Slot) -> Prepared:
        """Keep what was read, and return the answer."""
        saver = self._room.saver
        if not self._backend.shares_cells_only:
            self._cache.checkpoint(slot)  # chats that begin here go on from there
        self._room.note_use(opened.sequence)
        entry = saver.keep_named(slot, opened.name) if opened.name else None
        saver.note_end()
        return self._answer(opened, len(slot.tokens), entry)

    def _answer(self, opened: _Open, num_tokens: int, entry: StoredPrompt | None) -> Prepared:
        sequence, saver = opened.sequence, self._room.saver
        self._end(sequence.request_id)
        return Prepared(
            request_id=sequence.request_id,
            name=opened.name,
            num_tokens=num_tokens,
            num_cached_tokens=sequence.cache.num_cached_tokens,
            source=sequence.cache.source,
            num_bytes=entry.num_bytes if entry is not None else 0,
            is_in_ram=entry is not None and saver.is_in_ram(entry),
            is_for_disk=entry is not None and saver.is_for_disk(entry),
            seconds=time.perf_counter() - sequence.prompt.received_at,
        )

    def _failed(self, opened: _Open, error: EngineError) -> Failed:
        _LOG.info("a beginning could not be read ahead: %s", error.message)
        self._end(opened.sequence.request_id)
        return Failed(request_id=opened.sequence.request_id, error=error.info())

    def _end(self, request_id: str) -> None:
        with self._lock:
            self._open.pop(request_id, None)
            self._abort_wanted.discard(request_id)
        self._room.reads.drop(request_id)
