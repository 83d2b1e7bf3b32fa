"""Agreement with the reference's replies, and why there is none."""

import msgspec
import pytest

from app.compare.agreement import agreement_with_reference, prefix_share, repeats_agree, why_not_comparable
from app.compare.results import Cell
from engine import SamplingParams
from tests.support.comparisons import LADDER, sample_column, sample_comparison


@pytest.mark.parametrize(
    ("reference", "other", "wanted"),
    [
        ([1, 2, 3, 4], [1, 2, 9, 4], 0.5),
        ([1, 2, 3, 4], [1, 2], 0.5),
        ([1, 2], [1, 2, 3], 1.0),
        ([1], [2], 0.0),
        ([], [], 1.0),
        ([], [1], 0.0),
    ],
    ids=["differs", "shorter", "longer", "at once", "both empty", "reference empty"],
)
def test_prefix_share_is_known(reference: list[int], other: list[int], wanted: float) -> None:
    assert prefix_share(reference, other) == wanted


def test_agreement_is_the_mean_over_repeats_of_each_prompt() -> None:
    comparison = sample_comparison(LADDER[:1], num_prompts=1, repeats=2)
    column = sample_column("B")
    cells = [
        Cell(column="B", prompt="prompt-00", repeat=repeat, text=text, token_ids=(1,))
        for repeat, text in enumerate((comparison.cells[0].text, "other"))
    ]
    changed = msgspec.structs.replace(
        comparison, columns=(*comparison.columns, column), cells=(*comparison.cells, *cells)
    )
    assert agreement_with_reference(changed, column).by_words == {"prompt-00": pytest.approx(0.5)}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"vocabulary_hash": "other"}, "another vocabulary"),
        ({"vocabulary_hash": ""}, "not known whether"),
        ({"template_hash": "other"}, "another chat template"),
        ({"sampling": SamplingParams(temperature=0.8, seed=None)}, "at random"),
        ({"error": "The file is gone."}, "The file is gone."),
    ],
    ids=["vocabulary", "no vocabulary", "template", "random", "failed"],
)
def test_agreement_is_refused_with_the_reason(changes: dict[str, object], part: str) -> None:
    column = msgspec.structs.replace(sample_column("B"), **changes)
    assert part in why_not_comparable(sample_column("A"), column)


def test_agreement_needs_a_reference_that_ran() -> None:
    assert "No column" in why_not_comparable(None, sample_column("B"))
    assert "could not be used" in why_not_comparable(sample_column("A", error="It is damaged."), sample_column("B"))
    assert why_not_comparable(sample_column("A"), sample_column("B")) == ""


def test_replies_that_failed_count_for_nothing() -> None:
    comparison = sample_comparison(num_prompts=2, repeats=1)
    failed = tuple(
        msgspec.structs.replace(cell, error="It failed.", text="") if cell.prompt == "prompt-01" else cell
        for cell in comparison.cells
    )
    changed = msgspec.structs.replace(comparison, cells=failed)
    assert set(agreement_with_reference(changed, changed.columns[1]).by_words) == {"prompt-00"}


def test_repeats_that_differ_are_seen() -> None:
    comparison = sample_comparison(LADDER[:2], num_prompts=2, repeats=2)
    assert repeats_agree(comparison, "F16") is True
    assert repeats_agree(sample_comparison(LADDER[:1], repeats=1), "F16") is None
    cells = (msgspec.structs.replace(comparison.cells[0], text="other"), *comparison.cells[1:])
    assert repeats_agree(msgspec.structs.replace(comparison, cells=cells), "F16") is False
