"""The turns of a conversation as values that the window shows."""

import dataclasses
import enum
import functools
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.document_text import Document, split_documents
from engine import (
    CacheReport,
    CacheSource,
    ErrorInfo,
    FinishReason,
    PrefillProgress,
    RequestMetrics,
    RequestState,
    SpeculativeStats,
    TextSpan,
    TurnsDropped,
)

_UNFINISHED = (FinishReason.ABORT, FinishReason.LENGTH, FinishReason.CONTEXT_FULL)


class ReplyState(enum.Enum):
    """Where a reply is."""

    WAITING_FOR_MODEL = "waiting_for_model"
    REQUESTED = "requested"
    WRITING = "writing"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # the program ended before the reply did


class TurnAction(enum.Enum):
    """What a person can do with one message."""

    RETRY = "retry"
    CONTINUE = "continue"
    EDIT = "edit"
    BRANCH = "branch"
    DELETE = "delete"
    PREVIOUS_VARIANT = "previous_variant"
    NEXT_VARIANT = "next_variant"
    DETAILS = "details"


def _new_id() -> str:
    return uuid.uuid4().hex


@dataclasses.dataclass(eq=False, kw_only=True)
class _Placed:
    """What every message has by its place in the tree.

    Attributes:
        parent_id: the message before it, on every branch that goes through it.
        source_id: the message it was made from, by editing, asking again or going on.
        created_at: seconds since 1970; None until it is known.
        variant, num_variants: its number among the messages beside it, from 0, and how many those are.
    """

    turn_id: str = dataclasses.field(default_factory=_new_id)
    parent_id: str | None = None
    source_id: str | None = None
    created_at: float | None = None
    is_deleted: bool = False
    variant: int = 0
    num_variants: int = 1


@dataclasses.dataclass(eq=False)
class UserTurn(_Placed):
    """What the user said, exactly as typed, behind the documents that are part of it."""

    text: str

    @functools.cached_property
    def parts(self) -> tuple[tuple[Document, ...], str]:
        """The documents, and what was typed."""
        return split_documents(self.text)


class Begun(NamedTuple):
    """What a reply had when it was asked to go on; what a request tells comes after it."""

    text: str = ""
    thinking: str = ""
    thinking_s: float | None = None


@dataclasses.dataclass(eq=False)
class ReplyTurn(_Placed):
    """What the model answered, or is answering.

    Attributes:
        text: all of the answer that arrived.
        thinking: what the model thought before it.
        thinking_s: seconds it thought, so far or in all; None where it did not.
        dropped: the earlier turns that the model did not see, because the context is full.
        request_state: where the engine has it.
        prefill: how far the prompt is read, before the first token.
        finish_reason, stop_string, metrics: set when the reply is done.
        cache: what the prompt cache did for it; None where that is not known.
        speculative: what drafting did for its last request, so far or in all; None where that is not known.
        drafted_spans: what of `text` came from accepted drafts, rising.
        error: set when it failed; the text that had arrived stays.
        is_continuation: it is asked to go on after what it has said.
        is_edited: the user wrote it, or changed what the model had written.
        token_ids: what the model sampled; empty for an edited one.
        settings: what it was asked for with, by name: `sampling`, `system_prompt`, `chat_format`, `adapters`.
        model_fingerprint, template_hash: of the file and of its chat template.
    """

    model_name: str
    state: ReplyState = ReplyState.REQUESTED
    text: str = ""
    thinking: str = ""
    thinking_s: float | None = None
    dropped: TurnsDropped | None = None
    request_state: RequestState | None = None
    prefill: PrefillProgress | None = None
    finish_reason: FinishReason | None = None
    stop_string: str | None = None
    metrics: RequestMetrics | None = None
    cache: CacheReport | None = None
    speculative: SpeculativeStats | None = None
    drafted_spans: Sequence[TextSpan] = ()
    error: ErrorInfo | None = None
    is_continuation: bool = False
    is_edited: bool = False
    token_ids: Sequence[int] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    model_fingerprint: str = ""
    template_hash: str = ""

    @property
    def is_open(self) -> bool:
        """Whether more may come."""
        return self.state in (ReplyState.WAITING_FOR_MODEL, ReplyState.REQUESTED, ReplyState.WRITING)

    @property
    def is_thinking(self) -> bool:
        """Whether the model thinks at present and has not begun its answer."""
        return self.state is ReplyState.WRITING and bool(self.thinking) and not self.text

    @property
    def has_words(self) -> bool:
        """Whether anything arrived, answer or thinking."""
        return bool(self.text or self.thinking)

    @property
    def can_go_on(self) -> bool:
        """Whether it was ended before the model had ended it."""
        is_cut = self.finish_reason in _UNFINISHED or self.state in (ReplyState.FAILED, ReplyState.INTERRUPTED)
        return is_cut and not self.is_open and self.has_words

    @property
    def is_stored(self) -> bool:
        """Whether it was given again as it was stored, and not computed."""
        return self.metrics is not None and self.metrics.cache_source is CacheSource.RESPONSE

    def begun(self) -> Begun:
        """Return what it has said, to go on from there."""
        return Begun(self.text, self.thinking, self.thinking_s)

    def go_on_from(self, reply: "ReplyTurn") -> None:
        """Begin with what another one has said."""
        self.text, self.thinking, self.thinking_s = reply.begun()
        self.drafted_spans = reply.drafted_spans
        self.is_continuation = True

    def edited(self, text: str) -> "ReplyTurn":
        """Return one that stands beside it and has another answer, of the user's."""
        return ReplyTurn(
            self.model_name,
            state=ReplyState.DONE,
            text=text,
            thinking=self.thinking,
            is_edited=True,
            parent_id=self.parent_id,
            source_id=self.turn_id,
            created_at=time.time(),
        )

    def take_text_back(self) -> None:
        """Make the answer part of the thinking, which it turned out to be."""
        self.thinking, self.text = self.thinking + self.text, ""
        self.drafted_spans = ()


Turn = UserTurn | ReplyTurn


def words_of(turn: Turn) -> str:
    """Return what is read in a message: the text of its documents is not."""
    return turn.parts[1] if isinstance(turn, UserTurn) else turn.text
