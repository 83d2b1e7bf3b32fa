"""Student's t: known values of printed tables."""

import math

import pytest

from app.compare.student_t import t_quantile, t_tail


@pytest.mark.parametrize(
    ("degrees", "wanted"),
    [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (29, 2.0452), (119, 1.9801), (100_000, 1.95998)],
)
def test_quantile_is_that_of_the_table(degrees: int, wanted: float) -> None:
    assert t_quantile(0.95, degrees) == pytest.approx(wanted, abs=2e-4)


@pytest.mark.parametrize(("t", "degrees", "wanted"), [(0.0, 5, 0.5), (1.0, 1, 0.25), (-1.0, 1, 0.75), (2.132, 4, 0.05)])
def test_tail_is_that_of_the_table(t: float, degrees: int, wanted: float) -> None:
    assert t_tail(t, degrees) == pytest.approx(wanted, abs=1e-4)


def test_tail_falls_and_ends_at_nothing() -> None:
    tails = [t_tail(step / 4, 7) for step in range(-80, 81)]
    assert tails == sorted(tails, reverse=True)
    assert t_tail(math.inf, 3) == 0.0
    assert t_tail(-math.inf, 3) == 1.0
    assert 0 < t_tail(1e6, 3) < 1e-15
