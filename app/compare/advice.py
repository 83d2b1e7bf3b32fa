"""The advisor: names the smallest file that is good enough, with the numbers that say so."""

from typing import NamedTuple

import msgspec

from app.compare.analysis import OF_TEXT, Analysis
from app.compare.pareto import value_on
from app.compare.results import MEASURES, Column

AGREEMENT = 0.8
_EVIDENCE = ("decode_rate", "ttft_s", "peak_memory_bytes")


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """What a file has to reach to be good enough; None asks for nothing.

    Attributes:
        agreement: the least share of words that are those of the reference.
        decode_rate: the least tokens a second.
        ttft_s, peak_memory_bytes: the most.
    """

    agreement: float | None = AGREEMENT
    decode_rate: float | None = None
    ttft_s: float | None = None
    peak_memory_bytes: float | None = None

    def demands(self) -> dict[str, float]:
        """Return what is asked for, by measure."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


class Advice(NamedTuple):
    """What to take.

    Attributes:
        column: its id; empty where nothing can be advised.
        is_sure: whether the intervals say so too, not the middle values alone.
    """

    sentence: str
    evidence: tuple[str, ...] = ()
    column: str = ""
    is_sure: bool = False


class _Reach(NamedTuple):
    """Whether a column reaches the bar, and what it misses."""

    is_reached: bool
    is_sure: bool
    missed: tuple[str, ...]


def advise(analysis: Analysis, bar: Bar | None = None) -> Advice:
    """Return the smallest file within the bar."""
    bar = bar or Bar()
    running = [column for column in analysis.comparison.columns if not column.error and _has_replies(analysis, column)]
    if not running:
        return Advice("No model could be measured, so there is nothing to advise.", _failures(analysis))
    sized = [column for column in running if analysis.value(column.id, "file_bytes") is not None]
    if len(running) == 1:
        known = (*_evidence(analysis, running[0]), *_failures(analysis))
        return Advice("There is only one model to choose from, so nothing can be advised.", known, running[0].id)
    if not sized:
        return Advice("No size of a file is known, so nothing can be advised.", _failures(analysis))
    reaches = {column.id: _reach(analysis, column, bar) for column in sized}
    reached = sorted((column for column in sized if reaches[column.id].is_reached), key=lambda c: _order(analysis, c))
    if not reached:
        return _nothing_reached(analysis, sized, reaches, bar)
    sure = [column for column in reached if reaches[column.id].is_sure]
    first = reached[0]
    evidence = [*_asked(bar), *_evidence(analysis, first), *_left_out(analysis, sized, first, reaches)]
    if sure and sure[0].id == first.id:
        return Advice(f"{first.label} is the smallest file within your bar.", tuple(evidence), first.id, True)
    sentence = f"{first.label} is the smallest file within your bar, but the intervals are too wide to be sure"
    if sure:
        evidence.append(f"The smallest that surely is within it: {sure[0].label}{_size(analysis, sure[0])}.")
    return Advice(f"{sentence}.", tuple(evidence), first.id)


def _asked(bar: Bar) -> list[str]:
    demands = [
        f"{MEASURES[name].label.lower()} at {'least' if MEASURES[name].is_higher_better else 'most'} "
        f"{MEASURES[name].shown(value)}"
        for name, value in bar.demands().items()
    ]
    return [f"Your bar: {', '.join(demands)}."] if demands else []


def _reach(analysis: Analysis, column: Column, bar: Bar) -> _Reach:
    missed, is_sure = [], True
    for name, wanted in bar.demands().items():
        measure = MEASURES[name]
        value = value_on(analysis, column.id, name)
        if not analysis.is_fair(name):
            value = None
        if value is None:
            missed.append(f"{measure.label.lower()} not known")
            continue
        is_good = value >= wanted if measure.is_higher_better else value <= wanted
        if not is_good:
            missed.append(f"{measure.label.lower()} {measure.shown(value)}")
        is_sure = is_sure and _is_sure(analysis, column, name, wanted)
    return _Reach(not missed, is_sure and not missed, tuple(missed))


def _is_sure(analysis: Analysis, column: Column, name: str, wanted: float) -> bool:
    figure = analysis.figure(column.id, name)
    if name in OF_TEXT and column.id == analysis.comparison.reference:
        return True
    if figure.interval is None or figure.interval.low is None or figure.interval.high is None or figure.is_noisy:
        return False
    return figure.interval.low >= wanted if MEASURES[name].is_higher_better else figure.interval.high <= wanted


def _nothing_reached(analysis: Analysis, columns: list[Column], reaches: dict[str, _Reach], bar: Bar) -> Advice:
    evidence = [
        *_asked(bar),
        *(
            f"{column.label}: {', '.join(reaches[column.id].missed)}."
            for column in sorted(columns, key=lambda column: _order(analysis, column))
        ),
    ]
    return Advice("None of these files is within your bar.", tuple(evidence))


def _left_out(analysis: Analysis, columns: list[Column], chosen: Column, reaches: dict[str, _Reach]) -> list[str]:
    """Return why the next smaller file is not the one."""
    size = analysis.value(chosen.id, "file_bytes") or 0.0
    smaller = [column for column in columns if (analysis.value(column.id, "file_bytes") or 0.0) < size]
    if not smaller:
        return []
    nearest = max(smaller, key=lambda column: analysis.value(column.id, "file_bytes") or 0.0)
    return [f"The next smaller one, {nearest.label}, misses it: {', '.join(reaches[nearest.id].missed)}."]


def _evidence(analysis: Analysis, column: Column) -> tuple[str, ...]:
    reference = analysis.comparison.column(analysis.comparison.reference)
    lines = []
    size, whole = analysis.value(column.id, "file_bytes"), None
    if reference is not None and reference.id != column.id:
        whole = analysis.value(reference.id, "file_bytes")
    if size is not None:
        beside = f", {100 * size / whole:.0f} % of {reference.label}" if whole and reference is not None else ""
        lines.append(f"Its file has {MEASURES['file_bytes'].shown(size)}{beside}.")
    agreement = analysis.figure(column.id, "agreement").interval
    if agreement is not None and reference is not None:
        between = _between(agreement.low, agreement.high, "agreement")
        shown = MEASURES["agreement"].shown(agreement.value)
        prompts = "one prompt" if agreement.num_values == 1 else f"{agreement.num_values} prompts"
        lines.append(f"{shown} of the words are those of {reference.label}{between}, over {prompts}.")
    elif reference is not None and reference.id == column.id and len(analysis.comparison.columns) > 1:
        lines.append("It is the one that the others are held against.")
    for name in _EVIDENCE:
        figure = analysis.figure(column.id, name)
        if figure.interval is not None and analysis.is_fair(name):
            noise = ", too noisy to rely on" if figure.is_noisy else ""
            between = _between(figure.interval.low, figure.interval.high, name)
            lines.append(f"{MEASURES[name].label}: {MEASURES[name].shown(figure.interval.value)}{between}{noise}.")
    return tuple(lines)


def _between(low: float | None, high: float | None, name: str) -> str:
    if low is None or high is None:
        return ""
    measure = MEASURES[name]
    first, last = measure.number(low), measure.number(high)
    return "" if first == last else f" ({first} to {last})"


def _order(analysis: Analysis, column: Column) -> tuple[float, float, float, str]:
    """Return what makes one file come before another: smaller, then better, then faster."""
    size = analysis.value(column.id, "file_bytes") or 0.0
    agreement = value_on(analysis, column.id, "agreement") or 0.0
    return size, -agreement, -(analysis.value(column.id, "decode_rate") or 0.0), column.label


def _size(analysis: Analysis, column: Column) -> str:
    size = analysis.value(column.id, "file_bytes")
    return "" if size is None else f" with {MEASURES['file_bytes'].shown(size)}"


def _has_replies(analysis: Analysis, column: Column) -> bool:
    return any(not cell.error for cell in analysis.comparison.cells_of(column.id))


def _failures(analysis: Analysis) -> tuple[str, ...]:
    return tuple(f"{column.label}: {column.error}" for column in analysis.comparison.columns if column.error)
