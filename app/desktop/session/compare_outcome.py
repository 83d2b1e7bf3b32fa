"""CompareOutcome: what comes of a comparison, computed once beside the window's thread and shown as it is."""

from typing import NamedTuple

from app.compare.advice import Bar, advise
from app.compare.analysis import Analysis
from app.compare.pareto import standings, value_on
from app.compare.results import MEASURES, Comparison, Mode

_LEAST_SPREAD = 0.5  # percent; below, it is shown as none


class Value(NamedTuple):
    """A measure of a column.

    Attributes:
        value: the middle, as it is kept; None where there is none.
        text: in its unit, with the spread of repeats.
        low, high: what the middle may be; None where that is not known.
        reason: why there is none, or what is to be known of it.
    """

    value: float | None
    text: str
    low: float | None = None
    high: float | None = None
    is_best: bool = False
    is_noisy: bool = False
    reason: str = ""


class OutcomeRow(NamedTuple):
    """A column with its values by the name of the measure.

    Attributes:
        number: its place among the columns, which gives its colour.
        is_front: whether no other is at least as good in everything.
        is_safe_to_delete: whether another may surely take its place.
        standing: one sentence on that.
    """

    column: str
    label: str
    number: int
    values: dict[str, Value]
    error: str = ""
    is_front: bool = False
    is_safe_to_delete: bool = False
    standing: str = ""


class CompareOutcome(NamedTuple):
    """See above.

    Attributes:
        measures: those of which any column has a value, in their order.
        axes: those of them that can be an axis of the chart.
    """

    comparison: Comparison
    measures: tuple[str, ...]
    axes: tuple[str, ...]
    rows: tuple[OutcomeRow, ...]
    sentence: str
    evidence: tuple[str, ...]
    notes: tuple[str, ...]


def outcome_of(comparison: Comparison, bar: Bar) -> CompareOutcome:
    """Compute everything that is shown of a comparison.

    Args:
        bar: what a file has to reach to be good enough.
    """
    analysis = Analysis(comparison)
    standing = standings(analysis)
    has_choice = comparison.mode is Mode.FAIR and len(comparison.columns) > 1
    advice = advise(analysis, bar) if has_choice else None
    rows = []
    for number, column in enumerate(comparison.columns):
        place = standing[column.id]
        rows.append(
            OutcomeRow(
                column.id,
                column.label,
                number,
                {name: _value(analysis, column.id, name) for name in analysis.measures},
                column.error,
                is_front=has_choice and not column.error and not place.dominated_by and not place.reason,
                is_safe_to_delete=has_choice and place.is_safe_to_delete,
                standing=place.reason if has_choice else "",
            )
        )
    axes = tuple(
        name for name in analysis.measures if MEASURES[name].is_higher_better is not None and analysis.is_fair(name)
    )
    return CompareOutcome(
        comparison,
        analysis.measures,
        axes,
        tuple(rows),
        advice.sentence if advice is not None else "",
        advice.evidence if advice is not None else (),
        (*comparison.notes, *analysis.notes),
    )


def _value(analysis: Analysis, column: str, name: str) -> Value:
    figure, value = analysis.figure(column, name), value_on(analysis, column, name)
    interval = figure.interval
    if value is None:
        return Value(None, "–", reason=figure.reason)
    spread = ""
    if figure.quartiles is not None and 50 * figure.quartiles >= _LEAST_SPREAD:
        spread = f" ±{50 * figure.quartiles:.0f} %"
    return Value(
        value,
        f"{MEASURES[name].number(value)}{spread}",
        interval.low if interval is not None else None,
        interval.high if interval is not None else None,
        analysis.best(name) == column,
        figure.is_noisy,
        figure.reason,
    )
