"""KeptPrompts: what the engine keeps of the chats' text that it has read, as the user wants it."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.cache_limits import cache_params
from app.desktop.bridge.background import Background
from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.chats import Chats
from app.desktop.session.model_session import ModelSession
from app.desktop.session.user_settings import UserSettings
from app.store import ChatStore
from engine import CacheDescribed, ErrorInfo, ModelDescription

_FLUSH_S = 1.0
_DAY_MS = 24 * 3600 * 1000
_SETTINGS = ("chat_memory_mib", "chat_disk_mib", "response_cache")


class KeptPrompts(QObject):
    """Sets the limits, has chats read when they are opened, and has everything dropped that is to be kept no more.

    The store notes of which chats something is to be dropped, and that it was only when the engine has answered: what
    is deleted while no engine runs, or as the window closes, is dropped after the next start.

    Args:
        folder: where the engine may write; empty is nowhere.
        background: where the store is read, one call after the other.

    Signals:
        described: CacheDescribed; None where no engine could tell.
        refused: ErrorInfo: nothing is kept on disk; told once.
    """

    described = Signal(object)
    refused = Signal(object)

    def __init__(
        self,
        bridge: EngineBridge,
        *,
        model: ModelSession,
        chats: Chats,
        settings: UserSettings,
        folder: str,
        background: Background,
    ) -> None:
        super().__init__(bridge)
        self._bridge = bridge
        self._model = model
        self._chats = chats
        self._settings = settings
        self._folder = folder
        self._background = background
        self._dropping: dict[str, list[str]] = {}  # request -> the chats that are dropped when it is answered
        self._is_refusal_told = False
        self._daily = QTimer(self)  # as chats in the trash are purged in a window that stays open
        self._daily.setInterval(_DAY_MS)
        self._daily.timeout.connect(self.drop_purged)
        bridge.cache_described.connect(self._on_described)
        bridge.cache_not_described.connect(self._on_not_described)
        bridge.cache_refused.connect(self._on_refused)
        settings.changed.connect(self._on_setting_changed)
        chats.current_changed.connect(self._open_current)
        chats.private_closed.connect(lambda chat_id: bridge.forget_chats((chat_id,)))
        model.loaded.connect(self._on_loaded)
        bridge.set_cache(cache_params(settings.now, folder))

    def describe(self) -> None:
        """Ask what is kept."""
        self._bridge.describe_cache()

    def clear(self) -> None:
        """Drop everything, and tell what is kept then."""
        self._bridge.describe_cache(clears=True)

    def forget(self, chat_id: str) -> None:
        """Drop what is kept of a chat; the chat itself stays."""
        if self._chats.recorder.store is None:
            self._bridge.forget_chats((chat_id,))
            return
        self._chats.recorder.write(lambda store: store.note_purged(chat_id), is_listed=False)
        self.drop_purged()

    def forget_named(self, name: str) -> None:
        """Drop what is kept under a name, and tell what is kept then."""
        self._bridge.forget_named((name,))
        self.describe()

    def drop_purged(self) -> None:
        """Drop what is kept of chats that were deleted for good, and of those with such messages."""
        store = self._chats.recorder.store
        if store is not None:
            if not self._daily.isActive():
                self._daily.start()
            self._background.run(lambda: _read_purged(store), self._drop, lambda error: None)  # the next start tries

    def _drop(self, chat_ids: Sequence[str]) -> None:
        if chat_ids:
            self._bridge.forget_chats(chat_ids)
            self._dropping[self._bridge.describe_cache()] = list(chat_ids)

    def _on_described(self, event: CacheDescribed) -> None:
        dropped = self._dropping.pop(event.request_id, None)
        if dropped is not None:
            self._chats.recorder.write(lambda store: store.forget_purged(dropped), is_listed=False)
        self.described.emit(event)

    def _on_not_described(self, request_id: str) -> None:
        self._dropping.pop(request_id, None)
        self.described.emit(None)

    def _on_refused(self, error: ErrorInfo) -> None:
        if not self._is_refusal_told:  # an engine that is started anew tells it again
            self._is_refusal_told = True
            self.refused.emit(error)

    def _on_setting_changed(self, name: str) -> None:
        if name in _SETTINGS:
            self._bridge.set_cache(cache_params(self._settings.now, self._folder))
            self.describe()

    def _on_loaded(self, _: ModelDescription) -> None:
        self.drop_purged()  # by an engine that may have been started anew
        self._open_current()

    def _open_current(self) -> None:
        """Have the shown chat read, if there is a model to read it for."""
        chat = self._chats.current.chat
        if chat.is_begun and not chat.is_private and self._model.description is not None:
            self._bridge.open_chat(chat.id)


def _read_purged(store: ChatStore) -> list[str]:
    """Read which chats are to be dropped, with all that was asked to be written before; beside the window's thread."""
    store.flush(_FLUSH_S)
    return store.list_purged()
