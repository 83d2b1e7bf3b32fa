"""Finds what a widget says in English when everything is translated: a translator that marks what goes through it."""

from collections.abc import Callable, Iterator

from PySide6.QtCore import QObject, QTranslator
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QComboBox, QGroupBox, QLabel, QLineEdit, QMenu, QPlainTextEdit, QWidget

OPEN, CLOSE = "⟦", "⟧"


class MarkingTranslator(QTranslator):
    """Translates every text to itself in brackets."""

    def isEmpty(self) -> bool:
        """See QTranslator; without texts of its own it would not be asked."""
        return False

    def translate(self, context: str, text: str, disambiguation: str | None = None, n: int = -1) -> str:
        """See QTranslator."""
        return f"{OPEN}{text}{CLOSE}"


def untranslated(widget: QWidget, is_data: Callable[[str], bool] = lambda text: False) -> list[str]:
    """Return every text of a widget and of what is in it that holds a letter and went around the translation.

    Build the widget while a MarkingTranslator is installed.

    Args:
        is_data: tells names, keys, numbers with units and the like, which are in no language.
    """
    found: list[str] = []
    for part in (widget, *widget.findChildren(QWidget)):
        for kind, text in _texts(part):
            is_said = any(letter.isalpha() for letter in text)
            if is_said and not (OPEN in text and CLOSE in text) and not is_data(text):
                found.append(f"{type(part).__name__} {part.objectName()!r} {kind}: {text}")
    return found


def _texts(part: QObject) -> Iterator[tuple[str, str]]:
    if not isinstance(part, QWidget):
        return
    yield "toolTip", part.toolTip()
    yield "statusTip", part.statusTip()
    yield "accessibleName", part.accessibleName()
    yield "accessibleDescription", part.accessibleDescription()
    yield "windowTitle", part.windowTitle()
    if isinstance(part, QAbstractButton | QLabel):
        yield "text", part.text()
    if isinstance(part, QLineEdit | QPlainTextEdit):
        yield "placeholderText", part.placeholderText()
    if isinstance(part, QGroupBox | QMenu):
        yield "title", part.title()
    if isinstance(part, QComboBox):
        for index in range(part.count()):
            yield "item", part.itemText(index)
    for name in ("suffix", "prefix", "label", "whole"):
        value = getattr(part, name, None)
        yield name, value() if callable(value) else value if isinstance(value, str) else ""
    for action in part.actions():
        yield from _action_texts(action)


def _action_texts(action: QAction) -> Iterator[tuple[str, str]]:
    yield "action", action.text().partition("\t")[0]
    if action.toolTip() != action.text().replace("&&", "&"):  # which is what Qt makes of the text
        yield "action toolTip", action.toolTip()
