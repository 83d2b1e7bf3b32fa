"""Engine: requests come and go at any step, `step()` is the only verb; single-threaded, knows no pipe."""

import logging
import time
from collections.abc import Callable, Iterable

from engine.aborts import Aborts
from engine.backend import Backend, BatchPart, DecodeStatus
from engine.cache_report import report_of
from engine.errors import DecodeFailed, EngineError, RequestError, overflow_error
from engine.idle_work import IdleWork
from engine.kv_cache import KVCache
from engine.messages import Event, Failed, FinishReason, RequestState, StateChanged
from engine.miss_cause import ChatLedger
from engine.prompt_cache import PromptCache
from engine.sampled_rows import keep_to_budget, sample_rows
from engine.scheduler import PlannedPart, Scheduler
from engine.sequence import Prompt, Sequence
from engine.slot_room import SlotRoom
from engine.speculative.speculator import Speculator
from engine.threads import StepThreads

_LOG = logging.getLogger(__name__)
_DISK_WAIT_S = 0.02  # at a time, where nothing else is to be done


class Engine:
    """Continuous batching over the slots of one backend.

    Args:
        backend: owned from now on.
        peak_memory: tells the high-water resident bytes of this process.
        threads: sets the threads of each step; without it they stay as they are.
        prompt_cache: what is kept beside the context; without it nothing is.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        peak_memory: Callable[[], int | None] = lambda: None,
        threads: StepThreads | None = None,
        prompt_cache: PromptCache | None = None,
    ) -> None:
        description = backend.description
        self.backend = backend
        self.threads = threads or StepThreads(backend.set_threads, count=description.n_threads)
        self._peak_memory = peak_memory
        self._n_ctx = description.n_ctx
        self._cache = KVCache(backend, backend.vocabulary, n_seq_max=description.n_seq_max, n_ctx=self._n_ctx)
        self._scheduler = Scheduler(
            n_batch=backend.max_step_tokens,
            n_ubatch=description.n_ubatch,
            n_ctx=self._n_ctx,
            mixes_parts=backend.mixes_parts,
        )
        self._ledger = ChatLedger(self._cache.common)
        self.speculator = Speculator(backend, self._cache, self.threads)
        self.room = SlotRoom(backend, self._cache, prompt_cache or PromptCache())
        self.idle = IdleWork(backend, self._cache, self.room, self.threads, self.speculator.calibration)
        self._is_admission_due = False
        self._events: list[Event] = []
        self._aborts = Aborts(backend, self._scheduler.is_long)

    @property
    def has_requests(self) -> bool:
        """Whether anything that was asked for is not done."""
        return bool(self._scheduler.running or self._scheduler.waiting or self.idle.preparations.is_due)

    @property
    def has_work(self) -> bool:
        """Whether `step()` has something to do."""
        return bool(self._scheduler.running or self._scheduler.waiting or self.idle.is_due)

    def add(self, prompt: Prompt) -> list[Event]:
        """Take a request in; it starts at the next step that has room for it."""
        self.idle.make_way()
        if not prompt.tokens:  # it would take its first token from a neighbour's logits
            error: RequestError = RequestError("The prompt is empty.", "Write something first.")
            return [Failed(request_id=prompt.request_id, error=error.info())]
        if len(prompt.tokens) > self._n_ctx:
            error = overflow_error(len(prompt.tokens), self._n_ctx)
            return [Failed(request_id=prompt.request_id, error=error.info())]
        try:
            adapters = self.backend.load_adapters(prompt.adapters)
        except EngineError as refusal:
            return [Failed(request_id=prompt.request_id, error=refusal.info())]
        sequence = Sequence(prompt, self.backend.vocabulary, adapters)
        self.idle.preparations.give_way(prompt.chat_id)
        self.room.reads.expect(sequence)
        self._scheduler.waiting.append(sequence)
        self._is_admission_due = True
        self._aborts.open(prompt.request_id)
        return [] if prompt.dropped is None else [prompt.dropped]

    def request_abort(self, request_id: str) -> None:
        """Stop a request; safe from any thread, ignored when it has ended."""
        self.idle.preparations.request_abort(request_id)
        self._aborts.want(request_id)

    def drop_read_ahead(self) -> None:
        """Make way for what has come; safe from any thread."""
        self.idle.make_way()

    def step(self) -> list[Event]:
        """Compute one batch and return what it brought."""
        self._finish_aborted()
        self._admit()
        if self._events:  # who was let in is told before the step, which may take seconds
            return self._take_events()
        if not (self._scheduler.running or self._scheduler.waiting):
            return self.idle.step()
        if not self._scheduler.running:  # the first one waits for the disk
            self.room.reads.wait(self._scheduler.waiting[0], _DISK_WAIT_S)
            return []
        self.room.set_busy()
        self.speculator.propose(self._scheduler.running, num_threads=self.threads.count)
        planned = self._make_room(self._scheduler.plan())
        if planned and self._aborts.enter_step(planned):
            self._compute(planned)
        return self._take_events()

    def forget(self, chat_ids: Iterable[str] | None) -> None:
        """Drop what is kept of some chats, or of all; of one that is computed or waits, nothing will be written."""
        gone = None if chat_ids is None else set(chat_ids)
        for sequence in [*self._scheduler.running, *self._scheduler.waiting]:
            if gone is None or sequence.prompt.chat_id in gone:
                sequence.is_private = True
                sequence.is_forgotten = sequence.is_forgotten or gone is not None
        self.idle.preparations.forget(gone)
        self.room.forget(gone)
        self.speculator.forget(gone)

    def fail_all(self, error: EngineError) -> list[Event]:
        """Fail every request, before the model goes."""
        self.idle.make_way()
        self._events += self.idle.preparations.fail_all(error)
        for sequence in [*self._scheduler.running, *self._scheduler.waiting]:
            self._fail(sequence, error)
        return self._take_events()

    def close(self) -> None:
        """Have the chats written, and free the backend; requests must have ended."""
        self.speculator.close()
        self.room.close()
        self.backend.close()

    # --- before a step ---

    def _finish_aborted(self) -> None:
        wanted = self._aborts.wanted()
        if not wanted:
            return
        for sequence in [*self._scheduler.running, *self._scheduler.waiting]:
            if sequence.request_id in wanted:
                self._finish(sequence, FinishReason.ABORT)

    def _admit(self) -> None:
        while self._is_admission_due:
            sequence = self._scheduler.next_admissible(
                has_idle_slot=self._cache.has_idle_slot, num_cells_with=self._cache.num_cells_with
            )
            if sequence is not None and not self.room.reads.is_ready(sequence):
                return
            if sequence is None:
                self._is_admission_due = False
                for waiting in self._scheduler.waiting:
                    if waiting.state is None:
                        self._set_state(waiting, RequestState.QUEUED)
                return
            self._scheduler.waiting.popleft()
            self._scheduler.running.append(sequence)
            try:
                self._resume(sequence) if sequence.snapshot else self._begin(sequence)
            except EngineError as error:
                self._fail(sequence, error)

    def _begin(self, sequence: Sequence) -> None:
        prompt = sequence.prompt
        self.speculator.prepare(sequence)
        acquired, back = self.room.admit(sequence)
        if not sequence.generated:
            sequence.prompt_tokens = acquired.tokens
            sequence.cache = report_of(
                prompt, acquired, back, ledger=self._ledger, room=self.room, adapters=sequence.adapters
            )
        if not self.backend.shares_cells_only:
            sequence.plan_checkpoints()
        if sequence.sampler is None:
            self.speculator.begin(sequence)
            sequence.sampler = self.backend.new_sampler(
                prompt.sampling,
                prompt.seed,
                acquired.tokens,
                matcher=prompt.matcher,
                is_thinking=sequence.is_before_answer,
                is_drafted=self.speculator.may_draw(sequence),
            )
            keep_to_budget(sequence, was_before_answer=sequence.is_before_answer)
            if sequence.is_full:  # the end of its thinking is all it may have
                self._finish(sequence, FinishReason.LENGTH)
                return
        self._set_state(sequence, RequestState.PREFILL)
        self._events.append(sequence.progress())

    def _resume(self, sequence: Sequence) -> None:
        assert sequence.snapshot is not None
        snapshot, sequence.snapshot = sequence.snapshot, None
        sequence.slot = self._cache.take_empty(sequence.request_id)
        sequence.slot.chat_id, sequence.slot.is_private = sequence.prompt.chat_id, sequence.is_private
        while self._cache.num_used_cells + len(snapshot.tokens) > self._n_ctx and self._cache.evict_idle():
            pass
        self.speculator.resume(sequence)
        if not self._cache.restore(sequence.slot, snapshot):
            _LOG.info("request %s is read again: its snapshot could not be restored", sequence.request_id)
        self._set_state(sequence, RequestState.DECODE if sequence.is_decoding else RequestState.PREFILL)

    def _make_room(self, planned: list[PlannedPart]) -> list[PlannedPart]:
        """End replies whose context is full; evict and pause until the step fits the pool."""
        num_needed = 0
        for _, part in planned:
            num_needed += len(part.tokens)
        if self._cache.num_used_cells + num_needed <= self._n_ctx:  # then no sequence is beyond it either
            return planned
        for sequence, part in planned:
            if part.start + len(part.tokens) > self._n_ctx:
                self._finish(sequence, FinishReason.CONTEXT_FULL)
        planned = [item for item in planned if item.sequence.slot is not None]
        while self._cache.num_used_cells + sum(len(item.part.tokens) for item in planned) > self._n_ctx:
            if self._cache.evict_idle():
                continue
            victim = self._scheduler.youngest()
            if victim is None:
                break
            self._pause(victim)
            planned = [item for item in planned if item.sequence is not victim]
        return planned

    def _pause(self, sequence: Sequence) -> None:
        assert sequence.slot is not None
        sequence.snapshot = self._cache.snapshot(sequence.slot)
        self._cache.clear(sequence.slot)
        self._leave(sequence)
        self._scheduler.waiting.appendleft(sequence)
        # Let in again when another reply ends: at once it would only be paused again.
        self._is_admission_due = False
        self._set_state(sequence, RequestState.PAUSED)

    def _compute(self, planned: list[PlannedPart]) -> None:
        for sequence, _ in planned:
            if sequence.state is RequestState.PREFILL:
                sequence.begin_prefill()
        first, parts = planned[0].sequence, [part for _, part in planned]
        self.threads.begin(parts, is_reproducible=first.is_reproducible, is_strict=first.is_strict)
        self.speculator.begin_step(planned)
        began = time.perf_counter()
        try:
            self.backend.use_adapters(first.adapters)
            status = self.backend.decode(parts)
        except EngineError as error:
            self._fail_all(planned, error)
        else:
            self._take(planned, status, time.perf_counter() - began)
        finally:
            self._aborts.leave_step()

    # --- after a step ---

    def _take(self, planned: list[PlannedPart], status: DecodeStatus, duration_s: float) -> None:
        if status is DecodeStatus.NO_ROOM:
            self._relieve(planned)
            return
        if status is DecodeStatus.ABORTED:
            for sequence, part in planned:
                assert sequence.slot is not None
                kept = self._cache.resync(sequence.slot, part.tokens)
                if part.num_drafted:  # what was drafted has not been checked
                    self._cache.trim(sequence.slot, part.start)
                elif part.wants_logits and kept == len(part.tokens):  # all but the logits: the last is computed again
                    self._cache.trim(sequence.slot, len(sequence.slot.tokens) - 1)
            return
        self._scheduler.note_step(planned, duration_s)
        self.room.note_prefill(self._scheduler.prefill_s_per_token)
        if (changed := self.threads.end(duration_s)) is not None:
            self._events.append(changed)
        row = 0
        for sequence, part in planned:
            assert sequence.slot is not None
            self._cache.append(sequence.slot, part.tokens)
            if sequence.state is RequestState.PREFILL:
                self._events.append(sequence.progress())
            if sequence.is_checkpoint_due:
                self._cache.checkpoint(sequence.slot)
            elif not self.backend.survives_abort and len(part.tokens) > 1:
                self._cache.checkpoint(sequence.slot, is_rolling=True)
            if part.wants_logits:
                sequence.num_threads = self.threads.count
                self._sample(sequence, part, row)
                row += 1 + part.num_drafted
        self.speculator.end_step(num_threads=self.threads.count)

    def _sample(self, sequence: Sequence, part: BatchPart, row: int) -> None:
        assert sequence.slot is not None
        try:
            sampled = sample_rows(sequence, part, row, end_ids=self.backend.vocabulary.end_ids)
        except EngineError as error:
            if part.num_drafted:
                self._cache.trim(sequence.slot, part.start)
            self._fail(sequence, error)
            return
        if part.num_drafted:
            self._cache.trim(sequence.slot, part.start + sampled.num_held)
        self.speculator.note_sampled(sequence, part, sampled)
        if sequence.state is not RequestState.DECODE:
            self._set_state(sequence, RequestState.DECODE)
        if sampled.reason is not None:
            self._finish(sequence, sampled.reason)
        elif (delta := sequence.next_delta()) is not None:
            self._events.append(delta)

    def _relieve(self, planned: list[PlannedPart]) -> None:
        """Make room after the memory refused a step that should have fitted."""
        if any(part.num_drafted for _, part in planned):
            self.speculator.rest()
            return
        if self._cache.evict_idle():
            return
        victim = self._scheduler.youngest()
        if victim is not None:
            self._pause(victim)
            return
        self._fail_all(planned, DecodeFailed("The context has no room for this step.", "Load a larger context."))

    def _fail_all(self, planned: list[PlannedPart], error: EngineError) -> None:
        for sequence, _ in planned:
            if sequence.slot is not None:
                self._cache.clear(sequence.slot)
            self._fail(sequence, error)
        if not self.backend.survives_abort:
            self._cache.distrust()

    # --- ends ---

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        if sequence.slot is not None:
            held = sequence.prompt_tokens if sequence.stop_string else [*sequence.slot.tokens]
            sequence.slot.rewritten = sequence.rewritten_span
            self._ledger.note(sequence.prompt.chat_id, held, sequence.adapters, sequence.slot.rewritten)
            self.idle.note_reply(sequence.slot, sequence.tokens_ahead())
            self.room.note_end(sequence)
        self._end(sequence)
        self._events.extend(sequence.finish(reason, self._peak_memory()))

    def _fail(self, sequence: Sequence, error: EngineError) -> None:
        self._end(sequence)
        if (delta := sequence.last_delta()) is not None:
            self._events.append(delta)
        self._events.append(Failed(request_id=sequence.request_id, error=error.info()))

    def _end(self, sequence: Sequence) -> None:
        if sequence in self._scheduler.waiting:
            self._scheduler.waiting.remove(sequence)
        if sequence.sampler is not None:
            sequence.sampler.close()
            sequence.sampler = None
        self.speculator.end(sequence)
        slot = sequence.slot
        self._leave(sequence)
        if slot is not None and sequence.is_forgotten:
            self._cache.clear(slot)
        self._aborts.close(sequence.request_id)
        self.room.reads.drop(sequence.request_id)
        self._is_admission_due = True

    def _leave(self, sequence: Sequence) -> None:
        if sequence.slot is not None:
            self._cache.release(sequence.slot)
            sequence.slot = None
            self._scheduler.running.remove(sequence)

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _set_state(self, sequence: Sequence, state: RequestState) -> None:
        sequence.state = state
        self._events.append(StateChanged(request_id=sequence.request_id, state=state))
