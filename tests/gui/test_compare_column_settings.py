"""Settings of single columns on the Compare page: chosen in the card, told in one line, and used by the run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.desktop.compare_source import CompareSource
from app.desktop.session.compare_setup import ColumnSetup, CompareSetup, ModelOption
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_setup_card import ColumnCard
from engine import ProcessClient
from tests.gui.compare_hand import QUICK, CompareHand
from tests.support.adapters import write_adapter
from tests.support.gguf_files import write_tiny_model

OWN = ColumnSetup(QUICK, "q8_0", 0.8, 2, "/adapters/pirate talk.gguf", 0.5)


@pytest.fixture
def hand(theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[CompareHand]:
    hand = CompareHand(theme, qtbot, tmp_path)
    yield hand
    hand.close()


def open_card(hand: CompareHand, number: int = 0) -> ColumnCard:
    """Open the settings of a column."""
    card = hand.page.setup.columns.cards[number]
    QTest.mouseClick(card.fold.head, Qt.MouseButton.LeftButton)
    assert card.settings.isVisible()
    return card


def test_settings_are_folded_away_and_told_in_one_line(hand: CompareHand) -> None:
    hand.page.setup.choose(CompareSetup((ColumnSetup(QUICK), OWN)))
    usual, own = hand.page.setup.columns.cards
    assert not usual.settings.isVisible()
    assert usual.fold.head.summary == ""
    said = own.fold.head.summary.replace("\u2068", "").replace("\u2069", "")
    assert said == "q8_0 cache · 2 threads · temperature 0.8 · pirate talk × 0.50"
    assert hand.page.setup.setup.columns == (ColumnSetup(QUICK), OWN)


def test_what_is_chosen_in_the_card_is_what_the_column_is_asked_with(hand: CompareHand) -> None:
    hand.choose(QUICK, QUICK)
    settings = open_card(hand, 1).settings
    settings.cache_box.setCurrentText("q4_0")
    settings.cache_box.activated.emit(settings.cache_box.currentIndex())
    for box, keys in ((settings.threads_box, "3"), (settings.temperature_box, "0.5")):
        box.setFocus()
        box.selectAll()
        QTest.keyClicks(box, keys)
        QTest.keyClick(box, Qt.Key.Key_Return)
    hand.start()
    hand.wait_for_end()
    assert hand.lanes[1].label == f"{QUICK} · q4_0 cache · 3 threads · temperature 0.5"
    presenter = hand.parts.compare.presenter
    assert presenter._finished is not None
    usual, own = presenter._finished.columns
    assert (own.params.type_k, own.params.type_v, own.params.n_threads) == ("q4_0", "q4_0", 3)
    assert (usual.params.type_k, usual.params.n_threads, usual.sampling.temperature) == ("f16", 0, 0)
    assert own.sampling.temperature == 0.5


def test_adapter_is_chosen_from_a_file_and_taken_away_again(hand: CompareHand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "open", lambda dialog: None)
    settings = open_card(hand).settings
    assert not settings.strength_box.isVisible()
    row = settings.adapter_box.count() - 1
    settings.adapter_box.setCurrentIndex(row)
    settings.adapter_box.activated.emit(row)
    hand.qtbot.waitUntil(lambda: bool(hand.window.findChildren(QFileDialog)))
    dialog = hand.window.findChildren(QFileDialog)[0]
    assert settings.adapter == ""
    dialog.fileSelected.emit("/adapters/style.gguf")
    dialog.reject()
    assert settings.adapter == "/adapters/style.gguf"
    assert settings.strength_box.isVisible()
    settings.strength_box.setValue(0.3)
    assert hand.page.setup.setup.columns[0].scale == 0.3
    settings.adapter_box.setCurrentIndex(0)
    settings.adapter_box.activated.emit(0)
    assert hand.page.setup.setup.columns[0].adapter == ""
    assert not settings.strength_box.isVisible()
    hand.qtbot.waitUntil(lambda: not hand.window.findChildren(QFileDialog))


def test_wheel_scrolls_the_page_and_changes_no_number(hand: CompareHand) -> None:
    settings = open_card(hand).settings
    settings.choose(OWN)
    boxes = (settings.threads_box, settings.temperature_box, settings.strength_box, hand.page.setup.repeats_spin)
    before = [box.value() for box in boxes]
    for box in boxes:
        centre = QPointF(box.rect().center())
        wheel = QWheelEvent(
            centre,
            QPointF(box.mapToGlobal(box.rect().center())),
            QPoint(),
            QPoint(0, 120),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(box, wheel)
    assert [box.value() for box in boxes] == before


@pytest.mark.parametrize("width", [420, 1200])
def test_nothing_is_cut_off_at_any_width(hand: CompareHand, width: int) -> None:
    hand.window.resize(width, 800)
    hand.page.setup.choose(CompareSetup((OWN, OWN._replace(model="fake:" + "x" * 300))))
    for number in range(2):
        card = open_card(hand, number)
        QApplication.processEvents()
        settings = card.settings
        boxes = (settings.cache_box, settings.threads_box, settings.adapter_box, settings.strength_box)
        for box in (*boxes, settings.temperature_box, card.remove_button):
            right = box.mapTo(card, box.rect().topRight()).x()
            assert 0 < right <= card.width()
            assert box.width() >= box.minimumSizeHint().width() // 2
    assert hand.page.setup.horizontalScrollBar().maximum() == 0


def test_new_column_takes_the_settings_of_the_last_one(hand: CompareHand) -> None:
    hand.page.setup.choose(CompareSetup((OWN,)))
    QTest.mouseClick(hand.page.setup.columns.add_button, Qt.MouseButton.LeftButton)
    first, second = hand.page.setup.setup.columns
    assert second._replace(model=first.model) == first


class TinySource(CompareSource):
    """Offers the models of the data folder."""

    def models(self) -> tuple[ModelOption, ...]:
        files = sorted(self._paths.data_dir.glob("model*.gguf"))
        return tuple(ModelOption(str(path), path.stem, path.stat().st_size) for path in files)


def test_real_model_answers_with_and_without_its_adapter(theme: Theme, qtbot: QtBot, tmp_path: Path) -> None:
    model = str(write_tiny_model(tmp_path / "model.gguf"))
    style = str(write_adapter(tmp_path / "style.gguf", strength=8.0))
    strange = str(write_adapter(tmp_path / "strange.gguf", arch="qwen2"))
    hand = CompareHand(theme, qtbot, tmp_path, ProcessClient, TinySource)
    try:
        columns = (ColumnSetup(model), ColumnSetup(model, adapter=style), ColumnSetup(model, adapter=strange))
        hand.page.setup.choose(CompareSetup(columns, text="Say hello.", max_tokens=12))
        hand.start()
        hand.wait_for_end(timeout=90_000)
        assert [bool(lane.fault) for lane in hand.lanes] == [False, False, True]
        assert hand.lanes[2].fault.startswith("The adapter strange cannot be used.")
        assert hand.said(0)[1] != hand.said(1)[1]
        QTest.mouseClick(hand.page.tabs[1], Qt.MouseButton.LeftButton)
        QTest.mouseClick(hand.lanes[1].chat_button, Qt.MouseButton.LeftButton)
        used = hand.parts.chats.current.settings.adapters
        assert [(adapter.path, adapter.scale, adapter.is_on) for adapter in used] == [(style, 1.0, True)]
    finally:
        hand.close()
