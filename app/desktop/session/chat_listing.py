"""ChatListing: the rows of the list of chats, read beside the window's thread each time that chats change."""

import logging
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.desktop.bridge.background import Background
from app.desktop.session.chat_recorder import ChatRecorder
from app.desktop.session.recorded_chat import RecordedChat
from app.store import Chat, ChatRow, ChatStore

_LOG = logging.getLogger(__name__)
_LIST_MS = 150
_FLUSH_S = 1.0


class ChatListing(QObject):
    """Reads the list a moment after the last change.

    Args:
        begun: gives the chats in memory that a person has begun and not deleted, the oldest first.

    Signals:
        rows_changed: sequence of ChatRow; private chats, which no store has, come first.
        read_failed: Exception.
    """

    rows_changed = Signal(object)
    read_failed = Signal(object)

    def __init__(
        self,
        recorder: ChatRecorder,
        background: Background,
        begun: Callable[[], Sequence[RecordedChat]],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._recorder = recorder
        self._background = background
        self._begun = begun
        self._is_old = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_LIST_MS)
        self._timer.timeout.connect(self.read)
        recorder.recorded.connect(self.note_change)
        recorder.settled.connect(self._on_settled)

    def note_change(self) -> None:
        """Read the list soon."""
        if not self._timer.isActive():
            self._timer.start()

    def read(self) -> None:
        """Read the list now."""
        store = self._recorder.store

        def show(found: tuple[bool, list[ChatRow]]) -> None:
            is_new, rows = found
            self._is_old = not is_new
            self.rows_changed.emit([*self._rows(is_private=True), *rows])

        if store is None:
            self.rows_changed.emit([*self._rows(is_private=True), *self._rows(is_private=False)])
        else:
            self._background.run(lambda: (flush(store), store.list_chats()), show, self._on_read_failed)

    def _rows(self, *, is_private: bool) -> list[ChatRow]:
        return [chat.row() for chat in self._begun() if chat.is_private is is_private][::-1]

    def _on_settled(self) -> None:
        if self._is_old:
            self.note_change()

    def _on_read_failed(self, error: Exception) -> None:
        _LOG.warning("the chats could not be listed", exc_info=error)
        self.read_failed.emit(error)


def flush(store: ChatStore) -> bool:
    """Wait for what was asked to be written, but not for long: a lock from outside keeps nobody from reading."""
    try:
        store.flush(_FLUSH_S)
    except TimeoutError:
        return False
    return True


def read_chat(store: ChatStore, recorder: ChatRecorder, chat_id: str) -> tuple[RecordedChat, str] | None:
    """Read a chat and its draft, with all that was asked to be written of it; runs beside the window's thread."""
    flush(store)
    chat: Chat | None = store.load_chat(chat_id)
    if chat is None or chat.row.deleted_at is not None:
        return None
    return RecordedChat(recorder, chat), store.load_draft(chat_id)
