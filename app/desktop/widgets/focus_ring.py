"""FocusRing: shows which message has the focus, or that the conversation has it."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.desktop.theme.theme import Theme

_OUTSET, _INSET = 7, 2


class FocusRing(QWidget):
    """A frame around a row, through which the mouse reaches what is below.

    Args:
        is_inside: whether it stands inside the edge of what it is around.
    """

    def __init__(self, theme: Theme, parent: QWidget, *, is_inside: bool = False) -> None:
        super().__init__(parent)
        self._is_inside = is_inside
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
            outset = -self._theme.px(_INSET) if self._is_inside else self._theme.px(_OUTSET)
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
