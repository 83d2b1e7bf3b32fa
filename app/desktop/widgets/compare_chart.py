"""ParetoChart: the columns of a comparison by two measures, with the front that no other column beats."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.compare.charts import ticks
from app.compare.results import MEASURES, Measure
from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.session.compare_outcome import OutcomeRow
from app.desktop.theme.theme import Theme

_HEIGHT = 300
_LABEL_CHARS = 28
_NEAR = 12


class _Dot(NamedTuple):
    row: OutcomeRow
    x: float
    y: float


class ParetoChart(QWidget):
    """Painted anew when it is shown; a dot says who it is when the pointer rests on it."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: Sequence[OutcomeRow] = ()
        self._x, self._y = "", ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._on_theme_changed)

    @property
    def dots(self) -> Sequence[str]:
        """The labels of what is drawn."""
        return [row.label for row in self._placed()]

    @property
    def front(self) -> Sequence[str]:
        """The labels of the dots that no other beats on both axes, from the left."""
        return [row.label for row in self._front()]

    def show_rows(self, rows: Sequence[OutcomeRow], x: str, y: str) -> None:
        """Draw these columns by two measures."""
        self._rows, self._x, self._y = rows, x, y
        if x and y:
            title = self.tr("{y} against {x}").format(y=_axis_name(MEASURES[y]), x=_axis_name(MEASURES[x]))
            told = "; ".join(f"{row.label}: {row.values[x].text}, {row.values[y].text}" for row in self._placed())
            self.setAccessibleName(title)
            self.setAccessibleDescription(told)
        self.update()

    def sizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(self._theme.px(320), self._theme.px(_HEIGHT))

    def event(self, event: QEvent) -> bool:
        """Say whose dot the pointer is on."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            near = self._theme.px(_NEAR)
            place = QPointF(event.pos())
            for dot in self._dots(self._area()):
                if (QPointF(dot.x, dot.y) - place).manhattanLength() <= near:
                    QToolTip.showText(event.globalPos(), tool_tip_text(self._told(dot.row)), self)
                    return True
            QToolTip.hideText()
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._theme.font(11))
        area = self._area()
        dots = self._dots(area)
        if not dots:
            painter.setPen(self._theme.colour("muted"))
            text = self.tr("No column has a value for both axes.")
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, text)
        else:
            self._paint_grid(painter, area)
            self._paint_front(painter, dots)
            self._paint_dots(painter, area, dots)
        painter.end()

    def _told(self, row: OutcomeRow) -> str:
        lines = [isolated(shortened(row.label, 120))]
        lines += [f"{MEASURES[name].label}: {row.values[name].text} {MEASURES[name].unit}" for name in self._axes()]
        if row.standing:
            lines.append(isolated(shortened(row.standing, 300)))
        return "\n".join(lines)

    def _axes(self) -> tuple[str, str]:
        return self._x, self._y

    def _placed(self) -> list[OutcomeRow]:
        return [
            row
            for row in self._rows
            if all(name in row.values and row.values[name].value is not None for name in self._axes())
        ]

    def _front(self) -> list[OutcomeRow]:
        placed = self._placed()
        front = [row for row in placed if not any(self._beats(other, row) for other in placed)]
        return sorted(front, key=lambda row: row.values[self._x].value or 0.0)

    def _beats(self, one: OutcomeRow, other: OutcomeRow) -> bool:
        gains = []
        for name in self._axes():
            sign = 1 if MEASURES[name].is_higher_better else -1
            gains.append(sign * ((one.values[name].value or 0.0) - (other.values[name].value or 0.0)))
        return min(gains) >= 0 and max(gains) > 0

    def _area(self) -> QRectF:
        px = self._theme.px
        return QRectF(px(56), px(22), max(1, self.width() - px(76)), max(1, self.height() - px(66)))

    def _range(self, name: str) -> tuple[float, float]:
        factor = MEASURES[name].factor
        values = [(row.values[name].value or 0.0) * factor for row in self._placed()]
        low, high = min(values), max(values)
        room = (high - low) * 0.15 or abs(high) * 0.1 or 1.0
        return max(0.0, low - room) if low >= 0 else low - room, high + room

    def _dots(self, area: QRectF) -> list[_Dot]:
        placed = self._placed()
        if not placed or not self._x or not self._y:
            return []
        (left, right), (low, high) = self._range(self._x), self._range(self._y)
        found = []
        for row in placed:
            x = (row.values[self._x].value or 0.0) * MEASURES[self._x].factor
            y = (row.values[self._y].value or 0.0) * MEASURES[self._y].factor
            found.append(
                _Dot(
                    row,
                    area.left() + area.width() * (x - left) / (right - left),
                    area.bottom() - area.height() * (y - low) / (high - low),
                )
            )
        return found

    def _paint_grid(self, painter: QPainter, area: QRectF) -> None:
        px, colour = self._theme.px, self._theme.colour
        flags = Qt.AlignmentFlag
        (left, right), (low, high) = self._range(self._x), self._range(self._y)
        for value in ticks(low, high):
            if low <= value <= high:
                y = area.bottom() - area.height() * (value - low) / (high - low)
                painter.setPen(QPen(colour("border"), 1))
                painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
                painter.setPen(colour("muted"))
                box = QRectF(0, y - px(8), area.left() - px(6), px(16))
                painter.drawText(box, flags.AlignRight | flags.AlignVCenter, f"{value:,.10g}")
        for value in ticks(left, right, 4 if area.width() < px(420) else 6):
            if left <= value <= right:
                x = area.left() + area.width() * (value - left) / (right - left)
                painter.setPen(QPen(colour("border"), 1))
                painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
                painter.setPen(colour("muted"))
                box = QRectF(x - px(40), area.bottom() + px(4), px(80), px(16))
                painter.drawText(box, flags.AlignHCenter | flags.AlignTop, f"{value:,.10g}")
        painter.setPen(colour("text"))
        painter.drawText(
            QRectF(px(8), 0, self.width() - px(16), px(18)), flags.AlignLeft, _axis_name(MEASURES[self._y])
        )
        below = QRectF(area.left(), area.bottom() + px(22), area.width(), px(18))
        painter.drawText(below, flags.AlignRight, _axis_name(MEASURES[self._x]))

    def _paint_front(self, painter: QPainter, dots: Sequence[_Dot]) -> None:
        front = {row.column for row in self._front()}
        points = [QPointF(dot.x, dot.y) for dot in sorted(dots, key=lambda dot: dot.x) if dot.row.column in front]
        pen = QPen(self._theme.colour("control_border"), self._theme.px(1))
        pen.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.drawPolyline(points)

    def _paint_dots(self, painter: QPainter, area: QRectF, dots: Sequence[_Dot]) -> None:
        px, theme = self._theme.px, self._theme
        front = {row.column for row in self._front()}
        metrics = QFontMetricsF(painter.font())
        taken = [QRectF(dot.x - px(6), dot.y - px(6), px(12), px(12)) for dot in dots]
        for dot in dots:
            painter.setPen(QPen(theme.series(dot.row.number), px(2)))
            painter.setBrush(theme.series(dot.row.number) if dot.row.column in front else theme.colour("bg"))
            painter.drawEllipse(QPointF(dot.x, dot.y), px(5), px(5))
            text = isolated(shortened(dot.row.label, _LABEL_CHARS))
            if dot.row.is_safe_to_delete:
                text = self.tr("{name} · safe to delete").format(name=text)
            width, height = metrics.horizontalAdvance(text), metrics.height()
            places = [
                QRectF(dot.x + px(9), dot.y - height / 2, width, height),
                QRectF(dot.x - px(9) - width, dot.y - height / 2, width, height),
                QRectF(dot.x - width / 2, dot.y - px(9) - height, width, height),
                QRectF(dot.x - width / 2, dot.y + px(9), width, height),
            ]
            room = area.adjusted(-px(40), -px(4), px(16), px(4))
            for place in places:
                if room.contains(place) and not any(place.intersects(other) for other in taken):
                    taken.append(place)
                    painter.setPen(theme.colour("text"))
                    painter.drawText(place, Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextDontClip, text)
                    break

    def _on_theme_changed(self) -> None:
        self.updateGeometry()
        self.update()


def _axis_name(measure: Measure) -> str:
    return f"{measure.label}, {measure.unit}" if measure.unit else measure.label
