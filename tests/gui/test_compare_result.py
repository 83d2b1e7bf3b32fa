"""What comes of a comparison, on the Compare page: advice, table, chart and report."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.compare.advice import Bar
from app.compare.results import read_comparison
from app.desktop.bridge.compare_job import Begun, Ended
from app.desktop.session.compare_outcome import outcome_of
from app.desktop.theme.theme import Theme
from tests.gui.compare_hand import OTHER, QUICK, CompareHand
from tests.support.comparisons import sample_comparison


@pytest.fixture
def hand(theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[CompareHand]:
    hand = CompareHand(theme, qtbot, tmp_path)
    yield hand
    hand.close()


@pytest.fixture
def ladder(hand: CompareHand) -> CompareHand:
    """The page with a made-up ladder of seven levels that is done."""
    comparison = sample_comparison()
    for event in (Begun(comparison), Ended(comparison, is_finished=True, is_saved=True)):
        hand.parts.compare.presenter._on_happened(event)
    hand.qtbot.waitUntil(lambda: hand.page.view is hand.page.result)
    return hand


def test_bar_of_the_advice_can_be_changed(ladder: CompareHand) -> None:
    result = ladder.page.result
    assert "Q4_K_M is the smallest file" in result.sentence
    result.agreement_spin.setValue(97)
    ladder.qtbot.waitUntil(lambda: "Q4_K_M" not in result.sentence)
    assert "97.0 %" in result.evidence


def test_table_is_sorted_by_what_is_pressed(ladder: CompareHand) -> None:
    result = ladder.page.result
    as_made = [row[0].partition(" · ")[0].split()[-1] for row in result.cells()]
    assert as_made == ["F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_1", "Q2_K"]
    header = result.table.horizontalHeader()
    place = header.sectionViewportPosition(1) + 20
    QTest.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(place, header.height() // 2))
    sizes = [float(row[1].removesuffix(" ★")) for row in result.cells()]
    assert sizes == sorted(sizes)


def test_measure_is_hidden_and_shown_again(ladder: CompareHand) -> None:
    result = ladder.page.result
    before = len(result.cells()[0])
    result.menu().actions()[0].trigger()
    assert len(result.cells()[0]) == before - 1
    result.menu().actions()[0].trigger()
    assert len(result.cells()[0]) == before


def test_chart_marks_only_what_is_surely_safe_to_delete(ladder: CompareHand) -> None:
    result = ladder.page.result
    marked = [row[0] for row in result.cells() if "safe to delete" in row[0]]
    safe = [row.label for row in outcome_of(sample_comparison(), Bar()).rows if row.is_safe_to_delete]
    assert [name.partition(" · ")[0] for name in marked] == safe
    assert [label.split()[-1] for label in result.chart.front] == ["Q2_K"]
    assert len(result.chart.dots) == 7


def test_axes_of_the_chart_are_chosen(ladder: CompareHand) -> None:
    result = ladder.page.result
    place = result.y_box.findData("agreement")
    result.y_box.setCurrentIndex(place)
    result.y_box.activated.emit(place)
    assert result.chart.accessibleName().startswith("Same words")
    front = [label.split()[-1] for label in result.chart.front]
    assert front[0] == "Q2_K"
    assert front[-1] == "Q8_0"


def test_hostile_names_stay_names(hand: CompareHand) -> None:
    made = sample_comparison()
    hostile = "\u202egpj.<b>big</b>\n<img src=x> " * 40
    columns = tuple(msgspec.structs.replace(column, label=f"{hostile}{column.label}") for column in made.columns)
    comparison = msgspec.structs.replace(made, columns=columns)
    for event in (Begun(comparison), Ended(comparison, is_finished=True, is_saved=True)):
        hand.parts.compare.presenter._on_happened(event)
    hand.qtbot.waitUntil(lambda: hand.page.view is hand.page.result)
    texts = [row[0] for row in hand.page.result.cells()] + [lane.label for lane in hand.lanes]
    assert all(text.startswith("\u2068") and len(text) < 200 and "\n" not in text for text in texts)
    for tab in hand.page.tabs:
        QTest.mouseClick(tab, Qt.MouseButton.LeftButton)
        assert not hand.page.grab().isNull()


@pytest.mark.parametrize("suffix", [".html", ".json"])
def test_report_is_saved(hand: CompareHand, tmp_path: Path, suffix: str) -> None:
    hand.compare(QUICK, OTHER)
    report = tmp_path / f"report{suffix}"
    hand.parts.compare.presenter.save_report(report)
    hand.qtbot.waitUntil(lambda: "The report is saved." in [notice.text for notice in hand.window.notices.notices])
    assert report.stat().st_size > 100
    if suffix == ".json":
        assert len(read_comparison(report).cells) == 2


def test_report_that_cannot_be_written_says_so(hand: CompareHand, tmp_path: Path) -> None:
    hand.compare(QUICK, OTHER)
    hand.parts.compare.presenter.save_report(tmp_path / "nowhere" / "report.html")
    notices = hand.window.notices
    hand.qtbot.waitUntil(lambda: any("could not be written" in notice.text for notice in notices.notices))
