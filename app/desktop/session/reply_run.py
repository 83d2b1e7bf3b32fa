"""ReplyRun: one reply in progress, from the request to its end, whatever that is."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from app.desktop.session.chat_adapters import engine_adapters
from app.desktop.session.surroundings import Surroundings
from app.desktop.session.turns import Begun, ReplyState, ReplyTurn
from engine import (
    ChatMessage,
    Delta,
    ErrorInfo,
    Finished,
    FinishReason,
    PrefillProgress,
    PromptOptions,
    SamplingParams,
    StateChanged,
    TextSpan,
    TurnsDropped,
)


class ReplyRun(QObject):
    """Fills in one ReplyTurn; what it had before, as one that goes on has, stays in front.

    Signals:
        changed: state or outcome of the reply changed.
        grew: the new text of its answer.
        thinking_grew: the new text of its thinking.
        answer_taken_back: the answer so far turned out to be thinking.
        turns_dropped: earlier turns were left out.
        first_token_received: seconds since the request was sent, on the window's clock.
        prefill_progressed, delta_received: as the engine sent them.
        ended: the reply is not open any more; Finished, or None where there was none.
    """

    changed = Signal()
    grew = Signal(str)
    thinking_grew = Signal(str)
    answer_taken_back = Signal()
    turns_dropped = Signal()
    first_token_received = Signal(float)
    prefill_progressed = Signal(object)
    delta_received = Signal(object)
    ended = Signal(object)

    def __init__(self, around: Surroundings, reply: ReplyTurn, parent: QObject) -> None:
        super().__init__(parent)
        self.reply = reply
        self._bridge = around.bridge
        self._costs = around.costs
        self._recorder = around.recorder
        self._clock = around.clock
        self._speculative = around.speculative
        self._before = reply.begun()  # what it had before its request
        self._begun = reply.begun()
        self._request_id: str | None = None
        self._is_over = False
        self._sent_at = 0.0

    @property
    def is_sent(self) -> bool:
        """Whether the engine has the request."""
        return self._request_id is not None

    @property
    def has_new_words(self) -> bool:
        """Whether anything arrived beside what the reply had before."""
        return self.reply.begun()[:2] != self._before[:2]

    @property
    def is_vain(self) -> bool:
        """Whether it was ended before it brought anything."""
        reply = self.reply
        return not self.has_new_words and (reply.error is not None or reply.finish_reason is FinishReason.ABORT)

    def send(
        self, messages: Sequence[ChatMessage], sampling: SamplingParams, *, chat_id: str, options: PromptOptions
    ) -> None:
        """Ask the engine."""
        bridge = self._bridge
        self.reply.state = ReplyState.REQUESTED
        self._sent_at = self._clock()
        bridge.state_changed.connect(self._on_state_changed)
        bridge.turns_dropped.connect(self._on_turns_dropped)
        bridge.prefill_progressed.connect(self._on_prefill_progressed)
        bridge.delta_received.connect(self._on_delta)
        bridge.reply_finished.connect(self._on_finished)
        bridge.reply_failed.connect(self._on_failed)
        store = self._recorder.store
        may_read_ahead = self._costs is None or self._costs.may_read_ahead()
        self._request_id = bridge.generate(
            messages,
            sampling,
            chat_id=chat_id,
            options=options,
            adapters=engine_adapters(self.reply.settings),
            read_ahead=may_read_ahead,
            is_private=store is None or not store.is_kept,  # what is not kept here is kept nowhere
            speculative=self._speculative(sampling),
            is_fresh=self.reply.source_id is not None and not self.reply.is_continuation,  # it was asked for again
        )
        if self._costs is not None:
            self._costs.begin(self._request_id)
        self.changed.emit()

    def stop(self) -> None:
        """Ask the engine to end the reply; its end is awaited."""
        if self._request_id is not None:
            self._bridge.abort(self._request_id)

    def let_go(self) -> None:
        """End the reply at once, with what has arrived."""
        self.stop()
        self.end(FinishReason.ABORT)

    def end(self, reason: FinishReason) -> None:
        """End the reply without a word from the engine."""
        self.reply.state, self.reply.finish_reason = ReplyState.DONE, reason
        self._close(None)

    def fail(self, error: ErrorInfo) -> None:
        """End the reply with an error; what has arrived stays."""
        self.reply.state, self.reply.error = ReplyState.FAILED, error
        self._close(None)

    def _close(self, event: Finished | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._request_id is not None:
            self._count_costs()
            for signal, slot in (
                (self._bridge.state_changed, self._on_state_changed),
                (self._bridge.turns_dropped, self._on_turns_dropped),
                (self._bridge.prefill_progressed, self._on_prefill_progressed),
                (self._bridge.delta_received, self._on_delta),
                (self._bridge.reply_finished, self._on_finished),
                (self._bridge.reply_failed, self._on_failed),
            ):
                signal.disconnect(slot)
        self.ended.emit(event)
        self.deleteLater()

    def _count_costs(self) -> None:
        if self._costs is not None and self._request_id is not None:
            joules = self._costs.end(self._request_id)
            if self.reply.metrics is not None:
                self.reply.metrics = self._costs.completed(self.reply.metrics, joules)

    def _is_mine(self, request_id: str) -> bool:
        return request_id == self._request_id and not self._is_over

    def _on_state_changed(self, event: StateChanged) -> None:
        if self._is_mine(event.request_id):
            self.reply.request_state = event.state
            self.changed.emit()

    def _on_turns_dropped(self, event: TurnsDropped) -> None:
        if self._is_mine(event.request_id):
            self.reply.dropped = event
            self.changed.emit()
            self.turns_dropped.emit()

    def _on_prefill_progressed(self, event: PrefillProgress) -> None:
        if self._is_mine(event.request_id):
            self.reply.prefill = event
            self.changed.emit()
            self.prefill_progressed.emit(event)

    def _on_delta(self, event: Delta) -> None:
        if not self._is_mine(event.request_id):
            return
        reply = self.reply
        reply.speculative = event.speculative
        before = (reply.state, reply.is_thinking)
        if reply.state is not ReplyState.WRITING:
            reply.state = ReplyState.WRITING
            self.first_token_received.emit(self._clock() - self._sent_at)
        if event.was_thinking:
            self._begun = Begun("", self._begun.thinking + self._begun.text, self._begun.thinking_s)
            reply.take_text_back()
            self.answer_taken_back.emit()
        if event.thinking or event.was_thinking:
            reply.thinking += event.thinking
            reply.thinking_s = (self._begun.thinking_s or 0.0) + event.decode_s
            self.thinking_grew.emit(event.thinking)
        if event.text:
            reply.text += event.text
            self.grew.emit(event.text)
        if before != (reply.state, reply.is_thinking):
            self.changed.emit()
        self.delta_received.emit(event)

    def _on_finished(self, event: Finished) -> None:
        if not self._is_mine(event.request_id):
            return
        reply = self.reply
        if event.finish_reason is not FinishReason.ABORT or event.text or event.thinking:
            reply.text = self._begun.text + event.text
            reply.thinking = self._begun.thinking + event.thinking
            reply.drafted_spans = self._spans_with(event.drafted_spans)
            if event.metrics.thinking_s is not None:
                reply.thinking_s = (self._begun.thinking_s or 0.0) + event.metrics.thinking_s
        reply.state = ReplyState.DONE
        reply.finish_reason, reply.stop_string = event.finish_reason, event.stop_string
        reply.metrics, reply.cache, reply.speculative = event.metrics, event.cache, event.speculative
        if reply.is_stored:
            reply.thinking_s = self._begun.thinking_s  # nobody thought
        # A reply that went on has tokens of two requests, and only its text says where the first ended.
        reply.token_ids = event.token_ids if not self._before.text and not self._before.thinking else ()
        self._close(event)

    def _spans_with(self, new: Sequence[TextSpan]) -> tuple[TextSpan, ...]:
        """Return what was drafted of the whole answer, where this request told of its part alone."""
        shift = len(self._begun.text)
        before = tuple(span for span in self.reply.drafted_spans if span.end <= shift)
        return (*before, *(TextSpan(span.start + shift, span.end + shift) for span in new))

    def _on_failed(self, request_id: str, error: ErrorInfo) -> None:
        if self._is_mine(request_id):
            self.fail(error)
