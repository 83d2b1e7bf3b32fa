"""ProcessClient: an engine in a process of its own, whose death is a message and not an end.

Owns the spawn, the handshake, one sender and one reader thread, and the promise of exactly one answer to each request.
Must not import the worker half.
"""

import atexit
import contextlib
import logging
import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from engine.client import OnEvent
from engine.errors import EngineDied as EngineDiedError
from engine.errors import EngineError, EngineStartFailed, EngineUnavailable, InvalidParams, ProtocolMismatch
from engine.messages import (
    PROTOCOL_VERSION,
    BareLoopRun,
    BuildImportance,
    CacheDescribed,
    CacheRefused,
    CacheTypesMeasured,
    ClearCache,
    Command,
    Counted,
    CountTokens,
    DescribeCache,
    DescribeEngine,
    DraftSet,
    EngineDescribed,
    EngineDied,
    Event,
    Failed,
    Finished,
    Generate,
    Hello,
    ImportanceBuilt,
    ImportanceCancelled,
    LoadCancelled,
    LoadModel,
    LogLine,
    MachineMeasured,
    MeasureCacheTypes,
    MeasureMachine,
    MessageError,
    ModelLoaded,
    Prepare,
    PrepareCancelled,
    Prepared,
    Rendered,
    RenderPrompt,
    RunBareLoop,
    SetDraft,
    Shutdown,
    decode_command,
    decode_event,
    encode,
)

_LOG = logging.getLogger(__name__)
_ASKING = (
    *(LoadModel, SetDraft, Generate, Prepare, CountTokens, RenderPrompt, DescribeEngine),
    *(MeasureCacheTypes, MeasureMachine, RunBareLoop, BuildImportance, DescribeCache, ClearCache),
)
_FINAL = (
    *(ModelLoaded, LoadCancelled, Finished, Failed, Counted, Rendered, EngineDescribed),
    *(CacheTypesMeasured, MachineMeasured, BareLoopRun, ImportanceBuilt, ImportanceCancelled, CacheDescribed),
    *(Prepared, PrepareCancelled, DraftSet),
)
_LOG_TAIL_LINES = 40
_EXIT_WAIT_S = 2.0


class ProcessClient:
    """See EngineClient; the engine is a spawned process that is started again by the first LoadModel after its death.

    Args:
        fake: run the deterministic backend without weights.
    """

    def __init__(self, *, fake: bool = False) -> None:
        self._fake = fake
        self._on_event: OnEvent = lambda event: None
        self._outbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._lock = threading.RLock()  # open requests, worker, and the order of events
        self._open: set[str] = set()
        self._worker: _Worker | None = None
        self._sender: threading.Thread | None = None
        self._closing = self._is_closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the worker, None where there is none."""
        worker = self._worker
        return worker.process.pid if worker else None

    def start(self, on_event: OnEvent) -> None:
        """See EngineClient; returns before the process is up, a failed start is told as Failed and EngineDied."""
        self._on_event = on_event
        self._sender = threading.Thread(target=self._send_all, name="engine-sender", daemon=True)
        self._sender.start()
        atexit.register(self.close)

    def send(self, command: Command) -> None:
        """See EngineClient; a command that cannot cross the border is answered with Failed."""
        if isinstance(command, _ASKING):
            with self._lock:
                if command.request_id in self._open:
                    raise ValueError(f"request id {command.request_id!r} is in use")
                self._open.add(command.request_id)
        self._outbox.put(command)

    def close(self, timeout_s: float = 2.0) -> None:
        """See EngineClient."""
        atexit.unregister(self.close)
        with self._lock:
            if self._closing:
                return
            self._closing = True
            worker = self._worker
        self._outbox.put(Shutdown())
        self._outbox.put(None)
        if worker is not None:
            worker.end(timeout_s)
            worker.join_reader(timeout_s)
        if self._sender is not None:
            self._sender.join(timeout_s)
        # The sender may have been starting a worker meanwhile.
        if self._worker is not None and self._worker is not worker:
            self._worker.end(timeout_s)
        with self._lock:
            self._is_closed = True

    # --- sender thread ---

    def _send_all(self) -> None:
        self._start_worker()
        while (command := self._outbox.get()) is not None:
            with self._lock:
                if isinstance(command, _ASKING) and command.request_id not in self._open:
                    continue  # it failed with the worker that died meanwhile
            try:
                data = encode(command)
                decode_command(data)  # what the worker could not read would never be answered
            except (UnicodeEncodeError, MessageError) as error:
                text = "A name or a setting cannot be sent to the engine."
                self._refuse(command, InvalidParams(text, "Check file names and settings.", str(error)))
                continue
            if self._worker is None and isinstance(command, LoadModel) and not self._closing:
                self._start_worker()
            worker = self._worker
            if worker is None:
                self._refuse(
                    command, EngineUnavailable("The engine is not running.", "Load a model to start it again.")
                )
                continue
            # A broken pipe is the reader's to report: it knows the exit code, and fails what is open.
            with contextlib.suppress(OSError):
                worker.connection.send_bytes(data)

    def _start_worker(self) -> None:
        try:
            worker = _Worker(self._fake)
        except (OSError, RuntimeError) as error:  # no memory, no process left, or a script without a main guard
            failure = EngineStartFailed(
                "The engine process could not be started.", "Close other programs and try again.", str(error)
            )
            with self._lock:
                self._fail_open(failure)
                self._emit(EngineDied(exit_code=None, log_tail=(), error=failure.info()))
            return
        with self._lock:
            self._worker = worker
        worker.reader = threading.Thread(target=self._read_all, args=(worker,), name="engine-reader", daemon=True)
        worker.reader.start()

    def _refuse(self, command: Command, error: EngineError) -> None:
        if isinstance(command, _ASKING):
            with self._lock:
                if command.request_id in self._open:
                    self._open.discard(command.request_id)
                    self._emit(Failed(request_id=command.request_id, error=error.info()))

    # --- reader thread, one for each worker ---

    def _read_all(self, worker: "_Worker") -> None:
        fault: EngineError | None = None
        try:
            while fault is None:
                fault = self._receive(worker, decode_event(worker.connection.recv_bytes()))
        except (EOFError, OSError):
            pass
        except MessageError as error:
            fault = ProtocolMismatch(
                "The engine sent something that is no message.", "Load the model again.", str(error)
            )
        exit_code = worker.end(_EXIT_WAIT_S if fault is None else 0.0)
        with self._lock:
            if self._worker is worker:
                self._worker = None
            if self._closing:
                self._open.clear()
                return
            error_shown = fault or _death(exit_code, worker)
            self._fail_open(error_shown)
            self._emit(EngineDied(exit_code=exit_code, log_tail=tuple(worker.log_tail), error=error_shown.info()))

    def _receive(self, worker: "_Worker", event: Event) -> EngineError | None:
        if isinstance(event, Hello):
            worker.has_greeted = True
            if event.protocol_version != PROTOCOL_VERSION:
                return ProtocolMismatch(
                    f"The engine speaks protocol {event.protocol_version}, this program {PROTOCOL_VERSION}.",
                    "Install Fireside again: its parts are of different versions.",
                )
        elif isinstance(event, LogLine):
            worker.log_tail.append(event.text)
        with self._lock:
            if isinstance(event, _FINAL):
                if event.request_id not in self._open:
                    _LOG.warning("dropped a second answer to request %s", event.request_id)
                    return None
                self._open.discard(event.request_id)
            self._emit(event)
        return None

    def _fail_open(self, error: EngineError) -> None:
        failed, self._open = sorted(self._open), set()  # first: a callback may ask again
        for request_id in failed:
            self._emit(Failed(request_id=request_id, error=error.info()))

    def _emit(self, event: Event) -> None:
        # What could not be kept of the chats is only known when they were written, at the end.
        if not self._closing or (isinstance(event, CacheRefused) and not self._is_closed):
            self._on_event(event)


class _Worker:
    """One spawned process, its pipe, and what is known of it."""

    def __init__(self, fake: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe(duplex=True)
        self.process: SpawnProcess = context.Process(target=_run_worker, args=(theirs, fake), name="fireside-engine")
        self.process.start()
        theirs.close()  # the reader must see EOF when the worker ends
        self.log_tail: deque[str] = deque(maxlen=_LOG_TAIL_LINES)
        self.has_greeted = False
        self.reader: threading.Thread | None = None
        self._end_lock = threading.Lock()

    def end(self, timeout_s: float) -> int | None:
        """Wait for the process, then end it by force; return its exit code."""
        with self._end_lock:
            self.process.join(timeout_s)
            if self.process.exitcode is None:
                self.process.kill()
                self.process.join(_EXIT_WAIT_S)
            return self.process.exitcode

    def join_reader(self, timeout_s: float) -> None:
        """Wait until all is read that the process has sent; not on the reader's own thread."""
        if self.reader is not None and self.reader is not threading.current_thread():
            self.reader.join(timeout_s)


def _run_worker(connection: Connection, fake: bool) -> None:
    from engine.worker import run_worker  # in the child: the worker half is not for the front end

    run_worker(connection, fake=fake)


def _death(exit_code: int | None, worker: _Worker) -> EngineError:
    details = "\n".join(worker.log_tail)
    if not worker.has_greeted:
        return EngineStartFailed(
            f"The engine process ended while it started ({_exit_text(exit_code)}).",
            "Run `fireside doctor` to see what is wrong.",
            details,
        )
    hint = "Load the model again; your text is kept."
    if exit_code == -signal.SIGKILL and os.name == "posix":
        hint = "It may have run out of memory: load the model again with a smaller context."
    return EngineDiedError(f"The engine stopped unexpectedly ({_exit_text(exit_code)}).", hint, details)


def _exit_text(exit_code: int | None) -> str:
    if exit_code is None:
        return "exit code unknown"
    if exit_code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-exit_code).name
    return f"exit code {exit_code}"
