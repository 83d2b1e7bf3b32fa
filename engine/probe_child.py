"""A process of its own in which a model file is tried first: a malformed one may end it, or hang, without harm."""

import contextlib
import logging
import multiprocessing
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from engine.backend_llama.probing import ProbeRequest, ProbeResult

TIME_LIMIT_S = 60.0  # reading a header from a slow disk; a sound file takes well below a second
_POLL_S = 0.05
_LAST_WORDS = 12


class Death(NamedTuple):
    """How a child ended without an answer.

    Attributes:
        cause: "SIGABRT", "exit code 3", "time limit".
        last_words: what it logged as critical or as an error.
    """

    cause: str
    last_words: tuple[str, ...]


def try_file(
    request: "ProbeRequest", is_wanted: Callable[[], bool], time_limit_s: float = TIME_LIMIT_S
) -> "ProbeResult | Death | None":
    """Probe a file in a child process; None when it was no longer wanted."""
    from engine.backend_llama.probing import ProbeResult

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=True)
    process = context.Process(target=run_child, args=(theirs,), name="fireside-probe", daemon=True)
    process.start()
    theirs.close()
    words: list[str] = []
    ends_at = time.monotonic() + time_limit_s
    try:
        ours.send_bytes(msgspec.msgpack.encode(request))
        while is_wanted():
            if ours.poll(_POLL_S):
                kind, _, data = ours.recv_bytes().partition(b":")
                if kind == b"result":
                    return msgspec.msgpack.decode(data, type=ProbeResult)
                words.append(data.decode("utf-8", "replace"))
            elif time.monotonic() >= ends_at:
                return Death("time limit", tuple(words[-_LAST_WORDS:]))
        return None
    except (EOFError, OSError, msgspec.MsgspecError):
        process.join(_LAST_WORDS)
        return Death(_cause(process.exitcode), tuple(words[-_LAST_WORDS:]))
    finally:
        ours.close()
        process.kill()
        process.join()


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
