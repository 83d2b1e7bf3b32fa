"""A whole comparison in the window with real models: two tiny ones, in engines of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.compare.results import read_comparison
from app.desktop.compare_source import CompareSource
from app.desktop.session.compare_setup import ColumnSetup, CompareSetup, ModelOption
from app.desktop.theme.theme import Theme
from engine import ProcessClient
from tests.gui.compare_hand import CompareHand
from tests.support.gguf_files import write_tiny_model


class TinySource(CompareSource):
    """Offers the models of the data folder."""

    def models(self) -> tuple[ModelOption, ...]:
        files = sorted(self._paths.data_dir.glob("*.gguf"))
        return tuple(ModelOption(str(path), path.stem, path.stat().st_size) for path in files)


@pytest.fixture
def hand(theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[CompareHand]:
    write_tiny_model(tmp_path / "one.gguf")
    (tmp_path / "two.gguf").write_bytes((tmp_path / "one.gguf").read_bytes())
    hand = CompareHand(theme, qtbot, tmp_path, ProcessClient, TinySource)
    yield hand
    hand.close()


@pytest.mark.allow_log("WARNING app.compare.runner")
def test_two_models_are_compared_and_reported(hand: CompareHand, tmp_path: Path) -> None:
    one, two = (card.setup.model for card in hand.page.setup.columns.cards)
    columns = (ColumnSetup(one), ColumnSetup(two, cache="q8_0"), ColumnSetup(str(tmp_path / "gone.gguf")))
    hand.page.setup.choose(CompareSetup(columns, text="Say hello.", repeats=2, max_tokens=8))
    hand.start()
    hand.wait_for_end(timeout=90_000)
    assert [bool(lane.fault) for lane in hand.lanes] == [False, False, True]
    assert "There is no file" in hand.lanes[2].fault
    assert hand.page.told == "Done: 4 replies."
    QTest.mouseClick(hand.page.tabs[2], Qt.MouseButton.LeftButton)
    rows = hand.page.result.cells()
    assert [row[0] for row in rows] == ["one", "two · q8_0 cache", "gone · failed"]
    report = tmp_path / "report.html"
    hand.parts.compare.presenter.save_report(report)
    hand.qtbot.waitUntil(report.exists)
    cells = read_comparison(report).cells
    assert {(cell.column, cell.repeat) for cell in cells} == {("c1", 0), ("c1", 1), ("c2", 0), ("c2", 1)}
    assert all(cell.values["decode_rate"] > 0 for cell in cells if "decode_rate" in cell.values)
