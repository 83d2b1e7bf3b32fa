"""Comparing models side by side: records, statistics, prompt sets and the report. No Qt."""

from app.compare.results import (
    MEASURES,
    Cell,
    CellMachine,
    Column,
    Comparison,
    Measure,
    Mode,
    PromptItem,
    comparison_from_json,
    comparison_to_json,
    read_comparison,
)

__all__ = [
    "MEASURES",
    "Cell",
    "CellMachine",
    "Column",
    "Comparison",
    "Measure",
    "Mode",
    "PromptItem",
    "comparison_from_json",
    "comparison_to_json",
    "read_comparison",
]
