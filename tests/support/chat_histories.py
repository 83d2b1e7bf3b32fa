"""Random lives of a chat: whatever a person does with its messages, no text is lost and every text can be reached."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.desktop.bridge.background import Background
from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.chat_recorder import ChatRecorder
from app.desktop.session.chats import Chats
from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelSession, ModelState
from app.desktop.session.surroundings import Surroundings
from app.desktop.session.turns import ReplyTurn, UserTurn
from app.known_models import KnownModels
from app.store import Chat, ChatStore, NodeState
from engine import ErrorInfo, Failed, FinishReason, Generate, LoadModel, ModelLoaded, SamplingParams
from tests.gui.scripted_engine import ScriptedClient, describe, find_default_model, finished

FAILURE = ErrorInfo("DecodeFailed", "The model could not compute a step.", "Try again.")
TOO_LONG = ErrorInfo("ContextOverflow", "The prompt is too long.", "Shorten it.")


class LivedChat:
    """One chat over a scripted engine and a real store, and all the texts that ever came into it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.texts: set[str] = set()
        self.taken_back: set[str] = set()
        self.client = ScriptedClient()
        self.bridge = EngineBridge(self.client)
        self.bridge.start()
        self.background = Background(self.bridge)
        known = KnownModels(path.parent / "known.json")
        self.model = ModelSession(self.bridge, self.background, find_default_model, self.bridge, known=known)
        self.recorder = ChatRecorder(self.bridge)
        around = Surroundings(self.bridge, self.model, self.recorder, lambda _: SamplingParams(), lambda: None)
        self.store, _ = ChatStore.open(path)
        self.chats = Chats(around, self.background)
        self.recorder.set_store(self.store)
        self._number = 0
        self._open_text = ""
        self.conversation.text_refused.connect(lambda text, _: self.taken_back.add(text))
        self._load()

    @property
    def conversation(self) -> Conversation:
        """The chat."""
        return self.chats.current

    def live(self, num_steps: int) -> None:
        """Do so many random things."""
        steps: list[Callable[[], None]] = [
            *[self._submit] * 3,
            *[self._delta] * 6,
            *[self._finish] * 4,
            *(self._fail, self._stop, self._retry, self._go_on, self._edit, self._delete, self._branch),
            *(self._step_variant, self._undo, self._load_again),
        ]
        for _ in range(num_steps):
            self.random.choice(steps)()
            self._check_shown()

    def close(self) -> Chat | None:
        """End the window as it ends, and return what the store has."""
        self.chats.let_all_go()
        self.background.close()
        self.bridge.close(1.0)
        self.recorder.close()
        self.store.flush()
        chat = self.store.load_chat(self.conversation.chat.id)
        self.store.close()
        self.bridge.deleteLater()
        QApplication.processEvents()
        return chat

    def check(self, chat: Chat | None) -> None:
        """Compare the store with memory, and look for every text."""
        if chat is None:
            assert not self.texts
            return
        assert [node.id for node in chat.nodes] == [turn.turn_id for turn in self._all()]
        stored = {(node.content, node.thinking) for node in chat.nodes}
        lost = {text for text in self.texts if not any(text in content for content, _ in stored)}
        assert not lost
        assert all(node.state is not NodeState.OPEN for node in chat.nodes)
        for turn in self._all():
            node = chat.by_id[turn.turn_id]
            assert (node.content, node.parent_id, node.is_deleted) == (turn.text, turn.parent_id, turn.is_deleted)
            if not turn.is_deleted:
                self.conversation.show(turn.turn_id)
                assert turn in self.conversation.turns

    def _all(self) -> list[UserTurn | ReplyTurn]:
        return list(self.conversation.chat.turns)

    def _check_shown(self) -> None:
        shown = self.conversation.turns
        assert not any(turn.is_deleted for turn in shown)
        assert len({turn.turn_id for turn in shown}) == len(shown)
        assert all(0 <= turn.variant < turn.num_variants for turn in shown)

    def _text(self) -> str:
        self._number += 1
        return f"<text {self._number}>"

    def _load(self) -> None:
        self.model.choose(None)
        while self.model.state is ModelState.CHOOSING:
            QApplication.processEvents()
        request = self.client.last(LoadModel)
        self.client.emit(ModelLoaded(request_id=request.request_id, description=describe()))
        self.bridge._drain()

    def _request(self) -> str | None:
        return self.client.last(Generate).request_id if self.conversation.is_generating else None

    def _submit(self) -> None:
        text = self._text()
        if not self.conversation.is_busy:
            self.texts.add(text)
        self.conversation.submit(text)
        for message in list(self.conversation.queue):
            self.conversation.queue.take(message.id)

    def _delta(self) -> None:
        from engine import Delta

        request_id = self._request()
        if request_id is not None:
            text = self._text()
            self._open_text = text if self._of != request_id else self._open_text + text
            self._of = request_id
            self.texts.add(text)
            self.client.emit(
                Delta(request_id=request_id, text=text, num_generated_tokens=1, num_context_tokens=1, decode_s=0.1)
            )
            self.bridge._drain()

    _of: str | None = None

    def _finish(self) -> None:
        request_id = self._request()
        if request_id is not None:
            text = self._open_text if self._of == request_id else ""
            reason = self.random.choice([FinishReason.STOP, FinishReason.LENGTH, FinishReason.ABORT])
            self.client.emit(finished(request_id, text, reason))
            self.bridge._drain()

    def _fail(self) -> None:
        request_id = self._request()
        if request_id is not None:
            error = self.random.choice([FAILURE, TOO_LONG]) if self._of != request_id else FAILURE
            self.client.emit(Failed(request_id=request_id, error=error))
            self.bridge._drain()

    def _stop(self) -> None:
        self.conversation.stop()

    def _any(self) -> UserTurn | ReplyTurn | None:
        turns = self.conversation.turns
        return self.random.choice(turns) if turns else None

    def _retry(self) -> None:
        turn = self._any()
        self.conversation.retry(turn.turn_id if isinstance(turn, ReplyTurn) else None)

    def _go_on(self) -> None:
        turn = self._any()
        self.conversation.go_on(turn.turn_id if isinstance(turn, ReplyTurn) else None)

    def _edit(self) -> None:
        turn = self._any()
        if turn is not None:
            text = self._text()
            self.texts.add(text)
            self.conversation.edit(turn.turn_id, text)

    def _delete(self) -> None:
        if (turn := self._any()) is not None:
            self.conversation.delete(turn.turn_id)

    def _branch(self) -> None:
        if (turn := self._any()) is not None:
            self.conversation.branch(turn.turn_id)

    def _step_variant(self) -> None:
        if (turn := self._any()) is not None:
            self.conversation.show_variant(turn.turn_id, self.random.choice([-1, 1]))

    def _undo(self) -> None:
        self.conversation.undo()

    def _load_again(self) -> None:
        """Leave the chat and come back: what is read from the store is what was in memory."""
        before = [dataclasses.replace(turn) for turn in self._all()]
        conversation = self.conversation
        if conversation.is_busy or not conversation.chat.is_begun:
            return
        chat_id = conversation.chat.id
        self.chats.new_chat()
        self.chats.open(chat_id)
        while self.conversation.chat.id != chat_id:
            QApplication.processEvents()
        for old, new in zip(before, self._all(), strict=True):
            assert (old.turn_id, old.text, old.parent_id, old.is_deleted) == (
                new.turn_id,
                new.text,
                new.parent_id,
                new.is_deleted,
            )
        self.conversation.text_refused.connect(lambda text, _: self.taken_back.add(text))


def live_a_chat(path: Path, seed: int, num_steps: int) -> None:
    """Live one random life and check it."""
    lived = LivedChat(path, seed)
    lived.live(num_steps)
    lived.check(lived.close())
