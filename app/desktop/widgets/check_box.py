"""CheckBox: a box of the theme, with one line of plain text beside it where there is some."""

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QCheckBox, QSizePolicy, QWidget

from app.desktop.theme.glyphs import paint_glyph
from app.desktop.theme.theme import Theme

_SIDE = 18
_HEIGHT = 28
_GAP = 8


def paint_box(
    painter: QPainter,
    theme: Theme,
    box: QRectF,
    *,
    is_checked: bool,
    edge: str = "control_border",
    inside: str = "raised",
) -> None:
    """Paint a box, with its mark where it is checked.

    Args:
        edge, inside: roles of colours, of a box that is not checked for `inside`.
    """
    px, colour = theme.px, theme.colour
    painter.setPen(QPen(colour(edge), px(1)))
    painter.setBrush(colour("accent" if is_checked else inside))
    painter.drawRoundedRect(box, px(4), px(4))
    if is_checked:
        paint_glyph(painter, "check", box.adjusted(px(2), px(2), -px(2), -px(2)), colour("on_accent"))


class CheckBox(QCheckBox):
    """Drawn at the zoom of the theme; the text ends in an ellipsis where there is no room, and nothing in it is read.

    Args:
        line: the text, which also names the box to a screen reader.
    """

    def __init__(self, theme: Theme, line: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._line = line
        if line:
            self.setAccessibleName(line)
            self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    @property
    def line(self) -> str:
        """What stands beside the box."""
        return self._line

    def sizeHint(self) -> QSize:
        """See QWidget."""
        px = self._theme.px
        if not self._line:
            return QSize(px(_HEIGHT), px(_HEIGHT))
        return QSize(px(_HEIGHT + _GAP) + self.fontMetrics().horizontalAdvance(self._line), px(_HEIGHT))

    def minimumSizeHint(self) -> QSize:
        """See QWidget; the text may become as narrow as need be."""
        return QSize(self._theme.px(_HEIGHT), self._theme.px(_HEIGHT))

    def hitButton(self, position: QPoint) -> bool:
        """See QAbstractButton."""
        return self.rect().contains(position)

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget."""
        px, colour = self._theme.px, self._theme.colour
        side = px(_SIDE)
        left = px(4) if self._line else (self.width() - side) / 2
        box = QRectF(left, (self.height() - side) / 2, side, side)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_checked, is_enabled = self.isChecked(), self.isEnabled()
        is_marked = is_enabled and (self.hasFocus() or self.underMouse() or is_checked)
        edge = "accent" if is_marked else "control_border" if is_enabled else "border"
        paint_box(
            painter, self._theme, box, edge=edge, is_checked=is_checked, inside="raised" if is_enabled else "surface"
        )
        if self._line:
            painter.setPen(colour("text" if is_enabled else "muted"))
            area = QRect(round(box.right()) + px(_GAP), 0, 0, self.height())
            area.setRight(self.width())
            text = painter.fontMetrics().elidedText(self._line, Qt.TextElideMode.ElideMiddle, area.width())
            painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        if self.hasFocus():
            painter.setPen(QPen(colour("accent"), px(2)))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            ring = px(3)
            painter.drawRoundedRect(box.adjusted(-ring, -ring, ring, ring), px(6), px(6))
        painter.end()
