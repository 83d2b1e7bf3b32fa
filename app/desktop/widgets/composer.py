"""Composer: where the message is written. It never loses text and never sends what an input method still composes."""

import collections
from collections.abc import Callable, Sequence

from PySide6.QtCore import QRect, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.desktop.session.message_queue import QueuedMessage
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.look import set_look
from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer_draft import Draft, can_be_edited, read_draft
from app.desktop.widgets.composer_text import ComposerText
from app.desktop.widgets.pasted_texts import PastedTexts
from app.desktop.widgets.queue_list import QueueList
from app.desktop.widgets.send_buttons import SendButtons
from app.desktop.widgets.sent_history import SentHistory
from app.desktop.widgets.token_count import TokenCount
from app.settings import SendKey

COUNT_DELAY_MS = 250
DRAFT_DELAY_MS = 500

_MIN_LINES = 2
_MAX_ROWS = 3
_NARROW = 480
_NUM_SENT_KEPT = 8


class Composer(QWidget):
    """The text, what waits and what was pasted above it, the model picker and the button that sends or stops.

    Args:
        left: stands at the left of the lower row.

    Signals:
        submitted: the message; also while a reply is in progress, when it is to be queued.
        stop_requested: stop the reply.
        page_requested: -1 or 1, scroll the conversation.
        queued_edit_requested: id of a queued message that is to be given back.
        queued_drop_requested: id of a queued message that is not to be sent.
        count_requested: the text whose tokens `show_count` is to tell; comes after a pause in typing.
        draft_changed: the string to keep for `set_draft`; comes a little after the changes.
        attach_requested: a file is to be chosen.
        edit_last_requested: Up was pressed in an empty composer.
    """

    submitted = Signal(object)  # str; Qt would copy megabytes into a string of its own
    stop_requested = Signal()
    page_requested = Signal(int)
    queued_edit_requested = Signal(str)
    queued_drop_requested = Signal(str)
    count_requested = Signal(object)
    draft_changed = Signal(object)
    attach_requested = Signal()
    edit_last_requested = Signal()

    def __init__(self, theme: Theme, left: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._is_busy = False
        self._send_key = SendKey.ENTER
        self._max_height = 400
        self._history = SentHistory()
        self._sent: collections.deque[Draft] = collections.deque(maxlen=_NUM_SENT_KEPT)
        self._counted: str | None = ""
        self._known_draft = ""
        self._count_timer = self._timer(COUNT_DELAY_MS, self._on_count_due)
        self._draft_timer = self._timer(DRAFT_DELAY_MS, self._emit_draft)
        self._frame = QFrame(self)
        self._frame.setObjectName("composerFrame")
        self._queue = QueueList(theme, self._frame)
        self._pasted = PastedTexts(theme, self._frame)
        self.text_edit = ComposerText(self._frame)
        self._count = TokenCount(self._frame)
        self._buttons = SendButtons(theme, self._frame)
        self._lower = QHBoxLayout()
        self._left = left
        attach = GlyphButton(theme, "clip", self.tr("Attach a text, code or PDF file"))
        attach.clicked.connect(self.attach_requested)
        for part in (attach, left, self._count, self._buttons):
            self._lower.addWidget(part, int(part is left))
        self._box = QVBoxLayout(self._frame)
        for row in (self._queue, self._pasted, self.text_edit):
            self._box.addWidget(row)
        self._box.addLayout(self._lower)
        self._connect()
        self.set_placeholder(self.tr("Message"))
        self._on_theme_changed()
        self._on_text_changed()

    def _connect(self) -> None:
        edit = self.text_edit
        edit.textChanged.connect(self._on_text_changed)
        edit.send_requested.connect(self.submit)
        edit.long_text_pasted.connect(lambda text: self._put_pasted((*self._pasted.texts, text)))
        edit.page_requested.connect(self.page_requested)
        edit.undo_requested.connect(self._on_undo)
        edit.redo_requested.connect(self._on_redo)
        edit.history_requested.connect(self._on_history)
        edit.edge_pressed.connect(self._on_edge)
        edit.focus_changed.connect(self._on_focus_changed)
        edit.rewrapped.connect(self._update_height)
        edit.document().undoCommandAdded.connect(self._pasted.forget_redo)
        self._pasted.changed.connect(self._on_rows_changed)
        self._pasted.show_requested.connect(self._on_show_pasted)
        self._pasted.change_requested.connect(self._on_change_pasted)
        self._queue.edit_requested.connect(self.queued_edit_requested)
        self._queue.drop_requested.connect(self.queued_drop_requested)
        self._buttons.stop_clicked.connect(self._on_stop)
        self._buttons.main_clicked.connect(self._on_button)
        self._theme.changed.connect(self._on_theme_changed)

    @property
    def button(self) -> QPushButton:
        """Sends, queues, or stops the reply."""
        return self._buttons.main

    @property
    def stop_button(self) -> QPushButton:
        """Stops the reply while the other one queues."""
        return self._buttons.stop

    @property
    def queue(self) -> QueueList:
        """The list of what waits."""
        return self._queue

    @property
    def token_count(self) -> TokenCount:
        """The line that tells the tokens."""
        return self._count

    @property
    def text(self) -> str:
        """The message as it would be sent: what was typed, then what was pasted beside it."""
        return self._parts.text

    @property
    def draft(self) -> str:
        """The message as one string for `set_draft`."""
        return self._parts.written

    @property
    def pasted(self) -> PastedTexts:
        """What is kept beside the text, documents among it."""
        return self._pasted

    @property
    def pasted_texts(self) -> tuple[str, ...]:
        """Long texts that are kept beside the edit."""
        return self._pasted.texts

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to send."""
        return self.text_edit.is_blank and self._pasted.is_blank

    @property
    def _parts(self) -> Draft:
        return Draft(self.text_edit.text, self._pasted.texts)

    def submit(self) -> None:
        """Send the message, unless it is blank."""
        if self.is_blank:
            return
        parts = self._parts
        self._sent.append(parts)
        self.clear()
        self.submitted.emit(parts.text)
        self.flush_draft()

    def clear(self) -> None:
        """Remove all text."""
        self._history.forget()
        self._pasted.reset(())
        self.text_edit.show_text("")

    def attach(self, documents: Sequence[str]) -> None:
        """Put documents beside the text, each as it stands in a message."""
        self._put_pasted((*self._pasted.texts, *documents))

    def give_back(self, text: str) -> None:
        """Put a refused or queued message back, above what was written meanwhile."""
        sent = next((parts for parts in reversed(self._sent) if parts.text == text), Draft(text))
        self._show_parts(sent.fitted().above(self._parts))
        self.text_edit.setFocus()

    def set_text(self, text: str, pasted: Sequence[str] = ()) -> None:
        """Show another message instead, which is no edit of the user's: it cannot be undone and is no new draft."""
        parts = Draft(text, tuple(pasted)).fitted()
        self._history.forget()
        self._counted = None  # the count is of another chat
        self.show_count(None)
        self._pasted.reset(parts.pasted)
        self.text_edit.show_text(parts.typed)
        self._on_text_changed()
        self._draft_timer.stop()
        self._known_draft = self.draft

    def set_draft(self, written: str) -> None:
        """Show the message that `draft` told; any other string is taken as its text."""
        self.set_text(*read_draft(written))

    def flush_draft(self) -> None:
        """Tell the draft now if it has changed; what an input method composes becomes part of it."""
        self.text_edit.finish_composing()
        self._emit_draft()

    def set_history(self, texts: Sequence[str]) -> None:
        """Take the sent messages of this chat, oldest first."""
        self._history.set_texts(texts)

    def set_queue(self, messages: Sequence[QueuedMessage]) -> None:
        """Show the messages that wait for the end of the reply."""
        had_focus = any(button.hasFocus() for button in self._queue.rows.buttons)
        self._queue.set_messages(messages)
        self._on_rows_changed()
        if had_focus and not messages:
            self.text_edit.setFocus()

    def show_count(
        self, num_tokens: int | None, *, num_over: int = 0, n_ctx: int = 0, is_alone_too_long: bool = False
    ) -> None:
        """Show how many tokens the text of `count_requested` makes; see TokenCount."""
        self._count.show_count(num_tokens, num_over=num_over, n_ctx=n_ctx, is_alone_too_long=is_alone_too_long)

    def set_placeholder(self, text: str) -> None:
        """Say what an empty composer is for."""
        self.text_edit.setPlaceholderText(text)

    def set_send_key(self, key: SendKey) -> None:
        """Choose the key that sends."""
        self._send_key = key
        self.text_edit.set_send_key(key)
        self._update_button()

    def set_busy(self, is_busy: bool) -> None:
        """Turn Send into Stop, or Queue where there is text, and back."""
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
        self._count.set_narrow(self.width() < self._theme.px(_NARROW))
        self._update_height()

    def _timer(self, delay_ms: int, call: Callable[[], None]) -> QTimer:
        timer = QTimer(self, singleShot=True, interval=delay_ms)
        timer.timeout.connect(call)
        return timer

    def _on_button(self) -> None:
        self.text_edit.finish_composing()
        if self._is_busy and self.is_blank:
            self.stop_requested.emit()
        else:
            self.submit()
        self.text_edit.setFocus()

    def _on_stop(self) -> None:
        self.stop_requested.emit()
        self.text_edit.setFocus()

    def _on_text_changed(self) -> None:
        self._update_button()
        self._update_height()
        if not self._draft_timer.isActive():
            self._draft_timer.start()
        if not self.is_blank:
            self._count_timer.start()
        else:
            self._count_timer.stop()
            self._on_count_due()

    def _on_rows_changed(self) -> None:
        self._order_tabs()
        self._on_text_changed()

    def _order_tabs(self) -> None:
        """Let Shift+Tab lead from the text up to the rows: new buttons stand at the end of the window's order."""
        last = self.text_edit.previousInFocusChain()
        for button in (*self._queue.rows.buttons, *self._pasted.buttons):
            if last is not None:
                QWidget.setTabOrder(last, button)
            last = button

    def _on_count_due(self) -> None:
        text = "" if self.is_blank else self.text
        if text != self._counted:
            self._counted = text
            self.count_requested.emit(text)

    def _emit_draft(self) -> None:
        self._draft_timer.stop()
        draft = self.draft
        if draft != self._known_draft:
            self._known_draft = draft
            self.draft_changed.emit(draft)

    def _update_button(self) -> None:
        is_blank = self.is_blank and not self.text_edit.is_composing
        self._buttons.show_state(is_busy=self._is_busy, is_blank=is_blank, send_key=self._send_key)

    def _put_pasted(self, texts: Sequence[str]) -> None:
        document = self.text_edit.document()
        document.setModified(False)  # typing after this is an edit of its own
        self._pasted.put(texts, num_edits=document.availableUndoSteps())

    def _show_parts(self, parts: Draft) -> None:
        """Show a message as a change that can be undone."""
        if parts.typed != self.text_edit.text:
            self.text_edit.replace_all(parts.typed)
        self._put_pasted(parts.pasted)

    def _on_show_pasted(self, number: int) -> None:
        texts = self._pasted.texts
        typed = self.text_edit.text
        wanted = "\n\n".join(part for part in (typed, texts[number]) if part)
        if can_be_edited(wanted):
            self._show_parts(Draft(wanted, texts[:number] + texts[number + 1 :]))
        self.text_edit.setFocus()

    def _on_change_pasted(self, texts: Sequence[str]) -> None:
        self._put_pasted(texts)
        self.text_edit.setFocus()

    def _on_undo(self) -> None:
        document = self.text_edit.document()
        if self._pasted.undo(document.availableUndoSteps()):
            document.setModified(False)
        else:
            self.text_edit.undo()

    def _on_redo(self) -> None:
        document = self.text_edit.document()
        if self._pasted.redo(document.availableUndoSteps()):
            document.setModified(False)
        else:
            self.text_edit.redo()

    def _on_history(self, direction: int) -> None:
        parts = self._history.step(direction, self._parts)
        if parts is not None:
            self._show_parts(parts)

    def _on_edge(self, direction: int) -> None:
        if self.text_edit.document().isEmpty() and not self._pasted.texts:
            if direction < 0:
                self.edit_last_requested.emit()
        elif self._history.is_unchanged(self.text):
            self._on_history(direction)

    def _on_focus_changed(self, has_focus: bool) -> None:
        set_look(self._frame, "focused", has_focus)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(14), px(12), px(10), px(10))
        self._box.setSpacing(px(8))
        self._lower.setSpacing(px(8))
        self._left.setMinimumWidth(px(60))  # it gives way to the buttons
        self._order_tabs()
        self._update_height()

    def _update_height(self) -> None:
        self.text_edit.ensurePolished()
        line = self.text_edit.fontMetrics().lineSpacing()
        for num_rows in range(_MAX_ROWS, 0, -1):
            around = self._height_around(num_rows)
            if around + line * _MIN_LINES <= self._max_height:
                break
        room = (self._max_height - around) // line  # whole lines, none is cut
        min_lines = _MIN_LINES if room >= _MIN_LINES else 1
        lines = max(min_lines, min(self.text_edit.num_visual_lines(max(min_lines, room)), room))
        text_height = line * lines + 2
        self.text_edit.setFixedHeight(text_height)
        self.setFixedHeight(around + text_height)

    def _height_around(self, num_rows: int) -> int:
        px = self._theme.px
        around = px(12) + px(8) + px(10) + self._lower.sizeHint().height() + 2
        for part in (self._queue, self._pasted):
            if not part.isHidden():
                part.set_max_rows(num_rows)
                around += part.sizeHint().height() + px(8)
        return around
