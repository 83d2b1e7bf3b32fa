"""A comparison that is done is run again from the page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.compare.run_folder import list_runs
from app.desktop.compare_source import CompareSource
from app.desktop.session.compare_setup import ColumnSetup, CompareSetup, ModelOption
from app.desktop.theme.theme import Theme
from engine import ProcessClient
from tests.gui.compare_hand import OTHER, QUICK, CompareHand
from tests.support.gguf_files import write_tiny_model


@pytest.fixture
def hand(theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[CompareHand]:
    hand = CompareHand(theme, qtbot, tmp_path)
    yield hand
    hand.close()


def press_again(hand: CompareHand) -> None:
    """Press the button, and wait until the same is done once more."""
    before = len(list_runs(hand.paths))
    QTest.mouseClick(hand.page.again_button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: len(list_runs(hand.paths)) == before + 1, timeout=20_000)
    hand.wait_for_end()


def test_run_that_is_done_is_run_again_with_a_result_of_its_own(hand: CompareHand) -> None:
    assert not hand.page.again_button.isVisible()
    hand.choose(QUICK, OTHER, repeats=2)
    hand.start()
    assert not hand.page.again_button.isVisible()
    hand.wait_for_end()
    first = [hand.said(lane) for lane in range(2)]
    hand.choose(OTHER)  # what is in the set-up meanwhile does not count
    press_again(hand)
    assert [hand.said(lane) for lane in range(2)] == first
    runs = list_runs(hand.paths)
    assert [(run.num_done, run.is_ended) for run in runs] == [(4, True), (4, True)]
    assert runs[0].id != runs[1].id
    assert hand.page.again_button.isVisible()
    assert "was run again with the same plan" in hand.page.result.notes


def test_next_message_is_asked_again_too(hand: CompareHand) -> None:
    hand.compare(QUICK, OTHER)
    hand.page.columns.message_edit.setText("And then?")
    QTest.keyClick(hand.page.columns.message_edit, Qt.Key.Key_Return)
    hand.qtbot.waitUntil(lambda: hand.page.told == "Done: 4 replies.", timeout=20_000)
    said = [hand.said(lane) for lane in range(2)]
    press_again(hand)
    assert [hand.said(lane) for lane in range(2)] == said


def test_focus_stays_on_the_page_when_the_button_goes(hand: CompareHand) -> None:
    hand.compare(QUICK, OTHER)
    hand.page.again_button.setFocus()
    QTest.keyClick(hand.page.again_button, Qt.Key.Key_Space)
    assert hand.page.tabs[1].hasFocus()
    hand.qtbot.waitUntil(lambda: hand.is_running, timeout=20_000)
    hand.wait_for_end()


def test_run_that_was_stopped_is_gone_on_with_instead(hand: CompareHand) -> None:
    slow = f"{QUICK},step_s=0.05"
    hand.choose(slow, slow)
    hand.start()
    QTest.mouseClick(hand.page.stop_button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: not hand.is_running, timeout=20_000)
    assert not hand.page.again_button.isVisible()
    assert hand.page.pause_button.text() == "Go on"


class TinySource(CompareSource):
    """Offers the models of the data folder."""

    def models(self) -> tuple[ModelOption, ...]:
        files = sorted(self._paths.data_dir.glob("*.gguf"))
        return tuple(ModelOption(str(path), path.stem, path.stat().st_size) for path in files)


def test_file_that_is_another_one_is_a_column_that_says_so(theme: Theme, qtbot: QtBot, tmp_path: Path) -> None:
    files = [write_tiny_model(tmp_path / f"{name}.gguf", n_layer=1) for name in ("one", "two")]
    hand = CompareHand(theme, qtbot, tmp_path, ProcessClient, TinySource)
    try:
        columns = tuple(ColumnSetup(str(path)) for path in files)
        hand.page.setup.choose(CompareSetup(columns, text="Say hello.", max_tokens=4))
        hand.start()
        hand.wait_for_end(timeout=90_000)
        write_tiny_model(files[1], n_layer=2)
        QTest.mouseClick(hand.page.again_button, Qt.MouseButton.LeftButton)
        hand.qtbot.waitUntil(lambda: bool(hand.lanes[1].fault), timeout=20_000)
        hand.wait_for_end(timeout=90_000)
        assert hand.lanes[1].fault.startswith("The file of two is another one now")
        assert hand.page.told == "Done: one reply."
    finally:
        hand.close()
