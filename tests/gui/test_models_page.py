"""The Models page as a person uses it: finding files, looking at one, and doing something with it."""

import functools
import time
from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.desktop.itemmodels.model_rows import Fit, Sort
from app.desktop.widgets.models_card import ModelCard
from app.desktop.widgets.models_details import FileAction
from app.errors import ModelFileUnreadable
from engine import ErrorInfo, MachineSpeed
from tests.gui.models_hand import FOREIGN, LARGE, LIBRARY, SMALL, Hand
from tests.gui.scripted_shelf import file_row, large_library, model_row, odd_files


def test_levels_stand_below_their_model(hand: Hand) -> None:
    hand.open()
    assert hand.texts() == [
        "Other 1B",
        "Q8_0",
        "SmolLM2 135M Instruct",
        "F16",
        "Q4_K_M",
        "Split Model",
        "Q8_0",
        "Not models to chat with",
        "Model 01 Vision",
        "F16",
        "Cannot be used",
        "page.gguf",
    ]
    assert hand.page.summary == "4 models, 6 files"


def test_nothing_found_says_what_to_do(hand: Hand) -> None:
    hand.open(())
    assert "No models yet" in hand.page.said
    assert hand.page.add_button.isVisible()
    QTest.mouseClick(hand.page.starter_button, Qt.MouseButton.LeftButton)
    assert hand.window.page is None
    assert hand.chosen == ["starter"]


def test_scan_tells_how_far_it_is_and_can_be_given_up(hand: Hand) -> None:
    hand.shelf.gate.clear()
    hand.shelf.models = LIBRARY
    hand.presenter.show()
    hand.wait_for("scan", "12 files so far")
    assert "Looking for models" in hand.page.said
    assert not hand.page.rescan_button.isEnabled()
    strip = hand.page.jobs.strip("scan")
    assert strip is not None and strip.is_running
    QTest.mouseClick(strip.cancel_button, Qt.MouseButton.LeftButton)
    assert hand.page.jobs.strip("scan") is None
    assert hand.page.rescan_button.isEnabled()
    hand.qtbot.waitUntil(lambda: hand.shelf.was_cancelled == ["scan"])


def test_what_was_known_is_shown_before_the_scan_ends(hand: Hand) -> None:
    hand.shelf.gate.clear()
    hand.shelf.cached, hand.shelf.models = LIBRARY[:1], LIBRARY
    hand.presenter.show()
    hand.qtbot.waitUntil(lambda: hand.page.summary == "1 model, 2 files")
    hand.shelf.gate.set()
    hand.settle()
    assert hand.page.summary == "4 models, 6 files"


def test_scan_that_fails_says_why_and_can_be_repeated(hand: Hand) -> None:
    hand.shelf.error["scan"] = ModelFileUnreadable("The disk is gone.", "Plug it in.")
    hand.open()
    assert hand.strip_text("scan") == "The disk is gone. Plug it in."
    QTest.mouseClick(hand.page.rescan_button, Qt.MouseButton.LeftButton)
    hand.settle()
    assert hand.page.summary == "4 models, 6 files"
    assert hand.page.jobs.strip("scan") is None


def test_folders_that_cannot_be_read_are_named(hand: Hand) -> None:
    hand.shelf.problems = ("The folder /mnt/x cannot be read: permission denied.",)
    hand.open()
    assert "/mnt/x cannot be read" in hand.strip_text("scan")
    assert hand.page.summary == "4 models, 6 files"


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        ("other", ["Other 1B", "Q8_0"]),
        ("smol f16", ["SmolLM2 135M Instruct", "F16"]),
        ("lm studio", ["Other 1B", "Q8_0"]),
    ],
    ids=["name", "model-and-type", "place"],
)
def test_search_leaves_what_matches(hand: Hand, typed: str, left: list[str]) -> None:
    hand.open()
    QTest.keyClicks(hand.page.search, typed)
    assert hand.texts() == left


def test_search_without_a_match_says_so_and_esc_takes_it_back(hand: Hand) -> None:
    hand.open()
    QTest.keyClicks(hand.page.search, "zebra")
    assert "zebra" in hand.page.said
    QTest.keyClick(hand.page.search, Qt.Key.Key_Escape)
    assert len(hand.texts()) == 12
    assert hand.window.page is hand.page


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (Sort.NAME, "Other 1B"),
        (Sort.SIZE, "SmolLM2 135M Instruct"),
        (Sort.USED, "Fresh"),
        (Sort.TYPE, "SmolLM2 135M Instruct"),
    ],
    ids=lambda value: value.value if isinstance(value, Sort) else "",
)
def test_order_can_be_chosen(hand: Hand, order: Sort, first: str) -> None:
    fresh = model_row("Fresh", file_row("/f.gguf", "Q5_K_M", bits_per_weight=5.7, used_at=1_800_000_000.0))
    hand.open((*LIBRARY[:2], fresh) if order is Sort.USED else LIBRARY[:2])
    hand.page.sort.setCurrentIndex(hand.page.sort.findData(order))
    assert hand.texts()[0] == first


def test_chosen_file_stays_chosen_when_the_list_comes_anew(hand: Hand) -> None:
    hand.open()
    hand.click_row(SMALL.path)
    hand.shelf.models = (model_row("A new one", file_row("/new.gguf")), *LIBRARY)
    QTest.mouseClick(hand.page.rescan_button, Qt.MouseButton.LeftButton)
    hand.settle()
    assert hand.page.path == SMALL.path
    assert hand.page.details.path == SMALL.path


def test_arrow_keys_pass_over_heads(hand: Hand) -> None:
    hand.open()
    QTest.keyClick(hand.page.list, Qt.Key.Key_Home)
    seen = [hand.page.path]
    for _ in range(3):
        QTest.keyClick(hand.page.list, Qt.Key.Key_Down)
        seen.append(hand.page.path)
    assert seen == [FOREIGN.path, LARGE.path, SMALL.path, odd_files()[0].files[0].path]


def test_details_say_what_a_file_is(hand: Hand) -> None:
    hand.open()
    hand.click_row(SMALL.path)
    details = hand.page.details
    assert "Fits: it needs 400 MiB of the 6.0 GiB that are free." in details.texts
    assert details.facts["Bits per weight"] == "4.89"
    assert details.facts["Predicted speed"] == "about 61.5 tok/s"
    assert details.facts["File"] == SMALL.path


def test_problem_is_said_in_place_with_its_hint_and_missing_parts(hand: Hand) -> None:
    hand.open()
    hand.click_row("/home/a/models/split-00001-of-00003.gguf")
    texts = hand.page.details.texts
    assert "these are missing: split-00002-of-00003.gguf" in texts
    assert "Put all parts into one folder" in texts
    assert not hand.page.details.buttons[FileAction.CHAT].isEnabled()


@pytest.mark.parametrize("kind", ["projector", "embedding model", "adapter", "vocabulary"])
def test_file_that_is_no_chat_model_says_what_it_is_and_cannot_be_chatted_with(hand: Hand, kind: str) -> None:
    other = odd_files()[1]
    hand.open((other._replace(files=(other.files[0]._replace(kind=kind),)),))
    assert hand.texts()[0] == "Not models to chat with"
    assert kind in hand.page.details.texts
    assert not hand.page.details.buttons[FileAction.CHAT].isEnabled()
    assert kind in hand.page.model.index(2).data(Qt.ItemDataRole.AccessibleTextRole)


def test_row_says_all_of_itself_to_a_screen_reader(hand: Hand) -> None:
    hand.open()
    row = hand.page.model.row_of(SMALL.path)
    spoken = hand.page.model.index(row).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "SmolLM2 135M Instruct, Q4_K_M, 105 MiB, Fits, about 61.5 tok/s, context 8,192, Fireside"


@pytest.mark.qt_log_ignore("propagateSizeHints")  # of the platform without a screen
def test_inspecting_shows_what_the_file_holds(hand: Hand) -> None:
    hand.open()
    hand.click_row(SMALL.path)
    hand.press(FileAction.INSPECT)
    hand.qtbot.waitUntil(lambda: hand.window.findChild(ModelCard) is not None)
    card = hand.window.findChild(ModelCard)
    assert card is not None
    assert "llama" in card.texts
    assert "135 tensors" in card.texts
    QTest.mouseClick(card.tabs["tensors"], Qt.MouseButton.LeftButton)
    assert card.tensors.isVisible()
    assert card.tensors.model().rowCount() == 270
    QTest.mouseClick(card.tabs["metadata"], Qt.MouseButton.LeftButton)
    assert card.metadata.model().index(3, 1).data() == "value 3"
    QTest.keyClick(card, Qt.Key.Key_Escape)
    hand.qtbot.waitUntil(lambda: hand.window.findChild(ModelCard) is None)


def test_verifying_tells_how_far_it_is_and_how_it_ended(hand: Hand) -> None:
    hand.open()
    hand.click_row(SMALL.path)
    hand.shelf.gate.clear()
    hand.press(FileAction.VERIFY)
    strip = hand.page.jobs.strip("verify")
    assert strip is not None
    hand.qtbot.waitUntil(lambda: strip.bar.value() == 420)
    hand.shelf.gate.set()
    hand.wait_for("verify", "SmolLM2 135M Instruct Q4_K_M is sound.")
    assert "272 tensors" in strip.text
    QTest.mouseClick(strip.close_button, Qt.MouseButton.LeftButton)
    assert hand.page.jobs.strip("verify") is None


def test_damaged_file_is_named_when_it_is_verified(hand: Hand) -> None:
    hand.open()
    hand.click_row(SMALL.path)
    hand.shelf.error["verify"] = ModelFileUnreadable(
        "small.gguf is damaged: 2 of its tensors hold no numbers.", "Copy it."
    )
    hand.press(FileAction.VERIFY)
    hand.wait_for("verify", "small.gguf is damaged: 2 of its tensors hold no numbers. Copy it.")


def test_fault_of_the_program_is_said_and_logged(hand: Hand, allow_log: Callable[[str], None]) -> None:
    allow_log("work with a model file failed")
    hand.open()
    hand.click_row(SMALL.path)
    hand.shelf.error["verify"] = ZeroDivisionError()
    hand.press(FileAction.VERIFY)
    hand.wait_for("verify", "because of a fault in Fireside")


def test_removal_can_be_undone(hand: Hand) -> None:
    hand.open()
    hand.click_row(SMALL.path)
    hand.press(FileAction.REMOVE)
    hand.qtbot.waitUntil(lambda: bool(hand.window.notices.notices))
    hand.settle()
    assert hand.page.model.row_of(SMALL.path) == -1
    notice = hand.window.notices.notices[0]
    assert notice.text == "SmolLM2 135M Instruct Q4_K_M is in the trash."
    button = hand.window.notices.button(notice.key, "Undo")
    assert button is not None
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: hand.page.model.row_of(SMALL.path) >= 0)
    hand.settle()


def test_removal_that_fails_says_why(hand: Hand) -> None:
    hand.open()
    hand.click_row(SMALL.path)
    hand.shelf.error["remove"] = ModelFileUnreadable("small.gguf is in use.", "Load another model first.")
    hand.press(FileAction.REMOVE)
    hand.wait_for("remove", "small.gguf is in use. Load another model first.")
    assert hand.page.model.row_of(SMALL.path) >= 0


def test_file_of_another_program_is_left_to_it(hand: Hand) -> None:
    hand.open()
    hand.click_row(FOREIGN.path)
    assert not hand.page.details.buttons[FileAction.REMOVE].isEnabled()
    assert "This file belongs to LM Studio: remove it there." in hand.page.details.texts


def test_delete_key_in_the_list_does_nothing(hand: Hand) -> None:
    hand.open()
    hand.click_row(SMALL.path)
    hand.page.list.setFocus()
    for key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
        QTest.keyClick(hand.page.list, key)
    assert hand.shelf.count("remove") == 0


PATH = "/home/ä日 #?%20&'/a b.gguf"


def test_any_path_is_copied_as_it_is(hand: Hand) -> None:
    hand.open((model_row("Odd", file_row(PATH)),))
    hand.press(FileAction.COPY_PATH)
    assert QGuiApplication.clipboard().text() == PATH


def test_any_path_is_shown_in_its_folder(hand: Hand) -> None:
    hand.open((model_row("Odd", file_row(PATH)),))
    hand.press(FileAction.SHOW)
    assert hand.shown == ["/home/ä日 #?%20&'"]


def test_folder_is_added_and_taken_away(hand: Hand) -> None:
    hand.open()
    scans = hand.shelf.count("scan")
    hand.presenter.add_folder(PATH)
    hand.qtbot.waitUntil(lambda: hand.shelf.count("scan") == scans + 1)
    hand.settle()
    QTest.mouseClick(hand.page.folders_button, Qt.MouseButton.LeftButton)
    assert any("a b.gguf" in text for text in hand.page.folders.texts)
    button = hand.page.folders.remove_button(PATH)
    assert button is not None
    assert hand.page.folders.remove_button("/home/a/.lmstudio/models") is None
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: hand.shelf.added == [])
    hand.settle()
    assert hand.page.folders.remove_button(PATH) is None
    QTest.keyClick(hand.page.folders, Qt.Key.Key_Escape)
    assert hand.window.page is hand.page
    assert not hand.page.folders.isVisible()


def test_narrow_window_shows_the_list_or_the_file(hand: Hand) -> None:
    hand.window.resize(400, 640)
    hand.open()
    assert hand.page.list.isVisible() and not hand.page.details.isVisible()
    hand.click_row(SMALL.path)
    assert hand.page.details.isVisible() and not hand.page.list.isVisible()
    QTest.keyClick(hand.page.details.buttons[FileAction.CHAT], Qt.Key.Key_Escape)
    assert hand.page.list.hasFocus()
    assert hand.window.page is hand.page


def test_hundreds_of_files_cost_the_window_little(hand: Hand) -> None:
    library = large_library(60)
    hand.open(library)
    assert hand.page.summary.endswith("303 files")
    spent: dict[str, list[float]] = {"show": [], "search": [], "key": []}
    for turn in range(5):
        spent["show"].append(_cost(lambda: hand.page.show_models(library)))
        spent["search"].append(_cost(functools.partial(hand.page.search.setText, "model 1" if turn % 2 else "")))
        spent["key"].append(_cost(lambda: QTest.keyClick(hand.page.list, Qt.Key.Key_PageDown)))
    # Five times what is allowed on the window's thread, for machines that are slower or busy.
    assert {name: sorted(times)[2] < 0.040 for name, times in spent.items()} == dict.fromkeys(spent, True)


def test_first_file_is_chosen_and_its_neighbour_when_it_goes(hand: Hand) -> None:
    hand.open(LIBRARY[:1])
    assert hand.page.path == LARGE.path
    hand.shelf.models = (model_row("SmolLM2 135M Instruct", SMALL),)
    QTest.mouseClick(hand.page.rescan_button, Qt.MouseButton.LeftButton)
    hand.settle()
    assert hand.page.path == SMALL.path


def test_speeds_are_predicted_once_this_computer_was_measured(hand: Hand) -> None:
    hand.open((model_row("One", SMALL._replace(tokens_per_s=None)),))
    button = hand.page.details.measure_button
    assert button.isVisible()
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert hand.engine.num_measures == 1
    hand.engine.machine_not_measured.emit(ErrorInfo("RequestError", "A reply is in progress.", "Wait for it."))
    assert hand.strip_text("measure") == "A reply is in progress. Wait for it."
    hand.shelf.models = (model_row("One", SMALL),)
    hand.engine.machine_measured.emit(
        MachineSpeed(n_threads=2, read_bandwidth=2e10, buffer_bytes=1, cache_bytes=1, matmul_rate=None)
    )
    assert hand.settings.now.read_bandwidth == {"2": 20_000_000_000}
    hand.settle()
    assert hand.page.details.facts["Predicted speed"] == "about 61.5 tok/s"
    assert not button.isVisible()


@pytest.mark.parametrize("fit", [Fit.UNKNOWN, Fit.TIGHT, Fit.TOO_LARGE])
def test_fit_is_said_in_words(hand: Hand, fit: Fit) -> None:
    hand.open((model_row("One", SMALL._replace(fit=fit)),))
    said = {Fit.UNKNOWN: "", Fit.TIGHT: "Tight: ", Fit.TOO_LARGE: "Does not fit: "}[fit]
    assert said in hand.page.details.texts
    assert ("needs" in hand.page.details.texts) == bool(said)
    assert hand.page.details.buttons[FileAction.CHAT].isEnabled()  # whoever wants to may try


@pytest.mark.parametrize("text", ["\u202egnp.exe " * 40, "<b>bold</b><img src=x>", "a\nb\tc\x00d", ""], ids=str.__len__)
def test_any_text_from_a_file_is_shown_as_text(hand: Hand, text: str) -> None:
    row = file_row(text or "x", text, problem=text, place=text, kind=text)
    hand.open((model_row(text, row, architecture=text, licence=text),))
    assert not hand.page.grab().isNull()
    assert hand.page.details.menu().actions()


def _cost(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    QApplication.processEvents()
    return time.thread_time() - start
