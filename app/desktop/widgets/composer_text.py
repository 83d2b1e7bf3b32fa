"""ComposerText: the text edit of the composer. It sends nothing that an input method still composes."""

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QInputMethodEvent,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
    QTextCursor,
)
from PySide6.QtWidgets import QFrame, QMenu, QPlainTextEdit, QWidget

from app.desktop.rendering.plain import has_visible_text
from app.desktop.widgets.composer_draft import MAX_EDIT_CHARS, MAX_EDIT_LINE_BYTES, MAX_EDIT_LINES, longest_line_bytes
from app.settings import SendKey
from engine import clean_text

# A longer paste is kept beside the text: it is material, and nobody reads it in so small a place.
MAX_PASTE_CHARS = 20_000
MAX_PASTE_LINE_BYTES = 5_000

_NUM_CHARS_TRIED = 256


class ComposerText(QPlainTextEdit):
    """The text edit of the composer.

    Signals:
        send_requested: the key that sends was pressed outside of an input method.
        long_text_pasted: a text too long to be edited here.
        page_requested: -1 or 1, for the conversation.
        focus_changed: whether it has the focus.
        undo_requested, redo_requested: the key was pressed.
        history_requested: -1 for an older message, 1 for a newer one.
        edge_pressed: an arrow key found no line to go to; -1 above the first, 1 below the last.
        rewrapped: the width changed, and with it maybe the number of lines.
    """

    send_requested = Signal()
    long_text_pasted = Signal(object)  # str; Qt would copy megabytes into a string of its own
    page_requested = Signal(int)
    focus_changed = Signal(bool)
    undo_requested = Signal()
    redo_requested = Signal()
    history_requested = Signal(int)
    edge_pressed = Signal(int)
    rewrapped = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preedit = ""
        self._send_key = SendKey.ENTER
        self.setObjectName("composerText")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabChangesFocus(True)
        self.setAccessibleName(self.tr("Message"))
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self.document().clearUndoRedoStacks()  # the margin is no edit of the user's

    @property
    def text(self) -> str:
        """The text exactly as typed; QTextDocument.toPlainText would turn no-break blanks into blanks."""
        return clean_text(self.document().toRawText().replace("\u2029", "\n"))

    @property
    def is_blank(self) -> bool:
        """Whether a person would see nothing of the text."""
        first = self.document().begin().text()[:_NUM_CHARS_TRIED]
        return not has_visible_text(first) and is_blank_text(self.document().toRawText())

    @property
    def is_composing(self) -> bool:
        """Whether an input method is in the middle of a text."""
        return bool(self._preedit)

    def set_send_key(self, key: SendKey) -> None:
        """Choose the key that sends."""
        self._send_key = key

    def num_visual_lines(self, limit: int) -> int:
        """Return the lines on screen, wrapped ones counted; at most `limit`, and no text after that is laid out."""
        num_lines = 0
        block = self.document().begin()
        while block.isValid() and num_lines < limit:
            self.blockBoundingRect(block)  # lays the block out
            num_lines += max(1, block.layout().lineCount())
            block = block.next()
        return max(1, min(num_lines, limit))

    def replace_all(self, text: str) -> None:
        """Put another text into the place of this one, as an edit that can be undone."""
        cursor = self.textCursor()
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        self.moveCursor(QTextCursor.MoveOperation.End)

    def show_text(self, text: str) -> None:
        """Show another text, which is no edit: nothing of the one before can be undone or composed further."""
        if self._preedit:
            QGuiApplication.inputMethod().reset()
            self._preedit = ""
        self.setPlainText(text)
        self.moveCursor(QTextCursor.MoveOperation.End)

    def finish_composing(self) -> None:
        """Take what an input method is composing as text."""
        if self._preedit:
            QGuiApplication.inputMethod().commit()
        self._commit_preedit()

    def event(self, event: QEvent) -> bool:
        """Leave the keys that go to the ends of a text to the conversation while there is no text."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            keys = (QKeySequence.StandardKey.MoveToStartOfDocument, QKeySequence.StandardKey.MoveToEndOfDocument)
            if self.document().isEmpty() and any(event.matches(key) for key in keys):
                event.ignore()
                return False
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget."""
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._on_enter(event)
        elif key in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            self.page_requested.emit(-1 if key == Qt.Key.Key_PageUp else 1)
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and not self._preedit:
            self._on_arrow(event, -1 if key == Qt.Key.Key_Up else 1)
        elif event.matches(QKeySequence.StandardKey.Undo):
            self.undo_requested.emit()
        elif event.matches(QKeySequence.StandardKey.Redo):
            self.redo_requested.emit()
        else:
            super().keyPressEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """See QWidget; remembers what the input method is composing."""
        self._preedit = event.preeditString()
        super().inputMethodEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """See QWidget."""
        menu = self.menu()
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(event.globalPos())

    def menu(self) -> QMenu:
        """Return the usual menu, in which undo and redo take what was pasted beside along."""
        menu = self.createStandardContextMenu()
        for name, signal in (("edit-undo", self.undo_requested), ("edit-redo", self.redo_requested)):
            usual = next((action for action in menu.actions() if action.objectName() == name), None)
            if usual is not None:
                action = QAction(usual.icon(), usual.text(), menu)
                action.triggered.connect(signal)
                menu.insertAction(usual, action)
                menu.removeAction(usual)
        return menu

    def focusInEvent(self, event: QFocusEvent) -> None:
        """See QWidget."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """See QWidget; what an input method did not commit itself is kept as text."""
        self._commit_preedit()
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.rewrapped.emit()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Take text only; dropped files are the window's."""
        return source.hasText() and not any(url.isLocalFile() for url in source.urls())

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Insert plain text; a very long one is kept beside."""
        text = source.text().replace("\r\n", "\n").replace("\r", "\n")
        if self._has_room_for(text):
            self.textCursor().insertText(text)
            self.ensureCursorVisible()
        else:
            self.long_text_pasted.emit(clean_text(text))

    def _has_room_for(self, text: str) -> bool:
        if len(text) > MAX_PASTE_CHARS or len(text) + self.document().characterCount() > MAX_EDIT_CHARS:
            return False
        lines = text.split("\n")
        longest = longest_line_bytes(lines)
        beside = longest_line_bytes((self.textCursor().block().text(),))
        return (
            longest <= MAX_PASTE_LINE_BYTES
            and longest + beside <= MAX_EDIT_LINE_BYTES
            and len(lines) + self.blockCount() <= MAX_EDIT_LINES
        )

    def _on_enter(self, event: QKeyEvent) -> None:
        modifiers = event.modifiers()
        if self._send_key is SendKey.ENTER:
            sends = not modifiers & Qt.KeyboardModifier.ShiftModifier
        else:  # Ctrl and Alt together are AltGr
            sends = bool(modifiers & Qt.KeyboardModifier.ControlModifier) and not (
                modifiers & Qt.KeyboardModifier.AltModifier
            )
        if self._preedit:
            event.ignore()  # the input method's key: it confirms a candidate
        elif not sends:
            self.textCursor().insertBlock()
            self.ensureCursorVisible()
        elif not event.isAutoRepeat():
            self.send_requested.emit()

    def _on_arrow(self, event: QKeyEvent, direction: int) -> None:
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if modifiers == Qt.KeyboardModifier.AltModifier:
            self.history_requested.emit(direction)
            return
        before = self.textCursor()
        super().keyPressEvent(event)
        event.accept()  # it ends here, also where there was no line to go to
        is_plain = modifiers == Qt.KeyboardModifier.NoModifier and not before.hasSelection()
        if is_plain and self.textCursor().position() == before.position():
            self.edge_pressed.emit(direction)

    def _commit_preedit(self) -> None:
        if self._preedit:
            commit = QInputMethodEvent()
            commit.setCommitString(self._preedit)
            self.inputMethodEvent(commit)


def is_blank_text(text: str) -> bool:
    """Tell whether a person would see nothing of a text of any length."""
    text = text.lstrip()
    return not has_visible_text(text[:_NUM_CHARS_TRIED]) and not has_visible_text("".join(set(text)))
