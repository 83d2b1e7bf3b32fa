"""The estimators: known answers, and how often their intervals hold the truth, by a small simulation."""

import math
import random

import pytest

from app.compare.statistics import (
    holm,
    is_too_noisy,
    median_deviation,
    median_interval,
    paired_difference,
    paired_ratio,
    quartile_range,
    share_interval,
)


def test_spreads_are_known() -> None:
    assert median_deviation([1, 1, 2, 2, 4, 6, 9]) == 1  # the example of textbooks
    assert quartile_range([1, 2, 3, 4, 5]) == 2
    assert quartile_range([3]) == 0


def test_interval_of_a_single_group_is_the_range_of_few_values() -> None:
    found = median_interval([[3.0, 1.0, 2.0]])
    assert found is not None
    assert (found.value, found.low, found.high, found.num_values) == (2.0, 1.0, 3.0, 3)


def test_interval_is_the_same_each_time() -> None:
    groups = [[random.Random(number).gauss(10, 1) for _ in range(5)] for number in range(20)]
    assert median_interval(groups) == median_interval(groups)


def test_interval_does_not_count_how_prompts_differ() -> None:
    steady = median_interval([[base * factor for factor in (0.99, 1.0, 1.01)] for base in (1, 10, 100, 1000, 10_000)])
    assert steady is not None
    assert steady.low is not None
    assert steady.high is not None
    assert 0.98 * 100 <= steady.low <= steady.value == 100 <= steady.high <= 1.02 * 100


@pytest.mark.parametrize(
    ("groups", "value"), [([[5.0]], 5.0), ([[5.0], [7.0, 7.2], []], 6.05)], ids=["once", "one of them once"]
)
def test_interval_is_unknown_when_something_was_measured_once(groups: list[list[float]], value: float) -> None:
    found = median_interval(groups)
    assert found is not None
    assert (found.value, found.low, found.high) == (pytest.approx(value), None, None)


def test_nothing_is_said_of_no_values() -> None:
    assert median_interval([]) is None
    assert median_interval([[], []]) is None
    assert share_interval([]) is None
    assert paired_ratio([]) is None
    assert paired_ratio([(0.0, 1.0), (1.0, 0.0)]) is None
    assert paired_difference([]) is None


def test_share_is_the_mean_and_stays_a_share() -> None:
    found = share_interval([1.0, 1.0, 1.0, 0.9, 0.2, 1.0, 0.95])
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.value == pytest.approx(6.05 / 7)
    assert 0.2 < found.low < found.value < found.high <= 1.0


def test_equal_shares_are_not_taken_for_certain() -> None:
    found = share_interval([1.0] * 30)
    assert found is not None
    assert (found.value, found.low, found.high) == (1.0, pytest.approx(0.9), 1.0)  # the rule of three


def test_ratio_of_pairs_leaves_out_what_both_have_in_common() -> None:
    source = random.Random(3)
    pairs = []
    for _ in range(20):
        machine = source.uniform(0.5, 2.0)  # a machine that is twice as slow in some repeats
        pairs.append((1.2 * machine * source.lognormvariate(0, 0.01), machine * source.lognormvariate(0, 0.01)))
    change = paired_ratio(pairs)
    assert change is not None
    assert change.low is not None
    assert change.high is not None
    assert 0.18 < change.low <= change.value <= change.high < 0.22
    assert change.p_value < 1e-9


@pytest.mark.parametrize("count", [1, 2])
def test_two_pairs_say_nothing(count: int) -> None:
    change = paired_ratio([(2.0, 1.0)] * count)
    assert change is not None
    assert (change.value, change.low, change.high, change.p_value) == (pytest.approx(1.0), None, None, 1.0)
    assert change.p_worse(0.03, is_higher_better=True) == 1.0


def test_few_pairs_have_the_interval_of_student() -> None:
    change = paired_ratio([(math.exp(value), 1.0) for value in (0.1, 0.2, 0.3)])
    assert change is not None
    assert change.high is not None
    reach = 4.3027 * 0.1 / math.sqrt(3)
    assert change.value == pytest.approx(math.expm1(0.2))
    assert change.high == pytest.approx(math.expm1(0.2 + reach), rel=1e-4)
    assert change.p_value == pytest.approx(0.0742, abs=1e-3)  # t = 3.464 with two degrees of freedom


@pytest.mark.parametrize(("is_higher_better", "is_small"), [(True, True), (False, False)])
def test_no_worse_is_asked_in_the_direction_of_the_measure(is_higher_better: bool, is_small: bool) -> None:
    change = paired_ratio([(1.1 + 0.001 * number, 1.0) for number in range(10)])
    assert change is not None
    assert (change.p_worse(0.03, is_higher_better=is_higher_better) < 0.001) == is_small


def test_difference_of_equal_shares_is_not_taken_for_certain() -> None:
    change = paired_difference([(1.0, 1.0)] * 12)
    assert change is not None
    assert (change.value, change.low, change.high) == (0.0, pytest.approx(-0.25), pytest.approx(0.25))


def test_holm_is_that_of_the_paper() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("groups", "is_noisy"),
    [
        ([[1.0, 1.1, 1.05]], False),
        ([[1.0, 1.4, 1.1]], True),
        ([[1.0, 1.4, 1.1], [1.0, 1.01, 1.02], [5.0, 5.1, 5.2]], False),
        ([[1.0, 9.0]], False),
        ([], False),
    ],
    ids=["quiet", "noisy", "one of three prompts", "two values say nothing", "none"],
)
def test_too_noisy_is_more_than_a_quarter_in_most_prompts(groups: list[list[float]], is_noisy: bool) -> None:
    assert is_too_noisy(groups) == is_noisy


# How often an interval holds the truth. The soak run draws more and asks closer.


def test_interval_of_the_median_holds_the_truth_about_as_often_as_it_says() -> None:
    source = random.Random(11)
    held = 0
    for _ in range(150):
        found = median_interval([[source.gauss(50, 5) for _ in range(15)]])
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 50 <= found.high
    assert 0.88 <= held / 150 <= 1


def test_interval_of_a_ratio_holds_the_truth_about_as_often_as_it_says() -> None:
    source = random.Random(12)
    held = 0
    for _ in range(150):
        found = paired_ratio(
            [(1.3 * source.lognormvariate(0, 0.05), source.lognormvariate(0, 0.05)) for _ in range(12)]
        )
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.3 <= found.high
    assert 0.88 <= held / 150 <= 1


def test_nothing_is_found_where_there_is_nothing() -> None:
    source = random.Random(13)
    num_found = 0
    for _ in range(100):
        p_values = []
        for _ in range(8):
            change = paired_ratio([(source.lognormvariate(0, 0.1), source.lognormvariate(0, 0.1)) for _ in range(5)])
            assert change is not None
            p_values.append(change.p_value)
        num_found += min(holm(p_values)) < 0.05
    assert num_found <= 12  # of a hundred tables, about five
