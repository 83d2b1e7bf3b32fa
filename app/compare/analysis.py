"""What a comparison says: a figure for each column and measure, the changes to the reference, and what was left out."""

import functools
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from app.compare.agreement import Agreement, agreement_with_reference, repeats_agree
from app.compare.results import MEASURES, Cell, Column, Comparison, Mode
from app.compare.statistics import (
    FEW,
    Change,
    Interval,
    holm,
    is_too_noisy,
    median_deviation,
    median_interval,
    paired_difference,
    paired_ratio,
    quartile_range,
    share_interval,
)

OF_FILE = ("file_bytes",)
OF_LOAD = ("load_s", "peak_memory_bytes")  # one value a load: the largest of its replies
OF_TEXT = ("agreement", "prefix_agreement")
COUNTS = ("num_prompt_tokens", "num_generated_tokens")
TIMED = (
    *("load_s", "ttft_s", "prefill_rate", "decode_rate", "tpot_s", "bandwidth_share"),
    *("joules_per_token", "cost_per_million_tokens"),
)
"""What depends on the source of power, on heat, and on what else is computed."""
MAINS, BATTERY = "mains", "battery"
_BUSY = 0.5  # processors that other programs kept busy: more than that is no quiet machine
_SURE = 0.05


class Figure(NamedTuple):
    """A measure of a column.

    Attributes:
        interval: None where there is no value; `reason` says why.
        deviation, quartiles: median distance from the median, and distance between the quartiles, of the repeats of
            one prompt, as a share of the median: the middle of all prompts. None below two repeats.
        change: to the reference, over pairs; None where there is none.
        p_value: of the change, adjusted for all that is said in the table.
        is_noisy: whether repeats lie too far apart to say anything.
    """

    interval: Interval | None
    reason: str = ""
    deviation: float | None = None
    quartiles: float | None = None
    change: Change | None = None
    p_value: float = 1.0
    is_noisy: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether it surely differs from the reference: the interval leaves out none, with all tests together."""
        change = self.change
        if change is None or change.low is None or change.high is None or self.is_noisy:
            return False
        return self.p_value < _SURE and not change.low <= 0 <= change.high


Unit = tuple[str, int]
"""A prompt, empty for a whole load, and a repeat: what pairs are made of."""


class Analysis:
    """Everything computed from a comparison, once.

    Attributes:
        power_source: of the replies whose speed is counted; None where the machine does not tell.
        notes: what limits what can be said, a sentence each.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self._good = [cell for cell in comparison.cells if not cell.error]
        self.power_source = _usual_power(self._good)
        self._of_column: dict[str, list[Cell]] = {column.id: [] for column in comparison.columns}
        for cell in self._good:
            self._of_column[cell.column].append(cell)
        self.agreements: dict[str, Agreement] = {
            column.id: agreement_with_reference(comparison, column) for column in comparison.columns
        }
        self._changes: dict[tuple[str, str, str], Change | None] = {}
        self.figures = self._figures()
        self.notes = tuple(self._notes())

    @functools.cached_property
    def measures(self) -> tuple[str, ...]:
        """The measures of which any column has a value, in the order of the table."""
        return tuple(
            name for name in MEASURES if any(figures[name].interval is not None for figures in self.figures.values())
        )

    def figure(self, column_id: str, name: str) -> Figure:
        """Return a measure of a column."""
        return self.figures[column_id][name]

    def value(self, column_id: str, name: str) -> float | None:
        """Return the middle of a measure of a column."""
        interval = self.figures[column_id][name].interval
        return None if interval is None else interval.value

    def best(self, name: str) -> str | None:
        """Return the column with the best value of a measure; None where there is none, or two are equally good."""
        measure = MEASURES[name]
        values = [
            (value, column.id)
            for column in self.comparison.columns
            if not column.error
            and (value := self.value(column.id, name)) is not None
            and not self.figure(column.id, name).is_noisy
        ]
        if measure.is_higher_better is None or len(values) < 2 or not self.is_fair(name):
            return None
        values.sort(key=lambda pair: pair[0], reverse=measure.is_higher_better)
        return None if measure.number(values[0][0]) == measure.number(values[1][0]) else values[0][1]

    def change(self, one: str, other: str, name: str) -> Change | None:
        """Return how a measure of one column differs from that of another, over what both have."""
        key = (one, other, name)
        if key not in self._changes:
            self._changes[key] = self._change(one, other, name)
        return self._changes[key]

    def _change(self, one: str, other: str, name: str) -> Change | None:
        if not self.is_fair(name) or one == other:
            return None
        if name in OF_TEXT:
            first, second = self._shares(one, name), self._shares(other, name)
            return paired_difference([(first[key], second[key]) for key in first if key in second])
        first_units, second_units = self._units(one, name), self._units(other, name)
        shared = [unit for unit in first_units if unit in second_units]
        pairs = [(unit, first_units[unit], second_units[unit]) for unit in shared]
        return paired_ratio(_pairs_by_prompt(pairs))

    def is_fair(self, name: str) -> bool:
        """Whether a measure can be compared, by the way the replies were made."""
        return self.comparison.mode is Mode.FAIR or name not in TIMED

    def _shares(self, column_id: str, name: str) -> dict[str, float]:
        if column_id == self.comparison.reference:  # what all are held against is itself
            return dict.fromkeys((cell.prompt for cell in self._of_column[column_id]), 1.0)
        found = self.agreements[column_id]
        return found.by_words if name == "agreement" else found.by_prefix

    def _units(self, column_id: str, name: str) -> dict[Unit, float]:
        """Return the values of a measure by what they are of; of a column on one source of power."""
        units: dict[Unit, float] = {}
        for cell in self._of_column[column_id]:
            value = cell.values.get(name)
            if value is None or (name in TIMED and cell.machine.power_source != self.power_source):
                continue
            unit = ("" if name in OF_LOAD else cell.prompt, cell.repeat)
            units[unit] = max(value, units.get(unit, value))
        return units

    def _figures(self) -> dict[str, dict[str, Figure]]:
        columns = self.comparison.columns
        figures = {column.id: {name: self._figure(column, name) for name in MEASURES} for column in columns}
        places = [
            (column.id, name)
            for column in columns
            for name, figure in figures[column.id].items()
            if figure.change is not None and MEASURES[name].is_higher_better is not None
        ]
        changes = [figures[column_id][name].change for column_id, name in places]
        adjusted = holm([change.p_value for change in changes if change is not None])
        for (column_id, name), p_value in zip(places, adjusted, strict=True):
            figures[column_id][name] = figures[column_id][name]._replace(p_value=p_value)
        return figures

    def _figure(self, column: Column, name: str) -> Figure:
        if name in OF_FILE:
            value = column.values.get(name)
            if value is None:
                return Figure(None, column.error or "The size of the file is not known.")
            return Figure(Interval(value, value, value, 1))
        if name in OF_TEXT:
            return self._text_figure(column, name)
        groups: dict[str, list[float]] = {}
        for (prompt, _), value in self._units(column.id, name).items():
            groups.setdefault(prompt, []).append(value)
        found = list(groups.values())
        interval = median_interval(found)
        if interval is None:
            return Figure(None, column.error or "It could not be measured here.")
        reference = self.comparison.reference
        change = self.change(column.id, reference, name) if reference else None
        deviation, quartiles = _spread(found)
        is_noisy = name in TIMED and is_too_noisy(found)
        return Figure(interval, "", deviation, quartiles, change, is_noisy=is_noisy)

    def _text_figure(self, column: Column, name: str) -> Figure:
        reference = self.comparison.reference
        if column.id == reference:
            return Figure(None, "The others are held against this one.")
        interval = share_interval(list(self._shares(column.id, name).values()))
        if interval is None:
            return Figure(None, self.agreements[column.id].refusal or "There are no replies to the same prompts.")
        return Figure(interval, change=self.change(column.id, reference, name))

    def _notes(self) -> list[str]:
        comparison, notes = self.comparison, []
        if comparison.mode is Mode.RACE:
            notes.append("All ran at once and shared the processor, so their speeds cannot be compared.")
        if comparison.mode is Mode.SAMPLES:
            notes.append("All replies were made in one batch, so the speed of one is not that of a reply alone.")
        num_other = sum(cell.machine.power_source != self.power_source for cell in self._good)
        if num_other:
            notes.append(
                f"Speeds are of the replies {_power_text(self.power_source)}: {_replies(num_other)} on another source "
                "of power, or on an unknown one, are not mixed with them."
            )
        notes += _machine_notes(self._good)
        notes += self._completeness_notes()
        noisy = sorted(
            {
                MEASURES[name].label.lower()
                for row in self.figures.values()
                for name, cell in row.items()
                if cell.is_noisy
            }
        )
        if noisy:
            notes.append(
                f"Too noisy to say: repeats of {', '.join(noisy)} lie more than a quarter apart. Close other "
                "programs, and repeat."
            )
        return notes

    def _completeness_notes(self) -> list[str]:
        comparison, notes = self.comparison, []
        if comparison.repeats == 1 and self._good:
            notes.append("Each prompt was asked once, so nothing is known about how far the speeds vary.")
        num_failed = len(comparison.cells) - len(self._good)
        if num_failed:
            notes.append(f"{_replies(num_failed).capitalize()} failed, and no figure counts them.")
        running = [column for column in comparison.columns if not column.error]
        num_missing = len(running) * len(comparison.prompts) * comparison.repeats - sum(
            not comparison_column_error(comparison, cell) for cell in comparison.cells
        )
        if num_missing > 0 and comparison.mode is not Mode.SAMPLES:
            notes.append(f"It is not finished: {_replies(num_missing)} are missing.")
        unsteady = [column.label for column in comparison.columns if repeats_agree(comparison, column.id) is False]
        if unsteady and comparison.mode is Mode.FAIR:
            notes.append(f"Repeats of one prompt gave different texts with {', '.join(unsteady)}.")
        return notes


def comparison_column_error(comparison: Comparison, cell: Cell) -> str:
    """Return why the column of a reply could not be used, empty where it could."""
    column = comparison.column(cell.column)
    return column.error if column is not None else ""


def _pairs_by_prompt(pairs: Sequence[tuple[Unit, float, float]]) -> list[tuple[float, float]]:
    """Return pairs of values: of six prompts and more one for each prompt, by the median of its ratios; else all."""
    by_prompt: dict[str, list[tuple[float, float]]] = {}
    for (prompt, _), one, other in pairs:
        if one > 0 and other > 0:
            by_prompt.setdefault(prompt, []).append((one, other))
    if len(by_prompt) < FEW:
        return [pair for found in by_prompt.values() for pair in found]
    logs = [statistics.median(math.log(one / other) for one, other in found) for found in by_prompt.values()]
    return [(math.exp(middle), 1.0) for middle in logs]


def _spread(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    repeated = [group for group in groups if len(group) > 1 and statistics.median(group)]
    if not repeated:
        return None, None
    deviations = [median_deviation(group) / statistics.median(group) for group in repeated]
    ranges = [quartile_range(group) / statistics.median(group) for group in repeated]
    return statistics.median(deviations), statistics.median(ranges)


def _usual_power(cells: Sequence[Cell]) -> str | None:
    """Return the source of power that most replies were made on; of two equally many, the mains."""
    counts = Counter(cell.machine.power_source for cell in cells)
    return max(counts, key=lambda source: (counts[source], source == MAINS, source is not None), default=None)


def _machine_notes(cells: Sequence[Cell]) -> list[str]:
    notes = []
    num_hot = sum(bool(cell.machine.was_throttled) for cell in cells)
    if num_hot:
        notes.append(f"The processor was slowed down by heat during {_replies(num_hot)}: let it cool, and repeat.")
    num_busy = sum((cell.machine.load or 0.0) > _BUSY for cell in cells)
    if num_busy:
        notes.append(f"Other programs were computing during {_replies(num_busy)}.")
    return notes


def _power_text(source: str | None) -> str:
    return {MAINS: "on the mains", BATTERY: "on battery"}.get(source or "", "whose source of power is not known")


def _replies(count: int) -> str:
    return "one reply" if count == 1 else f"{count:,} replies"
