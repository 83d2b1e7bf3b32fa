"""TokenCounts: how many tokens the chat and what is typed would make, counted by the engine; only the latest counts."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelSession
from engine import ChatMessage, Role

# Above this a chat is not counted anew at each pause in typing: what its last reply told of it is taken.
_MAX_CHARS = 200_000


class DraftCount(NamedTuple):
    """What a message would come to.

    Attributes:
        num_tokens: of the whole prompt with it.
        n_ctx: what the model can hold.
        is_alone_too_long: whether the message does not fit even without earlier turns.
    """

    num_tokens: int
    n_ctx: int
    is_alone_too_long: bool


class TokenCounts(QObject):
    """Asks the engine.

    Signals:
        draft_counted: DraftCount, or None where there is nothing to count with.
        system_counted: tokens of the system prompt, or None.
    """

    draft_counted = Signal(object)
    system_counted = Signal(object)

    def __init__(self, bridge: EngineBridge, model: ModelSession) -> None:
        super().__init__(bridge)
        self._bridge = bridge
        self._model = model
        self._draft_id: str | None = None
        self._alone_id: str | None = None
        self._system_id: str | None = None
        self._before = 0  # tokens of the chat that were not counted anew
        self._counted = 0
        self._alone: list[ChatMessage] = []
        self._conversation: Conversation | None = None
        bridge.counted.connect(self._on_counted)
        bridge.count_failed.connect(self._on_failed)

    def count_draft(self, conversation: Conversation, text: str) -> None:
        """Count a chat with a message at its end."""
        self._draft_id = self._alone_id = None
        if self._model.description is None or not text.strip() or not conversation.has_model:
            self.draft_counted.emit(None)
            return
        messages = conversation.messages(draft=text)
        system = [message for message in messages[:1] if message.role is Role.SYSTEM]
        self._alone = [*system, ChatMessage(Role.USER, text)]
        self._before = 0
        reply = conversation.last_reply
        is_long = sum(len(message.content) for message in messages) > _MAX_CHARS
        if is_long and reply is not None and reply.metrics is not None:
            self._before = reply.metrics.num_prompt_tokens + reply.metrics.num_generated_tokens
            messages = self._alone[-1:]
        self._conversation = conversation
        self._draft_id = self._ask(messages)

    def count_system(self, conversation: Conversation) -> None:
        """Count the system prompt of a chat."""
        self._system_id = None
        text = conversation.settings.system_prompt
        if self._model.description is None or not text.strip():
            self.system_counted.emit(0 if self._model.description is not None else None)
            return
        self._conversation = conversation
        self._system_id = self._ask([ChatMessage(Role.SYSTEM, text)])

    def _ask(self, messages: Sequence[ChatMessage]) -> str | None:
        assert self._conversation is not None
        return self._bridge.count_tokens(messages, self._conversation.prompt_options())

    def _on_counted(self, request_id: str, num_tokens: int) -> None:
        description = self._model.description
        if description is None:
            return
        if request_id == self._system_id:
            self.system_counted.emit(num_tokens)
        elif request_id == self._draft_id:
            self._counted = self._before + num_tokens
            if self._counted > description.n_ctx:
                self._alone_id = self._ask(self._alone)
            else:
                self.draft_counted.emit(DraftCount(self._counted, description.n_ctx, is_alone_too_long=False))
        elif request_id == self._alone_id:
            is_too_long = num_tokens >= description.n_ctx
            self.draft_counted.emit(DraftCount(self._counted, description.n_ctx, is_too_long))

    def _on_failed(self, request_id: str, _: object) -> None:
        if request_id in (self._draft_id, self._alone_id):
            self.draft_counted.emit(None)
        elif request_id == self._system_id:
            self.system_counted.emit(None)
