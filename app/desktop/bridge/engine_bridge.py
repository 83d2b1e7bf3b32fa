"""EngineBridge: the one place where events of the engine's reader thread become signals of the window's thread."""

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot

from app.desktop.bridge.joined_deltas import joined_events
from engine import (
    Abort,
    Adapter,
    CacheDescribed,
    CacheParams,
    CacheRefused,
    CancelLoad,
    ChatMessage,
    ClearCache,
    Counted,
    CountTokens,
    Delta,
    DescribeCache,
    DescribeEngine,
    DraftSet,
    EngineClient,
    EngineDescribed,
    EngineDescription,
    EngineDied,
    EngineError,
    Event,
    Failed,
    Finished,
    ForgetChats,
    ForgetNamed,
    Generate,
    Hello,
    LoadCancelled,
    LoadModel,
    LoadProgress,
    LogLine,
    MachineMeasured,
    MeasureMachine,
    ModelLoaded,
    ModelParams,
    OpenChat,
    PrefillProgress,
    Prepare,
    PrepareCancelled,
    Prepared,
    PromptOptions,
    SamplingParams,
    SetCache,
    SetDraft,
    SpeculativeParams,
    StateChanged,
    ThreadsChanged,
    TurnsDropped,
    UnloadModel,
)

_LOG = logging.getLogger(__name__)
_ENGINE_LOG = logging.getLogger("engine.worker")
_TICK_MS, _SLOWEST_TICK_MS = 33, 500
# An update may take at most this share of the time between two.
_PACE = 4.0
# These can wait for the next tick; anything else wakes the window at once.
_PATIENT = (Delta, PrefillProgress, LoadProgress, LogLine, StateChanged)


class EngineBridge(QObject):
    """Owns the client; joins the deltas of a tick into one per request.

    The timer runs only while a load or a reply is open; all other answers wake the window themselves. It slows down
    when updates are expensive, so that a slow machine shows text in larger pieces instead of freezing.

    Signals:
        load_progressed: request id, share 0 to 1.
        model_loaded: request id, ModelDescription.
        load_cancelled: request id.
        load_failed: request id, ErrorInfo.
        state_changed: StateChanged.
        threads_changed: ThreadsChanged.
        turns_dropped: TurnsDropped.
        prefill_progressed: PrefillProgress.
        delta_received: Delta with all text and thinking since the last one.
        reply_finished: Finished.
        reply_failed: request id, ErrorInfo.
        prepare_ended: Prepared, PrepareCancelled or Failed.
        counted: request id, number of prompt tokens.
        count_failed: request id, ErrorInfo.
        engine_described: EngineDescription.
        machine_measured: MachineSpeed.
        machine_not_measured: ErrorInfo.
        cache_described: CacheDescribed.
        cache_not_described: request id.
        cache_refused: ErrorInfo: what was read is not kept on disk.
        draft_set: request id, DraftDescription, or None where there is no draft model now.
        draft_refused: request id, ErrorInfo.
        engine_died: EngineDied; every open request has failed before.
    """

    load_progressed = Signal(str, float)
    model_loaded = Signal(str, object)
    load_cancelled = Signal(str)
    load_failed = Signal(str, object)
    state_changed = Signal(object)
    threads_changed = Signal(object)
    turns_dropped = Signal(object)
    prefill_progressed = Signal(object)
    delta_received = Signal(object)
    reply_finished = Signal(object)
    reply_failed = Signal(str, object)
    prepare_ended = Signal(object)
    counted = Signal(str, int)
    count_failed = Signal(str, object)
    engine_described = Signal(object)
    machine_measured = Signal(object)
    machine_not_measured = Signal(object)
    cache_described = Signal(object)
    cache_not_described = Signal(str)
    cache_refused = Signal(object)
    draft_set = Signal(str, object)
    draft_refused = Signal(str, object)
    engine_died = Signal(object)

    _woken = Signal()

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._events: deque[Event] = deque()
        self._loads: set[str] = set()
        self._replies: set[str] = set()
        self._preparing: set[str] = set()
        self._questions: dict[str, Callable[[Failed], None]] = {}  # what is done when one is not answered
        self._worker_pid: int | None = None
        self._engine: EngineDescription | None = None
        self._is_woken = self._is_closed = False
        self._timer = QTimer(self)
        self._timer.setInterval(_TICK_MS)
        self._timer.timeout.connect(self._drain)
        self._woken.connect(self._drain, Qt.ConnectionType.QueuedConnection)

    @property
    def is_ticking(self) -> bool:
        """Whether the timer runs."""
        return self._timer.isActive()

    @property
    def worker_pid(self) -> int | None:
        """Process id of the worker; None until it has come up, and after its death."""
        return self._worker_pid

    @property
    def engine(self) -> EngineDescription | None:
        """What the engine said of itself last; None until it was asked."""
        return self._engine

    def start(self) -> None:
        """Start the engine without waiting for it."""
        try:
            self._client.start(self._on_event)
        except EngineError as error:
            self._on_event(EngineDied(exit_code=None, log_tail=(), error=error.info()))

    def load_model(self, path: str, params: ModelParams, **options: Any) -> str:
        """Load a model and return the request id; `options` are further fields of LoadModel."""
        request_id = _new_id("load")
        self._loads.add(request_id)
        self._client.send(LoadModel(request_id=request_id, path=path, params=params, **options))
        self._timer.start()
        return request_id

    def cancel_load(self, request_id: str) -> None:
        """Give up a load."""
        self._client.send(CancelLoad(request_id=request_id))

    def unload_model(self) -> None:
        """Free the memory of the model; replies in progress fail."""
        self._client.send(UnloadModel())

    def generate(
        self,
        messages: Sequence[ChatMessage],
        sampling: SamplingParams,
        *,
        chat_id: str,
        options: PromptOptions,
        adapters: Sequence[Adapter] = (),
        read_ahead: bool = True,
        is_private: bool = False,
        speculative: SpeculativeParams | None = None,
        is_fresh: bool = False,
    ) -> str:
        """Ask for a reply and return the request id; see Generate."""
        request_id = _new_id("reply")
        self._replies.add(request_id)
        self._client.send(
            Generate(
                request_id=request_id,
                messages=tuple(messages),
                sampling=sampling,
                chat_id=chat_id,
                adapters=tuple(adapters),
                options=options,
                read_ahead=read_ahead,
                is_private=is_private,
                speculative=speculative or SpeculativeParams(),
                is_fresh=is_fresh,
            )
        )
        self._timer.start()
        return request_id

    def prepare(self, command: Prepare) -> None:
        """Have the beginning of a prompt read."""
        self._preparing.add(command.request_id)
        self._client.send(command)
        self._timer.start()

    def abort(self, request_id: str) -> None:
        """Stop a reply, or the reading of a beginning; it still ends."""
        self._client.send(Abort(request_id=request_id))

    def count_tokens(self, messages: Sequence[ChatMessage], options: PromptOptions) -> str:
        """Ask how many tokens the prompt of a chat has and return the request id; exactly one answer follows."""
        request_id = self._ask("count", lambda event: self.count_failed.emit(event.request_id, event.error))
        self._client.send(CountTokens(request_id=request_id, messages=tuple(messages), options=options))
        return request_id

    def describe_engine(self) -> None:
        """Ask for versions and devices."""
        self._client.send(DescribeEngine(request_id=self._ask("describe", lambda event: None)))

    def measure_machine(self) -> None:
        """Ask how fast memory is read here, which takes the engine a second."""
        request_id = self._ask("measure", lambda event: self.machine_not_measured.emit(event.error))
        self._client.send(MeasureMachine(request_id=request_id))

    def set_draft(self, path: str | None, params: ModelParams) -> str:
        """Let a model draft for the loaded one, or none any more, and return the request id; see SetDraft."""
        request_id = self._ask("draft", lambda event: self.draft_refused.emit(event.request_id, event.error))
        self._client.send(SetDraft(request_id=request_id, path=path, params=params))
        return request_id

    def set_cache(self, params: CacheParams) -> None:
        """Set the limits of the prompt cache; see SetCache."""
        self._client.send(SetCache(params=params))

    def describe_cache(self, *, clears: bool = False) -> str:
        """Ask what is kept of prompts, after all of it was dropped if so wanted, and return the request id."""
        request_id = self._ask("cache", lambda event: self.cache_not_described.emit(event.request_id))
        self._client.send(ClearCache(request_id=request_id) if clears else DescribeCache(request_id=request_id))
        return request_id

    def forget_chats(self, chat_ids: Sequence[str]) -> None:
        """Drop what is kept of these chats."""
        self._client.send(ForgetChats(chat_ids=tuple(chat_ids)))

    def forget_named(self, names: Sequence[str]) -> None:
        """Drop what is kept under these names."""
        self._client.send(ForgetNamed(names=tuple(names)))

    def open_chat(self, chat_id: str) -> None:
        """Let what is kept of a chat on disk be read: it is about to be gone on with."""
        self._client.send(OpenChat(chat_id=chat_id))

    def close(self, timeout_s: float) -> None:
        """End the engine; no signal is emitted afterwards."""
        self._is_closed = True
        self._timer.stop()
        self._client.close(timeout_s=timeout_s)
        self._events.clear()

    def _on_event(self, event: Event) -> None:
        """Take an event; called on the reader thread, so it touches the queue and nothing else."""
        self._events.append(event)
        # One call to wake the window is enough however many events come before it follows: the flag is taken back
        # before the queue is looked at, so none is left lying.
        if not isinstance(event, _PATIENT) and not self._is_closed and not self._is_woken:
            self._is_woken = True
            self._woken.emit()

    @Slot()
    def _drain(self) -> None:
        if self._is_closed:
            return
        self._is_woken = False
        begin = time.perf_counter()
        try:
            self._hand_out()
        except Exception:  # of a listener: what came after it is not to wait for the next event
            self._woken.emit()
            raise
        if not (self._loads or self._replies or self._preparing):
            self._timer.stop()
        spent_ms = (time.perf_counter() - begin) * 1000
        self._timer.setInterval(round(min(max(_TICK_MS, _PACE * spent_ms), _SLOWEST_TICK_MS)))

    def _hand_out(self) -> None:
        for event in joined_events(self._events):
            self._dispatch(event)

    def _dispatch(self, event: Event) -> None:
        if not isinstance(event, Failed):
            self._questions.pop(getattr(event, "request_id", ""), None)  # it is answered
        match event:
            case Delta():
                self.delta_received.emit(event)
            case Finished():
                self._replies.discard(event.request_id)
                self.reply_finished.emit(event)
            case Failed():
                self._on_failed(event)
            case StateChanged():
                self.state_changed.emit(event)
            case ThreadsChanged():
                self.threads_changed.emit(event)
            case TurnsDropped():
                self.turns_dropped.emit(event)
            case PrefillProgress():
                self.prefill_progressed.emit(event)
            case Prepared() | PrepareCancelled():
                self._preparing.discard(event.request_id)
                self.prepare_ended.emit(event)
            case Counted():
                self.counted.emit(event.request_id, event.num_tokens)
            case LogLine():
                _ENGINE_LOG.log(event.level, "%s", event.text)
            case _:
                self._dispatch_of_engine(event)

    def _dispatch_of_engine(self, event: Event) -> None:
        """Dispatch what is about the engine and its model, and comes seldom."""
        match event:
            case Hello():
                self._worker_pid = event.pid
            case LoadProgress():
                self.load_progressed.emit(event.request_id, event.progress)
            case ModelLoaded():
                self._loads.discard(event.request_id)
                self.model_loaded.emit(event.request_id, event.description)
            case LoadCancelled():
                self._loads.discard(event.request_id)
                self.load_cancelled.emit(event.request_id)
            case EngineDescribed():
                self._engine = event.description
                self.engine_described.emit(event.description)
            case MachineMeasured():
                self.machine_measured.emit(event.speed)
            case CacheDescribed():
                self.cache_described.emit(event)
            case CacheRefused():
                self.cache_refused.emit(event.error)
            case DraftSet():
                self.draft_set.emit(event.request_id, event.draft)
            case EngineDied():
                _LOG.warning("the engine died: %s", event.error.message)
                self._worker_pid = None
                self.engine_died.emit(event)
            case _:
                _LOG.debug("nothing in the window waits for %s", type(event).__name__)

    def _on_failed(self, event: Failed) -> None:
        if event.request_id in self._loads:
            self._loads.discard(event.request_id)
            self.load_failed.emit(event.request_id, event.error)
        elif event.request_id in self._replies:
            self._replies.discard(event.request_id)
            self.reply_failed.emit(event.request_id, event.error)
        elif event.request_id in self._preparing:
            self._preparing.discard(event.request_id)
            self.prepare_ended.emit(event)
        elif (tell := self._questions.pop(event.request_id, None)) is not None:
            tell(event)

    def _ask(self, kind: str, on_failure: Callable[[Failed], None]) -> str:
        """Return the id of a question that gets exactly one answer."""
        request_id = _new_id(kind)
        self._questions[request_id] = on_failure
        return request_id


def _new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"
