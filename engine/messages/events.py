"""What a worker tells its front end."""

import enum

import msgspec

from engine.errors import ErrorInfo
from engine.messages.cache import CacheDescribed, CacheRefused, PrepareCancelled, Prepared
from engine.messages.described import (
    BareLoopRun,
    CacheTypesMeasured,
    EngineDescribed,
    MachineMeasured,
)
from engine.messages.importance import ImportanceBuilt, ImportanceCancelled, ImportanceProgress
from engine.messages.speculative import DraftSet
from engine.metrics import CacheReport, RequestMetrics, SpeculativeStats


class FinishReason(enum.Enum):
    """Why a reply ended; an error is Failed, not a reason."""

    STOP = "stop"
    LENGTH = "length"
    CONTEXT_FULL = "context_full"
    ABORT = "abort"


class RequestState(enum.Enum):
    """Where a request is."""

    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    PAUSED = "paused"


class MemoryKind(enum.Enum):
    """How a model keeps its context, which says what can be reused of it."""

    PLAIN = "plain"  # every token has a cell; any tail can be dropped
    WINDOW = "window"  # some layers keep the latest tokens only
    RECURRENT = "recurrent"  # one state that each token changes
    HYBRID = "hybrid"  # some layers of each kind


class ModelDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about a model when it was loaded.

    Attributes:
        n_ctx: size of the shared KV pool in tokens, and the most one chat can hold.
        n_ctx_requested: what was asked for; 0 where the engine chose.
        weight_bytes: bytes of the model's tensors.
        active_weight_bytes: the part of them that one token of decode reads: of experts only those in use, of a
            separate input table next to nothing; 0 where it is not known.
        kv_bytes_per_token: bytes one more token takes in the KV cache, of all layers that keep every token; layers with
            a window count only where there are no others; 0 where states are all a model keeps.
        cache_bytes, compute_bytes: what the context takes: what holds it, and the buffers of a step.
        load_s: seconds from LoadModel to ModelLoaded.
        chat_format: what makes a chat into a prompt by default: "file" for the file's own template, the name of a
            known format, None where there is neither.
        chat_formats: names a request may choose from.
        can_think: whether its template marks thinking.
        notices: sentences a person should see, for example a changed context size.
    """

    path: str
    name: str
    architecture: str
    type_name: str
    n_params: int
    weight_bytes: int
    n_ctx: int
    n_ctx_requested: int
    n_ctx_train: int
    n_vocab: int
    n_layer: int
    n_batch: int
    n_ubatch: int
    n_seq_max: int
    n_threads: int
    n_gpu_layers: int
    device: str
    type_k: str
    type_v: str
    kv_bytes_per_token: int
    has_chat_template: bool
    load_s: float
    active_weight_bytes: int = 0
    memory: MemoryKind = MemoryKind.PLAIN
    cache_bytes: int = 0
    compute_bytes: int = 0
    chat_format: str | None = None
    chat_formats: tuple[str, ...] = ()
    can_think: bool = False
    notices: tuple[str, ...] = ()


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """First event of a worker."""

    protocol_version: int
    pid: int
    engine_version: str


class LogLine(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One line of the worker's or llama.cpp's log; `level` as in the logging module."""

    level: int
    text: str


class LoadProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Share of the load that is done, 0 to 1, never falling."""

    request_id: str
    progress: float


class ModelLoaded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The load with this id ended well."""

    request_id: str
    description: ModelDescription


class LoadCancelled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The load with this id was given up, and left no model or no draft model."""

    request_id: str


class ModelUnloaded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The model and its memory are gone."""


class StateChanged(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A request entered a state."""

    request_id: str
    state: RequestState


class ThreadsReason(enum.Enum):
    """Why so many threads compute."""

    ALL = "all"  # all that there are for it
    NEIGHBOUR = "neighbour"  # another program is using the processor
    QUOTA = "quota"  # the system allows fewer than when the model was loaded
    SHARED = "shared"  # another model of this front end computes too
    MEASURED = "measured"  # more are no faster


class ThreadsChanged(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Replies are computed with another number of threads from here on.

    Attributes:
        num_threads: for replies.
        num_prefill_threads: for prompts.
        num_available: that the machine had for them when the model was loaded.
        reason: of `num_threads`.
    """

    num_threads: int
    num_prefill_threads: int
    num_available: int
    reason: ThreadsReason


class TurnsDropped(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The chat was longer than the context: its oldest turns are not part of the prompt. Comes before the first token.

    Attributes:
        num_messages: messages left out, the system prompt never among them.
        num_tokens: about how many tokens those have.
        is_reply_cut: whether the beginning of the reply that is to be continued had to be left out as well.
    """

    request_id: str
    num_messages: int
    num_tokens: int
    is_reply_cut: bool = False


class PrefillProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Prompt tokens in the cache, reused ones included."""

    request_id: str
    num_done_tokens: int
    num_total_tokens: int
    num_cached_tokens: int


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """New text of a reply, joined over some milliseconds.

    Attributes:
        text: of the answer.
        thinking: of what the model thinks before it.
        was_thinking: whether all answer text so far turned out to be thinking; it comes before this event's own text.
        num_generated_tokens: tokens sampled so far.
        num_context_tokens: tokens this reply holds in the context so far.
        decode_s: seconds since the first token was sampled; with the count it gives the decode rate so far.
        speculative: what drafting has done so far; None where it was not asked for.
    """

    request_id: str
    text: str
    num_generated_tokens: int
    num_context_tokens: int
    decode_s: float
    thinking: str = ""
    was_thinking: bool = False
    speculative: SpeculativeStats | None = None


class TextSpan(msgspec.Struct, frozen=True):
    """A part of a text, in characters, `end` not included."""

    start: int
    end: int


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A reply ended.

    Attributes:
        text: the whole answer, equal to its deltas joined, what `was_thinking` took back left out.
        thinking: what came before the answer, without the tags around it.
        token_ids: the sampled tokens, a final end token left out.
        stop_string: the stop string that ended it, where one did.
        cache: what the prompt cache did for it.
        speculative: what drafting did for it; None where it was not asked for.
        drafted_spans: what of `text` came from accepted drafts, rising.
    """

    request_id: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    metrics: RequestMetrics
    stop_string: str | None = None
    thinking: str = ""
    cache: CacheReport | None = None
    speculative: SpeculativeStats | None = None
    drafted_spans: tuple[TextSpan, ...] = ()


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A request or a load ended with an error."""

    request_id: str
    error: ErrorInfo


class Counted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to CountTokens."""

    request_id: str
    num_tokens: int


class Rendered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to RenderPrompt."""

    request_id: str
    text: str


class EngineDied(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The worker is gone; every open request has failed before this event. Made by the client.

    Attributes:
        exit_code: of the process; negative is the signal that ended it, None unknown.
        log_tail: its last log lines.
    """

    exit_code: int | None
    log_tail: tuple[str, ...]
    error: ErrorInfo


Event = (
    Hello
    | LogLine
    | LoadProgress
    | ModelLoaded
    | LoadCancelled
    | ModelUnloaded
    | StateChanged
    | ThreadsChanged
    | TurnsDropped
    | PrefillProgress
    | Delta
    | Finished
    | Failed
    | Counted
    | Rendered
    | EngineDescribed
    | CacheTypesMeasured
    | MachineMeasured
    | BareLoopRun
    | ImportanceProgress
    | ImportanceBuilt
    | ImportanceCancelled
    | CacheDescribed
    | CacheRefused
    | DraftSet
    | Prepared
    | PrepareCancelled
    | EngineDied
)
