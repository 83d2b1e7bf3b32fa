"""Conversation: one chat as it is lived, and the one reply that may be in progress.

Whatever a person does makes a message beside or below those that are there; nothing is overwritten.
"""

import dataclasses
import time
from collections.abc import Sequence

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.desktop.session.chat_settings import ChatSettings
from app.desktop.session.message_queue import MessageQueue
from app.desktop.session.model_session import ModelState
from app.desktop.session.paced_write import PacedWrite
from app.desktop.session.prompt_messages import messages_of, said
from app.desktop.session.recorded_chat import RecordedChat
from app.desktop.session.reply_run import ReplyRun
from app.desktop.session.surroundings import Surroundings
from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, UserTurn
from engine import ChatMessage, ErrorInfo, Finished, FinishReason, Overflow, PromptMode, PromptOptions, SamplingParams

_TOO_LONG = "ContextOverflow"
_PARTIAL_MS = 120  # what a killed program may lose is a quarter second; writing takes some of it


class Conversation(QObject):
    """Asks for replies, keeps what was said, and has it written.

    Attributes:
        chat: what is kept of it.
        draft: what is typed and not sent, as the composer gives it.
        queue: the messages that wait for the end of the reply.

    Signals:
        turn_added: a UserTurn or ReplyTurn at the end of the shown path.
        path_changed: the shown path is another one.
        reply_changed: ReplyTurn whose state changed.
        reply_grew: ReplyTurn, the new text of its answer.
        thinking_grew: ReplyTurn, the new text of its thinking.
        answer_taken_back: ReplyTurn whose answer so far turned out to be thinking.
        turns_dropped: ReplyTurn for which earlier turns were left out.
        busy_changed: whether a reply is in progress or waits for the model.
        text_refused: text of a message that is taken back, ErrorInfo or None.
        attempt_failed: ReplyTurn that was to stand beside an earlier one and brought nothing; that is shown again.
        model_wanted: a reply waits for the model.
        title_changed, settings_changed: the chat is called otherwise, or remembers something else.
        request_sent: a request left for the engine.
        first_token_received: seconds since the request was sent, on the window's clock.
        prefill_progressed, delta_received, reply_finished: as the engine sent them.
    """

    turn_added = Signal(object)
    path_changed = Signal()
    reply_changed = Signal(object)
    reply_grew = Signal(object, str)
    thinking_grew = Signal(object, str)
    answer_taken_back = Signal(object)
    turns_dropped = Signal(object)
    busy_changed = Signal(bool)
    text_refused = Signal(str, object)
    attempt_failed = Signal(object)
    model_wanted = Signal()
    title_changed = Signal()
    settings_changed = Signal()
    request_sent = Signal()
    first_token_received = Signal(float)
    prefill_progressed = Signal(object)
    delta_received = Signal(object)
    reply_finished = Signal(object)

    def __init__(self, around: Surroundings, chat: RecordedChat, parent: QObject) -> None:
        super().__init__(parent)
        self.chat = chat
        self.draft = ""
        self.queue = MessageQueue(self)
        self._around = around
        self._run: ReplyRun | None = None
        self._settings_write = PacedWrite(chat.save_settings, self)
        self._leaf_before: str | None = None  # what was shown before the reply in progress was asked for
        self._partial_timer = QTimer(self, singleShot=True, interval=_PARTIAL_MS)
        self._partial_timer.timeout.connect(self._save_partial)
        around.model.changed.connect(self._on_model_changed)

    @property
    def turns(self) -> Sequence[Turn]:
        """The shown messages, oldest first."""
        return self.chat.shown()

    @property
    def settings(self) -> ChatSettings:
        """What the chat remembers."""
        return self.chat.settings

    @property
    def is_busy(self) -> bool:
        """Whether a reply is in progress or waits for the model."""
        return self._run is not None

    @property
    def is_generating(self) -> bool:
        """Whether the engine has a request of this chat."""
        return self._run is not None and self._run.is_sent

    @property
    def has_model(self) -> bool:
        """Whether the model of this chat is loaded."""
        model, wanted = self._around.model, self.settings.model
        return model.state is ModelState.READY and (not wanted or model.is_loaded(wanted))

    @property
    def may_be_read(self) -> bool:
        """Whether the model may read the chat before anything is asked."""
        return self.has_model and (self._around.costs is None or self._around.costs.may_read_opened())

    @property
    def last_reply(self) -> ReplyTurn | None:
        """The newest reply of the shown path."""
        return next((turn for turn in reversed(self.turns) if isinstance(turn, ReplyTurn)), None)

    @property
    def last_message(self) -> UserTurn | None:
        """The newest own message of the shown path."""
        return next((turn for turn in reversed(self.turns) if isinstance(turn, UserTurn)), None)

    def submit(self, text: str) -> None:
        """Add a message and ask for its reply as soon as a model is there; queue it while another is in progress."""
        if self._run is not None:
            self.queue.add(text, after=self.chat.leaf)
            return
        self._leaf_before = self.chat.leaf
        self.chat.forget_paths()
        user = UserTurn(text, parent_id=self.chat.leaf, created_at=time.time())
        self.chat.add(user)
        self.turn_added.emit(user)
        self._ask(self._new_reply(user.turn_id), is_next=True)

    def retry(self, turn_id: str | None = None) -> None:
        """Ask for a reply once more; the new one stands beside it, or takes the place of one without a word."""
        reply = self._reply(turn_id)
        if reply is not None:
            self._begin_change()
            if not reply.has_words:
                self.chat.delete(reply)
            self._ask(self._new_reply(reply.parent_id, source_id=reply.turn_id))

    def go_on(self, turn_id: str | None = None) -> None:
        """Let a reply go on where it was ended, as a longer one beside it."""
        reply = self._reply(turn_id)
        if reply is not None and reply.can_go_on and self._run is None:
            self._begin_change()
            longer = self._new_reply(reply.parent_id, source_id=reply.turn_id)
            longer.go_on_from(reply)
            self._ask(longer)

    def stop(self) -> None:
        """Stop the reply; what has arrived stays. One that still waits for the model is taken back."""
        run = self._run
        if run is None:
            return
        if run.is_sent:
            run.stop()
        elif run.reply.source_id is None:
            self._take_back(run.reply, None)
        else:
            run.end(FinishReason.ABORT)

    def let_go(self) -> None:
        """End the reply in progress at once, without waiting for the engine."""
        if self._run is not None:
            self._run.let_go()

    def fail(self, error: ErrorInfo) -> None:
        """End the reply that waits for a model: there will be none."""
        if self._run is not None and not self._run.is_sent:
            self._run.fail(error)

    def edit(self, turn_id: str, text: str) -> None:
        """Put another text beside a message; one of the user's is answered anew."""
        turn = self.chat.get(turn_id)
        if turn is None or not text.strip() or (text == turn.text and isinstance(turn, ReplyTurn)):
            return
        self._begin_change()
        if isinstance(turn, ReplyTurn):
            self.chat.add(turn.edited(text))
            self.path_changed.emit()
            return
        user = UserTurn(text, parent_id=turn.parent_id, source_id=turn.turn_id, created_at=time.time())
        self.chat.add(user)
        self._ask(self._new_reply(user.turn_id))

    def delete(self, turn_id: str) -> None:
        """Take one message out of the chat; those after it stay."""
        turn = self.chat.get(turn_id)
        if turn is None or turn.is_deleted:
            return
        was_growing = self._run is not None and self._run.reply is turn
        if was_growing:
            self.let_go()
        self.chat.remember_deleted(turn_id)
        self.chat.delete(turn)
        self.path_changed.emit()
        if was_growing:
            self.send_queued()

    def branch(self, turn_id: str) -> None:
        """Let the chat end at a reply, or before a message to be written anew: the next one begins another branch."""
        turn = self.chat.get(turn_id)
        if turn is not None:
            self._begin_change()
            self.chat.show(turn.parent_id if isinstance(turn, UserTurn) else turn_id, is_kept=False)
            self.path_changed.emit()
            if isinstance(turn, UserTurn):
                self.text_refused.emit(turn.text, None)

    def show_variant(self, turn_id: str, step: int) -> None:
        """Show the message so many places beside one, and what follows it."""
        if (beside := self.chat.beside(turn_id, step)) is not None:
            self.show(beside.turn_id)

    def show(self, turn_id: str) -> None:
        """Show the newest branch that goes through a message."""
        if self.chat.reveal(turn_id):
            self.path_changed.emit()

    def undo(self) -> None:
        """Take back the last change of the messages."""
        if not self.chat.undo_leaves_path:
            self.let_go()
            self.queue.forget_places()
        if self.chat.undo():
            self.path_changed.emit()

    def set_settings(self, settings: ChatSettings) -> None:
        """Remember other settings."""
        if settings != self.settings:
            self.chat.settings = settings
            self._settings_write.ask()
            self.settings_changed.emit()

    def save_settings(self) -> None:
        """Write the settings that were not written yet: a slider that moves is not followed at each step."""
        self._settings_write.flush()

    def use_model(self, name: str) -> None:
        """Take another model from now on, by what the settings call it."""
        self.set_settings(dataclasses.replace(self.settings, model=name))
        self.send_if_ready()

    def rename(self, title: str) -> None:
        """Give the chat a name of the user's."""
        if self.chat.is_begun and title.strip():
            self.chat.rename(title.strip())
            self.title_changed.emit()

    def save_draft(self, text: str) -> None:
        """Keep what is typed and not sent."""
        if text != self.draft:
            self.draft = text
            self.chat.save_draft(text)

    def messages(self, *, before: Turn | None = None, draft: str = "") -> list[ChatMessage]:
        """Return the chat as the model is to see it, up to a message, shown or not; see `messages_of`."""
        turns = self.turns if before is None else self.chat.path_to(before.turn_id)
        return messages_of(turns, self.settings.system_prompt, before=before, draft=draft)

    def prompt_options(self, *, goes_on: bool = False) -> PromptOptions:
        """Return how the chat is made into a prompt."""
        mode = PromptMode.CONTINUE if goes_on else PromptMode.CHAT
        return PromptOptions(mode=mode, overflow=Overflow.DROP_OLDEST, chat_format=self._around.chat_format())

    def send_if_ready(self) -> None:
        """Send the reply that waits, where its model is there."""
        run, chosen = self._run, self._around.model.chosen
        if run is None or run.is_sent or not self.has_model:
            return
        if chosen is not None and not self.settings.model:
            self.set_settings(dataclasses.replace(self.settings, model=chosen.last_model))
        reply = run.reply
        self._around.describe_making(reply, self.settings)  # anew, for the model is known only now
        messages = self.messages(before=reply)
        if reply.is_continuation:
            messages.append(said(reply))
        sampling = msgspec.convert(reply.settings["sampling"], SamplingParams)
        options = self.prompt_options(goes_on=reply.is_continuation)
        run.send(messages, sampling, chat_id=self.chat.id, options=options)
        self.request_sent.emit()

    def send_queued(self) -> None:
        """Send the first message that waits, unless a reply is in progress."""
        first = next(iter(self.queue), None)
        if first is None or self._run is not None:
            return
        after = self.chat.get(first.after or "")
        if after is not None and not after.is_deleted:
            self.show(after.turn_id)
        self.submit(self.queue.take(first.id))

    def _reply(self, turn_id: str | None) -> ReplyTurn | None:
        turn = self.last_reply if turn_id is None else self.chat.get(turn_id)
        return turn if isinstance(turn, ReplyTurn) else None

    def _begin_change(self) -> None:
        self.let_go()
        self.queue.forget_places()
        self._leaf_before = self.chat.leaf
        self.chat.remember_path()

    def _new_reply(self, parent_id: str | None, *, source_id: str | None = None) -> ReplyTurn:
        reply = ReplyTurn("", parent_id=parent_id, source_id=source_id, state=ReplyState.WAITING_FOR_MODEL)
        reply.created_at = time.time()
        self._around.describe_making(reply, self.settings)
        return reply

    def _ask(self, reply: ReplyTurn, *, is_next: bool = False) -> None:
        self.chat.add(reply)
        self._run = run = ReplyRun(self._around, reply, self)
        run.changed.connect(lambda: self.reply_changed.emit(reply))
        run.grew.connect(lambda text: self.reply_grew.emit(reply, text))
        run.thinking_grew.connect(lambda text: self.thinking_grew.emit(reply, text))
        run.answer_taken_back.connect(lambda: self.answer_taken_back.emit(reply))
        run.turns_dropped.connect(lambda: self.turns_dropped.emit(reply))
        run.first_token_received.connect(self.first_token_received)
        run.prefill_progressed.connect(self.prefill_progressed)
        run.delta_received.connect(self._on_delta)
        run.ended.connect(lambda event: self._on_ended(run, event))
        if is_next:
            self.turn_added.emit(reply)
        else:
            self.path_changed.emit()
        self.busy_changed.emit(True)
        self.model_wanted.emit()
        self.send_if_ready()

    def _on_delta(self, event: object) -> None:
        if not self._partial_timer.isActive():
            self._partial_timer.start()
        self.delta_received.emit(event)

    def _save_partial(self) -> None:
        if self._run is not None:
            self.chat.save_partial(self._run.reply)

    def _on_ended(self, run: ReplyRun, event: Finished | None) -> None:
        if run is not self._run:
            return
        reply = run.reply
        self._partial_timer.stop()
        if reply.error is not None and reply.error.error == _TOO_LONG and reply.source_id is None:
            self._take_back(reply, reply.error)
            return
        self._run = None
        self.chat.finish(reply)
        if run.is_vain and reply.source_id is not None and self._leaf_before is not None:
            self._return_to_earlier(reply)
        self.busy_changed.emit(False)
        self.reply_changed.emit(reply)
        if event is not None:
            self.reply_finished.emit(event)
            self.send_queued()  # not after one that failed or was let go: what follows is not known here

    def _return_to_earlier(self, reply: ReplyTurn) -> None:
        """Show again what an attempt was to stand beside: it brought nothing."""
        earlier = self.chat.get(reply.source_id or "")
        while earlier is not None and earlier.is_deleted:  # an attempt before this one
            earlier = self.chat.get(earlier.source_id or "")
        if earlier is None:
            return  # then the attempt is all there is
        self.chat.forget_last_path()
        self.chat.delete(reply)
        self.chat.show(self._leaf_before)
        self.path_changed.emit()
        if reply.error is not None:
            self.attempt_failed.emit(reply)

    def _take_back(self, reply: ReplyTurn, error: ErrorInfo | None) -> None:
        """Remove the open reply and its message, and give the text back to the composer."""
        message = self.chat.get(reply.parent_id or "")
        run, self._run = self._run, None
        if run is not None and error is None:
            run.end(FinishReason.ABORT)
        self.chat.finish(reply)
        for turn in (reply, message):
            if turn is not None:
                self.chat.delete(turn)
        self.chat.show(self._leaf_before)
        self.path_changed.emit()
        self.busy_changed.emit(False)
        self.text_refused.emit(message.text if message is not None else "", error)

    def _on_model_changed(self) -> None:
        model, own = self._around.model, self.settings.model
        if model.state in (ModelState.FAILED, ModelState.DEAD) and model.error is not None:
            if not own or model.is_wanted(own):  # else its own model is loaded next
                self.fail(model.error)
        elif model.state is ModelState.NONE and not self.is_generating:
            self.stop()
        else:
            self.send_if_ready()
