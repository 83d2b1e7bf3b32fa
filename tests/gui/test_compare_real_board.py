"""A sample board and a whole ladder on the Compare page with real models: levels of a tiny one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QLineEdit, QSpinBox
from pytestqt.qtbot import QtBot

from app.compare.results import Comparison, Mode, read_comparison
from app.desktop.compare_source import CompareSource
from app.desktop.session.compare_setup import ModelOption
from app.desktop.theme.theme import Theme
from app.paths import find_paths
from engine import ProcessClient
from models import QuantizePlan, QuantizeRun, plan_ladder
from tests.gui.compare_hand import CompareHand
from tests.support.gguf_files import write_tiny_model

LEVELS = ("F16", "Q8_0", "Q4_0")
LONG_MS = 240_000
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")  # of the platform without a screen


class OwnSource(CompareSource):
    """Offers what a scan of the library finds, without the starter."""

    def models(self) -> tuple[ModelOption, ...]:
        return tuple(option for option in super().models() if option.name.endswith(".gguf"))


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the levels of a tiny model, which itself is kept elsewhere."""
    folder = tmp_path_factory.mktemp("levels")
    source = write_tiny_model(tmp_path_factory.mktemp("source") / "tiny-F32.gguf", n_embd=256, n_ctx_train=4096)
    plans = plan_ladder(source, {level: folder / f"tiny-{level}.gguf" for level in LEVELS})
    run = QuantizeRun([plan for plan in plans if isinstance(plan, QuantizePlan)], n_threads=1)
    run.start()
    results = run.wait(100)
    assert results is not None
    assert [result.error for result in results] == [None] * len(LEVELS)
    return folder


@pytest.fixture
def hand(theme: Theme, qtbot: QtBot, tmp_path: Path, models_dir: Path) -> Iterator[CompareHand]:
    paths = find_paths(str(tmp_path))
    paths.create()
    for file in models_dir.glob("*.gguf"):
        (paths.models_dir / file.name).write_bytes(file.read_bytes())
    hand = CompareHand(theme, qtbot, tmp_path, ProcessClient, OwnSource)
    yield hand
    hand.close()


def choose_file(hand: CompareHand, path: Path) -> None:
    """Answer the dialog that asks for a file."""
    hand.qtbot.waitUntil(lambda: any(dialog.isVisible() for dialog in hand.window.findChildren(QFileDialog)))
    dialog = next(dialog for dialog in hand.window.findChildren(QFileDialog) if dialog.isVisible())
    edit = dialog.findChild(QLineEdit)
    assert edit is not None
    edit.setText(str(path))
    QTest.keyClick(edit, Qt.Key.Key_Return)
    hand.qtbot.waitUntil(lambda: not any(dialog.isVisible() for dialog in hand.window.findChildren(QFileDialog)))


def type_number(spin: QSpinBox, number: int) -> None:
    """Type a number over what stands there."""
    spin.setFocus()
    spin.selectAll()
    QTest.keyClicks(spin, str(number))
    QTest.keyClick(spin, Qt.Key.Key_Return)


def saved_report(hand: CompareHand, path: Path) -> Comparison:
    """Save a report by the button, and return what can be read from it."""
    QTest.mouseClick(hand.page.result.report_button, Qt.MouseButton.LeftButton)
    choose_file(hand, path)
    hand.qtbot.waitUntil(path.exists, timeout=20_000)
    return read_comparison(path)


def test_samples_of_a_real_model_differ(hand: CompareHand, tmp_path: Path) -> None:
    setup = hand.page.setup
    setup.mode_box.setCurrentIndex(setup.mode_box.findData(Mode.SAMPLES))
    setup.mode_box.activated.emit(setup.mode_box.currentIndex())
    setup.prompt_edit.setFocus()
    QTest.keyClicks(setup.prompt_edit, "Say hello.")
    type_number(setup.repeats_spin, 5)
    type_number(setup.tokens_spin, 16)
    hand.start()
    hand.wait_for_end(timeout=LONG_MS)
    assert hand.page.told == "Done: 5 replies."
    assert [lane.fault for lane in hand.lanes] == [""] * 5
    answers = [hand.said(number)[1] for number in range(5)]
    assert all(answers)
    assert len(set(answers)) > 1
    QTest.mouseClick(hand.page.tabs[2], Qt.MouseButton.LeftButton)
    assert "in one batch" in hand.page.result.warning
    found = saved_report(hand, tmp_path / "samples.html")
    assert [column.sampling.temperature for column in found.columns] == [0.8]
    assert [column.params.n_seq_max for column in found.columns] == [5]
    assert sorted(cell.repeat for cell in found.cells) == [0, 1, 2, 3, 4]


def test_whole_ladder_is_measured_and_reported(hand: CompareHand, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Say hello.\nCount to three.\n")
    setup = hand.page.setup
    QTest.mouseClick(setup.columns.levels_button, Qt.MouseButton.LeftButton)
    assert [Path(column.model).stem for column in setup.setup.columns] == [f"tiny-{level}" for level in LEVELS]
    setup.prompts_box.setCurrentIndex(setup.prompts_box.findText("A file of prompts …"))
    setup.prompts_box.activated.emit(setup.prompts_box.currentIndex())
    choose_file(hand, prompts)
    type_number(setup.repeats_spin, 2)
    type_number(setup.tokens_spin, 8)
    hand.start()
    hand.wait_for_end(timeout=LONG_MS)
    assert hand.page.told == "Done: 12 replies."
    hand.qtbot.waitUntil(lambda: hand.page.view is hand.page.result, timeout=20_000)
    result = hand.page.result
    assert [row[0].partition(" · ")[0] for row in result.cells()] == [f"tiny-{level}" for level in LEVELS]
    assert result.sentence
    assert result.evidence
    assert result.chart.isVisible()
    found = saved_report(hand, tmp_path / "ladder.html")
    assert len(found.cells) == 12
    assert {cell.repeat for cell in found.cells} == {0, 1}
    assert [cell.error for cell in found.cells] == [""] * 12
    sizes = [column.values["file_bytes"] for column in found.columns]
    assert sizes == sorted(sizes, reverse=True)
    assert found.columns[0].id == found.reference
