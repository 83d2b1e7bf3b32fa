"""ChatKeeping: opens the store of chats beside the window's thread, and tells when chats cannot be kept."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal

from app.desktop.bridge.background import Background
from app.desktop.session.chats import Chats
from app.desktop.widgets.notices import Notice
from app.errors import AppError, StoreLocked
from app.store import ChatStore

_KEY = "store"


class ChatKeeping(QObject):
    """Looks after the store for as long as the window lives.

    Signals:
        opened: the chats are there.
        unkept: a sentence; chats of this session are lost when the window closes.
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
        # The writer's thread tells of trouble; what follows happens on the window's.
        self._troubled.connect(self._on_troubled, Qt.ConnectionType.QueuedConnection)
        chats.recorder.failed.connect(self._on_failed)
        chats.recorder.recovered.connect(self._on_recovered)
        chats.read_failed.connect(self._on_failed)

    def open(self, path: Path, *, retention_days: float) -> None:
        """Open the store, or go on without one and say so."""
        self._background.run(
            lambda: ChatStore.open(path, on_trouble=self._troubled.emit, retention_days=retention_days),
            lambda found: self._on_opened(*found),
            self._on_not_opened,
        )

    def close(self) -> None:
        """Write what is still to be written, and close the store."""
        store = self._chats.recorder.store
        self._chats.recorder.close()
        if store is not None:
            store.close()

    def _on_opened(self, store: ChatStore, notices: tuple[str, ...]) -> None:
        self._chats.set_store(store)
        if notices:
            self._show_notice(Notice(key="store-opened", text=" ".join(notices)))
        if not store.is_kept:
            self.unkept.emit(self.tr("Chats are not kept"))
        self.opened.emit()

    def _on_not_opened(self, error: Exception) -> None:
        self._chats.recorder.give_up()
        self._show_error(error, self.tr("Chats of this session will be lost when the window closes."))
        self.unkept.emit(self.tr("Chats are not kept"))

    def _on_troubled(self, error: AppError) -> None:
        if isinstance(error, StoreLocked):  # it is waited for; everything else comes with the write that failed
            self._show_error(error, error.hint)

    def _on_failed(self, error: Exception) -> None:
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
