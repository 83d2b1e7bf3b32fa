"""The rate of all replies together."""

import pytest

from app.desktop.session.total_rate import TotalRate


def test_one_reply_has_no_total() -> None:
    total = TotalRate()
    for step in range(5):
        total.note("a", step * 10, step * 0.1)
    assert total.rate() is None


def test_replies_that_run_at_once_are_added_until_one_ends() -> None:
    total = TotalRate()
    for step in range(30):
        total.note("a", step * 10, step * 0.1)
        total.note("b", step * 5, step * 0.1)
    assert total.rate() == pytest.approx(150.0)
    total.forget("b")
    assert total.rate() is None


def test_only_the_last_moments_count() -> None:
    total = TotalRate()
    for step in range(100):
        for reply in "ab":
            total.note(reply, step * 10 if step < 50 else 500 + (step - 50), step * 0.1)
    assert total.rate() == pytest.approx(20.0)
