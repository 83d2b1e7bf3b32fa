"""EventQueue: what the engine sends to a program that waits, with the Ctrl-C that stops the waiting in its place."""

import contextlib
import queue
import signal
from collections.abc import Iterator
from types import FrameType

from engine import CacheRefused, EngineError, Event, error_from_info

# Where a wait cannot be interrupted by a signal (Windows), Ctrl-C is seen after at most this long.
_POLL_S = 0.2


class Interrupt:
    """Stands in the queue for a press of Ctrl-C."""


class EventQueue:
    """Filled by the client's reader thread and by signal handlers, emptied by the thread that waits."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event | Interrupt] = queue.SimpleQueue()
        self._refusal: EngineError | None = None

    def put(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, CacheRefused):
            self._refusal = error_from_info(event.error)
        self._events.put(event)

    def take_refusal(self) -> EngineError | None:
        """Return why what was read is not kept on disk, once; None where it is."""
        refusal, self._refusal = self._refusal, None
        return refusal

    def interrupt(self) -> None:
        """Take a press of Ctrl-C; may be called from a signal handler."""
        self._events.put(Interrupt())

    def wait(self) -> Event | Interrupt:
        """Return what came first, once something has."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._events.get(timeout=_POLL_S)

    def waiting(self) -> Iterator[Event | Interrupt]:
        """Give what has come already."""
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._events.get_nowait()

    @contextlib.contextmanager
    def fed_by_ctrl_c(self) -> Iterator[None]:
        """Let Ctrl-C come into the queue, instead of ending the program."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.interrupt()

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
