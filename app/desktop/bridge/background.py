"""Calls that must not run on the window's thread: files, long lexing, the store."""

import functools
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, Signal, Slot

_T = TypeVar("_T")


class Background(QObject):
    """Runs calls on threads of their own and hands the outcome back on the window's thread.

    The threads are daemons: a call that hangs on a dead network drive must not keep the program from ending.
    """

    _done = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._is_closed = False
        self._lock = threading.Lock()  # no outcome is on its way once `close` has returned
        self._done.connect(self._on_done, Qt.ConnectionType.QueuedConnection)

    def run(
        self, call: Callable[[], _T], on_result: Callable[[_T], None], on_error: Callable[[Exception], None]
    ) -> None:
        """Run `call`; exactly one of the callbacks follows, unless the window closes before."""

        def work() -> None:
            try:
                result = call()
            except Exception as error:
                self._hand_over(functools.partial(on_error, error))
            else:
                self._hand_over(functools.partial(on_result, result))

        self._begin(work)

    def close(self) -> None:
        """Drop the outcomes of calls that still run."""
        with self._lock:
            self._is_closed = True

    def _begin(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="window-background", daemon=True).start()

    def _hand_over(self, outcome: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_closed:
                self._done.emit(outcome)

    @Slot(object)
    def _on_done(self, outcome: Any) -> None:
        if not self._is_closed:
            outcome()


class SerialBackground(Background):
    """Runs calls one after the other on one thread, so that outcomes come in the order of the calls.

    The thread begins with the first call and ends with close(). Calls that have not begun by then are dropped.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._has_begun = False

    def close(self) -> None:
        """See Background; the call that is running is not waited for."""
        super().close()
        self._calls.put(None)

    def _begin(self, work: Callable[[], None]) -> None:
        if self._is_closed:
            return
        self._calls.put(work)
        if not self._has_begun:
            self._has_begun = True
            threading.Thread(target=self._work_through, name="window-serial", daemon=True).start()

    def _work_through(self) -> None:
        while (work := self._calls.get()) is not None:
            if not self._is_closed:
                work()
