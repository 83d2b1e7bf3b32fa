"""How far the replies of a column are those of the reference: by tokens up to the first difference, and by words."""

from collections.abc import Sequence
from typing import NamedTuple

from app.compare.results import Cell, Column, Comparison
from app.compare.word_diff import similarity


class Agreement(NamedTuple):
    """A column beside the reference.

    Attributes:
        by_words: of each prompt, the share of the words of both replies that are the same.
        by_prefix: of each prompt, the share of the reference's tokens before the first difference.
        refusal: why there is none, one sentence; empty where there is.
    """

    by_words: dict[str, float]
    by_prefix: dict[str, float]
    refusal: str = ""


def prefix_share(reference: Sequence[int], other: Sequence[int]) -> float:
    """Return the share of a reference's tokens that another reply begins with; 1 of two empty ones."""
    if not reference:
        return 0.0 if other else 1.0
    same = next(
        (place for place, pair in enumerate(zip(reference, other, strict=False)) if pair[0] != pair[1]),
        min(len(reference), len(other)),
    )
    return same / len(reference)


def agreement_with_reference(comparison: Comparison, column: Column) -> Agreement:
    """Return how far a column's replies are the reference's: pairs of one prompt and one repeat, then their mean."""
    reference = comparison.column(comparison.reference)
    refusal = why_not_comparable(reference, column)
    if refusal or reference is None:
        return Agreement({}, {}, refusal)
    theirs = {(cell.prompt, cell.repeat): cell for cell in comparison.cells_of(reference.id) if not cell.error}
    words: dict[str, list[float]] = {}
    prefixes: dict[str, list[float]] = {}
    for cell in comparison.cells_of(column.id):
        other = theirs.get((cell.prompt, cell.repeat))
        if other is None or cell.error:
            continue
        words.setdefault(cell.prompt, []).append(similarity(other.text, cell.text))
        if _has_tokens(cell) and _has_tokens(other):
            prefixes.setdefault(cell.prompt, []).append(prefix_share(other.token_ids, cell.token_ids))
    return Agreement(_means(words), _means(prefixes))


def why_not_comparable(reference: Column | None, column: Column) -> str:
    """Return why replies cannot be held against those of the reference, one sentence; empty where they can."""
    if reference is None:
        return "No column was chosen as the reference."
    if reference.error:
        return f"The reference could not be used: {reference.error}"
    if column.error:
        return column.error
    if not reference.vocabulary_hash or not column.vocabulary_hash:
        return "It is not known whether both models have one vocabulary."
    if reference.vocabulary_hash != column.vocabulary_hash:
        return "It has another vocabulary than the reference, so the two are different models."
    if reference.template_hash != column.template_hash:
        return "It has another chat template than the reference, so the two were asked different things."
    pair = (reference.sampling, column.sampling)
    if any(sampling.temperature > 0 and sampling.seed is None for sampling in pair):
        return "Replies were drawn at random: give a seed, or temperature 0."
    return ""


def repeats_agree(comparison: Comparison, column_id: str) -> bool | None:
    """Whether the repeats of each prompt have one text; None where nothing was repeated."""
    texts: dict[str, set[str]] = {}
    num_replies = 0
    for cell in comparison.cells_of(column_id):
        if not cell.error:
            texts.setdefault(cell.prompt, set()).add(cell.text)
            num_replies += 1
    return None if num_replies == len(texts) else all(len(found) == 1 for found in texts.values())


def _has_tokens(cell: Cell) -> bool:
    return bool(cell.token_ids) or not (cell.text or cell.thinking)


def _means(values: dict[str, list[float]]) -> dict[str, float]:
    return {name: sum(found) / len(found) for name, found in values.items()}
