"""Composer: where the message is written. It never loses text and never sends what an input method still composes."""

from PySide6.QtCore import QMimeData, QRect, Qt, Signal
from PySide6.QtGui import QFocusEvent, QInputMethodEvent, QKeyEvent, QKeySequence, QResizeEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import has_visible_text
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import bytes_text, count_text
from engine import clean_text

# A text edit lays out long lines again at every key, which takes seconds beyond these.
MAX_PASTE_CHARS = 20_000
MAX_PASTE_LINE = 5_000

_MIN_LINES = 2


class ComposerText(QPlainTextEdit):
    """The text edit of the composer.

    Signals:
        send_requested: Enter was pressed outside of an input method.
        long_text_pasted: a text too long to be edited here.
        page_requested: -1 or 1, for the conversation.
        focus_changed: whether it has the focus.
        undo_exhausted, redo_exhausted: the key was pressed and the edit has nothing left.
    """

    send_requested = Signal()
    long_text_pasted = Signal(str)
    page_requested = Signal(int)
    focus_changed = Signal(bool)
    undo_exhausted = Signal()
    redo_exhausted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preedit = ""
        self.setObjectName("composerText")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabChangesFocus(True)
        self.setAccessibleName("Message")
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self.document().clearUndoRedoStacks()  # the margin is no edit of the user's

    @property
    def text(self) -> str:
        """The text exactly as typed; QTextDocument.toPlainText would turn no-break blanks into blanks."""
        lines = []
        block = self.document().begin()
        while block.isValid():
            lines.append(block.text())
            block = block.next()
        return clean_text("\n".join(lines))

    @property
    def is_blank(self) -> bool:
        """Whether a person would see nothing of the text."""
        block = self.document().begin()
        while block.isValid():
            if has_visible_text(block.text()):
                return False
            block = block.next()
        return True

    def num_visual_lines(self) -> int:
        """Return the lines on screen, wrapped ones counted."""
        return max(1, round(self.document().size().height()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget."""
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._on_enter(event)
        elif key in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            self.page_requested.emit(-1 if key == Qt.Key.Key_PageUp else 1)
        elif event.matches(QKeySequence.StandardKey.Undo) and not self.document().isUndoAvailable():
            self.undo_exhausted.emit()
        elif event.matches(QKeySequence.StandardKey.Redo) and not self.document().isRedoAvailable():
            self.redo_exhausted.emit()
        else:
            super().keyPressEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """See QWidget; remembers what the input method is composing."""
        self._preedit = event.preeditString()
        super().inputMethodEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """See QWidget."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """See QWidget; what an input method did not commit itself is kept as text."""
        if self._preedit:
            commit = QInputMethodEvent()
            commit.setCommitString(self._preedit)
            self.inputMethodEvent(commit)
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Take text only; dropped files are the window's."""
        return source.hasText() and not source.hasUrls()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Insert plain text; a very long one is kept beside."""
        text = source.text().replace("\r\n", "\n").replace("\r", "\n")
        is_long = len(text) > MAX_PASTE_CHARS or any(len(line) > MAX_PASTE_LINE for line in text.split("\n"))
        if is_long:
            self.long_text_pasted.emit(text)
        else:
            self.textCursor().insertText(text)
            self.ensureCursorVisible()

    def _on_enter(self, event: QKeyEvent) -> None:
        if self._preedit:
            event.ignore()  # the input method's key: it confirms a candidate
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.textCursor().insertBlock()
            self.ensureCursorVisible()
        elif not event.isAutoRepeat():
            self.send_requested.emit()


class Composer(QWidget):
    """Text, the model picker and the button that sends or stops.

    Args:
        left: stands at the left of the lower row.

    Signals:
        submitted: the message.
        stop_requested: stop the reply.
        page_requested: -1 or 1, scroll the conversation.
    """

    submitted = Signal(str)
    stop_requested = Signal()
    page_requested = Signal(int)

    def __init__(self, theme: Theme, left: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._is_busy = False
        self._max_height = 400
        self._pasted: list[str] = []
        self._sent: tuple[str, list[str]] = ("", [])  # what was typed and what was pasted of the last message
        self._removed: list[str] = []
        self._frame = QFrame(self)
        self._frame.setObjectName("composerFrame")
        self.text_edit = ComposerText(self._frame)
        self.text_edit.setPlaceholderText("Message")
        self._chips = QVBoxLayout()
        self._button = QPushButton("Send", self._frame)
        self._button.setProperty("kind", "primary")
        self._button.clicked.connect(self._on_button)
        self._lower = QHBoxLayout()
        self._lower.addWidget(left, 1)
        self._lower.addWidget(self._button)
        self._box = QVBoxLayout(self._frame)
        self._box.addLayout(self._chips)
        self._box.addWidget(self.text_edit)
        self._box.addLayout(self._lower)
        edit = self.text_edit
        edit.textChanged.connect(self._on_text_changed)
        edit.send_requested.connect(self.submit)
        edit.long_text_pasted.connect(self._on_long_paste)
        edit.page_requested.connect(self.page_requested)
        edit.undo_exhausted.connect(self._on_undo_exhausted)
        edit.redo_exhausted.connect(self._on_redo_exhausted)
        edit.focus_changed.connect(self._on_focus_changed)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self._on_text_changed()

    @property
    def button(self) -> QPushButton:
        """Sends, or stops the reply."""
        return self._button

    @property
    def text(self) -> str:
        """The message as it would be sent: what was typed, then what was pasted beside it."""
        typed = self.text_edit.text
        return "\n\n".join(part for part in (typed, *self._pasted) if part)

    @property
    def pasted_texts(self) -> tuple[str, ...]:
        """Long texts that are kept beside the edit."""
        return tuple(self._pasted)

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to send."""
        return self.text_edit.is_blank and not any(has_visible_text(text) for text in self._pasted)

    def submit(self) -> None:
        """Send the message, unless it is blank or a reply is in progress."""
        if self._is_busy or self.is_blank:
            return
        text = self.text
        self._sent = (self.text_edit.text, list(self._pasted))
        self.clear()
        self.submitted.emit(text)

    def clear(self) -> None:
        """Remove all text."""
        self._set_pasted([])
        self.text_edit.clear()

    def give_back(self, text: str) -> None:
        """Put a refused message back, above what was written meanwhile."""
        typed, pasted = self._sent
        if text != "\n\n".join(part for part in (typed, *pasted) if part):
            typed, pasted = text, []
        written, kept = self.text_edit.text, [*pasted, *self._pasted]
        self.clear()
        data = QMimeData()
        data.setText("\n\n".join(part for part in (typed, written) if part))
        self.text_edit.insertFromMimeData(data)
        self._set_pasted([*kept, *self._pasted])
        self.text_edit.moveCursor(QTextCursor.MoveOperation.End)
        self.text_edit.setFocus()

    def set_busy(self, is_busy: bool) -> None:
        """Turn Send into Stop and back."""
        self._is_busy = is_busy
        self._update_button()

    def set_max_height(self, height: int) -> None:
        """Limit the height of the whole composer."""
        if height != self._max_height:
            self._max_height = height
            self._update_height()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._frame.setGeometry(QRect(0, 0, self.width(), self.height()))
        self._update_height()

    def _on_button(self) -> None:
        if self._is_busy:
            self.stop_requested.emit()
        else:
            self.submit()
        self.text_edit.setFocus()

    def _on_text_changed(self) -> None:
        self._update_button()
        self._update_height()

    def _update_button(self) -> None:
        label = "Stop" if self._is_busy else "Send"
        self._button.setText(label)
        self._button.setToolTip("Stop the reply (Esc)" if self._is_busy else "Send (Enter)")
        self._button.setEnabled(self._is_busy or not self.is_blank)

    def _on_long_paste(self, text: str) -> None:
        self._removed = []
        self._set_pasted([*self._pasted, text])

    def _on_undo_exhausted(self) -> None:
        if self._pasted:
            self._removed.append(self._pasted[-1])
            self._set_pasted(self._pasted[:-1])

    def _on_redo_exhausted(self) -> None:
        if self._removed:
            self._set_pasted([*self._pasted, self._removed.pop()])

    def _set_pasted(self, texts: list[str]) -> None:
        self._pasted = texts
        while (item := self._chips.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        for number, text in enumerate(texts):
            self._chips.addWidget(self._chip(number, text))
        self._on_text_changed()

    def _chip(self, number: int, text: str) -> QWidget:
        px = self._theme.px
        chip = QFrame()
        chip.setObjectName("pasteChip")
        lines, size = text.count("\n") + 1, len(text.encode("utf-8", "surrogatepass"))
        plural = "" if lines == 1 else "s"
        label = QLabel(f"Pasted text · {count_text(lines)} line{plural} · {bytes_text(size)}")
        label.setProperty("role", "meta")
        remove = GlyphButton(self._theme, "close", "Remove the pasted text", size=22)
        remove.clicked.connect(lambda: self._set_pasted([t for i, t in enumerate(self._pasted) if i != number]))
        row = QHBoxLayout(chip)
        row.setContentsMargins(px(10), px(3), px(4), px(3))
        row.addWidget(label, 1)
        row.addWidget(remove)
        return chip

    def _on_focus_changed(self, has_focus: bool) -> None:
        self._frame.setProperty("focused", has_focus)
        self._frame.style().unpolish(self._frame)
        self._frame.style().polish(self._frame)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(14), px(12), px(10), px(10))
        self._box.setSpacing(px(8))
        self._chips.setSpacing(px(6))
        self._lower.setSpacing(px(8))
        self._update_height()

    def _update_height(self) -> None:
        self.text_edit.ensurePolished()
        line = self.text_edit.fontMetrics().lineSpacing()
        around = self._theme.px(12 + 8 + 10) + self._lower.sizeHint().height() + 2
        if self._pasted:
            around += self._chips.sizeHint().height() + self._theme.px(8)
        lines = max(_MIN_LINES, self.text_edit.num_visual_lines())
        text_height = max(line * 2, min(line * lines, self._max_height - around)) + 2
        self.text_edit.setFixedHeight(text_height)
        self.setFixedHeight(around + text_height)
