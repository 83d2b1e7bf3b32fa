"""The charts of the report: figures of an analysis as points and bars."""

from collections.abc import Iterator

from app.compare.analysis import OF_TEXT, Analysis
from app.compare.charts import Bar, Point, bars, scatter
from app.compare.pareto import Standing, value_on
from app.compare.report_text import escaped, short_labels
from app.compare.results import MEASURES

PAIRS = (
    ("file_bytes", "agreement"),
    ("decode_rate", "agreement"),
    ("peak_memory_bytes", "decode_rate"),
    ("file_bytes", "decode_rate"),
)
"""Pairs of axes that are drawn, where both have values: four at most, as the style has rules for so many."""
BARS = ("agreement", "decode_rate", "prefill_rate", "ttft_s", "peak_memory_bytes", "load_s", "joules_per_token")


def pareto_charts(analysis: Analysis, standings: dict[str, Standing]) -> str:
    """Return the scatters, one shown at a time; empty where there is nothing to compare."""
    charts = [
        (pair, drawn)
        for pair in PAIRS
        if (drawn := pareto_chart(analysis, standings, *pair, chart_id=f"chart-{pair[0]}-{pair[1]}"))
    ]
    if not charts:
        return ""
    tabs = "".join(
        f'<input type="radio" name="axes" id="tab-{number}"{" checked" if number == 0 else ""}>'
        f'<label for="tab-{number}">{escaped(f"{MEASURES[y].label} by {MEASURES[x].label.lower()}")}</label>'
        for number, ((x, y), _) in enumerate(charts)
    )
    panes = "".join(f'<div class="pane panel" tabindex="0">{drawn}</div>' for _, drawn in charts)
    reference = analysis.comparison.reference
    beaten = any(standing.dominated_by for column_id, standing in standings.items() if column_id != reference)
    key = "<span>not beaten</span>"
    key += '<span class="beaten">beaten by another on everything that counts</span>' if beaten else ""
    has_reference = analysis.comparison.column(analysis.comparison.reference) is not None
    key += '<span class="reference">reference</span>' if has_reference else ""
    return (
        '<section aria-label="Charts"><h2>What you get for what you give</h2>'
        '<p class="lead">The dashed line joins the models that none beats on the two axes shown; lines through a point '
        f'are its intervals.</p><div class="tabs">{tabs}{panes}</div><div class="key">{key}</div></section>'
    )


def pareto_chart(analysis: Analysis, standings: dict[str, Standing], x: str, y: str, *, chart_id: str) -> str:
    """Return one scatter; empty where fewer than two columns have both values, or a race makes them say nothing."""
    if not (analysis.is_fair(x) and analysis.is_fair(y)):
        return ""
    points = list(_points(analysis, standings, x, y))
    has_values = len(points) > 1 and any(point.kind != "reference" for point in points)
    return scatter(points, MEASURES[x], MEASURES[y], chart_id=chart_id) if has_values else ""


def bar_charts(analysis: Analysis) -> str:
    """Return bars for the measures that people choose by."""
    figures = []
    for name in BARS:
        if name not in analysis.measures or not analysis.is_fair(name):
            continue
        measure = MEASURES[name]
        drawn = bars(list(_bars(analysis, name)), measure, chart_id=f"bars-{name}")
        if drawn:
            direction = "more is better" if measure.is_higher_better else "less is better"
            unit = f"{measure.unit}, " if measure.unit else ""
            figures.append(
                f"<figure><figcaption>{escaped(measure.label)} <span>{escaped(unit + direction)}</span></figcaption>"
                f"{drawn}</figure>"
            )
    return f'<section aria-label="Bars"><div class="bars">{"".join(figures)}</div></section>' if figures else ""


def _points(analysis: Analysis, standings: dict[str, Standing], x: str, y: str) -> Iterator[Point]:
    names = short_labels(analysis.comparison.columns)
    for column in analysis.comparison.columns:
        across, up = value_on(analysis, column.id, x), value_on(analysis, column.id, y)
        if across is None or up is None or column.error:
            continue
        kind = "beaten" if standings[column.id].dominated_by else "front"
        if column.id == analysis.comparison.reference:
            kind = "reference"
        spans = _span(analysis, column.id, x), _span(analysis, column.id, y)
        yield Point(names[column.id], across, up, *spans, kind=kind)


def _bars(analysis: Analysis, name: str) -> Iterator[Bar]:
    names = short_labels(analysis.comparison.columns)
    for column in analysis.comparison.columns:
        if name in OF_TEXT and column.id == analysis.comparison.reference:
            continue
        figure = analysis.figure(column.id, name)
        value = None if figure.interval is None else figure.interval.value
        note = figure.reason or ("too noisy to say" if figure.is_noisy else "")
        yield Bar(
            names[column.id],
            value,
            _span(analysis, column.id, name),
            analysis.best(name) == column.id,
            f"{column.label}: {note}" if note else column.label,
        )


def _span(analysis: Analysis, column_id: str, name: str) -> tuple[float, float] | None:
    interval = analysis.figure(column_id, name).interval
    if interval is None or interval.low is None or interval.high is None:
        return None
    return interval.low, interval.high
