"""StripChart: the tokens a second of the last moments, painted from a ring of fixed size."""

from collections import deque

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QLinearGradient, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import rate_text

NUM_POINTS = 120


class StripChart(QWidget):
    """A line with its scale; newest at the right."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._values: deque[float] = deque(maxlen=NUM_POINTS)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Tokens a second over time"))
        theme.changed.connect(self._on_theme_changed)

    @property
    def values(self) -> list[float]:
        """What is drawn, oldest first."""
        return list(self._values)

    def add(self, value: float) -> None:
        """Add the newest value."""
        self._values.append(value)
        if self.isVisible():
            self.update()

    def clear(self) -> None:
        """Start over."""
        self._values.clear()
        self.update()

    def sizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(self._theme.px(200), self._theme.px(76))

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget."""
        px = self._theme.px
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._theme.font(11))
        top = scale_top(max(self._values, default=0.0))
        area = QRectF(0, px(8), self.width() - px(34), self.height() - px(16))
        for share in (0.0, 0.5, 1.0):
            y = area.bottom() - share * area.height()
            painter.setPen(QPen(self._theme.colour("border"), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            if self._values:
                painter.setPen(self._theme.colour("muted"))
                label = QRectF(area.right() + px(4), y - px(8), px(30), px(16))
                text = rate_text(top * share).removesuffix(".0")
                painter.drawText(label, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
        if len(self._values) > 1:
            self._paint_line(painter, area, top)
        painter.end()

    def _paint_line(self, painter: QPainter, area: QRectF, top: float) -> None:
        step = area.width() / (NUM_POINTS - 1)
        left = area.right() - step * (len(self._values) - 1)
        path = QPainterPath()
        for index, value in enumerate(self._values):
            point = QPointF(left + index * step, area.bottom() - area.height() * min(value / top, 1.0))
            path.lineTo(point) if index else path.moveTo(point)
        under = QPainterPath(path)
        under.lineTo(area.bottomRight())
        under.lineTo(QPointF(left, area.bottom()))
        colour = self._theme.colour("accent")
        shade = QLinearGradient(area.topLeft(), area.bottomLeft())
        colour.setAlphaF(0.18)
        shade.setColorAt(0, colour)
        colour.setAlphaF(0.0)
        shade.setColorAt(1, colour)
        painter.fillPath(under, shade)
        painter.strokePath(path, QPen(self._theme.colour("accent"), self._theme.px(2) * 0.8))

    def _on_theme_changed(self) -> None:
        self.updateGeometry()
        self.update()


def scale_top(largest: float) -> float:
    """Return the end of the scale: 1, 2 or 5 times a power of ten, at least 10."""
    top = 10.0
    while top < largest:
        for factor in (2.0, 2.5, 2.0):
            top *= factor
            if top >= largest:
                break
    return top
