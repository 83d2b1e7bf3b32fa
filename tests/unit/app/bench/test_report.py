"""What a person is shown of a run, and when its figures are not to be trusted."""

import msgspec
import pytest

from app.bench import BenchPlan, MachineState, Measure, RunRecord, compared_rows, measure_rows, noise_warning
from app.bench.report import differences, shown_value
from tests.unit.app.bench.records import QUIET, record

STEADY = {"decode_short": (10.0, 10.1, 10.2), "decode_long": (9.0, 9.0, 9.1), "parallel_2": (11.0, 11.0, 11.1)}
WIDE = (10.0, 20.0, 30.0)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0042, "s", "4.2 ms"),
        (0.25, "s", "250 ms"),
        (1.234, "s", "1.23 s"),
        (152.34, "tokens/s", "152.3 tokens/s"),
        (2.84e10, "bytes/s", "28.4 GB/s"),
        (1.2e11, "flop/s", "120 GFLOP/s"),
        (0.456, "share", "46 %"),
    ],
)
def test_values_are_shown_in_the_size_a_person_reads(value: float, unit: str, text: str) -> None:
    assert shown_value(value, unit) == text


def test_row_has_median_range_spread_and_ratio() -> None:
    measure = Measure(name="busy_decode_short", unit="tokens/s", values=(10.0, 12.0, 11.0), bare=(20.0, 24.0, 22.0))
    (row,) = measure_rows(record({}, measures=(measure,)))
    assert row == ("decode, short context (busy)", "11.0 tokens/s", "10.0 .. 12.0 tokens/s", "18 %", "0.50")


def test_row_has_the_median_alone_when_it_was_measured_once() -> None:
    assert measure_rows(record({"load": (1.5,)}, unit="s")) == [("load", "1.50 s", "", "", "")]


def test_row_says_so_when_nothing_could_be_measured() -> None:
    assert measure_rows(record({"bandwidth_share": ()}))[0][1] == "not measured"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (record(STEADY), None),
        (record({**STEADY, "parallel_4": WIDE, "parallel_8": WIDE}), "too noisy to say"),
        (record({**STEADY, "parallel_4": WIDE}), "vary too widely to be compared: four replies at once"),
        (record(STEADY, after=msgspec.structs.replace(QUIET, num_throttled=4)), "heat"),
        (record(STEADY, before=msgspec.structs.replace(QUIET, load_average=2.5)), "load 2.5"),
        (record(STEADY, before=MachineState(), after=MachineState()), None),
    ],
    ids=["quiet", "noisy", "one wide", "hot", "busy", "system tells nothing"],
)
def test_warning_is_given_when_the_machine_was_too_noisy_to_say(made: RunRecord, expected: str | None) -> None:
    warning = noise_warning(made)
    assert warning == expected if expected is None else expected in (warning or "")


@pytest.mark.parametrize(
    ("now", "before", "unit", "expected"),
    [
        ((20.0, 21.0), (10.0, 11.0), "tokens/s", "better"),
        ((10.0, 11.0), (20.0, 21.0), "tokens/s", "worse"),
        ((0.1, 0.11), (0.2, 0.21), "s", "better"),
        ((0.2, 0.21), (0.1, 0.11), "s", "worse"),
        ((10.0, 12.0), (11.0, 13.0), "tokens/s", "no difference beyond the noise"),
        ((20.0,), (10.0,), "tokens/s", "measured once, so nothing can be said"),
    ],
    ids=["faster", "slower", "sooner", "later", "within the noise", "once"],
)
def test_comparison_says_what_the_difference_means(
    now: tuple[float, ...], before: tuple[float, ...], unit: str, expected: str
) -> None:
    (row,) = compared_rows(record({"load": now}, unit=unit), record({"load": before}, unit=unit))
    assert row[-1] == expected


def test_comparison_leaves_out_what_only_one_run_has() -> None:
    now, before = record({"load": (1.0,), "decode_short": ()}), record({"decode_short": (1.0,), "matmul": (1.0,)})
    assert compared_rows(now, before) == []


def test_runs_that_are_hard_to_compare_are_told_apart() -> None:
    one = record({})
    battery = msgspec.structs.replace(QUIET, power_source="battery")
    other = record({}, before=battery, plan=BenchPlan(prompt_tokens=128))
    assert differences(one, one) == []
    assert [sentence.rpartition(" of ")[2] for sentence in differences(one, other)] == ["another length.", "power."]
