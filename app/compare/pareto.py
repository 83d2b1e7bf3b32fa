"""Which files are beaten by another on everything that counts, and which of them the numbers allow to delete."""

from collections.abc import Sequence
from typing import NamedTuple

from app.compare.analysis import OF_FILE, OF_TEXT, Analysis
from app.compare.results import MEASURES, Column, Mode
from app.compare.statistics import holm

AXES = ("file_bytes", "peak_memory_bytes", "prefill_rate", "decode_rate", "agreement")
MARGIN = 0.03  # as a ratio: a loss that nobody feels
SHARE_MARGIN = 0.05  # of shares: so much less agreement is within what a set of some dozen prompts can tell
_SURE = 0.05


class Standing(NamedTuple):
    """Where a column stands among the others.

    Attributes:
        dominated_by: columns that are at least as good on every axis and better on one, by the middles.
        replaced_by: the one of them that may surely take its place; empty where the intervals do not say so.
        reason: one sentence on why it is safe to delete, why not, or why it cannot be placed; empty on the front.
    """

    dominated_by: tuple[str, ...] = ()
    replaced_by: str = ""
    reason: str = ""

    @property
    def is_safe_to_delete(self) -> bool:
        """Whether the file is of no use beside another, with all that is not known about both."""
        return bool(self.replaced_by)


def standings(analysis: Analysis, axes: Sequence[str] = AXES) -> dict[str, Standing]:
    """Return where each column stands.

    Args:
        axes: names of measures that have a direction; those of which no column has a value, or that a
            race says nothing about, are left out.
    """
    columns = analysis.comparison.columns
    axes = [
        name
        for name in axes
        if MEASURES[name].is_higher_better is not None and name in analysis.measures and analysis.is_fair(name)
    ]
    values = {column.id: {name: value_on(analysis, column.id, name) for name in axes} for column in columns}
    dominators = {
        column.id: tuple(
            other.id for other in columns if other.id != column.id and _dominates(values[other.id], values[column.id])
        )
        for column in columns
    }
    allowed = _allowed(analysis, axes, dominators)
    found: dict[str, Standing] = {}
    # From the front on: what takes the place of a file must not itself be deleted.
    for column in sorted(columns, key=lambda column: len(dominators[column.id])):
        kept = [other for other in allowed[column.id] if not found[other].is_safe_to_delete]
        missing = [MEASURES[name].label.lower() for name in axes if values[column.id][name] is None]
        if missing:
            found[column.id] = Standing(reason=column.error or f"It has no value for {', '.join(missing)}.")
        elif not dominators[column.id]:
            found[column.id] = Standing()
        else:
            best = min(kept, key=lambda other: _rank(values[other]), default="")
            reason = _reason(analysis, axes, column, dominators[column.id], best)
            found[column.id] = Standing(dominators[column.id], best, reason)
    return _by_file(analysis, {column.id: found[column.id] for column in columns})


def value_on(analysis: Analysis, column_id: str, name: str) -> float | None:
    """Return the middle of a measure; what all replies are held against agrees with itself."""
    if name in OF_TEXT and column_id == analysis.comparison.reference and not _column(analysis, column_id).error:
        return 1.0
    return analysis.value(column_id, name)


def _dominates(one: dict[str, float | None], other: dict[str, float | None]) -> bool:
    is_better = False
    for name, first in one.items():
        second = other[name]
        if first is None or second is None:
            return False
        gain = first - second if MEASURES[name].is_higher_better else second - first
        if gain < 0:
            return False
        is_better = is_better or gain > 0
    return is_better


def _allowed(
    analysis: Analysis, axes: Sequence[str], dominators: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return by which columns each may be replaced: no axis is worse, and one is better, whatever the intervals hold.

    A pair is judged by its worst axis (Berger 1982: all have to hold), and the pairs by Holm's rule together.
    """
    columns = [column.id for column in analysis.comparison.columns]
    pairs = [(one, other) for one in columns for other in columns if one != other]
    chances = [max((_p_worse(analysis, one, other, name) for name in axes), default=1.0) for one, other in pairs]
    adjusted = dict(zip(pairs, holm(chances), strict=True))
    can_say = analysis.comparison.mode is Mode.FAIR and any(name in OF_TEXT for name in axes)
    return {
        column_id: tuple(
            other
            for other in others
            if can_say
            and column_id != analysis.comparison.reference
            and adjusted[other, column_id] < _SURE
            and all(_is_within(analysis, other, column_id, name) for name in axes)
            and any(_is_better(analysis, other, column_id, name) for name in axes)
        )
        for column_id, others in dominators.items()
    }


def _p_worse(analysis: Analysis, one: str, other: str, name: str) -> float:
    """Return how likely such values are where `one` is worse than `other` by more than the margin."""
    if name in OF_FILE:
        return 0.0 if _gain_of_file(analysis, one, other) >= 0 else 1.0
    change = analysis.change(one, other, name)
    if change is None or _is_noisy(analysis, one, other, name):
        return 1.0
    return change.p_worse(_margin(name), is_higher_better=MEASURES[name].is_higher_better is True)


def _is_within(analysis: Analysis, one: str, other: str, name: str) -> bool:
    if name in OF_FILE:
        return _gain_of_file(analysis, one, other) >= 0
    change = analysis.change(one, other, name)
    if change is None or change.low is None or change.high is None:
        return False
    return change.low >= -_margin(name) if MEASURES[name].is_higher_better else change.high <= _margin(name)


def _is_better(analysis: Analysis, one: str, other: str, name: str) -> bool:
    if name in OF_FILE:
        return _gain_of_file(analysis, one, other) > 0
    change = analysis.change(one, other, name)
    if change is None or change.low is None or change.high is None or change.p_value >= _SURE:
        return False
    return change.low > 0 if MEASURES[name].is_higher_better else change.high < 0


def _gain_of_file(analysis: Analysis, one: str, other: str) -> float:
    first, second = analysis.value(one, "file_bytes"), analysis.value(other, "file_bytes")
    return -1.0 if first is None or second is None else second - first


def _is_noisy(analysis: Analysis, one: str, other: str, name: str) -> bool:
    return analysis.figure(one, name).is_noisy or analysis.figure(other, name).is_noisy


def _margin(name: str) -> float:
    return SHARE_MARGIN if name in OF_TEXT else MARGIN


def _rank(values: dict[str, float | None]) -> tuple[float, ...]:
    signs = {name: -1.0 if MEASURES[name].is_higher_better else 1.0 for name in values}
    return tuple(signs[name] * (value or 0.0) for name, value in values.items())


def _reason(
    analysis: Analysis, axes: Sequence[str], column: Column, dominators: Sequence[str], replaced_by: str
) -> str:
    if replaced_by:
        label = _column(analysis, replaced_by).label
        better = [MEASURES[name].label.lower() for name in axes if _is_better(analysis, replaced_by, column.id, name)]
        return f"{label} is no worse in anything chosen, and surely better in {_listed(better)}."
    labels = _listed([_column(analysis, other).label for other in dominators])
    if column.id == analysis.comparison.reference:
        return f"{labels} did as well or better, but the others are held against this one."
    if analysis.comparison.mode is not Mode.FAIR:
        return f"{labels} did as well or better, but all ran at once, which says nothing about speed."
    if not any(name in OF_TEXT for name in axes):
        return f"{labels} did as well or better, but nothing is known about what the replies are worth."
    verb = "does" if len(dominators) == 1 else "do"
    return f"{labels} {verb} as well or better by the middle values, but the intervals are too wide to be sure."


def _by_file(analysis: Analysis, found: dict[str, Standing]) -> dict[str, Standing]:
    """Take back what would delete a file that another column needs, or that takes its own place."""
    files = {column.id: column.fingerprint or column.path for column in analysis.comparison.columns}
    needed = {files[column_id] for column_id, standing in found.items() if not standing.is_safe_to_delete}
    reason = "With other settings the same file is of use."
    return {
        column_id: standing._replace(replaced_by="", reason=reason)
        if standing.is_safe_to_delete and files[column_id] in needed
        else standing
        for column_id, standing in found.items()
    }


def _column(analysis: Analysis, column_id: str) -> Column:
    return next(column for column in analysis.comparison.columns if column.id == column_id)


def _listed(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}" if labels else ""
