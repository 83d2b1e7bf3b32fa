"""A label for text from anywhere: it wraps, and nothing in it is read as mark-up."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget


def plain_label(
    text: str = "", *, role: str = "", parent: QWidget | None = None, is_selectable: bool = False
) -> QLabel:
    """Return a label.

    Args:
        role: how the stylesheet shows it.
        is_selectable: whether the mouse selects in it.
    """
    label = QLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setProperty("role", role)
    if is_selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
