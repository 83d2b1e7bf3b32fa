"""Keys that write a letter, told from those that do something."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

_OF_LETTERS = (
    Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.KeypadModifier | Qt.KeyboardModifier.GroupSwitchModifier
)
_ALT_GR = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier  # as Windows has it


def is_typed(event: QKeyEvent) -> bool:
    """Tell whether a key writes something that is seen: capitals and what AltGr gives as well, shortcuts not."""
    held = event.modifiers() & ~_OF_LETTERS
    is_letter = held in (Qt.KeyboardModifier.NoModifier, _ALT_GR)
    return is_letter and event.text().isprintable() and bool(event.text().strip())
