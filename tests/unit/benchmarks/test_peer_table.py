"""The arithmetic and the table of the run beside other engines; no engine is started."""

import pytest

from benchmarks.peer_table import Figures, Scenario, differences, table

RATE = Scenario("decode", "decode", "tok/s", 1)
TIME = Scenario("cold", "first text", "s", 3)


def figures(scenario: Scenario, **values: list[float]) -> Figures:
    made = Figures()
    for engine, numbers in values.items():
        for number in numbers:
            made.note(scenario.name, engine, number)
    return made


def test_median_is_that_of_all_repeats():
    assert figures(RATE, ours=[3.0, 100.0, 5.0, 4.0, 1.0]).median("decode", "ours") == 4.0


@pytest.mark.parametrize(
    ("scenario", "expected"), [(RATE, 100 / 80), (TIME, 100 / 50)], ids=["more is better", "less is better"]
)
def test_ratio_is_to_the_better_peer(scenario: Scenario, expected: float):
    made = figures(scenario, ours=[100.0], first=[50.0], second=[80.0])
    assert made.ratio(scenario, "ours", ["first", "second"]) == pytest.approx(expected)


def test_ratio_leaves_out_a_peer_that_is_not_there():
    made = figures(TIME, ours=[1.0], first=[2.0])
    assert made.ratio(TIME, "ours", ["first", "second"]) == 0.5
    assert made.ratio(TIME, "ours", ["second"]) is None
    assert made.ratio(TIME, "second", ["first"]) is None


def test_value_that_could_not_be_measured_is_left_out():
    made = figures(RATE, ours=[1.0])
    made.note("decode", "ours", None)
    assert made.values == {"decode": {"ours": [1.0]}}


def test_table_has_a_cell_for_every_engine_and_both_ratios():
    made = figures(RATE, ours=[110.0, 120.0, 130.0], first=[100.0], bare=[125.0])
    lines = table(made, [TIME, RATE], ours="ours", peers=["first", "second"], beside=["plain", "bare"])
    assert len(lines) == 3, "a scenario without a value has no line"
    cells = [cell.strip() for cell in lines[-1].strip("|").split("|")]
    assert cells == [
        "decode",
        "120.0 tok/s (110.0 to 130.0)",
        "100.0 tok/s (100.0 to 100.0)",
        "",
        "",
        "125.0 tok/s (125.0 to 125.0)",
        "1.20",
        "0.96",
    ]
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_differences_name_scenario_and_counts_when_engines_did_other_amounts_of_work():
    counts = {"cold": {"ours": 12, "first": 12}, "story": {"ours": 128, "first": 90}}
    assert differences(counts) == ["story: token counts differ (ours 128, first 90)."]
