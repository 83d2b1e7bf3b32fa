"""Random lives of several chats at once: two models, queues, deaths of the engine, chats deleted and brought back."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelState
from app.desktop.session.turns import ReplyTurn, UserTurn
from app.store import NodeState
from engine import Command, Delta, EngineDied, ErrorInfo, Failed, FinishReason, Generate, LoadModel, ModelLoaded
from tests.gui.scripted_engine import describe, finished
from tests.support.chat_histories import FAILURE, TOO_LONG, LivedChat

DEATH = ErrorInfo("EngineDied", "The engine stopped unexpectedly.", "Load the model again.")
NOT_LOADED = ErrorInfo("ModelLoadFailed", "The file cannot be loaded.", "Take another one.")
MODELS = ("starter", "other")
_MAX_ROUNDS = 300


class LivedChats(LivedChat):
    """Chats over one scripted engine; each request is compared with the chat it is made for."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__(path, seed)
        self._seen: set[str] = set()
        self._ids: list[str] = []
        self._open: dict[str, str] = {}  # request, what arrived
        self._send = self.client.send
        self.client.send = self._on_sent
        self.chats.refused_unseen.connect(lambda _, text, error: self.taken_back.add(text))
        self._look()

    def live(self, num_steps: int) -> None:
        """Do so many random things, and then let everything come to its end."""
        steps: list[Callable[[], None]] = [
            *[self._say] * 4,
            *[self._arrive] * 6,
            *[self._end] * 4,
            *[self._settle_load] * 3,
            *[self._open_another] * 3,
            *(self._fail_one, self._stop, self._retry, self._go_on, self._edit, self._delete, self._branch),
            *(self._step_variant, self._undo, self._die, self._take_model, self._delete_chat, self._cancel),
        ]
        for _ in range(num_steps):
            self.random.choice(steps)()
            self._settle()
            self._check_shown()
        self._come_to_the_end()

    def check_all(self) -> None:
        """Close, and look for every text."""
        kept = [message.text for chat in self.chats.live for message in chat.queue]
        self.close_all()
        for turns in self._stored.values():
            assert all(state is not NodeState.OPEN for state, _ in turns)
            kept += [text for _, text in turns]
        there = "\n".join([*kept, *self.taken_back])
        assert {text for text in self.texts if text not in there} == set()

    def close_all(self) -> None:
        """End the window as it ends, and read what the store has."""
        self.chats.let_all_go()
        self.background.close()
        self.bridge.close(1.0)
        self.recorder.close()
        self.store.flush()
        rows = [*self.store.list_chats(), *self.store.list_chats(trashed=True)]
        read = [chat for row in rows if (chat := self.store.load_chat(row.id)) is not None]
        self._stored = {chat.row.id: [(node.state, node.content) for node in chat.nodes] for chat in read}
        for conversation in self.chats.live:
            if conversation.chat.is_begun:
                in_memory = [turn.text for turn in conversation.chat.turns]
                assert [text for _, text in self._stored[conversation.chat.id]] == in_memory
        self.store.close()
        self.bridge.deleteLater()
        QApplication.processEvents()

    def _on_sent(self, command: Command) -> None:
        self._send(command)
        if isinstance(command, Generate):
            conversation = self.chats._live[command.chat_id or ""]
            run = conversation._run
            assert run is not None
            chosen = self.model.chosen
            assert chosen is not None
            assert conversation.settings.model == chosen.last_model
            path = conversation.chat.path_to(run.reply.turn_id)
            texts = [turn.text for turn in path[:-1] if turn.text]
            if run.reply.is_continuation:
                texts.append(run.reply.text)
            assert path[-1] is run.reply
            assert [message.content for message in command.messages] == texts
            self._open[command.request_id] = ""

    def _look(self) -> None:
        """Hear of what is taken back in each chat that is shown."""
        conversation = self.conversation
        if not conversation.property("is_seen"):
            conversation.setProperty("is_seen", True)
            conversation.text_refused.connect(lambda text, _: self.taken_back.add(text))

    def _settle(self) -> None:
        self.bridge._drain()
        QApplication.processEvents()
        while self.model.state is ModelState.CHOOSING:
            QApplication.processEvents()
        self._look()
        chat = self.conversation.chat
        if chat.is_begun and chat.id not in self._ids:
            self._ids.append(chat.id)

    def _say(self) -> None:
        text = self._text()
        self.texts.add(text)
        self.conversation.submit(text)

    def _request_of(self, conversation: Conversation) -> str | None:
        run = conversation._run
        return run._request_id if run is not None else None

    def _running(self) -> list[str]:
        return [found for chat in self.chats.live if (found := self._request_of(chat)) is not None]

    def _arrive(self) -> None:
        if not self._running():
            return
        request_id, text = self.random.choice(self._running()), self._text()
        self.texts.add(text)
        self._open[request_id] += text
        self.client.emit(
            Delta(request_id=request_id, text=text, num_generated_tokens=1, num_context_tokens=1, decode_s=0.1)
        )

    def _end(self) -> None:
        if self._running():
            request_id = self.random.choice(self._running())
            reason = self.random.choice([FinishReason.STOP, FinishReason.LENGTH, FinishReason.ABORT])
            self.client.emit(finished(request_id, self._open[request_id], reason))

    def _fail_one(self) -> None:
        if self._running():
            request_id = self.random.choice(self._running())
            error = FAILURE if self._open[request_id] else self.random.choice([FAILURE, TOO_LONG])
            self.client.emit(Failed(request_id=request_id, error=error))

    def _settle_load(self) -> None:
        if self.model.state is ModelState.LOADING:
            request_id = self.client.last(LoadModel).request_id
            if self.random.random() < 0.8:
                self.client.emit(ModelLoaded(request_id=request_id, description=describe()))
            else:
                self.client.emit(Failed(request_id=request_id, error=NOT_LOADED))

    def _die(self) -> None:
        for request_id in self._running():
            self.client.emit(Failed(request_id=request_id, error=DEATH))
        if self.model.state is ModelState.LOADING:
            self.client.emit(Failed(request_id=self.client.last(LoadModel).request_id, error=DEATH))
        self.client.emit(EngineDied(exit_code=-9, log_tail=(), error=DEATH))

    def _cancel(self) -> None:
        self.model.cancel()
        self.chats.take_waiting_back()

    def _take_model(self) -> None:
        if not self.conversation.is_busy:
            self.conversation.use_model(self.random.choice(MODELS))

    def _open_another(self) -> None:
        if not self._ids or self.random.random() < 0.3:
            self.chats.new_chat()
            return
        chat_id = self.random.choice(self._ids)
        self.chats.open(chat_id)
        while self.conversation.chat.id != chat_id:
            QApplication.processEvents()

    def _delete_chat(self) -> None:
        if not self.conversation.chat.is_begun:
            return
        chat_id = self.conversation.chat.id
        queued = [message.text for message in self.conversation.queue]
        self.chats.delete(chat_id)
        self._settle()
        self.chats.restore(chat_id)
        self.chats.open(chat_id)
        while self.conversation.chat.id != chat_id:
            QApplication.processEvents()
        assert [message.text for message in self.conversation.queue] == queued

    def _come_to_the_end(self) -> None:
        for _ in range(_MAX_ROUNDS):
            self._settle()
            if not any(chat.is_busy for chat in self.chats.live):
                break
            self._settle_load()
            self._end()
        else:
            raise AssertionError("a reply waits for ever")
        for chat in self.chats.live:
            assert not any(isinstance(turn, ReplyTurn) and turn.is_open for turn in chat.chat.turns)
            assert all(isinstance(turn, UserTurn | ReplyTurn) for turn in chat.turns)


def live_several_chats(path: Path, seed: int, num_steps: int) -> None:
    """Live one random life and check it."""
    lived = LivedChats(path, seed)
    lived.live(num_steps)
    lived.check_all()
