"""ChatKeeping: opens the store of chats beside the window's thread, and tells when chats cannot be kept."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal

from app.desktop.bridge.background import Background
from app.desktop.session.chats import Chats
from app.desktop.widgets.notices import Notice
from app.errors import AppError, StoreDamaged, StoreLocked
from app.store import ChatStore

_KEY = "store"
_OPEN_TIMEOUT_S = 10.0  # for a window that is closed while its chats are opened; they may be waiting for a lock


class ChatKeeping(QObject):
    """Looks after the store for as long as the window lives.

    Signals:
        opened: the chats are there.
        unkept: a sentence, as chats of this session are lost when the window closes; "" where they are kept.
    """

    opened = Signal()
    unkept = Signal(str)

    _troubled = Signal(object)

    def __init__(
        self,
        chats: Chats,
        background: Background,
        show_notice: Callable[[Notice], None],
        dismiss: Callable[[str], None],
    ) -> None:
        super().__init__(chats)
        self._chats = chats
        self._background = background
        self._show_notice = show_notice
        self._dismiss = dismiss
        self._again: Callable[[], None] | None = None
        self._is_mended = False
        self._told = ""  # why it could not be opened
        self._opening: Future[tuple[ChatStore, tuple[str, ...]]] | None = None
        # The writer's thread tells of trouble; what follows happens on the window's.
        self._troubled.connect(self._on_troubled, Qt.ConnectionType.QueuedConnection)
        chats.recorder.failed.connect(self._on_failed)
        chats.recorder.recovered.connect(self._on_recovered)
        chats.read_failed.connect(self._on_failed)

    def open(self, path: Path, *, retention_days: float) -> None:
        """Open the store, or go on without one and say so; what is said until it is open is written then."""
        opening: Future[tuple[ChatStore, tuple[str, ...]]] = Future()
        self._opening = opening
        self._again = again = lambda: self.open(path, retention_days=retention_days)
        damaged = self._chats.recorder.take_store()

        def call() -> tuple[ChatStore, tuple[str, ...]]:
            try:
                if damaged is not None:
                    damaged.close()
                found = ChatStore.open(path, on_trouble=self._on_trouble, retention_days=retention_days)
            except BaseException as error:
                opening.set_exception(error)
                raise
            opening.set_result(found)
            return found

        self._background.run(
            call,
            lambda found: self._on_opened(*found),
            lambda error: self._on_not_opened(error, again),
        )

    def close(self) -> None:
        """Write what is still to be written, and close the store, also one that is only being opened."""
        recorder = self._chats.recorder
        if recorder.store is None and self._opening is not None:
            try:
                recorder.set_store(self._opening.result(_OPEN_TIMEOUT_S)[0])
            except Exception:  # there is none, and that was said
                self._opening.add_done_callback(_close_late)
        recorder.close()
        if recorder.store is not None:
            recorder.store.close()

    def _on_opened(self, store: ChatStore, notices: tuple[str, ...]) -> None:
        self._dismiss(_KEY)
        self._chats.set_store(store, is_mended=self._is_mended)
        if notices:
            self._show_notice(Notice(key="store-opened", text=" ".join(notices)))
        if not store.is_kept:
            self.unkept.emit(self.tr("Chats are not kept"))
        else:
            self.unkept.emit("")
        self.opened.emit()

    def _on_not_opened(self, error: Exception, open_again: Callable[[], None]) -> None:
        lost = self.tr("Until they can be opened, chats of this session are lost when the window closes.")
        hint = " ".join(part for part in (getattr(error, "hint", ""), lost) if part)
        if self._told != str(error):
            self._told = str(error)
            self._show_error(error, hint, ((self.tr("Try again"), lambda: self._open_again(open_again)),))
        self.unkept.emit(self.tr("Chats are not kept"))
        if isinstance(error, StoreLocked):  # which took its time to be found out
            open_again()

    def _open_again(self, open_again: Callable[[], None]) -> None:
        self._told = ""
        if self._opening is None or self._opening.done():
            open_again()

    def _on_trouble(self, error: AppError) -> None:
        """Hear of trouble on the writer's thread, which may outlive this."""
        with contextlib.suppress(RuntimeError):
            self._troubled.emit(error)

    def _on_troubled(self, error: AppError) -> None:
        if isinstance(error, StoreLocked):  # it is waited for; everything else comes with the write that failed
            self._chats.recorder.note_trouble()
            self._show_error(error, error.hint)

    def _on_failed(self, error: Exception) -> None:
        if isinstance(error, StoreDamaged) and self._again is not None and not self._is_mended:
            self._is_mended = True  # once: a disk that does it again is beyond that
            self._again()
            return
        hint = getattr(error, "hint", "") or self.tr("The text is still here; it is saved once that works again.")
        actions = ((self.tr("Try again"), self._chats.recorder.try_again),)
        self._show_error(error, hint, actions)

    def _on_recovered(self) -> None:
        self._dismiss(_KEY)

    def _show_error(
        self, error: Exception, hint: str, actions: tuple[tuple[str, Callable[[], None]], ...] = ()
    ) -> None:
        fault = self.tr("The chats could not be read or saved because of a fault in Fireside.")
        text = error.message if isinstance(error, AppError) else fault
        self._show_notice(Notice(key=_KEY, text=text, hint=hint, is_error=True, actions=actions))


def _close_late(opening: Future[tuple[ChatStore, tuple[str, ...]]]) -> None:
    """Close a store that was opened after all, so that its lock is free."""
    if opening.exception() is None:
        opening.result()[0].close()
