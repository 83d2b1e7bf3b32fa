"""A process of its own in which a model file is tried first: a malformed one may end it, or hang, without harm."""

import contextlib
import logging
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from engine.backend_llama.probing import ProbeRequest, ProbeResult

TIME_LIMIT_S = 60.0  # reading a header from a slow disk; a sound file takes well below a second
_START_LIMIT_S = 60.0  # until the child greets
_POLL_S = 0.05
_LAST_WORDS = 12
_EXIT_WAIT_S = 12.0  # a dump of its memory takes time
GREETING = b"hello:"  # the child's first words


class Death(NamedTuple):
    """How a child ended without an answer.

    Attributes:
        cause: "SIGABRT", "exit code 3"; empty where its time was up.
        last_words: what it logged as critical or as an error.
    """

    cause: str
    last_words: tuple[str, ...]


class NoChild(NamedTuple):
    """Why there was no child to try a file in: nothing is said of the file."""

    cause: str


def try_file(
    request: "ProbeRequest",
    is_wanted: Callable[[], bool],
    time_limit_s: float = TIME_LIMIT_S,
    *,
    run: Callable[[Connection], None] | None = None,
) -> "ProbeResult | Death | NoChild | None":
    """Probe a file in a child process; None when it was no longer wanted.

    Args:
        time_limit_s: from when the child is there.
        run: what the child does instead of `run_child`.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=True)
    process = context.Process(target=run or run_child, args=(theirs,), name="fireside-probe", daemon=True)
    # A RuntimeError is left alone: it ends a script that does all its work again in the child.
    try:
        process.start()
    except OSError as error:  # no memory, or no process left
        ours.close()
        theirs.close()
        return NoChild(str(error))
    theirs.close()
    try:
        return _answer(ours, process, request, is_wanted, time_limit_s)
    finally:
        ours.close()
        process.kill()
        process.join()


def _answer(
    connection: Connection,
    process: SpawnProcess,
    request: "ProbeRequest",
    is_wanted: Callable[[], bool],
    time_limit_s: float,
) -> "ProbeResult | Death | NoChild | None":
    from engine.backend_llama.probing import ProbeResult

    words: deque[str] = deque(maxlen=_LAST_WORDS)
    has_greeted = False
    ends_at = time.monotonic() + _START_LIMIT_S
    try:
        while is_wanted():
            if time.monotonic() >= ends_at:  # also of a child that never stops talking
                return Death("", tuple(words)) if has_greeted else NoChild("it did not greet in time")
            if connection.poll(_POLL_S):
                kind, _, data = connection.recv_bytes().partition(b":")
                if kind == b"hello":
                    has_greeted, ends_at = True, time.monotonic() + time_limit_s
                    connection.send_bytes(msgspec.msgpack.encode(request))
                elif kind == b"result":
                    return msgspec.msgpack.decode(data, type=ProbeResult)
                else:
                    words.append(data.decode("utf-8", "replace"))
        return None
    except (EOFError, OSError, msgspec.MsgspecError):
        process.join(_EXIT_WAIT_S)
        cause = _cause(process.exitcode)
        return Death(cause, tuple(words)) if has_greeted else NoChild(cause)


def _cause(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-exit_code).name
    return f"exit code {exit_code}"


def run_child(connection: Connection) -> None:
    """Answer one request."""
    from engine.backend_llama.probing import ProbeRequest, probe

    logging.basicConfig(level=logging.ERROR, handlers=[_LastWords(connection)], force=True)
    with contextlib.suppress(EOFError, OSError):
        connection.send_bytes(GREETING)
        request = msgspec.msgpack.decode(connection.recv_bytes(), type=ProbeRequest)
        connection.send_bytes(b"result:" + msgspec.msgpack.encode(probe(request)))


class _LastWords(logging.Handler):
    """Sends what is wrong at once: the process may end with it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(logging.ERROR)
        self._connection = connection

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        with contextlib.suppress(OSError):
            self._connection.send_bytes(b"word:" + self.format(record).encode("utf-8", "replace"))
