"""A program that keeps one core busy beside the engine, started and ended by us."""

import contextlib
import multiprocessing
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection

_START_LIMIT_S = 30.0
_END_LIMIT_S = 2.0
_TURNS_BETWEEN_LOOKS = 200_000  # some milliseconds


@contextlib.contextmanager
def busy_neighbour() -> Iterator[int]:
    """Keep one core busy inside this block; yields the process id."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=spin, args=(theirs,), name="fireside-neighbour", daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_START_LIMIT_S):
            raise TimeoutError("the program beside did not start")
        ours.recv_bytes()
        yield process.pid or 0
    finally:
        ours.close()
        process.terminate()
        process.join(_END_LIMIT_S)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


def spin(pipe: Connection) -> None:
    """Compute for nothing until the other end of the pipe is closed, by whatever end of its owner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to both; the owner ends this one
    with contextlib.suppress(OSError, EOFError):
        pipe.send_bytes(b"started")
        while not pipe.poll(0):
            for _ in range(_TURNS_BETWEEN_LOOKS):
                pass
