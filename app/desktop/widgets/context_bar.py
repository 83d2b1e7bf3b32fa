"""ContextBar: what the context of a model is filled with, as a bar in three parts with its legend."""

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import count_text, tokens_text

_BAR = 6
_ROW = 17
_GAP = 7
_SWATCH = 8


class ContextBar(QWidget):
    """System prompt, history and what is free; without a known system prompt its part counts as history."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._system: int | None = None
        self._used = 0
        self._total = 0
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        theme.changed.connect(self._on_theme_changed)
        self.show_parts(None, 0, 0)

    @property
    def parts(self) -> tuple[tuple[str, str, int], ...]:
        """Name, colour role and tokens of each part, in the order of the bar."""
        system = min(self._system or 0, self._used)
        parts = [(self.tr("System"), "ok", system)] if self._system else []
        parts.append((self.tr("History"), "accent", self._used - system))
        parts.append((self.tr("Free"), "border", max(0, self._total - self._used)))
        return tuple(parts)

    def show_parts(self, system: int | None, used: int, total: int) -> None:
        """Show tokens of the system prompt and of all that is used, of `total`; 0 where no model is loaded."""
        self._system, self._used, self._total = system, used, total
        lines = [
            self.tr("{name}: {tokens}").format(name=name, tokens=tokens_text(count)) for name, _, count in self.parts
        ]
        self.setToolTip("\n".join(lines) if total else "")
        self.setAccessibleName(self.tr("Context in use"))
        self.setAccessibleDescription(", ".join(lines) if total else "")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """See QWidget."""
        width = self._theme.px(220)
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(self._theme.px(80), self.heightForWidth(max(1, self.width())))

    def heightForWidth(self, width: int) -> int:
        """See QWidget; the legend takes as many lines as it needs."""
        rows = self._legend(width)
        return self._theme.px(_BAR) + (rows[-1][1].bottom() + 1 if rows else 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget."""
        px = self._theme.px
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        bar = QRectF(0, 0, self.width(), px(_BAR))
        shape = QPainterPath()
        shape.addRoundedRect(bar, bar.height() / 2, bar.height() / 2)
        painter.save()
        painter.setClipPath(shape)
        painter.fillRect(bar, self._theme.colour("border"))
        left = 0.0
        for _, role, count in self.parts[:-1]:
            width = bar.width() * min(1.0, count / self._total) if self._total else 0.0
            painter.fillRect(QRectF(left, 0, width, bar.height()), self._theme.colour(role))
            left += width
        painter.restore()
        painter.setFont(self._theme.font(11))
        for (text, area), (_, role, _count) in zip(self._legend(self.width()), self.parts, strict=False):
            side = px(_SWATCH)
            swatch = QRectF(area.left(), px(_BAR) + area.top() + (area.height() - side) / 2, side, side)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._theme.colour(role))
            painter.drawRoundedRect(swatch, px(2), px(2))
            painter.setPen(self._theme.colour("muted"))
            words = area.translated(side + px(5), px(_BAR))
            painter.drawText(words, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()

    def _legend(self, width: int) -> list[tuple[str, QRect]]:
        """Return the words of the legend and their places below the bar."""
        if not self._total:
            return []
        texts = [f"{name} {count_text(count)}" for name, _, count in self.parts]
        placed = self._placed(texts, width)
        if placed[-1][1].top() > placed[0][1].top():  # what is free can be told from the rest
            placed = self._placed([*texts[:-1], self.parts[-1][0]], width)
        return placed

    def _placed(self, texts: list[str], width: int) -> list[tuple[str, QRect]]:
        px, placed = self._theme.px, list[tuple[str, QRect]]()
        metrics = self._metrics()
        left, top = 0, px(_GAP)
        for text in texts:
            size = px(_SWATCH) + px(5) + metrics.horizontalAdvance(text) + px(2)
            if left and left + size > width:
                left, top = 0, top + px(_ROW)
            placed.append((text, QRect(left, top, size, px(_ROW))))
            left += size + px(10)
        return placed

    def _metrics(self) -> QFontMetrics:
        return QFontMetrics(self._theme.font(11))

    def _on_theme_changed(self) -> None:
        self.updateGeometry()
        self.update()
