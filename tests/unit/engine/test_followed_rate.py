"""What reading a token takes: one step that was held up does not become what every reused token has saved."""

import pytest

from engine.reuse_cost import ReuseCost, followed_rate


def after(*measured_s: float) -> float:
    known = None
    for seconds in measured_s:
        known = followed_rate(known, seconds)
    assert known is not None
    return known


def test_first_step_is_believed():
    assert after(0.004) == 0.004


@pytest.mark.parametrize("outlier", [0.34, 14.0, 3600.0])
def test_saved_seconds_are_plausible_again_when_one_step_was_held_up(outlier: float):
    cost = ReuseCost()
    cost.prefill_s_per_token = after(outlier, 0.006)
    saved_s = cost.saved_s(59, 0.0)
    assert saved_s is not None and saved_s <= 1.5 * 59 * 0.006 + 1e-9
    assert after(0.006, outlier) <= 1.5 * 0.006 + 1e-9


def test_rate_follows_when_the_machine_becomes_slower_or_faster():
    assert after(0.004, *[0.016] * 8) == pytest.approx(0.016, rel=0.05)
    assert after(0.016, *[0.004] * 8) == pytest.approx(0.004, rel=0.05)


def test_nothing_is_learned_when_no_time_has_passed():
    assert followed_rate(None, 0.0) is None
    assert followed_rate(0.004, 0.0) == 0.004
