"""An engine client for tests of the terminal: answers at once, from a script."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from engine import (
    Abort,
    CacheDescribed,
    CacheMissCause,
    CacheSource,
    CancelLoad,
    Command,
    Delta,
    DescribeCache,
    DescribeEngine,
    Device,
    DraftDescription,
    DraftMode,
    DraftSet,
    EngineDescribed,
    EngineDescription,
    EngineDied,
    EngineDiedError,
    EngineError,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Hello,
    KeptPrompt,
    LoadCancelled,
    LoadModel,
    LoadProgress,
    LogLine,
    MachineMeasured,
    MachineSpeed,
    MeasureMachine,
    ModelDescription,
    ModelLoaded,
    OnEvent,
    PrefillProgress,
    Prepare,
    Prepared,
    Rendered,
    RenderPrompt,
    RequestMetrics,
    RequestState,
    SetDraft,
    SpeculativeStats,
    StateChanged,
    TurnsDropped,
)


class Thought(NamedTuple):
    """A reply with thinking; a late one turns up as an answer first."""

    thinking: str
    text: str
    is_late: bool = False


class Cut(NamedTuple):
    """A reply that fills the context, after a number of earlier messages was left out, or one that is stopped."""

    text: str
    num_dropped: int = 0
    is_stopped: bool = False


Reply = str | Thought | Cut | EngineError | Callable[[], None]
DEATH = EngineDiedError("The engine stopped unexpectedly (SIGKILL).", "Load the model again.")


def description(path: str = "/x.gguf", *, notices: tuple[str, ...] = ()) -> ModelDescription:
    """Return a model's description."""
    return ModelDescription(
        path=path,
        name="tiny",
        architecture="llama",
        type_name="Q4_1",
        n_params=1,
        weight_bytes=1,
        n_ctx=512,
        n_ctx_requested=0,
        n_ctx_train=512,
        n_vocab=10,
        n_layer=1,
        n_batch=512,
        n_ubatch=512,
        n_seq_max=4,
        n_threads=2,
        n_gpu_layers=0,
        device="CPU",
        type_k="f16",
        type_v="f16",
        kv_bytes_per_token=4,
        has_chat_template=True,
        load_s=0.1,
        notices=notices,
    )


class ScriptedClient:
    """See EngineClient.

    Args:
        replies: one for each Generate, in turn: a text, an error, or a function to call before nothing else happens
            until the request is aborted.
        load: an error, or a function in the same sense, for the load; None loads well.
        draft: an error for every draft model; None takes each.
        speculative: what drafting did for each reply that was to be drafted.
    """

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        load: EngineError | Callable[[], None] | None = None,
        notices: tuple[str, ...] = (),
        draft: EngineError | None = None,
        speculative: SpeculativeStats | None = None,
        **described: object,
    ) -> None:
        self._draft = draft
        self._speculative = speculative
        self._described = described
        self._replies = list(replies)
        self._load = load
        self._notices = notices
        self._on_event: OnEvent = lambda event: None
        self._partial = ""
        self.commands: list[Command] = []
        self.is_closed = False
        self._kept: tuple[KeptPrompt, ...] = ()

    @property
    def requests(self) -> list[Generate]:
        """Every Generate that came."""
        return [command for command in self.commands if isinstance(command, Generate)]

    def start(self, on_event: OnEvent) -> None:
        """See EngineClient."""
        self._on_event = on_event
        on_event(Hello(protocol_version=1, pid=1, engine_version="test"))

    def send(self, command: Command) -> None:
        """See EngineClient."""
        self.commands.append(command)
        for event in self._answer(command):
            self._on_event(event)

    def close(self, timeout_s: float = 2.0) -> None:
        """See EngineClient."""
        self.is_closed = True

    def die(self) -> None:
        """Let the engine die while nothing is asked."""
        self._on_event(EngineDied(exit_code=-9, log_tail=(), error=DEATH.info()))

    def _answer(self, command: Command) -> Iterable[Event]:
        match command:
            case LoadModel():
                yield from self._answer_load(command)
            case Generate():
                yield from self._answer_generate(command)
            case SetDraft():
                yield self._answer_draft(command)
            case Prepare():
                yield from self._answer_prepare(command)
            case DescribeCache():
                yield CacheDescribed(
                    request_id=command.request_id,
                    kept=self._kept,
                    ram_bytes=0,
                    max_ram_bytes=0,
                    disk_bytes=0,
                    max_disk_bytes=0,
                )
            case CancelLoad():
                yield LoadCancelled(request_id=command.request_id)
            case Abort():
                yield self._finished(command.request_id, self._partial, FinishReason.ABORT)
            case RenderPrompt():
                text = "|".join(message.content for message in command.messages)
                yield Rendered(request_id=command.request_id, text=f"{command.options.chat_format}:{text}")
            case DescribeEngine():
                yield EngineDescribed(request_id=command.request_id, description=_ENGINE)
            case MeasureMachine():
                yield MachineMeasured(request_id=command.request_id, speed=_SPEED)
            case _:
                raise AssertionError(f"unexpected {command}")

    def _answer_draft(self, command: SetDraft) -> Event:
        if self._draft is not None:
            return Failed(request_id=command.request_id, error=self._draft.info())
        draft = (
            None
            if command.path is None
            else DraftDescription(
                path=command.path,
                name="small",
                type_name="Q4_0",
                device="CPU",
                weight_bytes=90 << 20,
                total_bytes=100 << 20,
                load_s=0.1,
            )
        )
        return DraftSet(request_id=command.request_id, draft=draft)

    def _answer_prepare(self, command: Prepare) -> Iterable[Event]:
        for done in (4, 8):
            yield PrefillProgress(
                request_id=command.request_id, num_done_tokens=done, num_total_tokens=8, num_cached_tokens=2
            )
        yield Prepared(
            request_id=command.request_id,
            name=command.name,
            num_tokens=8,
            num_cached_tokens=2,
            source=CacheSource.DISK,
            num_bytes=80,
            is_in_ram=True,
            is_for_disk=True,
            seconds=0.5,
        )
        kept = KeptPrompt(
            source=CacheSource.DISK,
            model_name="tiny",
            num_tokens=8,
            num_bytes=80,
            chat_id=None,
            last_used=None,
            name=command.name,
        )
        self._kept = (kept,)

    def _answer_load(self, command: LoadModel) -> Iterable[Event]:
        yield LogLine(level=20, text="loading")
        yield LoadProgress(request_id=command.request_id, progress=0.5)
        match self._load:
            case None:
                yield ModelLoaded(
                    request_id=command.request_id,
                    description=msgspec.structs.replace(
                        description(command.path, notices=self._notices), **self._described
                    ),
                )
            case EngineError() as error:
                yield Failed(request_id=command.request_id, error=error.info())
            case act:
                act()

    def _answer_generate(self, command: Generate) -> Iterable[Event]:
        request_id = command.request_id
        yield StateChanged(request_id=request_id, state=RequestState.PREFILL)
        yield PrefillProgress(request_id=request_id, num_done_tokens=4, num_total_tokens=8, num_cached_tokens=2)
        reply = self._replies.pop(0)
        if isinstance(reply, EngineError):
            yield Failed(request_id=request_id, error=reply.info())
            if isinstance(reply, EngineDiedError):
                yield EngineDied(exit_code=-9, log_tail=(), error=reply.info())
            return
        if isinstance(reply, Thought):
            yield from self._answer_thought(request_id, reply)
            return
        if isinstance(reply, Cut):
            if reply.num_dropped:
                yield TurnsDropped(request_id=request_id, num_messages=reply.num_dropped, num_tokens=99)
            if reply.text:
                yield Delta(
                    request_id=request_id, text=reply.text, num_generated_tokens=1, num_context_tokens=9, decode_s=0.1
                )
            reason = FinishReason.ABORT if reply.is_stopped else FinishReason.CONTEXT_FULL
            yield self._finished(request_id, reply.text, reason)
            return
        text = reply if isinstance(reply, str) else "par"
        for number, piece in enumerate(text.split(" ")):
            shown = piece if number == 0 else f" {piece}"
            yield Delta(
                request_id=request_id, text=shown, num_generated_tokens=number + 1, num_context_tokens=9, decode_s=0.1
            )
        if isinstance(reply, str):
            yield self._finished(request_id, text, FinishReason.STOP)
        else:
            self._partial = text
            reply()

    def _answer_thought(self, request_id: str, reply: Thought) -> Iterable[Event]:
        delta = Delta(request_id=request_id, text="", num_generated_tokens=1, num_context_tokens=9, decode_s=0.1)
        if reply.is_late:
            yield msgspec.structs.replace(delta, text=reply.thinking)
            yield msgspec.structs.replace(delta, text=reply.text, was_thinking=True)
        else:
            yield msgspec.structs.replace(delta, thinking=reply.thinking)
            yield msgspec.structs.replace(delta, text=reply.text)
        finished = self._finished(request_id, reply.text, FinishReason.STOP)
        yield msgspec.structs.replace(finished, thinking=reply.thinking)

    def _finished(self, request_id: str, text: str, reason: FinishReason) -> Finished:
        return Finished(
            request_id=request_id,
            text=text,
            token_ids=(1, 2),
            finish_reason=reason,
            speculative=None if self.requests[-1].speculative.mode is DraftMode.OFF else self._speculative,
            metrics=RequestMetrics(
                num_prompt_tokens=8,
                num_cached_tokens=2,
                num_generated_tokens=3,
                ttft_s=0.25,
                prefill_s=0.2,
                decode_s=0.5,
                cache_miss_cause=CacheMissCause.FIRST_USE,
                seed=7,
            ),
        )


_ENGINE = EngineDescription(
    binding="0.3.36",
    library="0.5",
    features="AVX2",
    devices=(Device(name="CPU", description="a processor", kind="cpu", total_bytes=8, free_bytes=None),),
    default_threads=2,
)
_SPEED = MachineSpeed(n_threads=2, read_bandwidth=2.5e10, buffer_bytes=1 << 27, cache_bytes=1 << 25, matmul_rate=1.2e11)
