"""What is expected of a step after some were seen."""

import math
import random

import pytest

from engine.speculative.step_times import CALIBRATION_ROWS, MAX_ROWS, STRICT_THREADS, DraftTimes, StepTimes
from tests.unit.engine.speculative.simulated_chat import RECORDED, Machine


def test_nothing_is_expected_before_a_step_was_seen() -> None:
    times = StepTimes()

    assert times.expected(1) is None
    assert times.table() is None
    assert not times.is_calibrated()


def test_usual_ratios_are_expected_when_only_plain_steps_were_seen() -> None:
    times = StepTimes()
    times.observe(1, 0.01)

    assert times.expected(1) == pytest.approx(0.01)
    assert times.expected(2) == pytest.approx(0.023)
    assert times.expected(16) == pytest.approx(0.055)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_times_are_expected_after_calibration(name: str) -> None:
    machine = Machine(name)
    times = StepTimes()
    for rows in CALIBRATION_ROWS:
        times.observe(rows, machine.seconds[rows])

    assert times.is_calibrated()
    table = times.table()
    assert table is not None
    assert len(table) == MAX_ROWS + 1
    for rows in (*CALIBRATION_ROWS, 7, 10, 14, 24):
        assert table[rows] == pytest.approx(machine.seconds[rows], rel=0.15), rows
        assert times.expected(rows) == pytest.approx(table[rows])


def test_steps_beyond_the_table_cost_in_proportion() -> None:
    times = StepTimes()
    times.observe(1, 0.01)

    assert times.expected(2 * MAX_ROWS) == pytest.approx(2 * (times.expected(MAX_ROWS) or 0))


def test_noise_and_single_interruptions_hardly_move_what_is_expected() -> None:
    machine = Machine("f16-2threads", seed=3)
    times = machine.calibrated()
    for number in range(400):
        rows = 1 if number % 8 == 0 else 5
        times.observe(rows, machine.noisy(machine.seconds[rows]))

    for rows in (1, 5):
        assert times.expected(rows) == pytest.approx(machine.seconds[rows], rel=0.05)


@pytest.mark.parametrize("factor", [2.0, 0.5], ids=["slower", "faster"])
def test_plain_steps_tell_of_the_others_when_the_machine_changes_speed(factor: float) -> None:
    machine = Machine("q4_0-2threads")
    times = machine.calibrated()
    for _ in range(30):
        times.observe(1, factor * machine.seconds[1])

    for rows in (1, 4, 9):
        assert times.expected(rows) == pytest.approx(factor * machine.seconds[rows], rel=0.12)


def test_plain_step_is_asked_for_when_longer_ones_have_changed_for_good() -> None:
    machine = Machine("f16-2threads")
    times = machine.calibrated()
    for _ in range(4):
        times.observe(5, machine.seconds[5])
    assert not times.is_unsettled()

    for _ in range(3):
        times.observe(5, 2 * machine.seconds[5])

    assert times.is_unsettled()
    for _ in range(6):
        times.observe(1, 2 * machine.seconds[1])
    assert not times.is_unsettled()
    assert times.expected(1) == pytest.approx(2 * machine.seconds[1], rel=0.1)


def test_plain_steps_keep_their_own_time_when_only_longer_ones_were_misjudged() -> None:
    times = StepTimes()
    for rows in (1, 5, 1, 5, 1, 5):
        times.observe(rows, 0.01 if rows == 1 else 0.02)
    for number in range(200):
        times.observe(1, 0.01) if number % 20 == 0 else times.observe(5, 0.023)

    assert times.expected(1) == pytest.approx(0.01, rel=0.03)
    assert times.expected(5) == pytest.approx(0.023, rel=0.03)


def test_another_thread_count_begins_with_the_ratios_of_the_nearest() -> None:
    machine = Machine("q8_0-1thread")
    times = StepTimes()
    for rows in CALIBRATION_ROWS:
        times.observe(rows, machine.seconds[rows], num_threads=1)
    assert times.expected(1, num_threads=2) is None

    times.observe(1, 0.004, num_threads=2)

    assert times.expected(1, num_threads=2) == pytest.approx(0.004)
    assert times.expected(8, num_threads=2) == pytest.approx(0.004 * machine.seconds[8] / machine.seconds[1], rel=0.05)
    assert times.expected(1, num_threads=1) == pytest.approx(machine.seconds[1])


def test_first_step_of_a_length_is_not_believed_wholly_when_it_was_interrupted() -> None:
    times = StepTimes()
    for rows in (1, 2, 4, 1):
        times.observe(rows, 0.01 * rows)
    times.observe(8, 5.0)

    assert (times.expected(8) or math.inf) < 0.4


@pytest.mark.parametrize("seconds", [0.0, -1.0], ids=["zero", "negative"])
def test_impossible_times_are_passed_over(seconds: float) -> None:
    times = StepTimes()
    times.observe(1, seconds)
    draft = DraftTimes()
    draft.observe(1, 1, seconds)

    assert times.expected(1) is None
    assert draft.expected(1, 1) is None


def test_draft_model_is_timed_for_drafting_and_for_reading() -> None:
    chance = random.Random(1)
    draft = DraftTimes(token_s=0.02)
    assert draft.expected(1, 4) == pytest.approx(0.08)
    for _ in range(60):
        num_read = chance.choice([1, 1, 2, 40])
        num_drafted = chance.randint(1, 6)
        draft.observe(num_read, num_drafted, 0.005 * num_drafted + 0.001 * (num_read - 1))

    assert draft.is_calibrated
    assert draft.token_s == pytest.approx(0.005, rel=0.1)
    assert draft.read_s == pytest.approx(0.001, rel=0.1)
    assert draft.expected(101, 3) == pytest.approx(0.115, rel=0.1)

    for _ in range(40):
        draft.observe_reading(64, 0.128)
    assert draft.read_s == pytest.approx(0.002, rel=0.05)


def test_steps_of_several_replies_are_known_apart_and_begin_with_the_ratios_of_lone_ones() -> None:
    machine, times = Machine("q4_0-2threads"), StepTimes()
    for rows in CALIBRATION_ROWS:
        times.observe(rows, machine.seconds[rows])
    for rows in (2, 3, 5):
        assert times.expected(rows, num_replies=2) == times.expected(rows)
    times.observe(2, 0.8 * machine.seconds[2], num_replies=2)
    ratio = machine.seconds[6] / machine.seconds[2]
    assert times.expected(2, num_replies=2) == pytest.approx(0.8 * machine.seconds[2])
    assert times.expected(6, num_replies=2) == pytest.approx(0.8 * machine.seconds[2] * ratio, rel=0.1)
    assert times.expected(2) == pytest.approx(machine.seconds[2], rel=0.01)
    table = times.table(num_replies=2)
    assert table is not None
    assert len(table) == MAX_ROWS + 1
    assert table[2] == times.expected(2, num_replies=2)
    assert table[6] == pytest.approx(times.expected(6, num_replies=2))


def test_plain_steps_are_those_that_were_seen_with_the_threads_that_they_took() -> None:
    times = StepTimes()
    times.observe(1, 0.010, num_threads=2)
    times.observe(4, 0.030, num_threads=1)
    assert times.plain(num_threads=1) == pytest.approx(0.010)
    assert not times.has_plain(num_threads=1, num_replies=3)
    times.observe(7, 0.050, num_threads=1, num_replies=3)
    assert times.plain(num_threads=1, num_replies=3) == pytest.approx(0.010), "less than it can be"
    times.observe(3, 0.016, num_threads=2, num_replies=3)
    assert times.has_plain(num_threads=1, num_replies=3)
    assert times.plain(num_threads=1, num_replies=3) == pytest.approx(0.016)
    assert times.plain(num_threads=1, num_replies=4) == pytest.approx(0.016)


def test_plain_steps_of_strict_replies_tell_nothing_of_others() -> None:
    times = StepTimes()
    times.observe(1, 0.010, num_threads=2)
    times.observe(1, 0.020, num_threads=STRICT_THREADS)
    assert times.plain(num_threads=2) == pytest.approx(0.010)
    assert times.plain(num_threads=STRICT_THREADS) == pytest.approx(0.020)
