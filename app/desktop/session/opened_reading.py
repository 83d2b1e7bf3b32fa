"""OpenedReading: the chat that is shown is read by the model before anything is asked, once it is shown a while."""

from PySide6.QtCore import QObject, QTimer

from app.desktop.session.chats import Chats
from app.desktop.session.model_session import ModelSession
from app.desktop.session.preparing import Preparing
from engine import Role

_SETTLE_MS = 1000  # who looks through chats has gone on by then, and what is kept of the chat is back


class OpenedReading(QObject):
    """Has the shown chat read where it ends with a reply; the engine reads what it does not have yet.

    Args:
        preparing: asks for it, and shows how far it is.
    """

    def __init__(self, preparing: Preparing, *, model: ModelSession, chats: Chats) -> None:
        super().__init__(preparing)
        self._preparing = preparing
        self._chats = chats
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_SETTLE_MS)
        self._timer.timeout.connect(self.begin)
        chats.current_changed.connect(self._on_changed)
        model.loaded.connect(self._on_changed)

    def _on_changed(self, *_: object) -> None:
        self._preparing.stop_quietly()
        self._timer.start()

    def begin(self) -> None:
        """Have the shown chat read."""
        conversation = self._chats.current
        chat, messages = conversation.chat, conversation.messages()
        is_answered = bool(messages) and messages[-1].role is Role.ASSISTANT
        if is_answered and chat.is_begun and not conversation.is_busy and conversation.may_be_read:
            self._preparing.begin_quietly(conversation)
