"""The worker's entry: a process of its own, an inbox thread that hears commands at once, and the end of both."""

import contextlib
import logging
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

from engine.messages import Event, LogLine, MessageError, Shutdown, decode_command, encode
from engine.worker_loop import Emit, WorkerLoop

_LOG = logging.getLogger(__name__)
_EXIT_LIMIT_S = 1.5
_BUG_EXIT_CODE = 70
# How threads wait for each other is left as libgomp has it: they spin for some milliseconds, then sleep. Measured on
# two cores with SmolLM2-135M Q4_1, milliseconds a token with two threads: 7.8, but 17.6 where they sleep at once
# (OMP_WAIT_POLICY=passive) and 33 with GOMP_SPINCOUNT=1000; one thread takes 10.8 with any of them. Beside a busy
# neighbour sleeping at once is better (22 against 30), but one thread is best there with 11, and that is what the
# governor goes to. Spinning for ever would keep a core busy between replies. Bound threads could not make way.
_OPENMP_SETTINGS = (
    *("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"),
    *("OMP_DYNAMIC", "OMP_THREAD_LIMIT"),
)


def run_worker(connection: Connection, *, fake: bool) -> None:
    """Serve one front end over `connection` until it says Shutdown or is gone."""
    _isolate()
    send_lock = threading.Lock()

    def emit(event: Event) -> None:
        data = encode(event)
        # A front end that is gone needs no answer; the inbox thread ends the process.
        with send_lock, contextlib.suppress(OSError):
            connection.send_bytes(data)

    handler = _LogForwarder(emit)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    loop = WorkerLoop(emit, fake=fake)
    inbox = threading.Thread(target=_listen, args=(connection, loop), name="engine-inbox", daemon=True)
    inbox.start()
    try:
        loop.run()
    except Exception:
        _LOG.critical("the engine met a fault of its own", exc_info=True)
        os._exit(_BUG_EXIT_CODE)


def _listen(connection: Connection, loop: WorkerLoop) -> None:
    try:
        while True:
            try:
                loop.submit(decode_command(connection.recv_bytes()))
            except MessageError as error:
                _LOG.error("dropped a message: %s", error)
    except (EOFError, OSError):
        loop.submit(Shutdown())
        # A load that reads a slow disk hears nothing: an orphan must not outlive its front end.
        timer = threading.Timer(_EXIT_LIMIT_S, os._exit, args=(1,))
        timer.daemon = True
        timer.start()


def _isolate() -> None:
    """Keep native code from the terminal, and the terminal's signals and environment from native code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["GGML_NO_BACKTRACE"] = "1"
    os.environ.pop("GGML_BACKEND_PATH", None)
    for name in _OPENMP_SETTINGS:
        os.environ.pop(name, None)
    os.chdir(Path(__file__).parent)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 (lives as long as we)


class _LogForwarder(logging.Handler):
    """Sends log records to the front end, which has the one log file."""

    def __init__(self, emit: Emit) -> None:
        super().__init__(logging.INFO)
        self._emit = emit

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        self._emit(LogLine(level=record.levelno, text=self.format(record)))
