"""The Escape key, which stops the reply unless the widget that has the keys has a use for it."""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent


def is_escape_offered(event: QEvent) -> bool:
    """Tell whether a widget can have the Escape key by accepting `event`, before the shortcuts of the window get it."""
    if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
        return False
    return event.key() == Qt.Key.Key_Escape


def take_escape(event: QEvent) -> bool:
    """Take the Escape key where it is offered, and tell whether it was."""
    is_taken = is_escape_offered(event)
    if is_taken:
        event.accept()
    return is_taken
