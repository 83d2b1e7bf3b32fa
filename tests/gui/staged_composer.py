"""A composer in a window of its own, and what a person does to it."""

from collections.abc import Iterator

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer import Composer


def stage(theme: Theme, qtbot: QtBot) -> Iterator[Composer]:
    """Show a composer that has the focus, for as long as its window is held here."""
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(640, 500)
    composer = Composer(theme, QWidget(), window)
    composer.resize(600, 100)
    window.show()
    window.activateWindow()
    composer.text_edit.setFocus()
    qtbot.waitUntil(composer.text_edit.hasFocus)
    yield composer


def paste(composer: Composer, text: str) -> None:
    """Insert a text as the clipboard or a drop does."""
    data = QMimeData()
    data.setText(text)
    composer.text_edit.insertFromMimeData(data)


def compose(composer: Composer, preedit: str, commit: str = "") -> None:
    """Do what an input method does."""
    event = QInputMethodEvent(preedit, [])
    if commit:
        event.setCommitString(commit)
    QApplication.sendEvent(composer.text_edit, event)
