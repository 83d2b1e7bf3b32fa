"""FoldHead: a line of text that opens and closes what is below it."""

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget

from app.desktop.theme.glyphs import paint_glyph
from app.desktop.theme.theme import Theme


class FoldHead(QPushButton):
    """A button with an arrow that tells whether it is open; checked means open."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setCheckable(True)
        self.setProperty("kind", "fold")

    def sizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(super().sizeHint().width(), self._theme.px(26))

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget; adds the glyph."""
        super().paintEvent(event)
        side = self._theme.px(14)
        box = QRectF(self._theme.px(3), (self.height() - side) / 2, side, side)
        painter = QPainter(self)
        glyph = "chevron_down" if self.isChecked() else "chevron_right"
        paint_glyph(painter, glyph, box, self._theme.colour("text" if self.underMouse() else "muted"))
        painter.end()
