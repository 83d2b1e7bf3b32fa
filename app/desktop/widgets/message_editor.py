"""MessageEditor: the text of a message, changed where it stands."""

from PySide6.QtCore import QCoreApplication, QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QLabel, QPlainTextEdit, QPushButton, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.key_names import key_name

_MAX_HEIGHT = 420


class _EditedText(QPlainTextEdit):
    """Plain text; Ctrl+Enter and Esc are its own and reach no shortcut of the window."""

    submitted = Signal()
    cancelled = Signal()

    def event(self, event: QEvent) -> bool:
        """See QObject."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and _is_own(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget."""
        if not _is_own(event):
            super().keyPressEvent(event)
        elif event.key() == Qt.Key.Key_Escape:
            self.cancelled.emit()
        else:
            self.submitted.emit()


class MessageEditor(QFrame):
    """A text field that grows with its text, and what ends the editing.

    Signals:
        submitted: the new text.
        cancelled: nothing is to change.
        height_changed: the height for the present width is another one.
    """

    submitted = Signal(str)
    cancelled = Signal()
    height_changed = Signal()

    def __init__(self, theme: Theme, text: str, *, is_reply: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._width = 0
        self._height = 0
        self.setObjectName("messageEditor")
        self._text = _EditedText(self)
        self._text.setObjectName("messageEditorText")
        self._text.setFrameShape(QFrame.Shape.NoFrame)
        self._text.setTabChangesFocus(True)
        self._text.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._text.document().setDocumentMargin(0)
        self._text.setPlainText(text)
        self._text.moveCursor(QTextCursor.MoveOperation.End)
        self._text.setAccessibleName(self.tr("Edit the reply") if is_reply else self.tr("Edit your message"))
        self._submit = QPushButton(self.tr("Save") if is_reply else self.tr("Send"), self)
        self._submit.setProperty("kind", "primary")
        key = key_name("Ctrl+Return")
        self._submit.setToolTip(key)
        self._cancel = QPushButton(self.tr("Cancel"), self)
        self._cancel.setProperty("kind", "outline")
        self._cancel.setToolTip(self.tr("Esc"))
        self._words = _hints(key, is_reply=is_reply)
        self._hint = QLabel(self)
        self._hint.setTextFormat(Qt.TextFormat.PlainText)
        self._hint.setProperty("role", "meta")
        self._text.textChanged.connect(self._on_text_changed)
        self._text.submitted.connect(self._on_submit)
        self._text.cancelled.connect(self.cancelled)
        self._submit.clicked.connect(self._on_submit)
        self._cancel.clicked.connect(self.cancelled)
        self.restyle()
        self._on_text_changed()

    @property
    def text_edit(self) -> QPlainTextEdit:
        """Where the text is changed."""
        return self._text

    @property
    def submit_button(self) -> QPushButton:
        """Ends the editing with the new text."""
        return self._submit

    @property
    def cancel_button(self) -> QPushButton:
        """Ends the editing without a change."""
        return self._cancel

    def fit(self, width: int) -> int:
        """Lay out for `width` and return the height."""
        px, self._width = self._theme.px, width
        pad = px(12)
        self._text.setGeometry(pad, px(10), width - 2 * pad, self._text.height())
        lines = max(2, round(self._text.document().size().height()))
        height = min(lines * self._text.fontMetrics().lineSpacing() + px(4), px(_MAX_HEIGHT))
        self._text.setGeometry(pad, px(10), width - 2 * pad, height)
        self._text.horizontalScrollBar().setValue(0)  # it has moved while there was no room for a word
        y = px(10) + height + px(8)
        x = width - pad
        line = 0
        for button in (self._submit, self._cancel):
            size = button.sizeHint()
            x -= size.width()
            button.setGeometry(x, y, size.width(), size.height())
            x, line = x - px(8), max(line, size.height())
        measure = self._hint.fontMetrics().horizontalAdvance
        self._hint.setText(next((words for words in self._words if measure(words) <= x - pad), ""))
        self._hint.setGeometry(pad, y, max(0, x - pad), line)
        self._height = y + line + px(10)
        return self._height

    def restyle(self) -> None:
        """Take the theme's present look."""
        font = self._theme.font(15)
        self._text.setFont(font)
        self._text.document().setDefaultFont(font)
        self._text.setTabStopDistance(4 * self._text.fontMetrics().horizontalAdvance(" "))

    def _on_text_changed(self) -> None:
        self._submit.setEnabled(bool(self._text.document().toPlainText().strip()))
        before = self._height
        if self._width and self.fit(self._width) != before:
            self.height_changed.emit()

    def _on_submit(self) -> None:
        text = exact_text(self._text)
        if text.strip():
            self.submitted.emit(text)


def exact_text(edit: QPlainTextEdit) -> str:
    """Return the text as it was typed: toPlainText would turn no-break blanks into blanks."""
    lines = []
    block = edit.document().begin()
    while block.isValid():
        lines.append(block.text().replace("\u2028", "\n"))
        block = block.next()
    return "\n".join(lines)


def _hints(key: str, *, is_reply: bool) -> tuple[str, ...]:
    """Return what is said beside the buttons, the longest first: the first that has room is shown."""
    if is_reply:
        keys, kept = _tr("{key} saves"), _tr("The reply before is kept as another version.")
    else:
        keys, kept = _tr("{key} sends"), _tr("The message before is kept as another version.")
    keys = keys.format(key=key)
    return f"{keys} · {kept}", keys


def _tr(text: str) -> str:
    return QCoreApplication.translate("MessageEditor", text)


def _is_own(event: QKeyEvent) -> bool:
    is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
    has_control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
    return event.key() == Qt.Key.Key_Escape or (is_enter and has_control)
