"""The tables of the report: figures of all columns, settings, machine."""

import re
from collections.abc import Iterator

import msgspec

from app.compare.analysis import COUNTS, OF_TEXT, Analysis, Figure
from app.compare.pareto import Standing
from app.compare.report_text import escaped, name, short_labels
from app.compare.results import MEASURES, Column, Measure

_ABOUT_SAME = 0.05  # an interval of a change within this
_NOT_SHOWN = ("grammar", "json_schema")


def figures_table(analysis: Analysis, standings: dict[str, Standing]) -> str:
    """Return the joint table: a row for each column, with intervals and the changes to the reference."""
    measures = [MEASURES[each] for each in analysis.measures]
    heads = ['<th scope="col" data-name="Model" aria-label="Model">Model</th>']
    for measure in measures:
        better = "more" if measure.is_higher_better else "less"
        unit = f'<span class="unit">{escaped(measure.unit)}</span>' if measure.unit else ""
        heads.append(
            f'<th scope="col" data-name="{escaped(measure.label)}" data-better="{better}">'
            f"{escaped(measure.label)}{unit}</th>"
        )
    heads.append('<th scope="col" data-name="Conditions" class="text">Conditions</th>')
    rows = "".join(
        f"<tr>{_head(analysis, column, standings[column.id])}"
        f"{''.join(_value(analysis, column, measure) for measure in measures)}"
        f'<td class="text" data-value="{escaped(conditions(analysis, column.id))}">'
        f"{escaped(conditions(analysis, column.id))}</td></tr>"
        for column in analysis.comparison.columns
    )
    caption = '<caption class="hidden">Every measure of every model</caption>'
    return f'<table id="figures">{caption}<thead><tr>{"".join(heads)}</tr></thead><tbody>{rows}</tbody></table>'


def changed_text(figure: Figure, measure: Measure) -> str:
    """Return how a figure differs from the reference's, empty where nothing can be said of it."""
    change = figure.change
    if change is None or change.low is None or change.high is None:
        return ""
    if figure.is_noisy:
        return "too noisy"
    if not figure.is_changed:
        return "about the same" if max(-change.low, change.high) < _ABOUT_SAME else "unclear"
    return f"{100 * change.value:+.0f} {'%' if change.is_ratio else 'points'}"


def interval_text(figure: Figure, measure: Measure) -> str:
    """Return between what a value lies, empty where that is not known, or there is nothing between."""
    interval = figure.interval
    if interval is None or interval.low is None or interval.high is None or measure.name in COUNTS:
        return ""
    low, high = measure.number(interval.low), measure.number(interval.high)
    return "" if low == high else f"{low} – {high}"


def conditions(analysis: Analysis, column_id: str) -> str:
    """Return what the machine was like while a column was measured, in some words."""
    cells = [cell for cell in analysis.comparison.cells_of(column_id) if not cell.error]
    if not cells:
        return ""
    sources = sorted({cell.machine.power_source or "power not known" for cell in cells})
    loads = [cell.machine.load for cell in cells if cell.machine.load is not None]
    heat = [cell.machine.was_throttled for cell in cells if cell.machine.was_throttled is not None]
    parts = [" and ".join(sources)]
    if loads:
        parts.append(f"load {max(loads):.1f}")
    if heat:
        parts.append("slowed by heat" if any(heat) else "not throttled")
    return " · ".join(parts)


def settings_table(columns: tuple[Column, ...]) -> str:
    """Return what each column was loaded and asked with; settings that all leave at their default are left out."""
    rows: dict[str, list[str]] = {
        "File": [_file_name(column.path) for column in columns],
        "Quantisation": [column.type_name for column in columns],
        "Fingerprint": [column.fingerprint[:16] for column in columns],
        "Adapters": [
            ", ".join(f"{_file_name(each.path)} ({each.scale:g})" for each in column.adapters) for column in columns
        ],
    }
    for group in ("params", "sampling"):
        for field in msgspec.structs.fields(getattr(columns[0], group)):
            values = [getattr(getattr(column, group), field.name) for column in columns]
            if field.name in _NOT_SHOWN:
                values = ["given" if value else None for value in values]
            is_default = all(value == field.default for value in values)
            if not is_default or field.name in ("temperature", "seed", "max_tokens"):
                rows[field.name] = [_setting(value) for value in values]
    labels = short_labels(columns)
    heads = "".join(f'<th scope="col">{name(labels[column.id])}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row">{escaped(label)}</th>{"".join(map(_setting_cell, values))}</tr>'
        for label, values in rows.items()
        if any(values)
    )
    head = f'<tr><th scope="col">Setting</th>{heads}</tr>'
    return f'<table class="settings"><thead>{head}</thead><tbody>{body}</tbody></table>'


def _file_name(path: str) -> str:
    """Return the last part of a path: the folders are nobody's business."""
    return re.split(r"[/\\]", path)[-1]


def machine_list(analysis: Analysis) -> str:
    """Return where and with what it was run."""
    return (
        "<dl>"
        + "".join(f"<dt>{escaped(key)}</dt><dd>{escaped(value)}</dd>" for key, value in machine_rows(analysis))
        + "</dl>"
    )


def machine_rows(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """Yield what is known of the machine and the engine, by name."""
    comparison = analysis.comparison
    machine, engine = comparison.machine, comparison.engine
    if machine is not None:
        yield "Processor", machine.processor
        yield "System", machine.system
        yield "Processors", str(machine.before.num_processors)
        if machine.before.max_frequency_mhz:
            yield "Frequency", f"up to {machine.before.max_frequency_mhz / 1000:.1f} GHz"
        yield "Power", machine.before.power_source or "not told"
        yield "Energy from", machine.power or "not known"
        yield "Memory free", f"{machine.before.available_bytes / 2**30:.1f} GiB at the beginning"
    yield "Fireside", comparison.program
    if engine is not None:
        yield "Engine", ", ".join(f"{key} {value}" for key, value in _engine_parts(msgspec.to_builtins(engine)))


def dash() -> str:
    """Return what stands for no value."""
    return '<span class="none">–</span>'


def _engine_parts(plain: dict[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in plain.items():
        if isinstance(value, str) and value:
            yield key.replace("_", " "), value


def _head(analysis: Analysis, column: Column, standing: Standing) -> str:
    label = short_labels(analysis.comparison.columns)[column.id]
    parts = [name(label)]
    if column.type_name and column.type_name not in column.label:
        parts.append(f'<span class="sub">{escaped(column.type_name)}</span>')
    if column.id == analysis.comparison.reference:
        parts.append('<span class="sub"><span class="tag reference">reference</span></span>')
    if column.error:
        parts.append(f'<span class="sub"><span class="tag failed">failed</span> {escaped(column.error)}</span>')
    elif standing.is_safe_to_delete:
        parts.append(
            f'<span class="sub" title="{escaped(standing.reason)}"><span class="tag safe">safe to delete</span></span>'
        )
    elif standing.dominated_by and column.id != analysis.comparison.reference:
        parts.append(
            f'<span class="sub" title="{escaped(standing.reason)}"><span class="tag beaten">beaten</span></span>'
        )
    return f'<th scope="row" title="{escaped(column.label)}" data-value="{escaped(column.label)}">{"".join(parts)}</th>'


def _value(analysis: Analysis, column: Column, measure: Measure) -> str:
    figure = analysis.figure(column.id, measure.name)
    if figure.interval is None:
        return f'<td title="{escaped(figure.reason)}" data-value="">{dash()}</td>'
    kinds = ["best"] if analysis.best(measure.name) == column.id else []
    kinds += ["noisy"] if figure.is_noisy else []
    marks = '<span class="hidden"> best</span>' if "best" in kinds else ""
    marks += '<span class="hidden"> too noisy</span>~' if figure.is_noisy else ""
    shown = f'<span class="{" ".join(kinds)}">{escaped(measure.number(figure.interval.value))}{marks}</span>'
    between = interval_text(figure, measure)
    if between:
        shown += f'<span class="sub-value interval">{escaped(between)}</span>'
    changed = changed_text(figure, measure) if measure.name not in (*COUNTS, *OF_TEXT) else ""
    if changed:
        shown += f'<span class="sub-value change {_direction(figure, measure)}">{escaped(changed)}</span>'
    return f'<td title="{escaped(_spread_text(figure, measure))}" data-value="{figure.interval.value!r}">{shown}</td>'


def _direction(figure: Figure, measure: Measure) -> str:
    if not figure.is_changed or figure.change is None or measure.is_higher_better is None:
        return ""
    return "gain" if (figure.change.value > 0) == measure.is_higher_better else "loss"


def _spread_text(figure: Figure, measure: Measure) -> str:
    count = figure.interval.num_values if figure.interval else 0
    parts = ["one value" if count == 1 else f"{count:,} values"]
    if figure.deviation is not None and figure.quartiles is not None:
        parts.append(
            f"repeats deviate by {100 * figure.deviation:.1f} %, quartiles are {100 * figure.quartiles:.1f} % apart"
        )
    if figure.is_noisy:
        parts.append("too noisy to say")
    return "; ".join(parts)


def _setting_cell(text: str) -> str:
    return f'<td class="text">{escaped(text) or dash()}</td>'


def _setting(value: object) -> str:
    if value is None or value == () or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(str(each) for each in value)
    return str(getattr(value, "value", value))
