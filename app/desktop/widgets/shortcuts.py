"""The keys of the window: declared once, for the actions, the menu and the list that shows them."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QDialog, QFrame, QGridLayout, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.key_names import key_name

_LABEL_WIDTH = 200
_MIN_LABEL_WIDTH = 90


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shortcut:
    """One action and its keys.

    Attributes:
        label: in the user's language.
        keys: as Qt writes them; the first is shown in menus. Ctrl is Cmd on macOS.
        call: None where a widget handles the key itself.
        group: heading it stands under, in the user's language.
    """

    label: str
    keys: tuple[str, ...]
    call: Callable[[], None] | None = None
    group: str = ""

    @property
    def shown(self) -> str:
        """The first key as this platform writes it."""
        return key_name(self.keys[0])

    @property
    def menu_text(self) -> str:
        """The entry of a menu: the label, and the key at the right."""
        return f"{self.label}\t{self.shown}"


def install(window: QWidget, shortcuts: Sequence[Shortcut]) -> None:
    """Make the keys work in a window."""
    for shortcut in shortcuts:
        if shortcut.call is not None:
            for key in shortcut.keys:
                QShortcut(QKeySequence(key), window, shortcut.call)


class ShortcutList(QDialog):
    """Shows all keys, by group; Escape closes it."""

    def __init__(self, theme: Theme, shortcuts: Sequence[Shortcut], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._names: list[QLabel] = []
        self.setWindowTitle(self.tr("Keyboard shortcuts"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        px = theme.px
        body = QWidget()
        body.setObjectName("shortcutList")
        box = QVBoxLayout(body)
        box.setContentsMargins(px(16), px(8), px(16), px(16))
        box.setSpacing(px(6))
        for group, members in _grouped(shortcuts).items():
            if group:
                heading = _label(group)
                heading.setProperty("role", "section")
                heading.setContentsMargins(0, px(14), 0, px(4))
                box.addWidget(heading)
            box.addLayout(self._rows(members))
        area = QScrollArea()
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setAccessibleName(self.windowTitle())
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        area.setWidget(body)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)
        for part in (self, *self.findChildren(QWidget)):
            part.ensurePolished()  # the caps have a padding that counts
        wanted = body.sizeHint() + QSize(px(48), 0)
        for name in self._names:
            name.setMinimumWidth(px(_MIN_LABEL_WIDTH))  # where there is less room than is wanted
        room = self.screen().availableSize() * 0.85
        if parent is not None:
            room = room.boundedTo(parent.window().size().expandedTo(parent.window().minimumSize()))
        bar = area.verticalScrollBar().sizeHint().width()
        self.resize(min(wanted.width() + bar, room.width()), min(wanted.height(), room.height()))
        area.setFocus()

    def _rows(self, shortcuts: Iterable[Shortcut]) -> QGridLayout:
        px = self._theme.px
        grid = QGridLayout()
        grid.setHorizontalSpacing(px(16))
        grid.setVerticalSpacing(px(6))
        grid.setColumnStretch(0, 1)
        for row, shortcut in enumerate(shortcuts):
            label = _label(shortcut.label)
            label.setWordWrap(True)
            label.setMinimumWidth(min(label.fontMetrics().horizontalAdvance(shortcut.label) + 2, px(_LABEL_WIDTH)))
            self._names.append(label)
            grid.addWidget(label, row, 0)
            keys = QHBoxLayout()
            keys.setSpacing(px(6))
            keys.addStretch()
            for key in shortcut.keys:
                cap = _label(key_name(key))
                cap.setObjectName("keyCap")
                keys.addWidget(cap, 0, Qt.AlignmentFlag.AlignVCenter)
            grid.addLayout(keys, row, 1)
        return grid


def _grouped(shortcuts: Sequence[Shortcut]) -> dict[str, list[Shortcut]]:
    groups: dict[str, list[Shortcut]] = {}
    for shortcut in shortcuts:
        groups.setdefault(shortcut.group, []).append(shortcut)
    return groups


def _label(text: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label
