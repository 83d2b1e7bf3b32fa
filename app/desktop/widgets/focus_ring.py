"""FocusRing: shows which message has the focus."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.desktop.theme.theme import Theme

_OUTSET = 7


class FocusRing(QWidget):
    """A frame around a row, through which the mouse reaches what is below."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._row: QWidget | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.hide()

    def show_around(self, row: QWidget | None) -> None:
        """Frame another row, or none."""
        self._row = row
        self.setVisible(row is not None)
        self.follow()

    def follow(self) -> None:
        """Stand around the row, wherever it is now."""
        if self._row is not None:
            outset = self._theme.px(_OUTSET)
            self.setGeometry(self._row.geometry().adjusted(-outset, -outset, outset, outset))
            self.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._theme.colour("accent"), 2))
        radius = self._theme.px(10)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), radius, radius)
        painter.end()
