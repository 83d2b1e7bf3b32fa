"""CrashCard: the engine ended unexpectedly: what happened, what is kept, and the ways on; calm, and never a dialog."""

import signal
from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.desktop.rendering.plain import shortened
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.fold_head import FoldHead
from app.desktop.widgets.plain_label import plain_label
from engine import ErrorInfo

_MAX_CHARS = 600
_MAX_LOG_LINES = 200
_MAX_LINE_CHARS = 2000
_LOG_HEIGHT = 140


class CrashCard(QFrame):
    """Stands in the place of a notice while the engine is dead.

    Signals:
        load_requested: load the model again; whether with safer settings.
    """

    load_requested = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._details = ""
        self.setObjectName("crashCard")
        self.setAccessibleName(self.tr("The engine ended"))
        self._message = plain_label(role="error", is_selectable=True)
        self._hint = plain_label(role="muted", is_selectable=True)
        self._end = plain_label(role="meta", is_selectable=True)
        self.load_button = QPushButton(self.tr("Load again"))
        self.load_button.setProperty("kind", "primary")
        self.safer_button = QPushButton(self.tr("Load with safer settings"))
        self.safer_button.setToolTip(self.tr("A smaller context, and the processor alone: slower, but safer"))
        self.copy_button = QPushButton(self.tr("Copy details"))
        self.log_button = FoldHead(theme)
        self.log_button.setText(self.tr("Last log lines"))
        self._log = QPlainTextEdit()
        self._log.setObjectName("crashLog")
        self._log.setReadOnly(True)
        self._log.setTabChangesFocus(True)
        self._log.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._log.setAccessibleName(self.log_button.text())
        self.close_button = GlyphButton(theme, "close", self.tr("Dismiss"), size=24)
        self._build()
        self.load_button.clicked.connect(lambda: self.load_requested.emit(False))
        self.safer_button.clicked.connect(lambda: self.load_requested.emit(True))
        self.copy_button.clicked.connect(self._copy)
        self.close_button.clicked.connect(self.hide)
        self.log_button.toggled.connect(self._log.setVisible)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self.hide()

    @property
    def text(self) -> str:
        """What happened and what to do, for a screen reader."""
        return " ".join(label.text() for label in (self._message, self._hint))

    @property
    def details(self) -> str:
        """What is copied."""
        return self._details

    def show_death(self, error: ErrorInfo, exit_code: int | None, log_tail: Sequence[str]) -> None:
        """Tell of the end of the engine.

        Args:
            exit_code: of the process, negative for a signal; None where it is not known.
            log_tail: its last lines, oldest first.
        """
        message, hint = shortened(error.message, _MAX_CHARS), shortened(error.hint, _MAX_CHARS)
        kept = self.tr("Your text is kept.")
        end = self._end_text(exit_code)
        lines = [shortened(line.rstrip("\r\n"), _MAX_LINE_CHARS) for line in log_tail[-_MAX_LOG_LINES:]]
        self._message.setText(message)
        self._hint.setText(f"{kept} {hint}".strip())
        self._end.setText(end)
        self._end.setVisible(bool(end) and not _names_end(message, exit_code))
        self._log.setPlainText("\n".join(lines))
        self.log_button.setChecked(False)
        self.log_button.setVisible(bool(lines))
        self._log.hide()
        self._details = "\n".join(part for part in (error.message, error.hint, end, error.details, *lines) if part)
        self.copy_button.setText(self.tr("Copy details"))
        self.show()

    def fit(self, width: int) -> None:
        """Put the buttons in a row, or below each other where they are too wide for one."""
        buttons = (self.load_button, self.safer_button, self.copy_button)
        needed = sum(button.sizeHint().width() for button in buttons) + 2 * self._theme.px(8)
        down, beside = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        margins = self._body.contentsMargins()
        room = width - margins.left() - margins.right()
        self._buttons.setDirection(down if needed > room else beside)
        self.safer_button.setText(self.tr("Load with safer settings"))
        if self.safer_button.sizeHint().width() > room:
            self.safer_button.setText(_in_two_lines(self.safer_button.text()))

    def _build(self) -> None:
        self._buttons = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        for button in (self.safer_button, self.copy_button):
            button.setProperty("kind", "outline")
        for button in (self.load_button, self.safer_button, self.copy_button):
            self._buttons.addWidget(button)
        self._buttons.addStretch()
        self._body = QVBoxLayout(self)
        head = QHBoxLayout()
        head.addWidget(self._message, 1)
        head.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        self._body.addLayout(head)
        self._body.addWidget(self._hint)
        self._body.addWidget(self._end)
        self._body.addLayout(self._buttons)
        self._body.addWidget(self.log_button)
        self._body.addWidget(self._log)

    def _end_text(self, exit_code: int | None) -> str:
        if exit_code is None:
            return ""
        if exit_code >= 0:
            return self.tr("Exit code {code}").format(code=exit_code)
        number = -exit_code
        try:
            name = signal.Signals(number).name
        except ValueError:
            return self.tr("Ended by signal {number}").format(number=number)
        return self.tr("Ended by signal {number} ({name})").format(number=number, name=name)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._details)
        self.copy_button.setText(self.tr("Copied"))

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._body.setContentsMargins(px(14), px(8), px(8), px(10))
        self._body.setSpacing(px(4))
        self._buttons.setSpacing(px(8))
        self._buttons.setContentsMargins(0, px(6), 0, 0)
        self.log_button.setFixedHeight(px(26))
        self._log.setFixedHeight(px(_LOG_HEIGHT))
        self._log.setFont(self._theme.code_font())


def _names_end(message: str, exit_code: int | None) -> bool:
    """Tell whether a message says already which signal ended the process."""
    if exit_code is None or exit_code >= 0:
        return False
    return any(number.value == -exit_code and number.name in message for number in signal.Signals)


def _in_two_lines(text: str) -> str:
    middle = min(
        (at for at, letter in enumerate(text) if letter == " "), key=lambda at: abs(at - len(text) // 2), default=0
    )
    return f"{text[:middle]}\n{text[middle + 1 :]}" if middle else text
