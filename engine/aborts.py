"""Which requests are to be stopped, and whether the step that runs is broken off for it; safe from any thread."""

import threading
from collections.abc import Callable

from engine.backend import Backend
from engine.scheduler import PlannedPart


class Aborts:
    """The open requests of one engine, and those that are to end.

    A step of one request alone is broken off and keeps its finished micro-batches. A step shared with others goes on,
    since breaking it loses their rows too; unless it is a long one: then they are computed again. Where breaking off
    costs the way back to a checkpoint, only a long step of this request alone is worth it.

    Args:
        is_long: tells whether a step is expected to take long.
    """

    def __init__(self, backend: Backend, is_long: Callable[[list[PlannedPart]], bool]) -> None:
        self._backend = backend
        self._is_long = is_long
        self._lock = threading.Lock()  # guards the three below: Abort arrives on another thread
        self._open: set[str] = set()
        self._wanted: set[str] = set()
        self._in_step: list[PlannedPart] = []

    def open(self, request_id: str) -> None:
        """Note a request that can be stopped."""
        with self._lock:
            self._open.add(request_id)

    def close(self, request_id: str) -> None:
        """Note that a request has ended."""
        with self._lock:
            self._open.discard(request_id)
            self._wanted.discard(request_id)

    def want(self, request_id: str) -> None:
        """Stop a request; ignored when it has ended."""
        with self._lock:
            if request_id in self._open:
                self._wanted.add(request_id)
            if any(item.sequence.request_id == request_id for item in self._in_step) and self._may_break_off():
                self._backend.raise_abort()

    def wanted(self) -> set[str]:
        """Return the requests to end."""
        if not self._wanted:
            return self._wanted
        with self._lock:
            return set(self._wanted)

    def enter_step(self, planned: list[PlannedPart]) -> bool:
        """Note who is in the step; False when all of them are to be stopped since a moment ago."""
        with self._lock:
            if self._wanted and all(item.sequence.request_id in self._wanted for item in planned):
                return False
            self._backend.clear_abort()
            self._in_step = planned
        return True

    def leave_step(self) -> None:
        """Note that the step is done; an abort that comes too late is taken back before the next."""
        self._in_step = []

    def _may_break_off(self) -> bool:
        is_alone, is_long = len(self._in_step) == 1, self._is_long(self._in_step)
        return (is_alone or is_long) if self._backend.survives_abort else (is_alone and is_long)
