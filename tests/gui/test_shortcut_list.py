"""The list of keys: by group, every key, at any size of the window; and menus that show their own key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.shortcuts import Shortcut, ShortcutList, install
from tests.gui.scripted_engine import Desk

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")

README = Path(__file__).resolve().parents[2] / "README.md"
ROWS = tuple(
    Shortcut(label=f"{group} action {number}", keys=(f"Ctrl+{number}", "Esc"), group=group)
    for group in ("CHATS", "MESSAGES", "WINDOW")
    for number in range(9)
)


@pytest.fixture
def window(qtbot: QtBot) -> Iterator[QWidget]:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(400, 360)
    window.show()
    qtbot.waitUntil(lambda: QApplication.activeWindow() is window)
    yield window


def test_every_key_stands_under_its_group(theme: Theme, window: QWidget) -> None:
    dialog = ShortcutList(theme, ROWS, window)
    dialog.show()
    labels = [label.text() for label in dialog.findChildren(QLabel)]
    assert [text for text in labels if text in ("CHATS", "MESSAGES", "WINDOW")] == ["CHATS", "MESSAGES", "WINDOW"]
    assert labels.count("Esc") == len(ROWS)
    assert {row.label for row in ROWS} <= set(labels)
    dialog.close()


@pytest.mark.parametrize("zoom", [0.8, 2.0])
def test_list_scrolls_where_there_is_little_room(theme: Theme, window: QWidget, zoom: float) -> None:
    theme.set_zoom(zoom)
    dialog = ShortcutList(theme, ROWS, window)
    dialog.show()
    QApplication.processEvents()
    assert dialog.height() <= 360
    assert dialog.width() <= 400
    (area,) = dialog.findChildren(QScrollArea)
    assert area.verticalScrollBar().maximum() > 0
    QTest.keyClick(dialog.focusWidget(), Qt.Key.Key_PageDown)
    assert area.verticalScrollBar().value() > 0
    dialog.close()


def test_escape_closes_the_list(theme: Theme, window: QWidget, qtbot: QtBot) -> None:
    stops: list[bool] = []
    install(window, (Shortcut(label="Stop", keys=("Esc",), call=lambda: stops.append(True)),))
    dialog = ShortcutList(theme, ROWS, window)
    dialog.show()
    dialog.activateWindow()
    qtbot.waitUntil(lambda: QApplication.activeWindow() is dialog)
    QTest.keyClick(dialog.focusWidget(), Qt.Key.Key_Escape)
    assert not dialog.isVisible()
    assert stops == []


def test_entry_of_a_menu_shows_its_own_key() -> None:
    assert Shortcut(label="New chat", keys=("Ctrl+N", "Ctrl+Shift+O")).menu_text == "New chat\tCtrl+N"


def test_every_key_told_in_the_readme_is_one_of_the_window(desk: Desk) -> None:
    table = README.read_text("utf-8").partition("| key | does |")[2].partition("\n\n")[0]
    cells = [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines() if row.startswith("| ")]
    told = {part.replace("Enter", "Return") for cell in cells for part in cell.split(", ") if " " not in part}
    assert {"Return", "Ctrl+,", "Ctrl+Q"} < told
    assert told - {"---"} <= {key for shortcut in desk.parts.actions.shortcuts for key in shortcut.keys}
