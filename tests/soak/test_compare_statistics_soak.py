"""How often the intervals of a comparison hold the truth, by simulation of what is measured."""

import random
import statistics
from collections.abc import Callable

import pytest

from app.compare.analysis import Analysis
from app.compare.pareto import standings
from app.compare.statistics import (
    Change,
    Interval,
    holm,
    median_interval,
    paired_difference,
    paired_ratio,
    share_interval,
)
from tests.support.comparisons import LADDER, Level, sample_comparison

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
TRIES = 2000


def coverage(make: Callable[[random.Random], Interval | Change | None], truth: float) -> float:
    """Return how often an interval holds the truth."""
    held = 0
    for number in range(TRIES):
        found = make(random.Random(number))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    return held / TRIES


@pytest.mark.parametrize(("count", "least"), [(3, 0.72), (5, 0.91), (9, 0.91), (15, 0.92), (40, 0.92)])
def test_median_of_repeats(count: int, least: float) -> None:
    # Of n values the range holds the median with 1 - 2^(1 - n): 75 % of 3, 93.75 % of 5. No interval can do better.
    share = coverage(lambda source: median_interval([[source.lognormvariate(0, 0.1) for _ in range(count)]]), 1.0)
    print(f"median of {count}: {share:.3f}")
    assert share >= least


@pytest.mark.parametrize("repeats", [3, 5])
def test_median_over_prompts(repeats: int) -> None:
    bases = [2.0 ** (number / 3) for number in range(15)]

    def make(source: random.Random) -> Interval | None:
        return median_interval([[base * source.lognormvariate(0, 0.03) for _ in range(repeats)] for base in bases])

    # The truth is what very many repeats give.
    truth = statistics.median(bases)
    share = coverage(make, truth)
    print(f"median over 15 prompts, {repeats} repeats: {share:.3f}")
    assert share >= 0.92


@pytest.mark.parametrize("count", [3, 5, 6, 10, 15, 40])
def test_ratio_of_pairs(count: int) -> None:
    def make(source: random.Random) -> Change | None:
        return paired_ratio(
            [(1.2 * source.lognormvariate(0, 0.05), source.lognormvariate(0, 0.05)) for _ in range(count)]
        )

    share = coverage(make, 0.2)
    print(f"ratio of {count} pairs: {share:.3f}")
    assert share >= 0.9


@pytest.mark.parametrize(("count", "least"), [(6, 0.85), (12, 0.88), (40, 0.92)])
def test_mean_of_shares(count: int, least: float) -> None:
    # Replies that are half the time the same, and else about half the same: as skewed as agreement is.
    def draw(source: random.Random) -> float:
        return 1.0 if source.random() < 0.5 else source.betavariate(2, 2)

    share = coverage(lambda source: share_interval([draw(source) for _ in range(count)]), 0.75)
    print(f"mean of {count} shares: {share:.3f}")
    assert share >= least


@pytest.mark.parametrize(("count", "least"), [(6, 0.9), (12, 0.92), (40, 0.93)])
def test_difference_of_shares(count: int, least: float) -> None:
    def make(source: random.Random) -> Change | None:
        return paired_difference([(source.betavariate(5, 2), source.betavariate(4, 3)) for _ in range(count)])

    share = coverage(make, 5 / 7 - 4 / 7)
    print(f"difference of {count} shares: {share:.3f}")
    assert share >= least


def test_a_table_of_nothing_finds_something_in_one_of_twenty() -> None:
    num_found = 0
    for number in range(TRIES):
        source = random.Random(number)
        changes = [
            paired_ratio([(source.lognormvariate(0, 0.1), source.lognormvariate(0, 0.1)) for _ in range(5)])
            for _ in range(20)
        ]
        num_found += min(holm([change.p_value for change in changes if change is not None])) < 0.05
    print(f"tables of 20 with a false find: {num_found / TRIES:.3f}")
    assert num_found / TRIES <= 0.065


def test_a_better_file_is_rarely_called_safe_to_delete() -> None:
    # Smaller and faster, but surely further from the reference: by chance a few prompts may not show it.
    small = Level("SMALL", 100e6, 220e6, 0.2, 260.0, 75.0, 0.3)
    good = Level("GOOD", 110e6, 240e6, 0.2, 200.0, 60.0, 0.2)
    levels = (LADDER[0], small, good)
    num_deleted = num_beaten = 0
    for seed in range(150):
        comparison = sample_comparison(levels, num_prompts=7, repeats=2, seed=seed, num_words=14)
        found = standings(Analysis(comparison))["GOOD"]
        num_beaten += bool(found.dominated_by)
        num_deleted += found.is_safe_to_delete
    print(f"a better file: {num_beaten} of 150 beaten by chance, {num_deleted} called safe to delete")
    assert num_deleted <= 7
