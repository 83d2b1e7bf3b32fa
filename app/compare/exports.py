"""A comparison as JSON, CSV and Markdown, for other programs and for a note."""

import csv
import io
from typing import Any

import msgspec

from app.compare.advice import Bar, advise
from app.compare.analysis import Analysis
from app.compare.pareto import standings
from app.compare.report_tables import changed_text, interval_text, machine_rows
from app.compare.report_text import one_line
from app.compare.results import MEASURES, Cell, Column, Comparison, comparison_to_json, encoded

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_json(comparison: Comparison, bar: Bar | None = None) -> str:
    """Return the record with what was computed from it under `computed`; it can be read as a record."""
    record: dict[str, Any] = msgspec.json.decode(comparison_to_json(comparison))
    record["computed"] = computed(Analysis(comparison), bar)
    return msgspec.json.format(encoded(record), indent=1).decode()


def computed(analysis: Analysis, bar: Bar | None = None) -> dict[str, Any]:
    """Return what is computed from a comparison, in plain JSON types."""
    advice = advise(analysis, bar)
    standing = standings(analysis)
    return {
        "advice": advice._asdict(),
        "notes": analysis.notes,
        "columns": {
            column.id: {
                "figures": {name: _figure(analysis, column.id, name) for name in analysis.measures},
                "dominated_by": standing[column.id].dominated_by,
                "is_safe_to_delete": standing[column.id].is_safe_to_delete,
                "reason": standing[column.id].reason,
                "agreement_refusal": analysis.agreements[column.id].refusal,
            }
            for column in analysis.comparison.columns
        },
    }


def to_csv(comparison: Comparison) -> str:
    """Return a line for each reply with all its values, as they were measured: seconds, bytes, tokens a second."""
    holders: list[Column | Cell] = [*comparison.columns, *comparison.cells]
    names = [name for name in MEASURES if any(name in holder.values for holder in holders)]
    categories = {prompt.id: prompt.category for prompt in comparison.prompts}
    columns = {column.id: column for column in comparison.columns}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    heads = ("model", "type", "prompt", "category", "repeat", "number", *names)
    writer.writerow((*heads, "finish_reason", "power_source", "load", "was_throttled", "error", "text"))
    for cell in comparison.cells:
        column = columns[cell.column]
        values = {**column.values, **cell.values}
        machine = cell.machine
        row = [column.label, column.type_name, cell.prompt, categories[cell.prompt], cell.repeat, cell.number]
        row += [values.get(name, "") for name in names]
        row += [cell.finish_reason.value if cell.finish_reason else "", machine.power_source or ""]
        row += ["" if machine.load is None else machine.load, _yes_no(machine.was_throttled), cell.error, cell.text]
        writer.writerow([_harmless(value) for value in row])
    return text.getvalue()


def to_markdown(comparison: Comparison, bar: Bar | None = None) -> str:
    """Return the answer and the table."""
    analysis = Analysis(comparison)
    advice = advise(analysis, bar)
    standing = standings(analysis)
    measures = [MEASURES[name] for name in analysis.measures]
    lines = ["# Models compared", "", f"**{_cell(advice.sentence)}**", ""]
    lines += [f"- {_cell(line)}" for line in advice.evidence]
    heads = [f"{measure.label}, {measure.unit}" if measure.unit else measure.label for measure in measures]
    lines += ["", f"| Model | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(measures)}"]
    for column in comparison.columns:
        mark = " (reference)" if column.id == comparison.reference else ""
        mark += " (safe to delete)" if standing[column.id].is_safe_to_delete else ""
        mark += f" (failed: {column.error})" if column.error else ""
        cells = []
        for measure in measures:
            figure = analysis.figure(column.id, measure.name)
            between = interval_text(figure, measure)
            shown = "" if figure.interval is None else measure.number(figure.interval.value)
            shown += " too noisy" if figure.is_noisy else f" ({between})" if between else ""
            changed = changed_text(figure, measure)
            cells.append(f"{shown}, {changed}" if shown and changed.endswith("%") else shown)
        lines.append(f"| {_cell(column.label + mark)} | {' | '.join(cells)} |")
    notes = [*comparison.notes, *analysis.notes]
    lines += ["", *(f"> {_cell(note)}\n>" for note in notes), ""] if notes else [""]
    lines += [f"- {_cell(key)}: {_cell(value)}" for key, value in machine_rows(analysis)]
    return "\n".join(lines) + "\n"


def _figure(analysis: Analysis, column_id: str, name: str) -> dict[str, Any]:
    figure = analysis.figure(column_id, name)
    plain: dict[str, Any] = {"reason": figure.reason, "is_noisy": figure.is_noisy}
    if figure.interval is not None:
        plain |= figure.interval._asdict()
        plain |= {"deviation": figure.deviation, "quartiles": figure.quartiles}
    if figure.change is not None:
        change = figure.change
        plain["change"] = {
            "value": change.value,
            "low": change.low,
            "high": change.high,
            "num_pairs": change.num_pairs,
            "is_ratio": change.is_ratio,
            "p_value": figure.p_value,
            "is_changed": figure.is_changed,
        }
    return plain


def _harmless(value: object) -> object:
    """Return a value that a spreadsheet takes for text, not for a formula."""
    if not isinstance(value, str):
        return value
    return f"'{value}" if value.startswith(_FORMULA) else value.replace("\0", "")


def _cell(text: str) -> str:
    """Return a text that stays in its cell and brings no markup of its own."""
    line = one_line(text)
    for character in "\\`*_[]|~#&<>":
        line = line.replace(character, f"&{_ENTITIES[character]};" if character in _ENTITIES else f"\\{character}")
    return line


_ENTITIES = {"<": "lt", ">": "gt", "&": "amp"}


def _yes_no(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"
