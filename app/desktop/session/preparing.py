"""Preparing: the beginning of a chat's next prompt, read by the model before the question is sent."""

import enum
import uuid
from collections import OrderedDict
from typing import Any, NamedTuple

import msgspec
from PySide6.QtCore import QObject, Signal

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.chat_adapters import engine_adapters, made_with
from app.desktop.session.chats import Chats
from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelSession, ModelState
from engine import CacheDescribed, Failed, PrefillProgress, Prepare, PrepareCancelled, Prepared, Role

_MAX_KNOWN = 32
_FEW_TOKENS = 256  # are read in a moment


class ReadingState(enum.Enum):
    """How far the reading of a beginning is."""

    NONE = "none"
    LOADING = "loading"  # the model is not there yet
    WAITING = "waiting"  # for a reply to end
    READING = "reading"
    DONE = "done"


class Reading(NamedTuple):
    """What is known of the reading of a beginning; the counts are 0 until they are known."""

    state: ReadingState
    num_done: int = 0
    num_tokens: int = 0


class Preparing(QObject):
    """Asks the engine, for one beginning at a time, and remembers which were read since the model was loaded.

    Signals:
        changed: `reading` may tell something else.
        failed: ErrorInfo.
    """

    changed = Signal()
    failed = Signal(object)

    def __init__(self, bridge: EngineBridge, *, model: ModelSession, chats: Chats) -> None:
        super().__init__(bridge)
        self._bridge = bridge
        self._model = model
        self._chats = chats
        self._order: Prepare | None = None
        self._conversation: Conversation | None = None  # whose model is waited for
        self._progress: PrefillProgress | None = None
        self._done: OrderedDict[Any, Prepared] = OrderedDict()  # by what was to be read
        bridge.prefill_progressed.connect(self._on_progressed)
        bridge.prepare_ended.connect(self._on_ended)
        bridge.cache_described.connect(self._on_described)
        model.changed.connect(self._on_model_changed)
        model.loaded.connect(self._on_loaded)

    def begin(self, conversation: Conversation, documents: str, name: str) -> None:
        """Have the chat with documents at its end read; the model is loaded first where it is not there.

        Args:
            documents: as they stand in a message; empty for the chat alone.
            name: under which it is kept.
        """
        if not conversation.messages(draft=documents):
            return
        self.stop()  # also what nobody has asked for
        self._order = self._order_of(conversation, documents, name)
        if conversation.has_model:
            self._bridge.prepare(self._order)
        else:
            self._conversation = conversation
            self._load_for(conversation)
        self.changed.emit()

    def begin_quietly(self, conversation: Conversation) -> None:
        """Have an opened chat read that nobody has asked to have read; what somebody has asked for goes first."""
        if self._order is None:
            self._order = self._order_of(conversation, "", "")
            self._bridge.prepare(self._order)

    def stop_quietly(self) -> None:
        """Give up what nobody has asked to have read."""
        if self._is_quiet:
            self.stop()

    def stop(self) -> None:
        """Give up what is being read."""
        order, self._order, self._progress = self._order, None, None
        if order is not None and self._conversation is None:
            self._bridge.abort(order.request_id)
        self._conversation = None
        if order is not None:
            self.changed.emit()

    def reading(self, conversation: Conversation, documents: str) -> Reading:
        """Return how far the model is with the chat and documents at its end."""
        order = self._order_of(conversation, documents, "")
        key = _key(order)
        if self._order is not None and _key(self._order) == key:
            if self._is_quiet and not self._is_long():
                return Reading(ReadingState.NONE)
            if self._conversation is not None:
                return Reading(ReadingState.LOADING)
            if self._progress is None:
                return Reading(ReadingState.WAITING if self._is_generating() else ReadingState.READING)
            return Reading(ReadingState.READING, self._progress.num_done_tokens, self._progress.num_total_tokens - 1)
        shared = _key(msgspec.structs.replace(order, chat_id=None))  # what belongs to no chat is there for all
        done = self._done.get(key) or self._done.get(shared)
        if done is not None and conversation.has_model:
            num_tokens = done.num_tokens
            return Reading(ReadingState.DONE, num_tokens, num_tokens)
        return Reading(ReadingState.NONE)

    def _order_of(self, conversation: Conversation, documents: str, name: str) -> Prepare:
        """Return what is to be asked: documents and a system prompt alone are kept for all chats, whatever becomes of
        this one; its own words, and all that is private, go with it."""
        chat = conversation.chat
        has_words = any(message.role is not Role.SYSTEM for message in conversation.messages())
        adapters = made_with(conversation.settings.adapters)
        return Prepare(
            request_id=f"prepare-{uuid.uuid4().hex}",
            messages=tuple(conversation.messages(draft=documents)),
            name=name,
            options=conversation.prompt_options(),
            adapters=tuple(engine_adapters({"adapters": adapters})),
            chat_id=chat.id if has_words or chat.is_private else None,
            is_private=not chat.is_kept,
        )

    @property
    def _is_quiet(self) -> bool:
        return self._order is not None and not self._order.name

    def _is_long(self) -> bool:
        """Whether enough is to be read for a line about it; else it would only flash up."""
        progress = self._progress
        return progress is not None and progress.num_total_tokens - progress.num_cached_tokens > _FEW_TOKENS

    def _is_generating(self) -> bool:
        return any(chat.is_generating for chat in self._chats.live)

    def _load_for(self, conversation: Conversation) -> None:
        wanted, model = conversation.settings.model, self._model
        if model.is_busy or self._is_generating():
            return  # it is looked at again when the model has changed
        if wanted and not model.is_loaded(wanted):
            model.choose(wanted)
        elif model.state in (ModelState.DEAD, ModelState.FAILED, ModelState.NONE):
            model.load_again()

    def _on_loaded(self, _: object) -> None:
        conversation, self._conversation = self._conversation, None
        if self._order is not None and conversation is not None:
            if conversation in self._chats.live and conversation.has_model:
                self._bridge.prepare(self._order)
            else:
                self._order = None
            self.changed.emit()

    def _on_model_changed(self) -> None:
        if self._model.state is not ModelState.READY:
            self._done.clear()  # on disk it may be there, and costs next to nothing to read again
        if self._model.state in (ModelState.FAILED, ModelState.DEAD) and self._conversation is not None:
            self._order = self._conversation = None
        self.changed.emit()

    def _on_progressed(self, progress: PrefillProgress) -> None:
        if self._order is not None and progress.request_id == self._order.request_id:
            self._progress = progress
            self.changed.emit()

    def _on_described(self, event: CacheDescribed) -> None:
        """Take note of what is not kept any more."""
        names = {kept.name for kept in event.kept}
        gone = [key for key, prepared in self._done.items() if prepared.name not in names]
        for key in gone:
            del self._done[key]
        if gone:
            self.changed.emit()

    def _on_ended(self, event: Prepared | PrepareCancelled | Failed) -> None:
        order = self._order
        if order is None or event.request_id != order.request_id:
            return
        was_quiet = self._is_quiet
        self._order = self._progress = None
        if was_quiet:
            pass  # it is as if nothing had been
        elif isinstance(event, Prepared):
            self._done[_key(order)] = event
            if len(self._done) > _MAX_KNOWN:
                self._done.popitem(last=False)
        elif isinstance(event, Failed):
            self.failed.emit(event.error)
        self.changed.emit()


def _key(order: Prepare) -> Any:
    """Return what a beginning is, and whose."""
    return (order.chat_id, order.messages, order.options.chat_format, order.adapters)
