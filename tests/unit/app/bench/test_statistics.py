"""What some values of one measure say together."""

import pytest

from app.bench.statistics import Summary, is_within_noise, median_ratio, summarise


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((3.0,), Summary(3.0, 3.0, 3.0, 1)),
        ((4.0, 1.0, 2.0), Summary(2.0, 1.0, 4.0, 3)),
        ((4.0, 2.0), Summary(3.0, 2.0, 4.0, 2)),
        ((), None),
    ],
    ids=["one", "three", "two", "none"],
)
def test_summary_holds_median_and_range(values: tuple[float, ...], expected: Summary | None) -> None:
    assert summarise(values) == expected


@pytest.mark.parametrize(
    ("values", "spread", "is_noisy"),
    [
        ((10.0, 10.5, 11.0), 1 / 10.5, False),
        ((10.0, 10.0, 20.0), 1.0, True),
        ((10.0, 20.0), 10 / 15, False),
        ((0.0, 0.0, 0.0), 0.0, False),
    ],
    ids=["steady", "wide", "too few to say", "zero"],
)
def test_spread_is_the_range_over_the_median(values: tuple[float, ...], spread: float, is_noisy: bool) -> None:
    summary = summarise(values)
    assert summary is not None
    assert summary.spread == pytest.approx(spread)
    assert summary.is_noisy is is_noisy


def test_ratio_is_that_of_pairs_when_the_machine_changes_its_speed() -> None:
    assert median_ratio((100.0, 50.0, 25.0), (200.0, 100.0, 50.0)) == 0.5


@pytest.mark.parametrize("others", [(), (0.0,)], ids=["none", "zero"])
def test_ratio_is_none_when_there_is_nothing_beside(others: tuple[float, ...]) -> None:
    assert median_ratio((1.0,), others) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((1.0, 2.0, 3.0), (2.5, 4.0, 5.0), True),
        ((1.0, 2.0, 3.0), (3.1, 4.0, 5.0), False),
        ((4.0, 5.0), (1.0, 2.0), False),
        ((1.0,), (9.0, 9.1), True),
    ],
    ids=["ranges meet", "apart", "apart the other way", "measured once"],
)
def test_runs_differ_when_their_ranges_do_not_meet(
    one: tuple[float, ...], other: tuple[float, ...], expected: bool
) -> None:
    first, second = summarise(one), summarise(other)
    assert first is not None
    assert second is not None
    assert is_within_noise(first, second) is expected
