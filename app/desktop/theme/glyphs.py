"""Line glyphs for buttons, drawn as paths: sharp at every scale and coloured by the theme, no image files."""

import math
from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QToolButton, QWidget

from app.desktop.theme.theme import Theme

_BOX = 16.0


def _lines(*strokes: tuple[tuple[float, float], ...]) -> QPainterPath:
    path = QPainterPath()
    for stroke in strokes:
        path.moveTo(QPointF(*stroke[0]))
        for point in stroke[1:]:
            path.lineTo(QPointF(*point))
    return path


def _copy() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(5.5, 5.5, 8, 8), 1.5, 1.5)
    path.moveTo(3.5, 10.5)
    path.lineTo(2.5, 10.5)
    path.lineTo(2.5, 2.5)
    path.lineTo(10.5, 2.5)
    path.lineTo(10.5, 3.5)
    return path


def _retry() -> QPainterPath:
    path = QPainterPath()
    path.arcMoveTo(QRectF(3, 3, 10, 10), 40)
    path.arcTo(QRectF(3, 3, 10, 10), 40, 290)
    path.addPath(_lines(((13, 2.5), (12.2, 5.6), (9.2, 4.8))))
    return path


def _panel() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(2, 3, 12, 10), 2, 2)
    path.addPath(_lines(((10, 3), (10, 13))))
    return path


def _columns() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(2, 3, 5, 10), 1.5, 1.5)
    path.addRoundedRect(QRectF(9, 3, 5, 10), 1.5, 1.5)
    return path


def _sidebar() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(2, 3, 12, 10), 2, 2)
    path.addPath(_lines(((6, 3), (6, 13))))
    return path


def _dots() -> QPainterPath:
    path = QPainterPath()
    for x in (3.5, 8.0, 12.5):
        path.addEllipse(QPointF(x, 8), 0.7, 0.7)
    return path


def _search() -> QPainterPath:
    path = QPainterPath()
    path.addEllipse(QPointF(7, 7), 4.2, 4.2)
    path.addPath(_lines(((10.2, 10.2), (13.5, 13.5))))
    return path


def _pencil() -> QPainterPath:
    path = _lines(((3, 13), (3.6, 10), (10.6, 3), (13, 5.4), (6, 12.4), (3, 13)))
    path.addPath(_lines(((9.2, 4.4), (11.6, 6.8))))
    return path


def _pin() -> QPainterPath:
    path = _lines(((5.5, 2.5), (10.5, 2.5)), ((6.2, 2.5), (5.8, 7), (4, 9.5), (12, 9.5), (10.2, 7), (9.8, 2.5)))
    path.addPath(_lines(((8, 9.5), (8, 14))))
    return path


def _lock() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(3, 7, 10, 7), 1.5, 1.5)
    path.moveTo(5, 7)
    path.lineTo(5, 5)
    path.arcTo(QRectF(5, 2, 6, 6), 180, -180)
    path.lineTo(11, 7)
    return path


def _trash() -> QPainterPath:
    path = _lines(((2.5, 4.5), (13.5, 4.5)), ((6, 4.5), (6.4, 2.5), (9.6, 2.5), (10, 4.5)))
    path.addPath(_lines(((4, 4.5), (4.7, 13.5), (11.3, 13.5), (12, 4.5)), ((6.8, 7), (7, 11)), ((9.2, 7), (9, 11))))
    return path


def _clip() -> QPainterPath:
    path = QPainterPath()
    path.moveTo(12.5, 7.5)
    path.lineTo(7.6, 12.4)
    path.arcTo(QRectF(2.6, 6.6, 6.6, 6.6), -45, -180)
    path.lineTo(8.6, 2.9)
    path.arcTo(QRectF(7.9, 2.2, 4.4, 4.4), 135, -180)
    path.lineTo(6.6, 11)
    path.arcTo(QRectF(4.8, 8.9, 2.2, 2.2), -45, -180)
    path.lineTo(9.4, 4.9)
    return path


def _gear() -> QPainterPath:
    path = QPainterPath()
    path.addEllipse(QPointF(8, 8), 1.9, 1.9)
    path.addEllipse(QPointF(8, 8), 4.5, 4.5)
    for tooth in range(8):
        angle = math.radians(tooth * 45 + 22.5)
        x, y = math.cos(angle), math.sin(angle)
        path.addPath(_lines(((8 + 4.6 * x, 8 + 4.6 * y), (8 + 6.3 * x, 8 + 6.3 * y))))
    return path


_GLYPHS: dict[str, Callable[[], QPainterPath]] = {
    "plus": lambda: _lines(((8, 3), (8, 13)), ((3, 8), (13, 8))),
    "close": lambda: _lines(((4, 4), (12, 12)), ((12, 4), (4, 12))),
    "back": lambda: _lines(((9.5, 4), (5.5, 8), (9.5, 12))),
    "check": lambda: _lines(((3, 8.5), (6.5, 12), (13, 4.5))),
    "chevron_up": lambda: _lines(((4, 10), (8, 6), (12, 10))),
    "chevron_down": lambda: _lines(((4, 6.5), (8, 10.5), (12, 6.5))),
    "chevron_right": lambda: _lines(((6.5, 4), (10.5, 8), (6.5, 12))),
    "copy": _copy,
    "retry": _retry,
    "panel": _panel,
    "columns": _columns,
    "sidebar": _sidebar,
    "dots": _dots,
    "search": _search,
    "pencil": _pencil,
    "pin": _pin,
    "lock": _lock,
    "trash": _trash,
    "clip": _clip,
    "gear": _gear,
}


def paint_glyph(painter: QPainter, name: str, box: QRectF, colour: QColor) -> None:
    """Paint a glyph into a square box."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(box.topLeft())
    painter.scale(box.width() / _BOX, box.height() / _BOX)
    pen = QPen(colour, 1.4)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.drawPath(_GLYPHS[name]())
    painter.restore()


class GlyphButton(QToolButton):
    """A square button with a glyph; its label is the tool tip and the accessible name.

    Args:
        size: side of the button in pixels of the design.
    """

    def __init__(self, theme: Theme, glyph: str, label: str, parent: QWidget | None = None, *, size: int = 28) -> None:
        super().__init__(parent)
        self._theme = theme
        self._glyph = glyph
        self._size = size
        self.setProperty("glyph", True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.set_label(label)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def set_label(self, label: str) -> None:
        """Say what the button does."""
        self.setAccessibleName(label)
        self.setToolTip(label)

    def set_glyph(self, glyph: str) -> None:
        """Show another glyph."""
        self._glyph = glyph
        self.update()

    def sizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(self._theme.px(self._size), self._theme.px(self._size))

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget."""
        super().paintEvent(event)
        side = self._theme.px(16)
        box = QRectF((self.width() - side) / 2, (self.height() - side) / 2, side, side)
        is_strong = self.isEnabled() and (self.underMouse() or self.isChecked())
        painter = QPainter(self)
        paint_glyph(painter, self._glyph, box, self._theme.colour("text" if is_strong else "muted"))
        painter.end()

    def _on_theme_changed(self) -> None:
        side = self._theme.px(self._size)
        self.setFixedSize(side, side)
        self.update()
