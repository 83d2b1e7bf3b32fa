"""How many threads may compute, and setting that many for each step.

The policy is ThreadGovernor's; what is here looks at the machine, keeps to what the user chose, and tells of changes.
"""

import ctypes
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from engine.backend import Backend, BatchPart, DecodeStatus
from engine.messages import ThreadsChanged, ThreadsReason
from engine.thread_governor import StepKind, ThreadGovernor

_WINDOW_FROM = 4  # cores, from which on one is left to the window and the rest of the desktop
_LIMIT_EVERY_S, _OTHERS_EVERY_S = 1.0, 0.25
_BUSY_CORES = 0.5
_PERFORMANCE_SHARE = 0.6  # of the strongest core's capacity: slower ones would keep it waiting at every barrier
_CALIBRATION_S, _CALIBRATION_STEP_S = 0.2, 0.03
_SHORT_PREFILL = 64  # tokens: up to here each costs more than one of a long step, and most questions are not longer


def default_threads() -> int:
    """Return how many threads compute where nobody chose: the physical cores this process may use, within its affinity
    and its control group's quota, performance cores where the system tells them apart, without one for the window."""
    cores = _physical_cores_in_affinity() or _apple_performance_cores() or psutil.cpu_count(logical=False)
    cores = cores or os.cpu_count() or 1
    quota = _cgroup_quota()
    if quota is not None:
        cores = min(cores, max(1, math.floor(quota)))
    return cores - 1 if cores >= _WINDOW_FROM else max(1, cores)


class OtherPrograms:
    """How many cores other programs use, where that can be told."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def num_cores(self, now: float) -> float | None:
        """Return the mean since the last call; None at first, and where this process may not use all processors."""
        if _cgroup_quota() is not None or len(_affinity() or range(os.cpu_count() or 1)) != os.cpu_count():
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


def _affinity() -> set[int] | None:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def _physical_cores_in_affinity() -> int | None:
    """Count distinct cores among the processors of the affinity mask; None where the system does not tell."""
    allowed = _affinity()
    if allowed is None:
        return None
    cores: set[tuple[str, str]] = set()
    for cpu in allowed & _performance_processors(allowed) or allowed:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            cores.add((_read(topology / "physical_package_id"), _read(topology / "core_id")))
        except OSError:
            return None
    return len(cores)


def _performance_processors(processors: set[int]) -> set[int]:
    """Return those that are not of the weaker kind; all where the kinds are not told apart."""
    try:
        return _numbers(_read(Path("/sys/devices/cpu_core/cpus")))  # of hybrid Intel processors
    except (OSError, ValueError):
        pass
    try:
        capacity = {cpu: int(_read(Path(f"/sys/devices/system/cpu/cpu{cpu}/cpu_capacity"))) for cpu in processors}
    except (OSError, ValueError):
        return processors
    strongest = max(capacity.values(), default=0)
    return {cpu for cpu, value in capacity.items() if value >= _PERFORMANCE_SHARE * strongest}


def _numbers(text: str) -> set[int]:
    """Return the numbers of a list such as 0-3,8."""
    numbers: set[int] = set()
    for item in text.split(","):
        first, _, last = item.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _apple_performance_cores() -> int | None:
    if platform.system() != "Darwin":
        return None
    value = ctypes.c_int(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    name = b"hw.perflevel0.physicalcpu"
    failed = ctypes.CDLL(None).sysctlbyname(name, ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return value.value if not failed and value.value > 0 else None


def _cgroup_quota() -> float | None:
    """Return the processors' worth of time the control group may use, None without a limit."""
    try:
        quota, period = _read(Path("/sys/fs/cgroup/cpu.max")).split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        base = Path("/sys/fs/cgroup/cpu")
        quota_us, period_us = int(_read(base / "cpu.cfs_quota_us")), int(_read(base / "cpu.cfs_period_us"))
        return quota_us / period_us if quota_us > 0 and period_us > 0 else None
    except (OSError, ValueError):
        return None


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
