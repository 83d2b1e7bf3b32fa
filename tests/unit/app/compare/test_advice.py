"""The advisor's sentence."""

import msgspec

from app.compare.advice import Bar, advise
from app.compare.analysis import Analysis
from app.compare.results import Mode
from tests.support.comparisons import LADDER, Level, sample_column, sample_comparison


def test_it_names_the_smallest_file_within_the_bar() -> None:
    advice = advise(Analysis(sample_comparison(num_prompts=40)), Bar(agreement=0.9))
    assert advice.sentence == "SmallBoat-135M Q4_K_M is the smallest file within your bar."
    assert (advice.column, advice.is_sure) == ("Q4_K_M", True)
    assert any("39 % of SmallBoat-135M F16" in line for line in advice.evidence)
    assert any("of the words" in line and "40 prompts" in line for line in advice.evidence)
    assert any(line.startswith("The next smaller one, SmallBoat-135M Q2_K, misses it") for line in advice.evidence)


def test_it_is_not_sure_where_the_interval_reaches_below_the_bar() -> None:
    analysis = Analysis(sample_comparison(num_prompts=6, repeats=1))
    agreement = analysis.value("Q4_K_M", "agreement")
    assert agreement is not None
    advice = advise(analysis, Bar(agreement=agreement - 0.001))
    assert advice.column == "Q4_K_M"
    assert not advice.is_sure
    assert "too wide" in advice.sentence


def test_more_can_be_asked_for() -> None:
    bar = Bar(agreement=0.5, decode_rate=60.0, peak_memory_bytes=250e6)
    assert advise(Analysis(sample_comparison(num_prompts=20)), bar).column == "Q2_K"
    assert advise(Analysis(sample_comparison(num_prompts=20)), Bar(agreement=0.5, decode_rate=500.0)).column == ""


def test_nothing_within_the_bar_says_what_each_misses() -> None:
    advice = advise(Analysis(sample_comparison()), Bar(decode_rate=500.0))
    assert advice.sentence == "None of these files is within your bar."
    assert len(advice.evidence) == 1 + len(LADDER)
    assert advice.evidence[0].startswith("Your bar: same words at least 80.0 %, decode at least 500.0 tokens/s")


def test_the_reference_is_within_every_bar_of_agreement() -> None:
    levels = (LADDER[0], LADDER[6])
    assert advise(Analysis(sample_comparison(levels, num_prompts=20)), Bar(agreement=0.99)).column == "F16"


def test_of_two_files_of_one_size_the_better_is_named() -> None:
    twin = Level("TWIN", 105e6, 226e6, 0.2, 262.0, 74.9, 0.2)
    advice = advise(Analysis(sample_comparison((LADDER[0], twin, LADDER[4]))), Bar(agreement=0.5))
    assert advice.column == "Q4_K_M"


def test_one_model_and_none_are_said_to_be_so() -> None:
    only = advise(Analysis(sample_comparison(LADDER[:1])))
    assert "only one model" in only.sentence
    assert not any("held against" in line for line in only.evidence)
    assert "nothing to advise" in advise(Analysis(sample_comparison(()))).sentence


def test_columns_that_failed_are_no_advice() -> None:
    comparison = sample_comparison(LADDER[:2])
    failed = sample_column("tiny", file_bytes=1.0, error="It cannot be loaded.")
    advice = advise(Analysis(msgspec.structs.replace(comparison, columns=(*comparison.columns, failed))))
    assert advice.column == "Q8_0"
    only_failed = msgspec.structs.replace(comparison, columns=(failed,), cells=(), reference="")
    assert advise(Analysis(only_failed)).evidence == ("SmallBoat-135M tiny: It cannot be loaded.",)


def test_files_of_unknown_size_are_no_advice() -> None:
    comparison = sample_comparison(LADDER[:2])
    columns = tuple(msgspec.structs.replace(column, values={}) for column in comparison.columns)
    advice = advise(Analysis(msgspec.structs.replace(comparison, columns=columns)))
    assert (advice.sentence, advice.column) == ("No size of a file is known, so nothing can be advised.", "")


def test_a_race_gives_no_evidence_of_speed() -> None:
    advice = advise(Analysis(sample_comparison(mode=Mode.RACE)))
    assert not any("tokens/s" in line for line in advice.evidence)


def test_agreement_that_is_not_known_is_not_within_a_bar() -> None:
    comparison = sample_comparison(LADDER[:2])
    columns = (comparison.columns[0], msgspec.structs.replace(comparison.columns[1], vocabulary_hash="other"))
    assert advise(Analysis(msgspec.structs.replace(comparison, columns=columns))).column == "F16"
