"""LinkTarget: tells where the link below the pointer leads, in the corner of the conversation."""

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QLabel, QWidget

from app.desktop.rendering.plain import shortened
from app.desktop.theme.theme import Theme

_MAX_CHARS = 160


class LinkTarget(QLabel):
    """One line at the lower left; hidden while there is nothing to tell."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("linkTarget")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.hide()

    def show_target(self, target: str, area: QRect) -> None:
        """Tell a target within an area; nothing for an empty one."""
        self.setText(shortened(target, _MAX_CHARS))
        self.setVisible(bool(target))
        self.place(area)

    def place(self, area: QRect) -> None:
        """Stand in the corner of an area."""
        margin, hint = self._theme.px(4), self.sizeHint()
        top = area.bottom() - hint.height() - margin
        self.setGeometry(area.left() + margin, top, min(hint.width(), area.width()), hint.height())
