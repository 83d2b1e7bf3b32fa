"""How long a comparison will still take."""

import pytest

from app.compare.results import Mode
from app.compare.time_left import TimeLeft
from tests.unit.app.compare.runs import column, plan


def learned() -> TimeLeft:
    """Return what has seen replies of one column and one load."""
    time_left = TimeLeft()
    time_left.note_load(10.0)
    for seconds in (1.0, 3.0):
        time_left.note_reply("c1", seconds)
    return time_left


def test_nothing_is_known_before_the_first_reply() -> None:
    assert TimeLeft().seconds({"c1": 3}, plan(column())) is None


def test_nothing_left_takes_no_time() -> None:
    assert TimeLeft().seconds({"c1": 0, "c2": 0}, plan(column(), column())) == 0


def test_column_not_seen_yet_counts_as_the_others_and_each_visit_as_a_load() -> None:
    made = plan(column(), column(), num_prompts=4)
    assert learned().seconds({"c1": 2, "c2": 4}, made) == pytest.approx(2 * 2.0 + 4 * 2.0 + 10.0)


def test_race_ends_with_the_slowest_and_samples_are_made_together() -> None:
    time_left = learned()
    time_left.note_reply("c2", 5.0)
    assert time_left.seconds({"c1": 2, "c2": 2}, plan(column(), column(), mode=Mode.RACE)) == pytest.approx(10.0)
    samples = plan(column(), repeats=4, mode=Mode.SAMPLES)
    assert time_left.seconds({"c1": 8}, samples) == pytest.approx(8 * 2.0 / 4)
