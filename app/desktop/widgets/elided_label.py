"""ElidedLabel: one line of plain text that ends in an ellipsis where there is no room for all of it."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget


class ElidedLabel(QLabel):
    """One line, cut at the end where there is no room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        # At the left whatever the language: the line belongs to the window, not to the text.
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter)
        self._whole = ""

    @property
    def whole(self) -> str:
        """The text, cut or not."""
        return self._whole

    def set_whole(self, text: str) -> None:
        """Show a text."""
        self._whole = text
        self._elide()

    def minimumSizeHint(self) -> QSize:
        """See QWidget; it may become as narrow as need be."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        self.setText(self.fontMetrics().elidedText(self._whole, Qt.TextElideMode.ElideRight, self.width()))
