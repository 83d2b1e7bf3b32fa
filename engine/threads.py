"""Setting how many threads compute for each step.

The policy is ThreadGovernor's; what is here looks at the machine, keeps to what the user chose, and tells of changes.
"""

import os
import time
from collections.abc import Callable, Sequence

import psutil

from engine.backend import Backend, BatchPart, DecodeStatus
from engine.messages import ThreadsChanged, ThreadsReason
from engine.processors import affinity, cgroup_quota, default_threads
from engine.thread_governor import StepKind, ThreadGovernor

_LIMIT_EVERY_S, _OTHERS_EVERY_S = 1.0, 0.25
_BUSY_CORES = 0.5
_CALIBRATION_S, _CALIBRATION_STEP_S = 0.2, 0.03
_SHORT_PREFILL = 64  # tokens: up to here each costs more than one of a long step, and most questions are not longer


class OtherPrograms:
    """How many cores other programs use, where that can be told."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def num_cores(self, now: float) -> float | None:
        """Return the mean since the last call; None at first, and where this process may not use all processors."""
        if cgroup_quota() is not None or len(affinity() or range(os.cpu_count() or 1)) != os.cpu_count():
            return None
        times, own = psutil.cpu_times(), os.times()
        names = ("user", "nice", "system", "irq", "softirq", "steal")
        busy_s = sum(getattr(times, name, 0.0) for name in names) - own.user - own.system
        last, self._last = self._last, (now, busy_s)
        if last is None or now <= last[0]:
            return None
        return max(0.0, (busy_s - last[1]) / (now - last[0]))


class StepThreads:
    """Sets the threads of each step.

    Args:
        set_threads: of the backend.
        count: threads the model was loaded with; a reproducible request always has these.
        is_fixed: whether the user chose `count`.
        count_allowed: tells how many threads may compute now.
        others: tells how many cores other programs use now.
    """

    def __init__(
        self,
        set_threads: Callable[[int, int], None],
        *,
        count: int,
        is_fixed: bool = True,
        count_allowed: Callable[[], int] = default_threads,
        others: Callable[[float], float | None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.count = count  # of the step that was begun last
        self._set_threads = set_threads
        self._loaded_with = count
        self._count_allowed = count_allowed
        self._others = others or OtherPrograms().num_cores
        self._clock = clock
        self._governor = None if is_fixed else ThreadGovernor(count, clock=clock)
        self._most = 0
        self._allowed = count
        self._limit_due = self._others_due = 0.0
        self._others_cores: float | None = None
        self._step: tuple[StepKind, int, int] | None = None
        self._reply_kind = StepKind.DECODE
        self._told = (count, count)

    def set_most(self, most: int) -> None:
        """See SetThreads."""
        self._most = most
        self._apply_limit()

    def of_draft(self, own: int = 0, *, is_strict: bool = False) -> int:
        """Return the threads of a draft model's steps, in whose time the target waits: no more than its share.

        Args:
            own: that were chosen for it; 0 takes as many as the target has.
            is_strict: whether the target computes one token by one thread, which is no rule for drafts.
        """
        count = own or (self._loaded_with if is_strict else self.count)
        return min(count, self._most) if self._most else count

    def begin(self, parts: Sequence[BatchPart], *, is_reproducible: bool = False, is_strict: bool = False) -> None:
        """Set the threads of the step that is about to be computed.

        Args:
            is_strict: compute one token by one thread: with several it is rounded otherwise than among others.
        """
        governor, self._step = self._governor, None
        count = 1 if is_strict and len(parts[0].tokens) == 1 else self._loaded_with
        if governor is not None and not (is_reproducible or is_strict):
            self._look(governor)
            self._step = _work_of(parts)
            count = governor.next_count(self._step[0])
        if count != self.count:
            self.count = count
            self._set_threads(count, count)

    def end(self, seconds: float) -> ThreadsChanged | None:
        """Learn from the step that was begun, now that it is done; return what is to be told."""
        if self._governor is None or self._step is None:
            return None
        kind, num_tokens, num_context = self._step
        self._governor.note(kind, count=self.count, num_tokens=num_tokens, num_context=num_context, seconds=seconds)
        if kind in (
            StepKind.DECODE,
            StepKind.SHARED,
        ):  # steps with drafts alternate with these: two counts would flicker
            self._reply_kind = kind
        settled = (self._governor.settled(self._reply_kind), self._governor.settled(StepKind.PREFILL))
        if settled == self._told:
            return None
        self._told = settled
        return ThreadsChanged(
            num_threads=settled[0],
            num_prefill_threads=settled[1],
            num_available=max(self._loaded_with, settled[0]),
            reason=self._reason(self._governor, settled[0]),
        )

    def calibrate(self, backend: Backend) -> None:
        """Let the governor learn from some steps before the first request, where steps are short."""
        if self._governor is None or self._governor.limit == 1:
            return
        token, end = backend.vocabulary.bos_id or 0, self._clock() + _CALIBRATION_S
        for position in range(min(64, backend.description.n_ctx)):
            part = BatchPart(0, position, (token,), wants_logits=True)
            self.begin([part])
            began = self._clock()
            if backend.decode([part]) is not DecodeStatus.DONE:
                break
            now = self._clock()
            self.end(now - began)
            if now > end or now - began > _CALIBRATION_STEP_S:
                break
        backend.seq_rm(0, 0)
        self._told = (self._loaded_with, self._loaded_with)  # what was found is told with the first reply

    def _look(self, governor: ThreadGovernor) -> None:
        now = self._clock()
        if now >= self._limit_due:
            self._limit_due = now + _LIMIT_EVERY_S
            self._allowed = self._count_allowed()
            self._apply_limit()
        if now >= self._others_due:
            self._others_due = now + _OTHERS_EVERY_S
            self._others_cores = self._others(now)
            if self._others_cores is not None:
                governor.set_others(self._others_cores)

    def _apply_limit(self) -> None:
        if self._governor is not None:
            self._governor.set_limit(min(self._allowed, self._most or self._allowed))

    def _reason(self, governor: ThreadGovernor, count: int) -> ThreadsReason:
        if count >= self._loaded_with:
            return ThreadsReason.ALL
        if count == governor.limit:
            return ThreadsReason.SHARED if self._most and self._most <= self._allowed else ThreadsReason.QUOTA
        is_disturbed = governor.is_disturbed(self._reply_kind) or (self._others_cores or 0.0) >= _BUSY_CORES
        return ThreadsReason.NEIGHBOUR if is_disturbed else ThreadsReason.MEASURED


def _work_of(parts: Sequence[BatchPart]) -> tuple[StepKind, int, int]:
    """Return kind, tokens and mean context of a step."""
    num_tokens, num_drafted = sum(len(part.tokens) for part in parts), sum(part.num_drafted for part in parts)
    context = sum(len(part.tokens) * (part.start + len(part.tokens) // 2) for part in parts) // num_tokens
    if num_tokens > len(parts) + num_drafted:
        is_short = num_tokens <= _SHORT_PREFILL
        return StepKind.SHORT_PREFILL if is_short else StepKind.PREFILL, num_tokens, context
    if num_drafted:
        return StepKind.VERIFY, num_tokens, context
    return StepKind.DECODE if num_tokens == 1 else StepKind.SHARED, num_tokens, context
