"""The governor on simulated machines: cores, programs that spin on them, and threads that meet at barriers."""

import dataclasses
import itertools
import random
from collections.abc import Callable

import pytest

from engine.step_cost import StepCost
from engine.thread_governor import StepKind, ThreadGovernor

DECODE = StepKind.DECODE


@dataclasses.dataclass
class Machine:
    """Decode steps as measured: two threads beside one busy neighbour on two cores are 3.6 times slower.

    Attributes:
        busy: cores that other programs use, by the time.
        serial: share of a step that more threads do not make shorter.
        noise: spread of the times, as a share.
        cost_s: a step of one thread with an empty context.
    """

    num_cores: int = 2
    busy: Callable[[float], float] = lambda now: 0
    serial: float = 0.68
    noise: float = 0.0
    cost_s: float = 0.0065
    tells: bool = False
    now: float = 0.0
    context: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.governor = ThreadGovernor(self.num_cores, clock=lambda: self.now)
        self.history: list[tuple[float, int]] = []  # (time, settled count)
        self.spent_s = 0.0
        self.best_s = {count: 0.0 for count in range(1, self.num_cores + 1)}

    def seconds(self, count: int) -> float:
        """Return what a step takes now, without noise."""
        quiet = self.cost_s * (self.serial + (1 - self.serial) / count) * (1 + self.context / 4000)
        over = count - (self.num_cores - self.busy(self.now))
        return quiet * (1 if over <= 0 or count == 1 else 2.6 + over)

    def run(self, until: float) -> None:
        """Decode until a time."""
        told_at = -1.0
        while self.now < until:
            if self.tells and self.now - told_at >= 0.2:
                told_at = self.now
                self.governor.set_others(self.busy(self.now))
            count = self.governor.next_count(DECODE)
            assert 1 <= count <= self.governor.limit
            blur = 1 + abs(self.random.gauss(0, self.noise))
            for fixed in self.best_s:
                self.best_s[fixed] += self.seconds(fixed) * blur
            taken = self.seconds(count) * blur
            self.spent_s += taken
            self.now += taken
            self.context = (self.context + 1) % 2000
            self.governor.note(DECODE, count=count, num_tokens=1, num_context=self.context, seconds=taken)
            self.history.append((self.now, self.governor.settled(DECODE)))

    @property
    def settled(self) -> int:
        """The count in use."""
        return self.governor.settled(DECODE)

    @property
    def regret(self) -> float:
        """Time over that of the best fixed count, as a share."""
        return self.spent_s / min(self.best_s.values()) - 1

    def moves(self) -> int:
        """How often the count changed."""
        counts = [count for _, count in self.history]
        return sum(a != b for a, b in itertools.pairwise(counts))

    def reached_at(self, count: int, since: float) -> float:
        """Return when the count was reached for good."""
        at = since
        for time, settled in self.history:
            if time > since and settled != count:
                at = time
        return at


@pytest.mark.parametrize("tells", [False, True], ids=["system silent", "system tells"])
@pytest.mark.parametrize("noise", [0.0, 0.1], ids=["even", "noise"])
@pytest.mark.parametrize(
    ("num_cores", "serial", "num_busy"), [(2, 0.68, 1), (8, 0.1, 1), (8, 0.1, 3)], ids=["1 of 2", "1 of 8", "3 of 8"]
)
@pytest.mark.parametrize("seed", [1, 2], ids=str)
def test_a_neighbour_is_made_way_for_and_its_leaving_noticed_when_it_comes_and_goes(
    num_cores: int, serial: float, num_busy: int, noise: float, tells: bool, seed: int
) -> None:
    busy = [0]
    machine = Machine(num_cores, lambda now: busy[0], serial, noise=noise, tells=tells, seed=seed)
    machine.run(8.0)
    assert machine.settled == num_cores
    busy[0] = num_busy
    machine.run(14.0)
    assert machine.reached_at(num_cores - num_busy, 8.0) - 8.0 < 0.5
    busy[0] = 0
    machine.run(20.0)
    assert machine.reached_at(num_cores, 14.0) - 14.0 < 2.0


@pytest.mark.parametrize("seed", [1, 2], ids=str)
@pytest.mark.parametrize("noise", [0.0, 0.1], ids=["even", "noise"])
@pytest.mark.parametrize(
    ("num_cores", "serial", "cost_s"),
    [(2, 0.68, 0.0065), (2, 0.95, 0.0065), (4, 0.5, 0.02), (8, 0.1, 0.0065), (8, 0.9, 0.2), (1, 0.5, 0.01)],
    ids=["measured", "two hardly help", "four cores", "eight cores", "slow model", "one core"],
)
def test_it_stays_within_two_percent_of_the_best_fixed_count_when_nobody_disturbs(
    num_cores: int, serial: float, cost_s: float, noise: float, seed: int
) -> None:
    machine = Machine(num_cores, serial=serial, noise=noise, cost_s=cost_s, seed=seed)
    machine.run(30.0)
    assert machine.regret < 0.02


@pytest.mark.parametrize("tells", [False, True], ids=["system silent", "system tells"])
def test_it_finds_fewer_threads_when_the_neighbour_was_there_first(tells: bool) -> None:
    machine = Machine(busy=lambda now: 1, noise=0.1, tells=tells)
    machine.run(0.5)
    assert machine.settled == 1
    machine.run(20.0)
    assert machine.regret < 0.06


def test_it_finds_fewer_threads_when_steps_are_long_and_the_neighbour_was_there_first() -> None:
    machine = Machine(busy=lambda now: 1, noise=0.5, cost_s=0.2)
    machine.run(15.0)
    assert machine.settled == 1


@pytest.mark.parametrize("tells", [False, True], ids=["system silent", "system tells"])
def test_looking_for_more_threads_costs_little_when_one_too_many_is_a_hundred_times_slower(tells: bool) -> None:
    machine = Machine(busy=lambda now: 3, noise=0.2, tells=tells)
    machine.seconds = lambda count: 0.01 if count == 1 else 1.0
    machine.run(10.0)
    assert machine.settled == 1
    begun_at, begun = machine.now, len(machine.history)
    machine.run(70.0)
    assert len(machine.history) - begun > 0.75 * (machine.now - begun_at) / 0.0116


@pytest.mark.parametrize("period_s", [0.1, 0.3, 1.0], ids=str)
def test_it_does_not_swing_when_a_neighbour_comes_and_goes_quickly(period_s: float) -> None:
    machine = Machine(busy=lambda now: int(now / period_s) % 2, noise=0.1)
    machine.run(60.0)
    assert machine.moves() <= 24  # the neighbour came or went 60 to 600 times
    assert machine.regret < 0.1


def test_it_looks_up_again_when_a_flutter_is_over() -> None:
    machine = Machine(busy=lambda now: int(now / 0.3) % 2 if now < 20 else 0, noise=0.1)
    machine.run(45.0)
    assert machine.settled == 2


def test_it_obeys_at_once_and_climbs_back_when_the_quota_shrinks_and_grows() -> None:
    machine = Machine(8, serial=0.1, noise=0.1)
    machine.run(5.0)
    machine.governor.set_limit(3)
    assert machine.governor.next_count(DECODE) <= 3
    machine.run(10.0)
    assert machine.settled == 3
    machine.governor.set_limit(8)
    machine.run(12.0)
    assert machine.settled == 8


def test_fewer_threads_are_found_when_the_machine_has_them_best() -> None:
    machine = Machine(noise=0.1)
    machine.seconds = lambda count: 0.005 * (1 + 0.1 * (count - 1))
    machine.run(10.0)
    assert machine.settled == 1


def test_nothing_moves_when_the_whole_machine_becomes_slower() -> None:
    machine = Machine(noise=0.05)
    machine.run(5.0)
    machine.cost_s *= 2
    machine.run(15.0)
    assert machine.settled == 2
    assert machine.regret < 0.02


def test_a_hiccup_moves_nothing() -> None:
    machine = Machine()
    machine.run(5.0)
    machine.cost_s *= 10
    machine.run(machine.now + 0.001)
    machine.cost_s /= 10
    machine.run(10.0)
    assert machine.moves() == 0


def test_prefill_and_decode_have_counts_of_their_own() -> None:
    now = [0.0]
    governor = ThreadGovernor(2, clock=lambda: now[0])
    for number in range(2000):
        kind, tokens = (StepKind.PREFILL, 100) if number % 2 else (DECODE, 1)
        count = governor.next_count(kind)
        best = 2 if kind is StepKind.PREFILL else 1
        seconds = (0.02 if count == best else 0.03) * (5 if tokens > 1 else 1)
        now[0] += seconds
        governor.note(kind, count=count, num_tokens=tokens, num_context=100, seconds=seconds)
    assert (governor.settled(DECODE), governor.settled(StepKind.PREFILL)) == (1, 2)


def test_the_limit_is_the_first_count_when_none_is_given() -> None:
    assert ThreadGovernor(4, clock=lambda: 0.0).settled(DECODE) == 4
    assert ThreadGovernor(4, clock=lambda: 0.0, start=2).settled(DECODE) == 2
    assert ThreadGovernor(0, clock=lambda: 0.0, start=9).settled(DECODE) == 1


def test_steps_of_other_work_are_told_apart_when_the_cost_was_learned() -> None:
    cost, rng = StepCost(), random.Random(1)
    for _ in range(200):
        tokens, context = rng.choice([(64, 100), (512, 600), (256, 2000)])
        cost.learn(tokens, context, 0.01 + 0.001 * tokens + 0.0003 * tokens * context / 1000)
    expected = cost.expected(400, 1000)
    assert expected == pytest.approx(0.01 + 0.4 + 0.12, rel=0.05)
    cost.rescale(2.0)
    assert expected is not None
    assert cost.expected(400, 1000) == pytest.approx(2 * expected)
