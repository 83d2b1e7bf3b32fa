"""One engine for a program that waits: starts a client, loads, asks, and yields what comes of it."""

import dataclasses
import itertools
import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NoReturn, TypeVar

from app.cli.event_queue import EventQueue, Interrupt
from app.known_models import KnownModels
from app.memory_record import MemoryRecord
from engine import (
    Abort,
    Adapter,
    BuildImportance,
    CacheDescribed,
    CacheParams,
    CacheTypeRow,
    CacheTypesMeasured,
    CancelLoad,
    ChatMessage,
    Command,
    Delta,
    DescribeCache,
    DescribeEngine,
    DraftDescription,
    DraftSet,
    EngineClient,
    EngineDescribed,
    EngineDescription,
    EngineDied,
    Event,
    Failed,
    Finished,
    Generate,
    ImportanceBuilt,
    ImportanceCancelled,
    ImportanceProgress,
    LoadCancelled,
    LoadModel,
    LoadProgress,
    LogLine,
    MachineMeasured,
    MachineSpeed,
    MeasureCacheTypes,
    MeasureMachine,
    ModelDescription,
    ModelLoaded,
    ModelParams,
    Overflow,
    PrefillProgress,
    Prepare,
    PrepareCancelled,
    Prepared,
    PromptOptions,
    Rendered,
    RenderPrompt,
    RequestMetrics,
    SamplingParams,
    SetDraft,
    SpeculativeParams,
    TurnsDropped,
    error_from_info,
)

_LOG = logging.getLogger(__name__)
_ENGINE_LOG = logging.getLogger("engine.worker")
_Answer = TypeVar("_Answer", Rendered, EngineDescribed, CacheTypesMeasured, MachineMeasured, CacheDescribed, DraftSet)
_Asking = RenderPrompt | DescribeEngine | DescribeCache | MeasureCacheTypes | MeasureMachine | SetDraft
_FINAL = (
    *(Finished, Failed, ModelLoaded, LoadCancelled, Rendered, DraftSet),
    *(EngineDescribed, CacheTypesMeasured, MachineMeasured, ImportanceBuilt, ImportanceCancelled),
    *(Prepared, PrepareCancelled, CacheDescribed),
)

# A chat goes on when it is longer than the context; that it was cut is said.
USUAL_OPTIONS = PromptOptions(overflow=Overflow.DROP_OLDEST)
_PLAIN = SpeculativeParams()


@dataclasses.dataclass(frozen=True)
class Answer:
    """How a request ended.

    Attributes:
        client_ttft_s: seconds from the question to the first text, on this process's clock; None without any text.
    """

    finished: Finished
    client_ttft_s: float | None


class ChatSession:
    """One engine, used by one thread that waits.

    Args:
        client: not started yet.
        memory: learns from replies what their models have taken.

    Attributes:
        events: what the engine has sent.
        cache: what is kept of prompts from the next load on; None leaves it to the engine.
        engine: what it said of itself when the model was loaded; None where nothing was to be learned of it.
        drafts: whether a person writes, with time between the messages to measure what drafting needs to know.
    """

    def __init__(self, client: EngineClient, *, memory: MemoryRecord | None = None) -> None:
        self._client = client
        self._memory = memory
        self.engine: EngineDescription | None = None
        self.events = EventQueue()
        self._numbers = itertools.count(1)
        self._is_started = False
        self.model: ModelDescription | None = None
        self.was_interrupted = False
        self.may_read_ahead = True
        self.cache: CacheParams | None = None
        self.drafts = False

    def __enter__(self) -> "ChatSession":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the engine."""
        if self._is_started:
            self._client.close()

    def interrupt(self) -> None:
        """Stop what is being waited for; may be called from a signal handler.

        A second one, before the first was answered, raises KeyboardInterrupt in the waiting thread.
        """
        self.events.interrupt()

    def forget_the_past(self) -> None:
        """Take note of what came while nothing was waited for; a Ctrl-C that came too late stops nothing."""
        for event in self.events.waiting():
            self._note(event)

    def interrupted_by_ctrl_c(self) -> AbstractContextManager[None]:
        """Let Ctrl-C stop the request that runs, instead of the program."""
        return self.events.fed_by_ctrl_c()

    def load(self, path: str, params: ModelParams, known: KnownModels | None = None) -> Iterator[float]:
        """Load a model, yielding the share that is done; `model` describes it afterwards.

        Args:
            known: says whether the file needs a trial first, and remembers it when it is loaded.

        Raises:
            EngineError: it could not be loaded.
            KeyboardInterrupt: it was given up.
        """
        request_id = self._next_id("load")
        self.model = None
        self.was_interrupted = False
        is_known = known is not None and known.has(path, params)
        self.send(
            LoadModel(
                request_id=request_id,
                path=path,
                params=params,
                is_known=is_known,
                cache=self.cache,
                drafts=self.drafts,
            )
        )
        for event in self._answers(request_id, CancelLoad(request_id=request_id)):
            match event:
                case LoadProgress():
                    yield event.progress
                case ModelLoaded():
                    self.model = event.description
                    if known is not None:
                        known.add(path, params)
                case Failed():
                    if known is not None:  # the engine may have died of that very file
                        known.forget(path, params)
                    self._raise(event)
                case _:
                    pass
        if self.was_interrupted:  # the load may have ended well before it was told
            raise KeyboardInterrupt
        if self._memory is not None:
            self.engine = self.describe_engine()

    def ask(
        self,
        messages: tuple[ChatMessage, ...],
        sampling: SamplingParams,
        *,
        chat_id: str | None = None,
        adapters: tuple[Adapter, ...] = (),
        options: PromptOptions = USUAL_OPTIONS,
        speculative: SpeculativeParams = _PLAIN,
        is_fresh: bool = False,
    ) -> Iterator[TurnsDropped | PrefillProgress | Delta | Answer]:
        """Request a reply, yielding what comes of it; the last item is the Answer.

        Raises:
            EngineError: the request failed.
        """
        request_id = self._next_id("ask")
        begin = time.perf_counter()
        first_text: float | None = None
        self.was_interrupted = False
        self.send(
            Generate(
                request_id=request_id,
                messages=messages,
                sampling=sampling,
                chat_id=chat_id,
                adapters=adapters,
                options=options,
                read_ahead=self.may_read_ahead,
                speculative=speculative,
                is_fresh=is_fresh,
            )
        )
        for event in self._answers(request_id, Abort(request_id=request_id)):
            match event:
                case Delta():
                    first_text = first_text or time.perf_counter() - begin
                    yield event
                case PrefillProgress() | TurnsDropped():
                    yield event
                case Finished():
                    self._learn(event.metrics)  # before: whoever has the answer asks for no more
                    yield Answer(event, first_text)
                case Failed():
                    self._raise(event)
                case _:
                    pass

    def set_draft(self, path: str | None, params: ModelParams) -> DraftDescription | None:
        """Let a model draft for the loaded one, or none any more, and return what is known of it.

        Raises:
            EngineError: it cannot be used.
            KeyboardInterrupt: it was given up.
        """
        command = SetDraft(request_id=self._next_id("draft"), path=path, params=params)
        try:
            return self._only_answer(command, DraftSet).draft
        except KeyboardInterrupt:  # takes the place of the load, or of what was loaded
            self.send(SetDraft(request_id=self._next_id("draft"), path=None))
            raise

    def prepare(
        self,
        messages: tuple[ChatMessage, ...],
        name: str,
        *,
        adapters: tuple[Adapter, ...] = (),
        options: PromptOptions = USUAL_OPTIONS,
    ) -> Iterator[PrefillProgress | Prepared]:
        """Have the beginning of a prompt read, yielding how far it is; Prepared comes last, unless it was given up.

        Raises:
            EngineError: it cannot be read.
        """
        request_id = self._next_id("prepare")
        self.was_interrupted = False
        self.send(Prepare(request_id=request_id, messages=messages, name=name, adapters=adapters, options=options))
        for event in self._answers(request_id, Abort(request_id=request_id)):
            match event:
                case PrefillProgress() | Prepared():
                    yield event
                case Failed():
                    self._raise(event)

    def describe_cache(self) -> CacheDescribed:
        """Return what is kept of prompts, as long as the engine lives."""
        return self._only_answer(DescribeCache(request_id=self._next_id("cache")), CacheDescribed)

    def render(self, messages: tuple[ChatMessage, ...], options: PromptOptions = USUAL_OPTIONS) -> str:
        """Return the prompt text of a chat.

        Raises:
            EngineError: there is none.
        """
        command = RenderPrompt(request_id=self._next_id("render"), messages=messages, options=options)
        return self._only_answer(command, Rendered).text

    def describe_engine(self) -> EngineDescription:
        """Return versions and devices of the engine.

        Raises:
            EngineError: it did not start.
        """
        return self._only_answer(DescribeEngine(request_id=self._next_id("describe")), EngineDescribed).description

    def measure_cache_types(self) -> tuple[CacheTypeRow, ...]:
        """Return size and speed of the cache types with the loaded model; takes some seconds.

        Raises:
            EngineError: there is no model, or the engine died.
        """
        return self._only_answer(MeasureCacheTypes(request_id=self._next_id("measure")), CacheTypesMeasured).rows

    def measure_machine(self) -> MachineSpeed:
        """Return how fast the machine reads memory and multiplies, by the threads a model gets; takes a second.

        Raises:
            EngineError: the engine did not start, or died.
        """
        return self._only_answer(MeasureMachine(request_id=self._next_id("machine")), MachineMeasured).speed

    def build_importance(
        self, path: str, *, text: str = "", text_name: str = ""
    ) -> Iterator[ImportanceProgress | ImportanceBuilt]:
        """Write the importance matrix of the loaded model to a file, yielding how far it is.

        Args:
            text: empty takes the one that comes with the program.

        Raises:
            EngineError: it could not be built.
            KeyboardInterrupt: it was given up.
        """
        request_id = self._next_id("importance")
        self.was_interrupted = False
        self.send(BuildImportance(request_id=request_id, path=path, text=text, text_name=text_name))
        for event in self._answers(request_id, Abort(request_id=request_id)):
            match event:
                case ImportanceProgress() | ImportanceBuilt():
                    yield event
                case ImportanceCancelled():
                    raise KeyboardInterrupt
                case Failed():
                    self._raise(event)
                case _:
                    pass

    def _learn(self, metrics: RequestMetrics) -> None:
        """Have the record note what the model has taken, if the reply tells."""
        if self._memory is not None and self.engine is not None and self.model is not None:
            self._memory.note(self.model, metrics, features=self.engine.features)

    def _next_id(self, what: str) -> str:
        return f"{what}-{next(self._numbers)}"

    def send(self, command: Command) -> None:
        """Send a command whose answer, if it has one, is not waited for."""
        if not self._is_started:
            self._is_started = True
            self._client.start(self.events.put)
        self._client.send(command)

    def _only_answer(self, command: _Asking, kind: type[_Answer]) -> _Answer:
        """Send a command that has one answer, and return it; Ctrl-C gives up."""
        self.send(command)
        for event in self._answers(command.request_id, None):
            match event:
                case kind():
                    return event
                case Failed():
                    self._raise(event)
                case _:
                    pass
        raise KeyboardInterrupt

    def _answers(self, request_id: str, give_up: Command | None) -> Iterator[Event]:
        """Yield the events of one request up to its final one."""
        while True:
            event = self.events.wait()
            if isinstance(event, Interrupt):
                if give_up is None or self.was_interrupted:
                    raise KeyboardInterrupt
                self.was_interrupted = True
                self._client.send(give_up)
                continue
            self._note(event)
            if getattr(event, "request_id", None) == request_id:
                yield event
                if isinstance(event, _FINAL):
                    return

    def _note(self, event: Event | Interrupt) -> None:
        match event:
            case LogLine():
                _ENGINE_LOG.log(event.level, "%s", event.text)
            case EngineDied():
                self.model = None
                _LOG.error("the engine died (exit code %s): %s", event.exit_code, event.error.message)
            case _:
                pass

    def _raise(self, failed: Failed) -> NoReturn:
        error = error_from_info(failed.error)
        _LOG.error("request %s failed: %s: %s", failed.request_id, failed.error.error, error.message)
        if error.details:
            _LOG.info("%s", error.details)
        raise error
