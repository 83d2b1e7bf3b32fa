"""The Models page in the whole window: the ways to it and back, the keyboard, and every width."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.desktop.widgets.models_card import ModelCard
from app.desktop.widgets.models_details import FileAction
from app.desktop.widgets.models_page import ModelsPage
from tests.gui.models_hand import FOREIGN, LARGE, LIBRARY, Hand
from tests.gui.scripted_engine import Desk
from tests.gui.translated import MarkingTranslator, untranslated

KEYS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier


def open_page(desk: Desk) -> ModelsPage:
    """Open the page by its key, and wait until the files are there."""
    desk.shelf.models = LIBRARY
    QTest.keyClick(desk.window, Qt.Key.Key_L, KEYS)
    page = desk.parts.models.page
    settle(desk)
    return page


def settle(desk: Desk) -> None:
    """Wait until nothing goes on."""
    desk.qtbot.waitUntil(lambda: not any(desk.parts.jobs.is_running(key) for key in ("scan", "fits", "folder")))


def test_key_opens_the_page_and_esc_leaves_it(desk: Desk) -> None:
    page = open_page(desk)
    assert desk.window.page is page
    assert page.search.hasFocus()
    QTest.keyClick(page.search, Qt.Key.Key_Down)
    assert page.list.hasFocus()
    QTest.keyClick(page.list, Qt.Key.Key_Escape)
    assert desk.window.page is None
    assert desk.composer.text_edit.hasFocus()


def test_menus_lead_to_the_page(desk: Desk) -> None:
    entries = [action.text().partition("\t")[0] for action in desk.parts.actions.menu().actions()]
    assert "All models" in entries
    menu = desk.parts.picker.menu()
    next(action for action in menu.actions() if action.text() == "All models …").trigger()
    assert desk.window.page is desk.parts.models.page
    settle(desk)


def test_keyboard_alone_loads_a_model(desk: Desk) -> None:
    page = open_page(desk)
    QTest.keyClick(page.search, Qt.Key.Key_Down)
    QTest.keyClick(page.list, Qt.Key.Key_Home)
    QTest.keyClick(page.list, Qt.Key.Key_Return)
    button = page.details.buttons[FileAction.CHAT]
    assert button.hasFocus()
    QTest.keyClick(button, Qt.Key.Key_Space)
    assert desk.window.page is None
    assert desk.parts.model.wanted == FOREIGN.path


def test_use_of_a_model_is_remembered(desk: Desk) -> None:
    assert list(desk.parts.settings.now.models_used) == ["/models/small.gguf"]


def test_tab_reaches_every_action(desk: Desk) -> None:
    desk.window.resize(1280, 760)
    page = open_page(desk)
    wanted: set[QWidget] = {page.search, page.sort, page.folders_button, page.list}
    wanted |= {button for button in page.details.buttons.values() if button.isEnabled()}
    seen: set[QWidget] = set()
    focused = QApplication.focusWidget()
    while focused is not None and focused not in seen:
        seen.add(focused)
        QTest.keyClick(focused, Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
    assert wanted - seen == set()


@pytest.mark.parametrize("zoom", [1.0, 2.0])
def test_nothing_is_wider_than_the_window(desk: Desk, zoom: float) -> None:
    desk.parts.theme.set_zoom(zoom)
    page = open_page(desk)
    too_wide = []
    for width in (400, 560, 820, 1400):
        desk.window.resize(width, 640)
        for panel in (page.details, page.folders):
            page.show_panel(panel)
            QApplication.processEvents()
            too_wide += [f"{width}: {name}" for name in _too_wide(page)]
    assert too_wide == []


def _too_wide(page: ModelsPage) -> list[str]:
    parts = [part for part in page.findChildren(QWidget) if part.isVisible() and not part.isWindow()]
    return [
        f"{type(part).__name__} {part.objectName()}"
        for part in parts
        if part.mapTo(page, part.rect().topRight()).x() > page.width()
    ]


@pytest.fixture
def translator(qapp: QApplication) -> Iterator[MarkingTranslator]:
    translator = MarkingTranslator()
    qapp.installTranslator(translator)
    yield translator
    qapp.removeTranslator(translator)


@pytest.mark.qt_log_ignore("propagateSizeHints")  # of the platform without a screen
def test_every_text_goes_through_the_translation(translator: MarkingTranslator, hand: Hand) -> None:
    hand.shelf.problems = ("DATA",)
    hand.open()
    hand.click_row(LARGE.path)
    hand.press(FileAction.VERIFY)
    hand.press(FileAction.INSPECT)
    hand.press(FileAction.QUANTISE)
    hand.qtbot.waitUntil(lambda: bool(hand.page.quantise.boxes) and hand.window.findChild(ModelCard) is not None)
    hand.page.jobs.show_running("scan", translator.translate("", "Looking"), 0.5)
    said = [
        line
        for line in untranslated(hand.page) + untranslated(hand.window.findChild(ModelCard) or hand.window)
        if not any(data in line.replace("\u200b", "") for data in _DATA)
    ]
    assert said == []
    menu = hand.page.details.menu()
    assert [action.text() for action in menu.actions() if action.text() and "⟦" not in action.text()] == []


# What is in no language: names of files, models, types and programs, and what the library said of them.
_DATA = (
    *("SmolLM2", "Q8_0", "Q4_K_M", "Q3_K_L", "IQ3_XXS", "Q2_K", "Q4_K", "Q6_K", "F16", "GiB", "MiB", "apache", "llama"),
    *("/home/a", "Fireside", "LM Studio", "DATA", "text: 30", "Architecture", "Layers", "File", "135 M"),
)
