"""ChatRecorder: brings what happens in chats to the store, in order; what could not be written is tried again."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from app.store import ChatStore

Write = Callable[[ChatStore], Future[Any] | None]

_LOG = logging.getLogger(__name__)


class ChatRecorder(QObject):
    """Takes writes before the store is open, and for as long as the window lives.

    Signals:
        recorded: something was asked to be written that the list of chats may show.
        failed: Exception; some writes are kept back until the next one, or `try_again`.
        recovered: everything that had been kept back is written.
    """

    recorded = Signal()
    failed = Signal(object)
    recovered = Signal()

    _ended = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store: ChatStore | None = None
        self._is_given_up = False
        self._waiting: list[Write] = []
        self._failed: list[Write] = []
        self._num_open = 0
        self._had_failed = False
        self._ended.connect(self._on_ended, Qt.ConnectionType.QueuedConnection)

    @property
    def store(self) -> ChatStore | None:
        """The store, once it is open."""
        return self._store

    @property
    def is_up_to_date(self) -> bool:
        """Whether all that happened was sent to a store and none of it is kept back."""
        return self._store is not None and not self._is_given_up and not self._failed

    @property
    def num_failed(self) -> int:
        """How many writes are kept back."""
        return len(self._failed)

    def set_store(self, store: ChatStore) -> None:
        """Write to a store from now on, beginning with what has been waiting for it."""
        self._store = store
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            self.write(write)

    def give_up(self) -> None:
        """Keep nothing: there is no store in this session."""
        self._is_given_up = True
        self._waiting = []

    def write(self, write: Write, *, is_listed: bool = True) -> None:
        """Ask the store for a change, after all that were asked for before.

        Args:
            is_listed: whether the list of chats may look different afterwards.
        """
        if self._store is None:
            if not self._is_given_up:
                self._waiting.append(write)
        elif not self._is_given_up:
            self.try_again()
            self._send(write)
        if is_listed:
            self.recorded.emit()

    def try_again(self) -> None:
        """Send once more what could not be written; each write does no harm when it is done twice."""
        failed, self._failed = self._failed, []
        for write in failed:
            self._send(write)

    def close(self) -> None:
        """Take no more writes; those that were sent are the store's to finish."""
        self._is_given_up = True

    def _send(self, write: Write) -> None:
        assert self._store is not None
        future = write(self._store)
        if future is not None:
            self._num_open += 1
            future.add_done_callback(lambda done: self._ended.emit(write, done.exception()))

    def _on_ended(self, write: Write, error: BaseException | None) -> None:
        self._num_open -= 1
        if error is not None:
            _LOG.warning("a chat could not be saved: %s", error)
            self._failed.append(write)
            self._had_failed = True
            self.failed.emit(error)
        elif self._had_failed and not self._failed and not self._num_open:
            self._had_failed = False
            self.recovered.emit()
