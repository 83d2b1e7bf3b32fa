"""Measures, while nothing is asked, what steps of several tokens take: drafts are judged by it from the first on."""

import logging
import threading
import time

from engine.backend import Backend, BatchPart, DecodeStatus
from engine.errors import EngineError
from engine.kv_cache import KVCache
from engine.params import SamplingParams
from engine.slot import Slot
from engine.speculative.agreement import PIECE_TOKENS, Agreement
from engine.speculative.step_times import CALIBRATION_ROWS, StepTimes
from engine.threads import StepThreads

_LOG = logging.getLogger(__name__)
_ROWS_FIRST = 4  # numbers of rows
_LONGEST_S = 0.25  # a step: what has come would wait for it


class Calibration:
    """Steps in an empty slot, of as many rows as drafts may make them have.

    Args:
        times: learns from them.

    Attributes:
        agreement: what a draft model and this one still have to read; when all else was measured.
    """

    def __init__(self, backend: Backend, cache: KVCache, times: StepTimes, threads: StepThreads) -> None:
        self._backend = backend
        self._cache = cache
        self._times = times
        self._threads = threads
        self._due: list[int] = []
        self._was_wanted = False
        self.agreement: Agreement | None = None
        self._was_text = False
        self._lock = threading.Lock()  # guards the three below: `break_off` is called on another thread
        self._is_in_step = self._is_step_unwanted = self._was_broken_off = False

    @property
    def is_due(self) -> bool:
        """Whether `step()` has something to do."""
        return bool(self._due) or (self.agreement is not None and self.agreement.is_due)

    def want(self) -> None:
        """Measure when there is time, once for a model."""
        if not self._was_wanted:
            self._was_wanted = True
            self._due = list(CALIBRATION_ROWS)

    def break_off(self) -> None:
        """End the step that runs; it is done again. Safe from any thread."""
        with self._lock:
            self._was_broken_off = self._is_step_unwanted = True
            if self._is_in_step:
                self._backend.raise_abort()

    def run(self, limit_s: float) -> None:
        """Measure now, for about so long, or until something comes."""
        end, self._was_broken_off = time.perf_counter() + limit_s, False
        while self.is_due and not self._was_broken_off and time.perf_counter() < end:
            self.step()

    def step(self) -> None:
        """Measure the next number of rows, or have the draft model judged by the next piece of text."""
        if not self.is_due:
            return
        slot = next((slot for slot in self._cache.slots if slot.owner is None and not slot.tokens), None)
        reads_text = self._is_text_next()
        num_rows = PIECE_TOKENS if reads_text else self._due[0]
        count, expected_s = self._threads.count, self._times.expected(num_rows, num_threads=self._threads.count)
        num_free = self._cache.n_ctx - self._cache.num_used_cells
        most = min(num_free, self._backend.max_step_tokens)
        most = most if reads_text else min(most, self._backend.max_step_logits)
        if slot is None or num_rows > most or (not reads_text and (expected_s or 0.0) > _LONGEST_S):
            self._skip(reads_text=reads_text)
            return
        with self._lock:
            self._backend.clear_abort()
            self._is_in_step, self._is_step_unwanted = True, False
        seconds = None
        try:
            if not reads_text:
                seconds = self._seconds(slot, num_rows)
            elif self.agreement is not None:
                self.agreement.model.set_threads(self._threads)
                self.agreement.step(
                    slot.seq_id,
                    lambda rows: self._times.expected(rows, num_threads=count),
                    is_wanted=lambda: not self._is_step_unwanted,
                )
                self._was_text = True
        except EngineError as error:
            _LOG.info("what a step takes could not be measured: %s", error.message)
            self._due.clear()
            self.agreement = None
            return
        finally:
            with self._lock:
                self._is_in_step = False
                self._backend.clear_abort()
            self._cache.clear(slot)
        if seconds is not None:
            self._due.pop(0)
            self._was_text = False
            self._times.observe(num_rows, seconds, num_threads=count)

    def _is_text_next(self) -> bool:
        """Whether a piece of text is next: by turns, once the most telling numbers of rows were measured."""
        if self.agreement is None or not self.agreement.is_due:
            return False
        num_done = len(CALIBRATION_ROWS) - len(self._due)
        return not self._due or (num_done >= _ROWS_FIRST and not self._was_text)

    def _skip(self, *, reads_text: bool) -> None:
        """Leave out what there is no room for, or what would take long."""
        if not reads_text:
            self._due.pop(0)
        elif self.agreement is not None:
            self.agreement.drop()

    def _seconds(self, slot: Slot, num_rows: int) -> float | None:
        """Return what computing and choosing so many tokens takes; None where it was not done."""
        token = self._backend.vocabulary.bos_id or 0
        sampler = self._backend.new_sampler(SamplingParams(temperature=0.0), 0, ())
        try:
            began = time.perf_counter()
            part = BatchPart(slot.seq_id, 0, [token] * num_rows, wants_logits=True, num_drafted=num_rows - 1)
            status = self._backend.decode([part])
            if status is DecodeStatus.NO_ROOM:  # nor will there be when it is tried again
                self._due.pop(0)
            if status is not DecodeStatus.DONE:
                return None
            for row in range(num_rows):
                sampler.sample(row)
            return time.perf_counter() - began
        finally:
            sampler.close()
