"""ChatRecorder: brings what happens in chats to the store, in order; what could not be written is tried again."""

import dataclasses
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from app.errors import StoreDamaged, StoreFull, StoreLocked, StoreReadOnly
from app.store import ChatStore

Write = Callable[[ChatStore], Future[Any] | None]

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(eq=False)
class _Sent:
    """A write on its way, or kept back.

    Attributes:
        number: grows with each write that is asked for.
        is_hopeful: it failed for a reason that goes away, as a full disk.
        num_failures: how often it failed for another one.
    """

    write: Write
    number: int
    is_hopeful: bool = False
    num_failures: int = 0


class ChatRecorder(QObject):
    """Takes writes before the store is open, and for as long as the window lives.

    Signals:
        recorded: something was asked to be written that the list of chats may show.
        failed: Exception; some writes are kept back until the next one, or `try_again`. Told once for each reason.
        recovered: everything that had been kept back is written.
        settled: nothing is on its way any more.
    """

    recorded = Signal()
    failed = Signal(object)
    recovered = Signal()
    settled = Signal()

    _ended = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store: ChatStore | None = None
        self._is_closed = False
        self._waiting: list[tuple[str, Write]] = []
        self._kept_back: list[_Sent] = []
        self._open: list[_Sent] = []
        self._number = 0
        self._is_troubled = False
        self._told = ""  # the reason that was told
        self._ended.connect(self._on_ended, Qt.ConnectionType.QueuedConnection)

    @property
    def store(self) -> ChatStore | None:
        """The store, once it is open."""
        return self._store

    @property
    def is_up_to_date(self) -> bool:
        """Whether all that happened is in a store."""
        return self._store is not None and not self._is_closed and not self._kept_back and not self._open

    def set_store(self, store: ChatStore, record: Callable[[], None] = lambda: None) -> None:
        """Write to a store from now on, beginning with what has been waiting for it.

        Args:
            record: writes what must be there before.
        """
        kept_back, self._kept_back = self._kept_back, []
        waiting, self._waiting = self._waiting, []
        self._store = store
        record()
        self._kept_back = kept_back
        self._send_kept_back()
        for key, write in waiting:
            self.write(write, key=key)

    def take_store(self) -> ChatStore | None:
        """Give the store away; what is written from now on waits for another one."""
        store, self._store = self._store, None
        return store

    def write(self, write: Write, *, is_listed: bool = True, key: str = "") -> None:
        """Ask the store for a change, after all that were asked for before.

        Args:
            is_listed: whether the list of chats may look different afterwards.
            key: of a change that takes the place of an earlier one of that key, and is worth no other try.
        """
        if self._is_closed:
            return
        if self._store is None:
            if key:
                self._waiting = [other for other in self._waiting if other[0] != key]
            self._waiting.append((key, write))
        else:
            if not key:
                self._send_kept_back()
            self._number += 1
            self._send(_Sent(write, self._number))
        if is_listed:
            self.recorded.emit()

    def try_again(self) -> None:
        """Send once more what could not be written, and tell if that fails again."""
        self._told = ""
        if self._store is not None:
            self._send_kept_back()

    def note_trouble(self) -> None:
        """Hear that a write has to wait; `recovered` tells when it did not wait in vain."""
        self._is_troubled = True

    def close(self) -> None:
        """Try a last time, and take no more writes; those that were sent are the store's to finish."""
        if self._store is not None:
            self._send_kept_back()
        self._is_closed = True

    def _send_kept_back(self) -> None:
        kept_back, self._kept_back = self._kept_back, []
        for sent in sorted(kept_back, key=lambda sent: sent.number):  # no write does harm when it is done twice
            self._send(sent)

    def _send(self, sent: _Sent) -> None:
        assert self._store is not None
        future = sent.write(self._store)
        if future is not None:
            self._open.append(sent)
            future.add_done_callback(lambda done: self._ended.emit(sent, done.exception()))

    def _on_ended(self, sent: _Sent, error: BaseException | None) -> None:
        self._open.remove(sent)
        is_follower = any(other.is_hopeful and other.number < sent.number for other in (*self._kept_back, *self._open))
        if error is not None:
            self._on_failed(sent, error, is_follower=is_follower)
        else:
            sent.is_hopeful = False
            if is_follower:  # it may have found nothing to change, because what it was for had not been written
                self._kept_back.append(sent)
        if self._open:
            return
        if self._kept_back and not any(other.is_hopeful for other in self._kept_back) and self._store is not None:
            self._send_kept_back()  # what they followed is written
        elif self._is_troubled and not self._kept_back:
            self._is_troubled, self._told = False, ""
            self.recovered.emit()
        self.settled.emit()

    def _on_failed(self, sent: _Sent, error: BaseException, *, is_follower: bool) -> None:
        _LOG.warning("a chat could not be saved: %s", error)
        sent.is_hopeful = _goes_away(error)
        sent.num_failures += not sent.is_hopeful and not is_follower
        if sent.num_failures > 1:
            self._is_troubled = bool(self._kept_back)  # it can never be written, and that was told
            return
        self._kept_back.append(sent)
        self._is_troubled = True
        if (sent.is_hopeful or not is_follower) and self._told != str(error):
            self._told = str(error)
            self.failed.emit(error)


def _goes_away(error: BaseException) -> bool:
    """Tell whether a write fails because of where it is written to, and not because of what it is."""
    is_of_disk = "SQLITE_IOERR" in getattr(error, "details", "")
    return isinstance(error, StoreFull | StoreReadOnly | StoreLocked | StoreDamaged | OSError) or is_of_disk
