"""SystemPromptEdit: where the system prompt of a chat is written."""

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme

_DELAY_MS = 400
_MIN_LINES = 3
_MAX_LINES = 10


class SystemPromptEdit(QWidget):
    """A field that grows by some lines.

    Signals:
        changed: the text, some moments after the last key or when the focus leaves.
    """

    changed = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._told = ""
        self.edit = QPlainTextEdit()
        self.edit.setObjectName("systemPrompt")
        self.edit.setPlaceholderText(self.tr("What the model should know, and how it should answer in this chat"))
        self.edit.setAccessibleName(self.tr("System prompt of this chat"))
        self.edit.setTabChangesFocus(True)
        self.edit.installEventFilter(self)
        note = QLabel(self.tr("After a change, the model reads the chat anew."))
        note.setProperty("role", "meta")
        note.setWordWrap(True)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(theme.px(4))
        box.addWidget(self.edit)
        box.addWidget(note)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_DELAY_MS)
        self._timer.timeout.connect(self.flush)
        self.edit.textChanged.connect(self._on_text_changed)
        # Afterwards: while the panel is laid out, another height would be lost.
        self._fit_timer = QTimer(self)
        self._fit_timer.setSingleShot(True)
        self._fit_timer.timeout.connect(self._fit)
        self.edit.document().documentLayout().documentSizeChanged.connect(lambda: self._fit_timer.start())
        theme.changed.connect(self._fit)
        self._fit()

    @property
    def text(self) -> str:
        """What is written."""
        return self.edit.toPlainText()

    def set_text(self, text: str) -> None:
        """Show the system prompt of a chat; what was not told of yet is forgotten: `flush` before another chat."""
        self._told = text
        if text != self.text:
            self.edit.setPlainText(text)
        self._timer.stop()

    def flush(self) -> None:
        """Tell of a change now."""
        self._timer.stop()
        if self.text != self._told:
            self._told = self.text
            self.changed.emit(self._told)

    def eventFilter(self, watched: object, event: QEvent) -> bool:
        """Tell of a change when the focus leaves."""
        if event.type() == QEvent.Type.FocusOut:
            self.flush()
        return False

    def _on_text_changed(self) -> None:
        self._timer.start()

    def _fit(self) -> None:
        line = self.edit.fontMetrics().lineSpacing()
        count = round(self.edit.document().size().height())  # of a plain text edit, in lines
        lines = min(max(count, _MIN_LINES), _MAX_LINES)
        is_cut = count > _MAX_LINES
        self.edit.setVerticalScrollBarPolicy(
            Qt.ScrollBarPolicy.ScrollBarAsNeeded if is_cut else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        )
        frame = self.edit.height() - self.edit.viewport().height()
        margins = self._theme.px(2) + frame + 2 * round(self.edit.document().documentMargin())
        self.edit.setFixedHeight(lines * line + margins)
