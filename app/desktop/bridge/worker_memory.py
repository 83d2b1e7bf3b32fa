"""WorkerMemory: how much memory the engine's process holds, looked at beside the window's thread while asked."""

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.desktop.bridge.background import Background

_INTERVAL_MS = 1000


class WorkerMemory(QObject):
    """Measures the resident memory of the worker, at most once in an interval and only between start() and stop().

    Args:
        worker_pid: tells which process it is now; None where there is none.

    Signals:
        measured: bytes, or None where there is no worker or the system does not tell.
    """

    measured = Signal(object)

    def __init__(
        self,
        worker_pid: Callable[[], int | None],
        background: Background,
        parent: QObject | None = None,
        *,
        interval_ms: int = _INTERVAL_MS,
    ) -> None:
        super().__init__(parent)
        self._worker_pid = worker_pid
        self._background = background
        self._interval_s = interval_ms / 1000
        self._last_at = float("-inf")
        self._is_measuring = False
        self._timer = QTimer(self)
        self._timer.setInterval(interval_ms)
        self._timer.timeout.connect(self._measure)

    @property
    def is_running(self) -> bool:
        """Whether it measures."""
        return self._timer.isActive()

    def start(self) -> None:
        """Measure now, unless that was done just before, and then again and again."""
        if not self.is_running:
            self._timer.start()
            if time.monotonic() - self._last_at >= self._interval_s:
                self._measure()

    def stop(self) -> None:
        """Measure no more; nothing is emitted until the next start()."""
        self._timer.stop()

    @Slot()
    def _measure(self) -> None:
        if self._is_measuring:  # a machine that is short of memory answers late
            return
        self._last_at = time.monotonic()
        pid = self._worker_pid()
        if pid is None:
            self.measured.emit(None)
            return
        self._is_measuring = True
        self._background.run(lambda: _resident_bytes(pid), self._on_measured, lambda _: self._on_measured(None))

    def _on_measured(self, num_bytes: int | None) -> None:
        self._is_measuring = False
        if self.is_running:
            self.measured.emit(num_bytes)


def _resident_bytes(pid: int) -> int | None:
    import psutil  # in the background: the window is up before anybody asks for this

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:  # it has just ended
        return None
