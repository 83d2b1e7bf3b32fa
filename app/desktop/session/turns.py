"""The turns of a conversation as values that the window shows."""

import dataclasses
import enum
import uuid

from engine import ErrorInfo, FinishReason, PrefillProgress, RequestMetrics, RequestState


class ReplyState(enum.Enum):
    """Where a reply is."""

    WAITING_FOR_MODEL = "waiting_for_model"
    REQUESTED = "requested"
    WRITING = "writing"
    DONE = "done"
    FAILED = "failed"


def _new_id() -> str:
    return uuid.uuid4().hex


@dataclasses.dataclass(eq=False)
class UserTurn:
    """What the user said, exactly as typed."""

    text: str
    turn_id: str = dataclasses.field(default_factory=_new_id)


@dataclasses.dataclass(eq=False)
class ReplyTurn:
    """What the model answered, or is answering.

    Attributes:
        text: all that arrived.
        request_state: where the engine has it.
        prefill: how far the prompt is read, before the first token.
        finish_reason, stop_string, metrics: set when the reply is done.
        error: set when it failed; the text that had arrived stays.
        is_repeat: it is asked for once more; the earlier text stays until the first new piece.
    """

    model_name: str
    turn_id: str = dataclasses.field(default_factory=_new_id)
    state: ReplyState = ReplyState.REQUESTED
    text: str = ""
    request_state: RequestState | None = None
    prefill: PrefillProgress | None = None
    finish_reason: FinishReason | None = None
    stop_string: str | None = None
    metrics: RequestMetrics | None = None
    error: ErrorInfo | None = None
    is_repeat: bool = False

    @property
    def is_open(self) -> bool:
        """Whether more may come."""
        return self.state in (ReplyState.WAITING_FOR_MODEL, ReplyState.REQUESTED, ReplyState.WRITING)

    def forget_outcome(self) -> None:
        """Forget how the reply ended, not what it said."""
        self.request_state = self.prefill = self.finish_reason = self.stop_string = self.metrics = self.error = None


Turn = UserTurn | ReplyTurn
