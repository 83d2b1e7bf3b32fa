"""Charts: labels do not overlap, text cannot break out, nothing breaks at the ends."""

import random
import xml.etree.ElementTree as ET

import pytest

from app.compare.chart_labels import Box, place_labels, shortened
from app.compare.charts import Bar, Point, bars, scatter, ticks
from app.compare.results import MEASURES

SIZE, AGREEMENT, RATE = MEASURES["file_bytes"], MEASURES["agreement"], MEASURES["decode_rate"]
HOSTILE = '</title><script>alert(1)</script>"\u202egnp.exe\0'


def parsed(svg: str) -> ET.Element:
    """Return the drawing as a tree: it has to be well-formed."""
    return ET.fromstring(svg)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0.82, 1.01, [0.85, 0.9, 0.95, 1.0]),
        (3, 3, [3]),
        (float("nan"), 1, []),
    ],
    ids=["round", "shares", "one value", "no number"],
)
def test_ticks_are_round(low: float, high: float, wanted: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(12))
def test_labels_overlap_neither_each_other_nor_points(seed: int) -> None:
    source = random.Random(seed)
    places = [(source.gauss(300, 80), source.gauss(200, 60)) for _ in range(12)]
    places = [(min(max(x, 70), 730), min(max(y, 24), 340)) for x, y in places]
    frame = Box(66, 6, 754, 346)
    labels = place_labels([f"SmallBoat-135M Q{number}_K" for number in range(12)], places, frame, 5.5)
    boxes = [label.box for label in labels if label is not None]
    assert len(boxes) >= 11
    assert all(box.is_inside(frame) for box in boxes)
    assert not any(one.meets(other) for number, one in enumerate(boxes) for other in boxes[number + 1 :])
    assert not any(box.meets(Box(x - 5, y - 5, x + 5, y + 5)) for box in boxes for x, y in places)


def test_many_points_in_one_place_keep_the_labels_that_have_room() -> None:
    labels = place_labels(["label"] * 60, [(300.0, 200.0)] * 60, Box(0, 0, 600, 400), 5.5)
    boxes = [label.box for label in labels if label is not None]
    assert 10 <= len(boxes) <= 60
    assert not any(one.meets(other) for number, one in enumerate(boxes) for other in boxes[number + 1 :])


def test_scatter_is_well_formed_and_tells_what_it_shows() -> None:
    points = [Point(HOSTILE, 1e8, 0.9, (1e8, 1e8), (0.8, 1.0)), Point("B", 2e8, 1.0, kind="reference")]
    root = parsed(scatter(points, SIZE, AGREEMENT, chart_id="c"))
    text = "".join(root.itertext())
    assert root.get("role") == "img"
    assert "Same words against file size" in text
    assert "Better lies up and to the left." in text
    assert "\u202e" not in text
    assert [element.tag for element in root.iter() if element.tag.endswith("script")] == []


@pytest.mark.parametrize(
    "points",
    [
        [Point("A", 0.0, 0.0)],
        [Point("A", 1.0, 1.0), Point("B", 1.0, 1.0)],
        [Point("A", 1e-9, 1e12), Point("B", 1e15, -3.0)],
        [Point(f"{number}", number, 1 - number / 64) for number in range(64)],
    ],
    ids=["zero", "same place", "far apart", "many"],
)
def test_scatter_is_drawn_whatever_the_numbers(points: list[Point]) -> None:
    svg = scatter(points, RATE, AGREEMENT, chart_id="c")
    assert "nan" not in svg
    assert len([element for element in parsed(svg).iter() if "dot" in element.get("class", "")]) == len(points)


def test_front_goes_through_what_none_beats() -> None:
    points = [Point("small", 1, 0.5), Point("beaten", 3, 0.4), Point("large", 4, 1.0)]
    line = next(
        e for e in parsed(scatter(points, SIZE, AGREEMENT, chart_id="c")).iter() if e.get("class") == "front-line"
    )
    assert line.get("d", "").count("L") == 1


def test_bars_show_missing_values_and_intervals() -> None:
    rows = [Bar(HOSTILE, 10.0, (9.0, 11.0), True), Bar("none", None, note="It failed."), Bar("zero", 0.0)]
    text = bars(rows, RATE, chart_id="b")
    assert text.count('class="whisker"') == 1
    assert "not measured" in "".join(parsed(text).itertext())


def test_nothing_is_drawn_of_nothing() -> None:
    assert scatter([], SIZE, AGREEMENT, chart_id="c") == ""
    assert bars([Bar("A", None)], RATE, chart_id="b") == ""


def test_long_names_are_cut_in_the_middle() -> None:
    assert shortened("a-very-long-name-of-a-model-Q4_K_M.gguf", 20) == "a-very-lo…Q4_K_M.gguf"[:9] + "…" + "4_K_M.gguf"
    assert len(shortened("x" * 500, 18)) == 18
    assert shortened("short", 18) == "short"
