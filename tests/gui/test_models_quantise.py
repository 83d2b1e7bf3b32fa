"""Making levels in the window: what is offered, what is asked for, how it goes, and how it ends."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.desktop.itemmodels.model_rows import MadeLevel, Matrix, QuantiseOrder
from app.desktop.widgets.models_details import FileAction
from app.errors import ModelFileUnreadable
from tests.gui.models_hand import LARGE, LIBRARY, Hand


@pytest.fixture
def offered(hand: Hand) -> Hand:
    """The levels that can be made of a file are shown."""
    hand.open(LIBRARY)
    hand.click_row(LARGE.path)
    hand.press(FileAction.QUANTISE)
    hand.qtbot.waitUntil(lambda: hand.page.quantise.path == LARGE.path)
    return hand


def tick(hand: Hand, *types: str) -> None:
    for name in types:
        hand.page.quantise.boxes[name].setFocus()
        QTest.keyClick(hand.page.quantise.boxes[name], Qt.Key.Key_Space)


def start(hand: Hand) -> None:
    QTest.mouseClick(hand.page.quantise.start_button, Qt.MouseButton.LeftButton)


def test_every_level_tells_its_size(offered: Hand) -> None:
    panel = offered.page.quantise
    assert {name: box.size_label.text() for name, box in panel.boxes.items()} == {
        "Q8_0": "145.0 MiB",
        "Q4_K_M": "105.0 MiB",
        "Q3_K_L": "95.0 MiB",
        "IQ3_XXS": "needs a matrix",
        "Q2_K": "cannot be made",
    }
    assert "2.0 GiB are free in /home/a/models." in panel.texts.replace("\u200b", "")
    assert not panel.start_button.isEnabled()


def test_rarer_levels_are_shown_when_asked_for(offered: Hand) -> None:
    panel = offered.page.quantise
    assert not panel.boxes["Q3_K_L"].isVisible()
    QTest.mouseClick(panel.more_button, Qt.MouseButton.LeftButton)
    assert panel.boxes["Q3_K_L"].isVisible()


def test_several_levels_are_a_ladder(offered: Hand) -> None:
    panel = offered.page.quantise
    tick(offered, "Q8_0", "Q4_K_M")
    assert panel.start_button.text() == "Make a ladder of 2"
    assert panel.order == QuantiseOrder(LARGE.path, ("Q8_0", "Q4_K_M"))
    start(offered)
    offered.wait_for("quantise", "Made Q8_0, Q4_K_M of SmolLM2 135M Instruct F16.")
    assert ("quantise", QuantiseOrder(LARGE.path, ("Q8_0", "Q4_K_M"))) in offered.shelf.calls
    offered.settle()


def test_level_that_needs_a_matrix_opens_with_one(offered: Hand) -> None:
    panel = offered.page.quantise
    assert not panel.boxes["IQ3_XXS"].isEnabled()
    panel.matrix.setCurrentIndex(panel.matrix.findData(Matrix.BUNDLED))
    tick(offered, "IQ3_XXS")
    assert panel.order == QuantiseOrder(LARGE.path, ("IQ3_XXS",), Matrix.BUNDLED)
    panel.matrix.setCurrentIndex(panel.matrix.findData(Matrix.NONE))
    assert panel.order is None


@pytest.mark.parametrize("kind", [Matrix.TEXT, Matrix.FILE])
def test_own_text_or_matrix_has_to_be_chosen_first(offered: Hand, kind: Matrix) -> None:
    panel = offered.page.quantise
    panel.matrix.setCurrentIndex(panel.matrix.findData(kind))
    tick(offered, "Q4_K_M")
    assert panel.order is None
    panel.set_matrix_path("/home/ä日 #%/text & more.txt")
    assert panel.file_button.text() == "text && more.txt"
    assert panel.order == QuantiseOrder(LARGE.path, ("Q4_K_M",), kind, "/home/ä日 #%/text & more.txt")


def test_full_disk_is_said_before_anything_is_made(offered: Hand) -> None:
    panel = offered.page.quantise
    offer = panel._offer
    assert offer is not None
    panel.show_offer(offer._replace(free_bytes=120 << 20))
    tick(offered, "Q4_K_M")
    assert panel.start_button.isEnabled()
    tick(offered, "Q8_0")
    assert "There is no room: 250.0 MiB are needed, 120 MiB are free" in panel.texts
    assert not panel.start_button.isEnabled()


def test_progress_is_shown_and_the_page_stays_of_use(offered: Hand) -> None:
    offered.shelf.gate.clear()
    tick(offered, "Q8_0", "Q4_K_M")
    start(offered)
    offered.wait_for("quantise", "Making Q8_0 of SmolLM2 135M Instruct F16, 1 of 2 · 25% · 42.0 s left")
    assert offered.page.details.isVisible()
    offered.click_row("/home/a/.lmstudio/other.gguf")
    assert offered.page.details.path == "/home/a/.lmstudio/other.gguf"
    offered.shelf.gate.set()
    offered.wait_for("quantise", "Made Q8_0, Q4_K_M")
    offered.settle()


def test_making_can_be_given_up(offered: Hand) -> None:
    offered.shelf.gate.clear()
    tick(offered, "Q8_0")
    start(offered)
    strip = offered.page.jobs.strip("quantise")
    assert strip is not None
    offered.wait_for("quantise", "25%")
    QTest.mouseClick(strip.cancel_button, Qt.MouseButton.LeftButton)
    assert "was cancelled. What was begun is removed." in offered.strip_text("quantise")
    offered.qtbot.waitUntil(lambda: offered.shelf.was_cancelled == ["quantise"])


def test_levels_that_fail_are_named_beside_those_that_were_made(offered: Hand) -> None:
    offered.shelf.made = (
        MadeLevel("Q8_0", "/a"),
        MadeLevel("Q4_K_M", error="The disk is full.", hint="Free some space."),
    )
    tick(offered, "Q8_0", "Q4_K_M")
    start(offered)
    offered.wait_for(
        "quantise",
        "Not made of SmolLM2 135M Instruct F16: Q4_K_M. Q8_0 made. Q4_K_M: The disk is full. Free some space.",
    )
    offered.settle()


def test_making_that_fails_says_why(offered: Hand) -> None:
    offered.shelf.error["quantise"] = ModelFileUnreadable("large.gguf is not there any more.", "Choose it again.")
    tick(offered, "Q8_0")
    start(offered)
    offered.wait_for("quantise", "large.gguf is not there any more. Choose it again.")


def test_file_of_which_nothing_can_be_made_says_why(hand: Hand) -> None:
    hand.open(LIBRARY)
    hand.click_row(LARGE.path)
    hand.shelf.error["offer"] = ModelFileUnreadable("large.gguf is damaged.", "Copy it again.")
    hand.press(FileAction.QUANTISE)
    hand.qtbot.waitUntil(lambda: "large.gguf is damaged. Copy it again." in hand.page.quantise.texts)
    assert not hand.page.quantise.start_button.isVisible()


def test_esc_goes_back_from_the_levels_to_the_file(offered: Hand) -> None:
    QTest.keyClick(offered.page.quantise.back_button, Qt.Key.Key_Escape)
    assert offered.page.details.isVisible()
    assert offered.window.page is offered.page
