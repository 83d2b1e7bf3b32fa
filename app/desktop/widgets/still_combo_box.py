"""StillComboBox: a list to choose from, as the stylesheet wants it, that a wheel does not change."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QComboBox, QStyledItemDelegate, QWidget

from app.desktop.theme.glyphs import paint_glyph
from app.desktop.theme.theme import Theme


class StillComboBox(QComboBox):
    """A list that may become narrow; the wheel scrolls what is around it."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(4)
        self.setItemDelegate(QStyledItemDelegate(self))  # the usual one knows no look for closed values

    def showPopup(self) -> None:
        """See QComboBox; no choice is cut, however narrow the box is."""
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + self._theme.px(24))
        super().showPopup()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """See QWidget."""
        event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget; adds the glyph."""
        super().paintEvent(event)
        side = self._theme.px(14)
        box = QRectF(self.width() - side - self._theme.px(5), (self.height() - side) / 2, side, side)
        painter = QPainter(self)
        paint_glyph(painter, "chevron_down", box, self._theme.colour("muted"))
        painter.end()
