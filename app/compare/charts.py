"""Charts as inline SVG: a scatter with the Pareto front, and bars with intervals. Colours come from the page's style.

All text that is put in is escaped here.
"""

import html
import math
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from app.compare.chart_labels import Box, Segment, fitted, place_labels, shortened
from app.compare.results import Measure

WIDTH, HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 20, 52
_DOT = 5.5
_BAR_WIDTH, _ROW, _BAR = 380, 30, 12
_NAME_WIDTH, _NUMBER_WIDTH = 116, 76
_MAX_NAME = 30


class Point(NamedTuple):
    """A point of a scatter.

    Attributes:
        x, y: in the units of the measures; the spans are between what each lies, None where that is not known.
        kind: "front", "beaten" or "reference".
        note: what a reader is told when pointing at it.
    """

    label: str
    x: float
    y: float
    x_span: tuple[float, float] | None = None
    y_span: tuple[float, float] | None = None
    kind: str = "front"
    note: str = ""


class Bar(NamedTuple):
    """A bar.

    Attributes:
        value: None where there is none, and `note` says why.
    """

    label: str
    value: float | None
    span: tuple[float, float] | None = None
    is_best: bool = False
    note: str = ""


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers from `low` to `high`."""
    if not math.isfinite(low) or not math.isfinite(high) or high <= low:
        return [low] if math.isfinite(low) else []
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [place * step for place in range(first, int(high / step + 1e-9) + 1)]


def scatter(points: Sequence[Point], x: Measure, y: Measure, *, chart_id: str) -> str:
    """Return a chart of points with their intervals, the front of those that none beats, and labels.

    Args:
        chart_id: tells the chart's elements from others on the page.
    """
    if not points:
        return ""
    across = _Scale([end for p in points for end in _ends(p.x, p.x_span, x)], _LEFT, WIDTH - _RIGHT)
    up = _Scale([end for p in points for end in _ends(p.y, p.y_span, y)], HEIGHT - _BOTTOM, _TOP)
    places = [(across.at(p.x * x.factor), up.at(p.y * y.factor)) for p in points]
    parts = [*_grid(across, up, x, y)]
    front = _front(points, places, x, y)
    if len(front) > 1:
        path = "L".join(f"{left:.1f} {top:.1f}" for left, top in front)
        parts.append(f'<path class="front-line" d="M{path}"/>')
    lines: list[Segment] = list(pairwise(front))
    for point, place in zip(points, places, strict=True):
        parts += _whiskers(point, place, (across, up), (x, y))
    parts += [_dot(point, place, x, y) for point, place in zip(points, places, strict=True)]
    labels = [shortened(_visible(point.label), _MAX_NAME) for point in points]
    frame = Box(_LEFT + 2, _TOP - 14, WIDTH - _RIGHT + 18, HEIGHT - _BOTTOM - 2)
    for label, placed in zip(labels, place_labels(labels, places, frame, _DOT, lines=lines), strict=True):
        if placed is None:
            continue
        if placed.leader is not None:
            parts.append('<path class="leader" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>'.format(*placed.leader))
        parts.append(f'<text class="point-label" x="{placed.x:.1f}" y="{placed.y:.1f}">{_escaped(label)}</text>')
    better = _better_corner(x, y)
    described = f"{y.label} against {x.label.lower()}. {better} " + "; ".join(
        f"{_visible(p.label)}: {x.label.lower()} {x.shown(p.x)}, {y.label.lower()} {y.shown(p.y)}" for p in points
    )
    return _svg(chart_id, (WIDTH, HEIGHT), f"{y.label} against {x.label.lower()}", described, parts)


def bars(rows: Sequence[Bar], measure: Measure, *, chart_id: str) -> str:
    """Return bars with their intervals, one below the other."""
    if not any(row.value is not None for row in rows):
        return ""
    ends = [end for row in rows if row.value is not None for end in (row.value, *(row.span or ()))]
    largest = max(ends) * measure.factor
    top = largest if largest > 0 else 1.0
    span = _BAR_WIDTH - _NAME_WIDTH - _NUMBER_WIDTH
    height = len(rows) * _ROW + 4
    parts = []
    for number, row in enumerate(rows):
        y = number * _ROW + 2
        name = fitted(_visible(row.label), _NAME_WIDTH - 8)
        parts.append(f"<g><title>{_escaped(row.note or row.label)}</title>")
        parts.append(f'<text class="bar-name" x="0" y="{y + 18}">{_escaped(name)}</text>')
        if row.value is None:
            parts.append(f'<text class="bar-none" x="{_NAME_WIDTH}" y="{y + 18}">not measured</text></g>')
            continue
        width = max(1.0, span * row.value * measure.factor / top)
        kind = "bar best" if row.is_best else "bar"
        parts.append(f'<rect class="{kind}" x="{_NAME_WIDTH}" y="{y + 7}" width="{width:.1f}" height="{_BAR}" rx="3"/>')
        if row.span is not None and row.span[0] < row.span[1]:
            low, high = (_NAME_WIDTH + span * max(0.0, end) * measure.factor / top for end in row.span)
            parts.append(
                f'<path class="whisker" d="M{low:.1f} {y + 13}H{high:.1f}M{low:.1f} {y + 9}v8M{high:.1f} {y + 9}v8"/>'
            )
        number_x = _BAR_WIDTH - 2
        parts.append(
            f'<text class="bar-number" x="{number_x}" y="{y + 18}" text-anchor="end">'
            f"{_escaped(measure.number(row.value))}</text></g>"
        )
    described = "; ".join(
        f"{_visible(row.label)}: {'not measured' if row.value is None else measure.shown(row.value)}" for row in rows
    )
    return _svg(chart_id, (_BAR_WIDTH, height), measure.label, described, parts)


class _Scale:
    """Numbers to places of the picture, with some room at both ends."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        low, high = min(values), max(values)
        room = (high - low) * 0.1 or abs(high) * 0.1 or 1.0
        self.low = 0.0 if 0 <= low < room * 4 else low - room
        self.high = high + room
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self._begin + share * (self._end - self._begin)

    def ticks(self, count: int) -> list[float]:
        return ticks(self.low, self.high, count)


def _ends(value: float, span: tuple[float, float] | None, measure: Measure) -> list[float]:
    return [end * measure.factor for end in (value, *(span or ()))]


def _grid(across: _Scale, up: _Scale, x: Measure, y: Measure) -> Iterator[str]:
    bottom = HEIGHT - _BOTTOM
    for tick in up.ticks(5):
        place = up.at(tick)
        yield f'<path class="grid" d="M{_LEFT} {place:.1f}H{WIDTH - _RIGHT}"/>'
        yield f'<text class="tick" x="{_LEFT - 8}" y="{place + 4:.1f}" text-anchor="end">{_tick(tick)}</text>'
    for tick in across.ticks(7):
        place = across.at(tick)
        yield f'<path class="grid" d="M{place:.1f} {_TOP}V{bottom}"/>'
        yield f'<text class="tick" x="{place:.1f}" y="{bottom + 18}" text-anchor="middle">{_tick(tick)}</text>'
    yield f'<path class="axis" d="M{_LEFT} {bottom}H{WIDTH - _RIGHT}"/>'
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    yield f'<text class="axis-name" x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{_axis_name(x)}</text>'
    height = (_TOP + bottom) / 2
    yield (
        f'<text class="axis-name" x="16" y="{height:.0f}" text-anchor="middle" '
        f'transform="rotate(-90 16 {height:.0f})">{_axis_name(y)}</text>'
    )


def _axis_name(measure: Measure) -> str:
    unit = f", {measure.unit}" if measure.unit else ""
    better = {True: " (more is better)", False: " (less is better)", None: ""}[measure.is_higher_better]
    return _escaped(f"{measure.label}{unit}{better}")


def _tick(value: float) -> str:
    text = f"{value:,.2f}".rstrip("0").rstrip(".") if abs(value) < 100 else f"{value:,.0f}"
    return "0" if text == "-0" else text


def _front(
    points: Sequence[Point], places: Sequence[tuple[float, float]], x: Measure, y: Measure
) -> list[tuple[float, float]]:
    """Return the places of the points that none beats on both axes, from left to right."""
    return sorted(
        place
        for point, place in zip(points, places, strict=True)
        if not any(_beats(other, point, x, y) for other in points)
    )


def _beats(one: Point, other: Point, x: Measure, y: Measure) -> bool:
    gains = [
        (one.x - other.x) * (1 if x.is_higher_better else -1),
        (one.y - other.y) * (1 if y.is_higher_better else -1),
    ]
    return min(gains) >= 0 and max(gains) > 0


def _whiskers(
    point: Point, place: tuple[float, float], scales: tuple[_Scale, _Scale], measures: tuple[Measure, Measure]
) -> Iterator[str]:
    left, top = place
    if point.x_span is not None:
        low, high = (scales[0].at(end * measures[0].factor) for end in point.x_span)
        if abs(high - low) > 2 * _DOT:
            yield f'<path class="whisker" d="M{low:.1f} {top:.1f}H{high:.1f}"/>'
    if point.y_span is not None:
        low, high = (scales[1].at(end * measures[1].factor) for end in point.y_span)
        if abs(high - low) > 2 * _DOT:
            yield f'<path class="whisker" d="M{left:.1f} {low:.1f}V{high:.1f}"/>'


def _dot(point: Point, place: tuple[float, float], x: Measure, y: Measure) -> str:
    left, top = place
    note = point.note or f"{x.label} {x.shown(point.x)}, {y.label.lower()} {y.shown(point.y)}"
    title = f"<title>{_escaped(point.label)}: {_escaped(note)}</title>"
    if point.kind == "reference":
        d, size = _DOT, 2 * _DOT
        return (
            f'<rect class="dot reference" x="{left - d:.1f}" y="{top - d:.1f}" width="{size}" height="{size}" '
            f'rx="1.5">{title}</rect>'
        )
    kind = "dot beaten" if point.kind == "beaten" else "dot"
    return f'<circle class="{kind}" cx="{left:.1f}" cy="{top:.1f}" r="{_DOT}">{title}</circle>'


def _better_corner(x: Measure, y: Measure) -> str:
    across = {True: "to the right", False: "to the left"}.get(x.is_higher_better is True)
    return f"Better lies {'up' if y.is_higher_better else 'down'} and {across}."


def _svg(chart_id: str, size: tuple[int, int], title: str, described: str, parts: Sequence[str]) -> str:
    name = _escaped(chart_id)
    return (
        f'<svg class="chart" viewBox="0 0 {size[0]} {size[1]}" role="img" '
        f'aria-labelledby="{name}-title {name}-text"><title id="{name}-title">{_escaped(title)}</title>'
        f'<desc id="{name}-text">{_escaped(described)}</desc>{"".join(parts)}</svg>'
    )


def _visible(text: str) -> str:
    """Return a text on one line without what steers how text is shown: it could turn a whole chart around."""
    return "".join(
        " " if character in "\n\r\t" else character
        for character in text
        if character in "\n\r\t" or unicodedata.category(character)[0] != "C"
    )


def _escaped(text: str) -> str:
    return html.escape(_visible(text))
