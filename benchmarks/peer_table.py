"""The figures of a run beside other engines: values by scenario and engine, medians, ratios, and the table."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Scenario(NamedTuple):
    """One line of the table.

    Attributes:
        unit: of a value; in "tok/s" more is better, in "s" and "ms" less.
    """

    name: str
    label: str
    unit: str
    digits: int

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.unit == "tok/s"


class Figures:
    """Values of every scenario and engine, one a repeat."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, list[float]]] = {}

    def note(self, scenario: str, engine: str, value: float | None) -> None:
        """Add a value; None is one that could not be measured."""
        if value is not None:
            self.values.setdefault(scenario, {}).setdefault(engine, []).append(value)

    def median(self, scenario: str, engine: str) -> float | None:
        """Return the median, None where nothing was measured."""
        values = self.values.get(scenario, {}).get(engine)
        return statistics.median(values) if values else None

    def ratio(self, scenario: Scenario, ours: str, others: Sequence[str]) -> float | None:
        """Return our median over the best of the others', None where one side is missing."""
        own = self.median(scenario.name, ours)
        found = [value for other in others if (value := self.median(scenario.name, other)) is not None]
        if own is None or not found:
            return None
        best = max(found) if scenario.is_rate else min(found)
        return own / best if best else None

    def cell(self, scenario: Scenario, engine: str) -> str:
        """Return median, minimum and maximum as text."""
        values = self.values.get(scenario.name, {}).get(engine)
        if not values:
            return ""
        middle, low, high = (
            f"{value:,.{scenario.digits}f}" for value in (statistics.median(values), min(values), max(values))
        )
        return f"{middle} {scenario.unit} ({low} to {high})"


def table(
    figures: Figures, scenarios: Sequence[Scenario], *, ours: str, peers: Sequence[str], beside: Sequence[str]
) -> list[str]:
    """Return the lines of the table; scenarios without a value are left out.

    Args:
        peers: who the ratio is made with.
        beside: further columns, which stand outside of that ratio; the last is the bare loop.
    """
    columns = [ours, *peers, *beside]
    heads = ["scenario", *columns, "ratio to the better peer", f"ratio to {beside[-1]}"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for scenario in scenarios:
        if scenario.name not in figures.values:
            continue
        cells = [figures.cell(scenario, column) for column in columns]
        ratios = [figures.ratio(scenario, ours, others) for others in (peers, beside[-1:])]
        cells += ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        lines.append("| " + " | ".join([scenario.label, *cells]) + " |")
    return lines


def differences(replies: dict[str, dict[str, int]]) -> list[str]:
    """Return a sentence for every scenario whose engines did not compute the same number of tokens.

    Args:
        replies: number of tokens by scenario and engine.
    """
    found = []
    for scenario, counts in replies.items():
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{engine} {count}" for engine, count in counts.items())
            found.append(f"{scenario}: token counts differ ({told}).")
    return found
