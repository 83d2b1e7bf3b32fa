"""The Models page in the whole window: the ways to it and back, the keyboard, and every width."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.desktop.widgets.models_details import FileAction
from app.desktop.widgets.models_page import ModelsPage
from tests.gui.models_hand import FOREIGN, LIBRARY
from tests.gui.scripted_engine import Desk

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
