"""ModelJobs: long work with model files beside the window's thread, with progress and a way to give it up."""

import functools
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, Qt, Signal, Slot

_T = TypeVar("_T")
_REPORT_S = 0.05


class Job:
    """What the work sees of itself; used in its thread."""

    def __init__(self, hand_over: Callable[[object], None]) -> None:
        self._cancelled = threading.Event()
        self._hand_over = hand_over
        self._reported_at = float("-inf")

    @property
    def is_cancelled(self) -> bool:
        """Whether the work is to end as soon as it can."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Have the work end."""
        self._cancelled.set()

    def report(self, progress: object) -> None:
        """Tell how far it is; of many reports in a moment only the first is handed on."""
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_S and not self.is_cancelled:
            self._reported_at = now
            self._hand_over(progress)


class JobCalls(Generic[_T]):
    """What is called on the window's thread.

    Args:
        on_result: what the work has returned; not called once it was given up.
        on_error: what it has raised.
    """

    def __init__(
        self,
        *,
        on_result: Callable[[_T], None],
        on_error: Callable[[Exception], None],
        on_progress: Callable[[Any], None] | None = None,
    ) -> None:
        self.on_result = on_result
        self.on_error = on_error
        self.on_progress = on_progress


class ModelJobs(QObject):
    """Runs one job for each key, in threads that are daemons: a dead network drive must not keep the window open."""

    _handed_over = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()  # nothing is on its way once `close` has returned
        self._is_closed = False
        self._jobs: dict[str, tuple[Job, threading.Thread]] = {}
        self._ending: list[threading.Thread] = []
        self._handed_over.connect(self._on_handed_over, Qt.ConnectionType.QueuedConnection)

    def is_running(self, key: str) -> bool:
        """Tell whether there is such a job, not yet given up."""
        return key in self._jobs and not self._jobs[key][0].is_cancelled

    def run(self, key: str, work: Callable[[Job], _T], calls: JobCalls[_T]) -> None:
        """Begin a job; one with the same key is given up."""
        self.cancel(key)
        job = Job(lambda progress: self._hand_over(functools.partial(self._on_progress, key, job, calls, progress)))

        def do() -> None:
            try:
                result = work(job)
            except Exception as error:
                self._hand_over(functools.partial(self._on_end, key, job, functools.partial(calls.on_error, error)))
            else:
                self._hand_over(functools.partial(self._on_end, key, job, functools.partial(calls.on_result, result)))

        thread = threading.Thread(target=do, name=f"window-{key}", daemon=True)
        self._jobs[key] = job, thread
        thread.start()

    def stop(self, key: str) -> None:
        """Have a job end as soon as it can; what it has by then is still heard of."""
        if key in self._jobs:
            self._jobs[key][0].cancel()

    def cancel(self, key: str) -> bool:
        """Give a job up, and tell whether there was one; nothing more is heard of it."""
        found = self._jobs.pop(key, None)
        if found is not None:
            found[0].cancel()
            self._ending = [thread for thread in (*self._ending, found[1]) if thread.is_alive()]
        return found is not None

    def close(self, timeout_s: float = 1.0) -> None:
        """Give all jobs up, and wait a moment for those that have something to clean up."""
        with self._lock:
            self._is_closed = True
        for key in list(self._jobs):
            self.cancel(key)
        until = time.monotonic() + timeout_s
        for thread in self._ending:
            thread.join(max(0.0, until - time.monotonic()))

    def _hand_over(self, call: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_closed:
                self._handed_over.emit(call)

    @Slot(object)
    def _on_handed_over(self, call: Any) -> None:
        if not self._is_closed:
            call()

    def _on_progress(self, key: str, job: Job, calls: JobCalls[Any], progress: object) -> None:
        if self._is_current(key, job) and calls.on_progress is not None:
            calls.on_progress(progress)

    def _on_end(self, key: str, job: Job, call: Callable[[], None]) -> None:
        if self._is_current(key, job):
            del self._jobs[key]
            call()

    def _is_current(self, key: str, job: Job) -> bool:
        return key in self._jobs and self._jobs[key][0] is job
