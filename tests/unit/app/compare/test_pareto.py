"""Which files are beaten, and which may be deleted."""

import msgspec

from app.compare.analysis import Analysis
from app.compare.pareto import standings
from app.compare.results import Comparison, Mode
from tests.support.comparisons import LADDER, Level, sample_column, sample_comparison

GOOD = Level("GOOD", 100e6, 220e6, 0.2, 260.0, 75.0, 0.02)
BAD = Level("BAD", 110e6, 240e6, 0.2, 200.0, 60.0, 0.4)  # larger, slower, and further from the reference
CLOSE = GOOD._replace(name="CLOSE", file_bytes=100.1e6, memory_bytes=222e6)


def standing_of(name: str, comparison: Comparison) -> tuple[tuple[str, ...], str]:
    found = standings(Analysis(comparison))[name]
    return found.dominated_by, found.replaced_by


def test_a_file_worse_in_everything_is_safe_to_delete_where_the_intervals_say_so() -> None:
    comparison = sample_comparison((LADDER[0], GOOD, BAD), num_prompts=40)
    assert standing_of("BAD", comparison) == (("GOOD",), "GOOD")
    assert standing_of("GOOD", comparison) == ((), "")


def test_it_is_beaten_and_not_safe_to_delete_with_few_prompts() -> None:
    comparison = sample_comparison((LADDER[0], GOOD, BAD), num_prompts=2, repeats=1)
    assert standing_of("BAD", comparison) == (("GOOD",), "")
    assert "too wide" in standings(Analysis(comparison))["BAD"].reason


def test_nothing_is_safe_to_delete_where_all_vary_widely() -> None:
    comparison = sample_comparison((LADDER[0], GOOD, BAD), num_prompts=40, noise=0.4)
    assert standing_of("BAD", comparison)[1] == ""


def test_nothing_is_safe_to_delete_without_agreement() -> None:
    comparison = sample_comparison((LADDER[0], GOOD, BAD), num_prompts=40)
    found = standings(Analysis(msgspec.structs.replace(comparison, reference="")))["BAD"]
    assert (found.dominated_by, found.replaced_by) == (("GOOD",), "")
    assert "nothing is known" in found.reason


def test_nothing_is_safe_to_delete_after_a_race() -> None:
    comparison = sample_comparison((LADDER[0], GOOD, BAD), num_prompts=40, mode=Mode.RACE)
    assert standing_of("BAD", comparison) == (("GOOD",), "")
    slow = BAD._replace(name="SLOW", file_bytes=90e6, memory_bytes=200e6)
    fast = GOOD._replace(name="FAST", changed=0.41)
    raced = sample_comparison((LADDER[0], fast, slow), num_prompts=12, mode=Mode.RACE)
    agreements = [Analysis(raced).value(name, "agreement") or 0.0 for name in ("FAST", "SLOW")]
    assert standing_of("FAST", raced)[0] == (("SLOW",) if agreements[1] >= agreements[0] else ())  # speed is no axis


def test_the_reference_is_never_deleted() -> None:
    worst = LADDER[0]
    same = Level("SAME", 100e6, 220e6, 0.2, 400.0, 75.0, 0.0)
    found = standings(Analysis(sample_comparison((worst, same), num_prompts=200, repeats=2)))["F16"]
    assert not found.is_safe_to_delete
    assert "held against" in found.reason


def test_what_takes_the_place_of_a_file_is_itself_kept() -> None:
    found = standings(Analysis(sample_comparison((LADDER[0], GOOD, CLOSE, BAD), num_prompts=40)))
    for standing in found.values():
        if standing.replaced_by:
            assert not found[standing.replaced_by].is_safe_to_delete


def test_a_file_that_another_column_needs_is_kept() -> None:
    comparison = sample_comparison((LADDER[0], GOOD, BAD), num_prompts=40)
    front = sample_column("GOOD", file_bytes=100e6)
    columns = tuple(
        msgspec.structs.replace(column, fingerprint=front.fingerprint) if column.id == "BAD" else column
        for column in comparison.columns
    )
    found = standings(Analysis(msgspec.structs.replace(comparison, columns=columns)))["BAD"]
    assert not found.is_safe_to_delete
    assert "same file" in found.reason


def test_equal_columns_do_not_beat_each_other() -> None:
    comparison = sample_comparison((LADDER[0], GOOD, GOOD._replace(name="TWIN")), num_prompts=2, repeats=1, noise=0.0)
    found = standings(Analysis(comparison), ("file_bytes", "decode_rate"))
    assert found["GOOD"].dominated_by == found["TWIN"].dominated_by == ()


def test_a_column_without_a_value_is_not_placed() -> None:
    comparison = sample_comparison((LADDER[0], GOOD))
    failed = sample_column("X", error="It cannot be loaded.")
    found = standings(Analysis(msgspec.structs.replace(comparison, columns=(*comparison.columns, failed))))
    assert found["X"].reason == "It cannot be loaded."
    assert found["X"].dominated_by == ()


def test_one_column_and_none_are_no_error() -> None:
    assert standings(Analysis(sample_comparison(()))) == {}
    assert standings(Analysis(sample_comparison(LADDER[:1])))["F16"].dominated_by == ()
