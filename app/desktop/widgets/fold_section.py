"""FoldSection: a part of the inspector under a head that opens and closes it."""

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.desktop.theme.glyphs import paint_glyph
from app.desktop.theme.theme import Theme


class SectionHead(QPushButton):
    """The title of a section, with a word about what is in it at the right."""

    def __init__(self, theme: Theme, title: str, parent: QWidget | None = None) -> None:
        super().__init__(title, parent)
        self._theme = theme
        self._summary = ""
        self.setCheckable(True)
        self.setProperty("kind", "section")
        self.setAccessibleDescription(self.tr("Shows or hides this section"))

    @property
    def summary(self) -> str:
        """What stands at the right."""
        return self._summary

    def set_summary(self, text: str) -> None:
        """Say at the right what is in the section."""
        self._summary = text
        self.setToolTip(text)
        self.update()

    def sizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(super().sizeHint().width(), self._theme.px(26))

    def minimumSizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(self._theme.px(60), self._theme.px(26))

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget; adds the glyph and the summary."""
        super().paintEvent(event)
        px = self._theme.px
        painter = QPainter(self)
        side = px(12)
        colour = self._theme.colour("text" if self.underMouse() else "muted")
        glyph = "chevron_down" if self.isChecked() else "chevron_right"
        paint_glyph(painter, glyph, QRectF(px(2), (self.height() - side) / 2, side, side), colour)
        if self._summary:
            left = px(20) + painter.fontMetrics().horizontalAdvance(self.text()) + px(18)
            font = self._theme.font(12)
            font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 0)  # else it takes that of the title
            painter.setFont(font)
            painter.setPen(self._theme.colour("muted"))
            area = QRect(left, 0, max(0, self.width() - left - px(4)), self.height())
            text = painter.fontMetrics().elidedText(self._summary, Qt.TextElideMode.ElideRight, area.width())
            painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()


class FoldSection(QWidget):
    """A head and what it opens.

    Args:
        key: what the settings call it.

    Signals:
        toggled: the user opened or closed it.
    """

    toggled = Signal()

    def __init__(self, theme: Theme, key: str, title: str, body: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.key = key
        self.body = body
        self.head = SectionHead(theme, title)
        self.head.setChecked(True)
        self.head.toggled.connect(self._on_toggled)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.addWidget(self.head)
        self._box.addWidget(body)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def is_open(self) -> bool:
        """Whether its body is shown."""
        return self.head.isChecked()

    def set_open(self, is_open: bool) -> None:
        """Open or close it without the user."""
        self.head.blockSignals(True)
        self.head.setChecked(is_open)
        self.head.blockSignals(False)
        self.body.setVisible(is_open)

    def _on_toggled(self, is_open: bool) -> None:
        self.body.setVisible(is_open)
        self.toggled.emit()

    def _on_theme_changed(self) -> None:
        self._box.setSpacing(self._theme.px(6))
        self.head.updateGeometry()
