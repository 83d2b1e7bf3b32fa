"""How many threads the next step computes with: pure policy, told the time of every step and nothing else it must have.

Every node of a step ends in a barrier where all threads wait for the slowest, so that one other busy program can make
two threads three times slower than one. The governor compares counts by steps that lie side by side, pays for trying
others from a small share of the time, and moves when another count is measurably better.
"""

import enum
import math
import statistics
from collections import deque
from collections.abc import Callable

from engine.step_cost import StepCost

_BUDGET_SHARE = 0.008  # of the time may go to trying other counts; with what is lost otherwise it stays below 2 %
_BUSY_SHARE = 0.015  # where fewer threads compute than may: it has to be noticed within 2 s that a neighbour has left
_FIRST_BUDGET_S = 0.03
_MAX_BUDGET_S = 0.25
_MAX_CHARGE_S = 0.12  # beside neighbours one try can take very long, and must not put off the next for a minute
_SLOW, _RATHER_SLOW = 1.4, 1.15  # times what was expected: twice in five steps, or half of five steps
_NUM_RECENT = 5
_SPREAD = 0.12  # expected of the logarithm of two steps' ratio, until it is known
_MIN_GAIN = 0.005
_CHANGE = 0.35
_CROWDED_TRIES = 8
_CROWDED_COST = 2.0  # more of a step's time, for a thread more than there are cores for
_CLEAR_GAIN = 0.2  # one step says enough
_FIRST_INTERVAL_S, _MAX_INTERVAL_S, _CROWDED_INTERVAL_S = 0.05, 1.0, 8.0
_FLUTTER_S = 2.0  # up and down again in this time: the next way up waits
_MAX_HOLD_S = 16.0
_STALE_S = 5.0  # without a step; much may have changed meanwhile


class StepKind(enum.Enum):
    """What a step does; each kind has a best count of its own."""

    DECODE = "decode"  # one token of one reply
    SHARED = "shared"  # one token of each of several replies
    VERIFY = "verify"  # drafted tokens behind one of a reply's
    PREFILL = "prefill"
    SHORT_PREFILL = "short_prefill"  # a question behind what is cached: each token costs up to twice one of a long step


class ThreadGovernor:
    """Thread counts of one model's steps.

    Args:
        limit: most threads, see `set_limit`.
        start: threads to begin with, the limit where None.
        clock: seconds that only rise.
    """

    def __init__(self, limit: int, *, clock: Callable[[], float], start: int | None = None) -> None:
        self.limit = max(1, limit)
        self._clock = clock
        self._others: float | None = None
        first = min(start or self.limit, self.limit)
        self._lanes = {kind: _Lane(first, clock()) for kind in StepKind}
        # A neighbour may have been there first, and look as if the machine were just slow. Prompts have few and long
        # steps: what is best for replies is taken over there until it is known better.
        self._lanes[StepKind.DECODE].has_free_try = self._lanes[StepKind.SHARED].has_free_try = True

    def next_count(self, kind: StepKind) -> int:
        """Return the threads for the next step of a kind: the settled count, or one that is tried for this step."""
        return self._lanes[kind].choose(self.limit, self._clock())

    def settled(self, kind: StepKind) -> int:
        """Return the count that steps of a kind compute with when none is tried."""
        return self._lanes[kind].settled

    def is_disturbed(self, kind: StepKind) -> bool:
        """Return whether fewer threads compute because more had suddenly become slow."""
        return self._lanes[kind].is_disturbed

    def note(self, kind: StepKind, *, count: int, num_tokens: int, num_context: int, seconds: float) -> None:
        """Learn from a finished step.

        Args:
            num_context: tokens that each of its tokens looked at.
        """
        if seconds <= 0:
            return
        lane, before = self._lanes[kind], self._lanes[kind].settled
        lane.note(count, (num_tokens, num_context), seconds, self.limit, self._clock())
        if lane.settled != before and kind not in (StepKind.PREFILL, StepKind.SHORT_PREFILL):
            for other in self._lanes.values():
                if other is not lane:
                    other.follow(lane.settled)

    def set_limit(self, limit: int) -> None:
        """Never use more than this many threads from now on."""
        if (limit := max(1, limit)) == self.limit:
            return
        self.limit = limit
        for lane in self._lanes.values():
            lane.keep_within(limit)

    def set_others(self, num_cores: float) -> None:
        """Tell how many cores other programs use; not needed, but then less has to be tried."""
        before, self._others = self._others, num_cores
        for lane in self._lanes.values():
            lane.is_crowded = num_cores > self.limit - lane.settled - 0.5 and num_cores >= 0.5
            if before is not None and abs(num_cores - before) >= 0.5:
                lane.is_alert = num_cores > before
                lane.look_again()


class _Rival:
    """What is known of another count: the mean logarithm of its cost over that of the settled one."""

    def __init__(self) -> None:
        self.mean = 0.0
        self.number = 0
        self._square = 4 * _SPREAD**2  # as if four had been seen
        self.due = 0.0
        self.interval_s = _FIRST_INTERVAL_S

    def add(self, value: float) -> None:
        """Take one comparison; old ones fade."""
        off = value - self.mean
        if self.number and off < -_CHANGE:  # much cheaper than it was: something has ended
            self.number, self.interval_s = 0, _FIRST_INTERVAL_S
            self.mean = value
            off = 0.0
        self.number = min(self.number + 1, 400)
        self.mean += off / self.number
        if self.number > 1:
            self._square += min(abs(off), 1.0) ** 2
            if self.number == 400:
                self._square *= 1 - 1 / 400

    @property
    def is_better(self) -> bool:
        """Whether it costs less, beyond doubt."""
        if not self.number:
            return False
        spread = math.sqrt(self._square / (self.number + 3))
        return self.mean + _MIN_GAIN + 1.6 * spread / math.sqrt(self.number) < 0


class _Lane:
    """The counts of one kind of step.

    Attributes:
        settled: the count in use.
        is_alert: whether other programs have just begun to use more, so that one slow step says enough.
        has_free_try: whether fewer threads may be tried once whatever that costs.
        is_disturbed: whether it was left for fewer because it had suddenly become slow.
        is_crowded: whether other programs leave no core for one more thread.
    """

    def __init__(self, settled: int, now: float) -> None:
        self.settled = settled
        self.is_alert = False
        self.is_crowded = False
        self.is_disturbed = False
        self.has_free_try = False
        self._has_own_count = False
        self._cost = StepCost()
        self._recent: deque[float] = deque(maxlen=_NUM_RECENT)  # settled steps, time over what was expected
        self._rivals: dict[int, _Rival] = {}
        self._ladder: list[int] = []  # counts to try one after the other, since the settled one has become slow
        self._budget_s = _FIRST_BUDGET_S
        self._was_tried = False
        self._last_at = now
        self._raised_at = -math.inf
        self._hold_s = 0.0
        self._held_until = -math.inf
        self._calm_until = -math.inf
        self._calm_s = 0.1

    # --- before a step ---

    def choose(self, limit: int, now: float) -> int:
        """Return the count of the next step."""
        if now - self._last_at > _STALE_S:
            self._recent.clear()
            self._ladder.clear()
            self.look_again()
        self._last_at = now
        if self._ladder:
            return self._ladder[0]
        if self._was_tried or not self._cost.is_known or len(self._recent) < 3:
            return self.settled  # what is tried lies between steps to compare it with
        for count in (self.settled + 1, self.settled - 1):
            if 1 <= count <= limit and self._is_due(count, now):
                return count
        return self.settled

    def follow(self, count: int) -> None:
        """Take over what another kind has found out, unless this one has found a count of its own."""
        self.has_free_try = True
        if not self._has_own_count and count != self.settled:
            self.settled = count
            self._cost = StepCost()
            self._recent.clear()
            self._rivals.clear()
            self._ladder.clear()

    def keep_within(self, limit: int) -> None:
        """Use no more threads than `limit`, and look whether others suit better."""
        if self.settled > limit:
            self.settled = limit
            self._recent.clear()
        self._ladder.clear()
        self.look_again()

    def look_again(self) -> None:
        """Have other counts tried soon: something has changed."""
        for count, rival in self._rivals.items():
            rival.number = min(rival.number, 0 if count > self.settled else 1)
            rival.due, rival.interval_s = 0.0, _FIRST_INTERVAL_S
        self._budget_s = max(self._budget_s, _FIRST_BUDGET_S)

    def _is_due(self, count: int, now: float) -> bool:
        rival = self._rivals.setdefault(count, _Rival())
        if now < rival.due or (count > self.settled and now < self._held_until):
            return False
        if self.has_free_try and count < self.settled and not rival.number:
            return True
        return self._extra_s(count) <= self._budget_s

    def _extra_s(self, count: int) -> float:
        """Seconds that trying a count is expected to cost."""
        rival = self._rivals[count]
        if rival.number:
            share = math.exp(rival.mean) - 1
        else:  # the worst: one thread less takes its whole share with it
            share = self.settled / count - 1 if count < self.settled else _CROWDED_COST if self.is_crowded else 0.15
        extra_s = max(0.0, share) * self._cost.last_s
        return min(extra_s, _MAX_CHARGE_S) if count > self.settled else extra_s

    # --- after a step ---

    def note(self, count: int, work: tuple[int, int], seconds: float, limit: int, now: float) -> None:
        """Learn from a step; `work` is its tokens and its context."""
        self._last_at = now
        expected_s = self._cost.expected(*work)
        self._was_tried = count != self.settled
        if self._was_tried:
            if expected_s is not None and self._recent:
                self._note_rival(count, seconds / expected_s, expected_s, limit, now)
            return
        if expected_s is None:
            self._cost.learn(*work, seconds)
            self._recent.append(1.0)
            return
        ratio = seconds / expected_s
        self._recent.append(min(ratio, 6.0))
        share = _BUDGET_SHARE if self.settled >= limit else _BUSY_SHARE
        lost_s = seconds - expected_s if ratio > _SLOW else 0.0
        most_s = max(_MAX_BUDGET_S, 2 * expected_s)
        self._budget_s = min(self._budget_s + share * seconds + lost_s / 2, most_s)
        if self._is_slow(now):
            self._suspect()
        elif not self._cost.is_known or 1 / _SLOW < ratio < _SLOW:
            self._cost.learn(*work, seconds)
        elif statistics.median(self._recent) < 1 / _SLOW:
            self._cost.rescale(statistics.median(self._recent))
            self._recent.clear()
        if not self._ladder and self._cost.is_known and now - self._raised_at > 4 * max(self._hold_s, _FLUTTER_S):
            self._hold_s = 0.0

    def _is_slow(self, now: float) -> bool:
        if self.settled == 1 or not self._cost.is_known or now < self._calm_until:
            return False
        num_slow = sum(ratio > _SLOW for ratio in self._recent)
        is_lasting = len(self._recent) == _NUM_RECENT and statistics.median(self._recent) > _RATHER_SLOW
        return num_slow >= (1 if self.is_alert else 2) or is_lasting

    def _suspect(self) -> None:
        """Try ever fewer threads; what they cost before says nothing now."""
        if self._ladder:
            return
        for count in [count for count in self._rivals if count < self.settled]:
            del self._rivals[count]
        gap = 1
        while self.settled - gap > 1:
            self._ladder.append(self.settled - gap)
            gap *= 2
        self._ladder.append(1)
        slow = [ratio for ratio in self._recent if ratio > _RATHER_SLOW]
        self._recent = deque(slow, maxlen=_NUM_RECENT)

    def _note_rival(self, count: int, ratio: float, expected_s: float, limit: int, now: float) -> None:
        rival = self._rivals.setdefault(count, _Rival())
        self.has_free_try = self.has_free_try and count > self.settled
        average = statistics.median if count > self.settled else statistics.fmean
        base = average(self._recent)
        rival.add(math.log(ratio / base))
        extra_s = max(0.0, (ratio - base) * expected_s)
        self._budget_s -= min(extra_s, _MAX_CHARGE_S) if count > self.settled else extra_s
        if self._ladder:
            self._climb_down(count, now)
            return
        # A step of more threads can be lucky beside neighbours, and going up wrongly costs most there.
        enough = 1 if count < self.settled else _CROWDED_TRIES if self.is_crowded else 3
        if rival.number >= enough and (rival.is_better or rival.mean < -_CLEAR_GAIN):
            self._move(count, now)
        elif rival.mean < 0:
            rival.due = now  # as soon as it lies between settled steps again
        else:
            longest = _CROWDED_INTERVAL_S if self.is_crowded and count > self.settled else _MAX_INTERVAL_S
            rival.interval_s = min(2 * rival.interval_s, longest)
            rival.due = now + rival.interval_s

    def _climb_down(self, count: int, now: float) -> None:
        """Go on with fewer threads while that helps, then settle for the best."""
        tried = {number: rival for number, rival in self._rivals.items() if number < self.settled and rival.number}
        best = min(tried, key=lambda number: tried[number].mean)
        if self._ladder and self._ladder[0] == count:
            self._ladder.pop(0)
        if self._ladder and (best == count or tried[best].mean > -_CLEAR_GAIN):
            return
        self._ladder = []
        self.is_alert = False
        if tried[best].mean < -_CLEAR_GAIN:
            self._calm_s = 0.1
            self._move(best, now)
            self.is_disturbed = True
            return
        # No count is better: the machine is slower than it was, or a few steps were.
        self._calm_until, self._calm_s = now + self._calm_s, min(2 * self._calm_s, 1.6)
        if len(self._recent) >= 3:
            self._cost.rescale(statistics.median(self._recent))
            self._recent.clear()

    def _move(self, count: int, now: float) -> None:
        if count > self.settled:
            self._raised_at = now
            self.is_disturbed = False
        elif now - self._raised_at < max(_FLUTTER_S, self._hold_s):
            self._hold_s = min(max(1.0, 2 * self._hold_s), _MAX_HOLD_S)
            self._held_until = now + self._hold_s
        self._has_own_count = True
        change = self._rivals[count].mean + math.log(statistics.fmean(self._recent))
        self._cost.rescale(math.exp(change))
        self.settled, before, gain = count, self.settled, self._rivals[count].mean
        self._recent.clear()
        self._rivals.clear()
        if count < before:  # what going back costs
            self._rivals[before] = _Rival()
            self._rivals[before].add(-gain)
