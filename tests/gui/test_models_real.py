"""The Models page over a real library: a tiny model is found, checked, made smaller, removed and brought back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.desktop.library_shelf import LibraryShelf
from app.desktop.theme.theme import Theme
from app.desktop.widgets.models_card import ModelCard
from app.desktop.widgets.models_details import FileAction
from models import read_gguf_info
from tests.gui.models_hand import Hand
from tests.support.gguf_files import write_tiny_model
from tests.support.small_models import library_of

_LONG_MS = 60_000


@pytest.fixture
def real(theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[Hand]:
    """The page, over a folder with one model in it."""
    folder = tmp_path / "dir ä日 #?%20&'"
    folder.mkdir()
    library = library_of(folder)
    write_tiny_model(folder / "ours" / "tiny-F32.gguf", n_embd=256, n_layer=1)
    hand = Hand(theme, qtbot, LibraryShelf(library, models_dir=folder / "ours"))
    hand.presenter.show()
    hand.settle()
    yield hand
    hand.jobs.close()
    hand.window.close()
    hand.window.deleteLater()


def wait(hand: Hand, key: str, text: str) -> None:
    hand.qtbot.waitUntil(lambda: text in hand.strip_text(key), timeout=_LONG_MS)


@pytest.mark.qt_log_ignore("propagateSizeHints")  # of the platform without a screen
def test_model_is_found_inspected_and_found_sound(real: Hand) -> None:
    source = Path(real.page.path)
    assert source.name == "tiny-F32.gguf"
    real.press(FileAction.INSPECT)
    real.qtbot.waitUntil(lambda: real.window.findChild(ModelCard) is not None)
    card = real.window.findChild(ModelCard)
    assert card is not None
    assert card.tensors.model().rowCount() == read_gguf_info(source).num_tensors
    card.close()
    real.press(FileAction.VERIFY)
    wait(real, "verify", "is sound.")
    data = bytearray(source.read_bytes())
    data[-64:] = b"\xff" * 64
    source.write_bytes(data)
    real.press(FileAction.VERIFY)
    wait(real, "verify", "tiny-F32.gguf is damaged")


def test_levels_are_made_shown_removed_and_brought_back(real: Hand) -> None:
    source = Path(real.page.path)
    real.press(FileAction.QUANTISE)
    panel = real.page.quantise
    real.qtbot.waitUntil(lambda: "Q8_0" in panel.boxes, timeout=_LONG_MS)
    for name in ("Q8_0", "Q4_0"):
        panel.boxes[name].setChecked(True)
    sizes = {name: panel.boxes[name].level.num_bytes for name in ("Q8_0", "Q4_0")}
    QTest.mouseClick(panel.start_button, Qt.MouseButton.LeftButton)
    wait(real, "quantise", "Made Q8_0, Q4_0 of")
    real.settle()
    made = {name: source.with_name(f"tiny.{name}.gguf") for name in sizes}
    assert {name: path.stat().st_size for name, path in made.items()} == sizes
    assert {line.path for line in real.page.model.lines if line.path} == {
        str(path) for path in (source, *made.values())
    }
    real.click_row(str(made["Q4_0"]))
    real.press(FileAction.REMOVE)
    real.qtbot.waitUntil(lambda: not made["Q4_0"].exists())
    real.settle()
    assert real.page.model.row_of(str(made["Q4_0"])) == -1
    notice = real.window.notices.notices[0]
    button = real.window.notices.button(notice.key, "Undo")
    assert button is not None
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    real.qtbot.waitUntil(lambda: real.page.model.row_of(str(made["Q4_0"])) >= 0)
    real.settle()


def test_making_that_is_given_up_leaves_nothing(real: Hand) -> None:
    source = Path(real.page.path)
    before = set(source.parent.iterdir())
    real.press(FileAction.QUANTISE)
    panel = real.page.quantise
    real.qtbot.waitUntil(lambda: "Q8_0" in panel.boxes, timeout=_LONG_MS)
    panel.boxes["Q8_0"].setChecked(True)
    QTest.mouseClick(panel.start_button, Qt.MouseButton.LeftButton)
    strip = real.page.jobs.strip("quantise")
    assert strip is not None
    QTest.mouseClick(strip.cancel_button, Qt.MouseButton.LeftButton)
    assert "was cancelled" in strip.text
    real.jobs.close(timeout_s=30)
    assert set(source.parent.iterdir()) == before
