"""What a comparison says, and what limits it."""

import msgspec
import pytest

from app.compare.analysis import Analysis
from app.compare.results import MEASURES, Cell, CellMachine, Comparison, Mode
from tests.support.comparisons import LADDER, sample_column, sample_comparison, with_cells

BATTERY = CellMachine(power_source="battery", load=0.1, was_throttled=False)


@pytest.fixture(scope="module")
def ladder() -> Analysis:
    return Analysis(sample_comparison())


def test_figures_are_the_middles_of_what_was_measured(ladder: Analysis) -> None:
    assert ladder.value("F16", "decode_rate") == pytest.approx(38.2, rel=0.02)
    assert ladder.value("Q2_K", "file_bytes") == 88e6
    assert ladder.value("Q8_0", "peak_memory_bytes") == pytest.approx(268e6, rel=0.01)


def test_changes_are_against_the_reference_and_sure_where_they_are(ladder: Analysis) -> None:
    change = ladder.figure("Q4_K_M", "decode_rate").change
    assert change is not None
    assert change.value == pytest.approx(74.9 / 38.2 - 1, rel=0.05)
    assert ladder.figure("Q4_K_M", "decode_rate").is_changed
    assert ladder.figure("F16", "decode_rate").change is None


def test_one_value_a_load_is_counted_once(ladder: Analysis) -> None:
    figure = ladder.figure("Q8_0", "load_s")
    assert figure.interval is not None
    assert figure.interval.num_values == 3
    memory = ladder.figure("Q8_0", "peak_memory_bytes")
    assert memory.interval is not None
    assert memory.interval.num_values == 3


def test_the_best_is_marked_only_where_one_is(ladder: Analysis) -> None:
    assert ladder.best("decode_rate") == "Q2_K"
    assert ladder.best("file_bytes") == "Q2_K"
    assert ladder.best("num_generated_tokens") is None
    assert Analysis(sample_comparison(LADDER[:1])).best("decode_rate") is None


def test_battery_and_mains_are_not_mixed() -> None:
    comparison = with_cells(sample_comparison(LADDER[:3], repeats=3), {"Q6_K": BATTERY})
    analysis = Analysis(comparison)
    assert analysis.power_source == "mains"
    assert analysis.figure("Q6_K", "decode_rate").interval is None
    assert analysis.figure("Q6_K", "agreement").interval is not None
    assert any("on another source of power" in note for note in analysis.notes)


@pytest.mark.parametrize(
    ("machine", "part"),
    [
        (CellMachine(power_source="mains", was_throttled=True), "slowed down by heat during 36 replies"),
        (CellMachine(power_source="mains", load=1.4), "Other programs were computing during 36 replies"),
    ],
    ids=["heat", "load"],
)
def test_what_disturbed_the_machine_is_told(machine: CellMachine, part: str) -> None:
    analysis = Analysis(with_cells(sample_comparison(LADDER[:2]), {"Q8_0": machine}))
    assert any(part in note for note in analysis.notes)


def test_too_noisy_is_said_and_makes_nothing_sure() -> None:
    analysis = Analysis(sample_comparison(LADDER[:3], noise=0.4))
    assert analysis.figure("Q8_0", "decode_rate").is_noisy
    assert not analysis.figure("Q8_0", "decode_rate").is_changed
    assert any(note.startswith("Too noisy to say") for note in analysis.notes)


def test_a_race_says_nothing_of_speed() -> None:
    analysis = Analysis(sample_comparison(mode=Mode.RACE))
    assert analysis.best("decode_rate") is None
    assert analysis.best("file_bytes") == "Q2_K"
    assert analysis.figure("Q8_0", "decode_rate").change is None
    assert any("cannot be compared" in note for note in analysis.notes)


def test_once_is_said_to_be_once() -> None:
    analysis = Analysis(sample_comparison(LADDER[:2], repeats=1))
    figure = analysis.figure("Q8_0", "decode_rate")
    assert figure.interval is not None
    assert figure.interval.low is None
    assert any("asked once" in note for note in analysis.notes)


def test_an_unfinished_run_is_analysed_as_far_as_it_came() -> None:
    whole = sample_comparison(LADDER[:2])
    analysis = Analysis(msgspec.structs.replace(whole, cells=whole.cells[:-5]))
    assert any("5 replies are missing" in note for note in analysis.notes)
    assert analysis.value("Q8_0", "decode_rate") is not None


def test_a_column_that_failed_says_why_beside_every_figure() -> None:
    failed = sample_column("B", error="The file is gone.")
    comparison = sample_comparison(LADDER[:2])
    analysis = Analysis(msgspec.structs.replace(comparison, columns=(*comparison.columns, failed)))
    assert analysis.figure("B", "decode_rate").reason == "The file is gone."
    assert not any("missing" in note for note in analysis.notes)


@pytest.mark.parametrize(
    "comparison",
    [
        Comparison(id="x", created_at="", program=""),
        Comparison(id="x", created_at="", program="", columns=(sample_column("A"),)),
        sample_comparison((), num_prompts=2),
        sample_comparison(LADDER[:1], num_prompts=1, repeats=1),
    ],
    ids=["nothing", "one column without replies", "prompts alone", "one reply"],
)
def test_little_or_nothing_can_be_analysed(comparison: Comparison) -> None:
    analysis = Analysis(comparison)
    assert set(analysis.measures) <= set(MEASURES)


def test_the_same_file_twice_differs_in_nothing() -> None:
    comparison = sample_comparison((LADDER[0], LADDER[1], LADDER[1]._replace(name="again")))
    change = Analysis(comparison).change("again", "Q8_0", "decode_rate")
    assert change is not None
    assert change.low is not None
    assert change.high is not None
    assert change.low < 0 < change.high


def test_failed_replies_are_counted() -> None:
    comparison = sample_comparison(LADDER[:2], num_prompts=2, repeats=1)
    bad = Cell(column="Q8_0", prompt="prompt-01", repeat=0, number=3, error="The engine died.")
    analysis = Analysis(msgspec.structs.replace(comparison, cells=(*comparison.cells[:3], bad)))
    assert any(note.startswith("One reply failed") for note in analysis.notes)
