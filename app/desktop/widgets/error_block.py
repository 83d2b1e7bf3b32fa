"""ErrorBlock: an error where it happened, with what to do about it; never a dialog."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app.desktop.rendering.plain import shortened
from app.desktop.theme.theme import Theme
from app.desktop.widgets.plain_label import plain_label
from engine import ErrorInfo

_MAX_CHARS = 600


class ErrorBlock(QFrame):
    """One sentence what happened, one what to do, and the button that does it.

    Signals:
        retry_requested: ask again.
        load_requested: load the model again.
    """

    retry_requested = Signal()
    load_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("errorBlock")
        self._message = plain_label(role="error", parent=self, is_selectable=True)
        self._hint = plain_label(role="muted", parent=self, is_selectable=True)
        self._retry = QPushButton(self.tr("Retry"), self)
        self._load = QPushButton(self.tr("Load the model again"), self)
        self._details = ""
        self._copy = QPushButton(self.tr("Copy details"), self)
        self._copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._details))
        for button in (self._load, self._retry, self._copy):
            button.setProperty("kind", "outline")
        self._retry.clicked.connect(self.retry_requested)
        self._load.clicked.connect(self.load_requested)

    @property
    def message(self) -> str:
        """The sentence that is shown; empty while it is told elsewhere."""
        return "" if self._message.isHidden() else self._message.text()

    @property
    def retry_button(self) -> QPushButton:
        """Asks again."""
        return self._retry

    @property
    def load_button(self) -> QPushButton:
        """Loads the model again."""
        return self._load

    @property
    def copy_button(self) -> QPushButton:
        """Copies the evidence; visible where there is some."""
        return self._copy

    def show_error(self, error: ErrorInfo, *, can_load: bool, can_retry: bool, is_told: bool = False) -> None:
        """Show an error and the button that helps.

        Args:
            is_told: the crash card says what happened, so that only the button is needed here.
        """
        self._message.setText(shortened(error.message, _MAX_CHARS))
        self._hint.setText(shortened(error.hint, _MAX_CHARS))
        self._message.setVisible(not is_told)
        self._hint.setVisible(bool(error.hint) and not is_told)
        self._details = error.details
        self._copy.setVisible(bool(error.details) and not is_told)
        self._load.setVisible(can_load)
        self._retry.setVisible(can_retry and not can_load)

    def fit(self, width: int) -> int:
        """Lay out for `width` and return the height."""
        px = self._theme.px
        pad = px(14)
        inner = width - 2 * pad
        y = px(10)
        for label in (self._message, self._hint):
            if not label.isHidden():
                height = label.heightForWidth(inner)
                label.setGeometry(pad, y, inner, height)
                y += height + px(4)
        x, row_height = pad, 0
        for button in (self._load, self._retry, self._copy):
            if not button.isHidden():
                size = button.sizeHint()
                if x > pad and x + size.width() > width - pad:
                    x, y = pad, y + row_height + px(6)
                button.setGeometry(x, y + px(4), min(size.width(), inner), size.height())
                x, row_height = x + size.width() + px(8), size.height()
        if row_height:
            y += row_height + px(8)
        return y + px(8)
