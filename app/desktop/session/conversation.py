"""Conversation: the turns of one chat, and the one reply that may be in progress."""

import time
import uuid
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.model_session import ModelSession, ModelState
from app.desktop.session.turns import Begun, ReplyState, ReplyTurn, Turn, UserTurn
from engine import (
    ChatMessage,
    Delta,
    ErrorInfo,
    Finished,
    FinishReason,
    Overflow,
    PrefillProgress,
    PromptMode,
    PromptOptions,
    Role,
    SamplingParams,
    StateChanged,
    TurnsDropped,
)

_TOO_LONG = "ContextOverflow"
_DEFAULT_NAME = "Assistant"


class Conversation(QObject):
    """Asks for replies and keeps what was said.

    Args:
        sampling: gives the settings for the next reply.
        chat_format: gives the format that the user chose for the model, None for its own.
        clock: monotonic seconds.

    Signals:
        turn_added: a UserTurn or ReplyTurn at the end.
        turn_removed: id of a turn.
        reply_changed: ReplyTurn whose state or outcome changed.
        reply_grew: ReplyTurn, the new text of its answer.
        thinking_grew: ReplyTurn, the new text of its thinking.
        answer_taken_back: ReplyTurn whose answer so far turned out to be thinking.
        reply_restarted: ReplyTurn whose earlier text is gone, for its new one begins.
        turns_dropped: ReplyTurn for which earlier turns were left out.
        reset: all turns were replaced.
        busy_changed: whether a reply is in progress or waits for the model.
        text_refused: text of a message that did not fit, ErrorInfo.
        request_sent: a request left for the engine.
        first_token_received: seconds since the request was sent, on the window's clock.
        prefill_progressed, delta_received, reply_finished: as the engine sent them, of this chat's reply.
    """

    turn_added = Signal(object)
    turn_removed = Signal(str)
    reply_changed = Signal(object)
    reply_grew = Signal(object, str)
    thinking_grew = Signal(object, str)
    answer_taken_back = Signal(object)
    reply_restarted = Signal(object)
    turns_dropped = Signal(object)
    reset = Signal()
    busy_changed = Signal(bool)
    text_refused = Signal(str, object)
    request_sent = Signal()
    first_token_received = Signal(float)
    prefill_progressed = Signal(object)
    delta_received = Signal(object)
    reply_finished = Signal(object)

    def __init__(
        self,
        bridge: EngineBridge,
        model: ModelSession,
        sampling: Callable[[], SamplingParams],
        *,
        chat_format: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(bridge)
        self._bridge = bridge
        self._model = model
        self._sampling = sampling
        self._chat_format = chat_format
        self._clock = clock
        self._turns: list[Turn] = []
        self._chat_id = uuid.uuid4().hex
        self._set_aside: tuple[str, list[Turn]] | None = None
        self._open: ReplyTurn | None = None
        self._begun = Begun()  # what the open reply had before its request
        self._request_id: str | None = None
        self._sent_at = 0.0
        model.changed.connect(self._on_model_changed)
        bridge.state_changed.connect(self._on_state_changed)
        bridge.turns_dropped.connect(self._on_turns_dropped)
        bridge.prefill_progressed.connect(self._on_prefill_progressed)
        bridge.delta_received.connect(self._on_delta)
        bridge.reply_finished.connect(self._on_finished)
        bridge.reply_failed.connect(self._on_failed)

    @property
    def turns(self) -> Sequence[Turn]:
        """All turns, oldest first."""
        return self._turns

    @property
    def is_busy(self) -> bool:
        """Whether a reply is in progress or waits for the model."""
        return self._open is not None

    @property
    def last_reply(self) -> ReplyTurn | None:
        """The newest reply."""
        return next((turn for turn in reversed(self._turns) if isinstance(turn, ReplyTurn)), None)

    def submit(self, text: str) -> None:
        """Add a message and ask for its reply, as soon as a model is there."""
        if self._open is not None:
            return
        self._add(UserTurn(text))
        reply = ReplyTurn(self._model_name())
        self._ask(reply)
        self._add(reply)
        self.busy_changed.emit(True)
        self._send_if_ready()

    def retry(self) -> None:
        """Ask for the last reply once more."""
        reply = self.last_reply
        if self._open is None and reply is not None:
            reply.is_repeat, reply.is_continuation = True, False
            self._ask_again(reply)

    def go_on(self) -> None:
        """Let the last reply go on where it was ended; asked anew where that has failed."""
        reply = self.last_reply
        if self._open is None and reply is not None and (reply.can_go_on or reply.is_continuation):
            reply.is_repeat, reply.is_continuation = False, True
            self._ask_again(reply)

    def stop(self) -> None:
        """Stop the reply; what has arrived stays. One that still waits for the model is taken back."""
        if self._request_id is not None:
            self._bridge.abort(self._request_id)
        elif self._open is not None and (self._open.is_repeat or self._open.is_continuation):
            self._end(self._open, FinishReason.ABORT)
        else:
            self._take_back(None)

    def start_new(self) -> None:
        """Begin an empty chat; the present one can be brought back until the next."""
        self._let_go()
        if self._turns:
            self._set_aside = (self._chat_id, self._turns)
        self._chat_id, self._turns = uuid.uuid4().hex, []
        self.reset.emit()

    def bring_back(self) -> None:
        """Return to the chat that was put aside; the present one takes its place there."""
        if self._set_aside is not None:
            self._let_go()
            present = (self._chat_id, self._turns) if self._turns else None
            (self._chat_id, self._turns), self._set_aside = self._set_aside, present
            self.reset.emit()

    @property
    def has_set_aside(self) -> bool:
        """Whether there is a chat to bring back."""
        return self._set_aside is not None

    def _ask_again(self, reply: ReplyTurn) -> None:
        reply.forget_outcome()
        self._ask(reply)
        self.reply_changed.emit(reply)
        self.busy_changed.emit(True)
        self._send_if_ready()

    def _ask(self, reply: ReplyTurn) -> None:
        reply.state = ReplyState.WAITING_FOR_MODEL
        self._open = reply
        self._begun = reply.begun() if reply.is_continuation else Begun()
        if self._model.state in (ModelState.DEAD, ModelState.FAILED, ModelState.NONE):
            self._model.load_again()

    def _send_if_ready(self) -> None:
        reply = self._open
        if reply is None or self._request_id is not None or self._model.state is not ModelState.READY:
            return
        reply.state = ReplyState.REQUESTED
        reply.model_name = self._model_name()
        self._sent_at = self._clock()
        messages = self._messages_before(reply)
        if reply.is_continuation:
            messages.append(_said(reply))
        self._request_id = self._bridge.generate(
            messages,
            self._sampling(),
            chat_id=self._chat_id,
            options=PromptOptions(
                mode=PromptMode.CONTINUE if reply.is_continuation else PromptMode.CHAT,
                overflow=Overflow.DROP_OLDEST,
                chat_format=self._chat_format(),
            ),
        )
        self.reply_changed.emit(reply)
        self.request_sent.emit()

    def _messages_before(self, reply: ReplyTurn) -> list[ChatMessage]:
        messages = []
        for turn in self._turns[: self._turns.index(reply)]:
            if isinstance(turn, UserTurn):
                messages.append(ChatMessage(Role.USER, turn.text))
            elif turn.text:
                messages.append(_said(turn))
        return messages

    def _model_name(self) -> str:
        return self._model.label or _DEFAULT_NAME

    def _add(self, turn: Turn) -> None:
        self._turns.append(turn)
        self.turn_added.emit(turn)

    def _let_go(self) -> None:
        """Stop the open reply without waiting for its end, and close its turn."""
        reply = self._open
        if reply is None:
            return
        if self._request_id is not None:
            self._bridge.abort(self._request_id)
        self._end(reply, FinishReason.ABORT)

    def _end(self, reply: ReplyTurn, reason: FinishReason) -> None:
        reply.state, reply.finish_reason, reply.is_continuation = ReplyState.DONE, reason, False
        self._close()
        self.reply_changed.emit(reply)

    def _close(self) -> None:
        self._open = None
        self._request_id = None
        self.busy_changed.emit(False)

    def _take_back(self, error: ErrorInfo | None) -> None:
        """Remove the open reply and its message, and give the text back to the composer."""
        reply = self._open
        if reply is None:
            return
        position = self._turns.index(reply)
        message = self._turns[position - 1]
        assert isinstance(message, UserTurn)
        for turn in (reply, message):
            self._turns.remove(turn)
            self.turn_removed.emit(turn.turn_id)
        self._close()
        self.text_refused.emit(message.text, error)

    def _on_model_changed(self) -> None:
        reply = self._open
        if reply is None or self._request_id is not None:
            return
        if self._model.state is ModelState.READY:
            self._send_if_ready()
        elif self._model.state in (ModelState.FAILED, ModelState.DEAD) and self._model.error is not None:
            self._fail(self._model.error)
        elif self._model.state is ModelState.NONE:
            self.stop()

    def _on_state_changed(self, event: StateChanged) -> None:
        if event.request_id == self._request_id and self._open is not None:
            self._open.request_state = event.state
            self.reply_changed.emit(self._open)

    def _on_turns_dropped(self, event: TurnsDropped) -> None:
        if event.request_id == self._request_id and self._open is not None:
            self._open.dropped = event
            self.reply_changed.emit(self._open)
            self.turns_dropped.emit(self._open)

    def _on_prefill_progressed(self, event: PrefillProgress) -> None:
        if event.request_id == self._request_id and self._open is not None:
            self._open.prefill = event
            self.reply_changed.emit(self._open)
            self.prefill_progressed.emit(event)

    def _on_delta(self, event: Delta) -> None:
        reply = self._open
        if event.request_id != self._request_id or reply is None:
            return
        before = (reply.state, reply.is_thinking)
        if reply.state is not ReplyState.WRITING:
            reply.state = ReplyState.WRITING
            self._clear_earlier(reply)
            self.first_token_received.emit(self._clock() - self._sent_at)
        if event.was_thinking:
            self._begun = Begun("", self._begun.thinking + self._begun.text, self._begun.thinking_s)
            reply.take_text_back()
            self.answer_taken_back.emit(reply)
        if event.thinking or event.was_thinking:
            reply.thinking += event.thinking
            reply.thinking_s = (self._begun.thinking_s or 0.0) + event.decode_s
            self.thinking_grew.emit(reply, event.thinking)
        if event.text:
            reply.text += event.text
            self.reply_grew.emit(reply, event.text)
        if before != (reply.state, reply.is_thinking):
            self.reply_changed.emit(reply)
        self.delta_received.emit(event)

    def _clear_earlier(self, reply: ReplyTurn) -> None:
        if reply.is_repeat:
            reply.is_repeat = False
            reply.forget_words()
            if reply.dropped is not None and reply.dropped.request_id != self._request_id:
                reply.dropped = None
            self.reply_restarted.emit(reply)

    def _on_finished(self, event: Finished) -> None:
        reply = self._open
        if event.request_id != self._request_id or reply is None:
            return
        if event.finish_reason is not FinishReason.ABORT or event.text or event.thinking:
            self._clear_earlier(reply)
            reply.text = self._begun.text + event.text
            reply.thinking = self._begun.thinking + event.thinking
            if event.metrics.thinking_s is not None:
                reply.thinking_s = (self._begun.thinking_s or 0.0) + event.metrics.thinking_s
        reply.state = ReplyState.DONE
        reply.is_continuation = False
        reply.finish_reason, reply.stop_string, reply.metrics = event.finish_reason, event.stop_string, event.metrics
        self._close()
        self.reply_changed.emit(reply)
        self.reply_finished.emit(event)

    def _on_failed(self, request_id: str, error: ErrorInfo) -> None:
        if request_id != self._request_id:
            return
        reply = self._open
        has_earlier = reply is not None and (reply.is_repeat or reply.is_continuation)
        if error.error == _TOO_LONG and not has_earlier:  # else there is an earlier reply to keep
            self._take_back(error)
        else:
            self._fail(error)

    def _fail(self, error: ErrorInfo) -> None:
        reply = self._open
        if reply is None:
            return
        reply.state, reply.error = ReplyState.FAILED, error
        self._close()
        self.reply_changed.emit(reply)


def _said(reply: ReplyTurn) -> ChatMessage:
    return ChatMessage(Role.ASSISTANT, reply.text, thinking=reply.thinking)
