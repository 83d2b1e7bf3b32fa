"""The engines of a run: each loads a model, all they say comes through one queue, and asking waits for replies."""

import contextlib
import itertools
import logging
import queue
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from app.compare.events import CellText, RunEvent
from app.compare.machine_watch import MachineWatch
from app.compare.plan import Place
from app.compare.results import CellMachine, Column
from app.energy import EnergyMeter, ReplyEnergy
from engine import (
    CacheParams,
    ChatMessage,
    Command,
    Delta,
    DescribeEngine,
    EngineClient,
    EngineDescribed,
    EngineDescription,
    EngineDied,
    EngineUnavailable,
    ErrorInfo,
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    LogLine,
    MachineMeasured,
    MachineSpeed,
    MeasureMachine,
    ModelDescription,
    ModelLoaded,
    Role,
    SamplingParams,
    SetThreads,
    error_from_info,
)

_ENGINE_LOG = logging.getLogger("engine.worker")
_POLL_S = 0.2  # where a wait cannot be interrupted by a signal (Windows), Ctrl-C is seen after at most this long
_WARM_UP_TOKENS = 8
_WARM_UP = (ChatMessage(Role.USER, "Say hello."),)
_CLOSE_S = 2.0
_NO_COPIES = CacheParams(ram_mib=0)  # of earlier chats: they would count as memory of the model, and cost time
_Answer = TypeVar("_Answer", EngineDescribed, ModelLoaded, MachineMeasured)


class RunCancelled(Exception):
    """The user wants the run to stop: an outcome, not an error."""


class Inbox:
    """What all engines of a run say, in the order it came; and that the run is to stop."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[tuple[ColumnWorker, float, Event] | None] = queue.SimpleQueue()
        self._is_cancelled = False  # a plain value: a signal handler may take no lock

    def put(self, worker: "ColumnWorker", event: Event) -> None:
        """Take an event, from the thread of any client."""
        self._events.put((worker, time.perf_counter(), event))

    def cancel(self) -> None:
        """Have whoever waits here stop; may be called from any thread, or a signal handler."""
        self._is_cancelled = True
        self._events.put(None)

    def check(self) -> None:
        """Raise RunCancelled if the run is to stop."""
        if self._is_cancelled:
            raise RunCancelled

    def next(self) -> tuple["ColumnWorker", float, Event]:
        """Wait for an event.

        Raises:
            RunCancelled: the run is to stop.
        """
        while True:
            self.check()
            with contextlib.suppress(queue.Empty):
                item = self._events.get(timeout=_POLL_S)
                if item is not None:
                    return item


class ColumnWorker:
    """One engine with the model of a column, or of several that share file and settings.

    Attributes:
        model: what was loaded.
        is_alive: whether it can be asked.
    """

    def __init__(self, client: EngineClient, inbox: Inbox) -> None:
        self._client = client
        self._inbox = inbox
        self._numbers = itertools.count(1)
        self.model: ModelDescription | None = None
        self.is_alive = True
        client.start(lambda event: inbox.put(self, event))

    @property
    def pid(self) -> int | None:
        """Process of the engine, None where it has none of its own."""
        pid = getattr(self._client, "pid", None)
        return pid if isinstance(pid, int) else None

    def load(self, column: Column) -> ModelDescription:
        """Load the model of a column.

        Raises:
            EngineError: it cannot be loaded.
            RunCancelled: the run is to stop.
        """
        command = LoadModel(request_id=self.new_id(), path=column.path, params=column.params, cache=_NO_COPIES)
        self.model = self._answer(command, ModelLoaded).description
        return self.model

    def describe(self) -> EngineDescription:
        """Return versions and devices; loads the library, which is no part of loading a model."""
        return self._answer(DescribeEngine(request_id=self.new_id()), EngineDescribed).description

    def measure_machine(self) -> MachineSpeed:
        """Return how fast memory is read."""
        return self._answer(MeasureMachine(request_id=self.new_id()), MachineMeasured).speed

    def limit_threads(self, most: int) -> None:
        """Let it compute with no more threads."""
        self._client.send(SetThreads(most=most))

    def send(self, command: Command) -> None:
        """Hand over a command."""
        self._client.send(command)

    def new_id(self) -> str:
        """Return an id of a request."""
        return f"compare-{next(self._numbers)}"

    def close(self) -> None:
        """End the engine."""
        self.is_alive = False
        self._client.close(_CLOSE_S)

    def _answer(self, command: DescribeEngine | LoadModel | MeasureMachine, kind: type[_Answer]) -> _Answer:
        self._client.send(command)
        while True:
            worker, _, event = self._inbox.next()
            note(worker, event)
            if worker is not self or getattr(event, "request_id", None) != command.request_id:
                continue
            if isinstance(event, Failed):
                raise error_from_info(event.error)
            if isinstance(event, kind):
                return event


def note(worker: ColumnWorker, event: Event) -> None:
    """Take note of what is of interest whatever is being waited for."""
    if isinstance(event, LogLine):
        _ENGINE_LOG.log(event.level, "%s", event.text)
    elif isinstance(event, EngineDied):
        worker.is_alive = False
        _ENGINE_LOG.error("the engine died (exit code %s): %s", event.exit_code, event.error.message)


class Request(NamedTuple):
    """A reply to ask for."""

    worker: ColumnWorker
    place: Place
    column: Column
    messages: tuple[ChatMessage, ...]
    sampling: SamplingParams


class Reply(NamedTuple):
    """What came of a request: `finished` or `error`.

    Attributes:
        joules: that were drawn for it; None where that cannot be known.
        seconds: from the question to the end.
    """

    request: Request
    finished: Finished | None
    error: ErrorInfo | None
    joules: float | None
    machine: CellMachine
    seconds: float


def warm_up(inbox: Inbox, worker: ColumnWorker, column: Column) -> None:
    """Let a model answer once without being measured; a failure will show again where it counts."""
    sampling = SamplingParams(temperature=0, seed=0, max_tokens=_WARM_UP_TOKENS, reproducible=True)
    request = Request(worker, Place(column.id, "", 0), column, _WARM_UP, sampling)
    ask_at_once(inbox, [request], EnergyMeter(), lambda event: None)


def ask_at_once(
    inbox: Inbox, requests: Sequence[Request], meter: EnergyMeter, on_event: Callable[[RunEvent], None]
) -> list[Reply]:
    """Ask for some replies at the same time, and wait until the last one has ended.

    Raises:
        RunCancelled: the run is to stop.
    """
    energy = ReplyEnergy(meter)
    watch = MachineWatch({request.worker.pid for request in requests})
    open_requests: dict[tuple[int, str], Request] = {}
    replies: list[Reply] = []
    began = time.perf_counter()
    for request in requests:
        request_id = request.worker.new_id()
        open_requests[id(request.worker), request_id] = request
        energy.begin(f"{id(request.worker)} {request_id}")
        request.worker.send(
            Generate(
                request_id=request_id,
                messages=request.messages,
                sampling=request.sampling,
                adapters=request.column.adapters,
                read_ahead=False,
            )
        )
    while open_requests:
        worker, at, event = inbox.next()
        note(worker, event)
        key = (id(worker), str(getattr(event, "request_id", "")))
        request_found = open_requests.get(key)
        if request_found is None:
            continue
        if isinstance(event, Delta):
            on_event(_text(request_found.place, event))
        elif isinstance(event, Finished | Failed):
            del open_requests[key]
            joules = energy.end(f"{key[0]} {key[1]}")
            finished = event if isinstance(event, Finished) else None
            error = event.error if isinstance(event, Failed) else None
            if error is not None and isinstance(error_from_info(error), EngineUnavailable):
                worker.is_alive = False  # its death is told after this
            replies.append(Reply(request_found, finished, error, joules, watch.look(), at - began))
    return replies


def _text(place: Place, delta: Delta) -> CellText:
    return CellText(place, delta.text, delta.thinking, delta.was_thinking, delta.num_generated_tokens, delta.decode_s)
