"""The keys of the window: declared once, for the actions, the menu and the list that shows them."""

import dataclasses
from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QDialog, QGridLayout, QLabel, QWidget

from app.desktop.theme.theme import Theme


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shortcut:
    """One action and its keys.

    Attributes:
        keys: as Qt writes them; the first is shown. Ctrl is Cmd on macOS.
        call: None where a widget handles the key itself.
    """

    label: str
    keys: tuple[str, ...]
    call: Callable[[], None] | None = None

    @property
    def shown(self) -> str:
        """The first key as this platform writes it."""
        return QKeySequence(self.keys[0]).toString(QKeySequence.SequenceFormat.NativeText)


def install(window: QWidget, shortcuts: Sequence[Shortcut]) -> None:
    """Make the keys work in a window."""
    for shortcut in shortcuts:
        if shortcut.call is not None:
            for key in shortcut.keys:
                QShortcut(QKeySequence(key), window, shortcut.call)


class ShortcutList(QDialog):
    """Shows all keys."""

    def __init__(self, theme: Theme, shortcuts: Sequence[Shortcut], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        px = theme.px
        grid = QGridLayout(self)
        grid.setContentsMargins(px(24), px(20), px(24), px(20))
        grid.setHorizontalSpacing(px(32))
        grid.setVerticalSpacing(px(8))
        for row, shortcut in enumerate(shortcuts):
            keys = QLabel(shortcut.shown)
            keys.setProperty("role", "muted")
            keys.setAlignment(Qt.AlignmentFlag.AlignRight)
            grid.addWidget(QLabel(shortcut.label), row, 0)
            grid.addWidget(keys, row, 1)
