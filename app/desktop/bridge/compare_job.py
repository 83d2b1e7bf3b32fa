"""CompareJob: runs a comparison on a thread of its own, and tells of it on the window's thread, never for long.

What happens is put into a queue. One timer drains it, joins the text of each reply, and stops when a frame has had its
share; whoever was left out comes first in the next one.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from app.compare.events import CellDone, CellText, Notice, Paused, RunEvent
from app.compare.plan import Place
from app.compare.results import Comparison
from app.compare.runner import CompareRun, OnRunEvent
from app.errors import AppError

_LOG = logging.getLogger(__name__)
_FRAME_MS = 33
_BUDGET_S = 0.002  # of a frame; laying out and painting what was told come on top
_PACE = 4
_CLOSE_S = 2.0

MakeRun = Callable[[OnRunEvent], tuple[CompareRun, str | None]]


class Begun(NamedTuple):
    """A run is there, with what is done of it already."""

    comparison: Comparison


class Ended(NamedTuple):
    """Nothing more happens for now.

    Attributes:
        is_finished: whether all that was planned is done; else it was stopped.
        is_saved: whether all that is done is on the disk.
    """

    comparison: Comparison
    is_finished: bool
    is_saved: bool


class NotBegun(NamedTuple):
    """It ended with a fault."""

    error: Exception


JobEvent = RunEvent | Begun | Ended | NotBegun


class CompareJob(QObject):
    """One comparison at a time.

    Args:
        keep: keeps a comparison that is finished, and returns a sentence where that cannot be.

    Signals:
        happened: JobEvent; of CellText only one for each reply and frame, with all that came of it.
    """

    happened = Signal(object)

    def __init__(self, keep: Callable[[Comparison], str | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._keep = keep
        self._events: deque[JobEvent] = deque()
        self._texts: dict[Place, CellText] = {}
        self._run: CompareRun | None = None
        self._thread: threading.Thread | None = None
        self._is_running = self._is_paused = self._is_stopping = False
        self._timer = QTimer(self)
        self._timer.setInterval(_FRAME_MS)
        self._timer.timeout.connect(self._drain)

    @property
    def is_running(self) -> bool:
        """Whether replies are being made, or a pause can be ended."""
        return self._is_running

    @property
    def is_paused(self) -> bool:
        """Whether it was asked to wait."""
        return self._is_paused

    def start(self, make: MakeRun) -> None:
        """Make a run and do it; an earlier one must have ended."""

        def begin() -> CompareRun:
            self._let_go()
            run, fault = make(self._events.append)
            self._events.append(Begun(run.comparison()))
            if fault:
                self._events.append(Notice(fault))
            return run

        self._work(begin)

    def add_turn(self, prompt_id: str, text: str) -> None:
        """Ask all columns a next message behind their replies to a prompt; the run must have ended."""
        run = self._run
        if run is None or self._is_running:
            return

        def add() -> CompareRun:
            run.add_turn(prompt_id, text)
            self._events.append(Begun(run.comparison()))
            return run

        self._work(add)

    def pause(self) -> None:
        """Wait before the next reply."""
        if self._is_running and self._run is not None:
            self._is_paused = True
            self._run.pause()

    def go_on(self) -> None:
        """End the pause."""
        self._is_paused = False
        if self._run is not None:
            self._run.go_on()

    def stop(self) -> None:
        """End the run; the reply in progress is lost, and it can be gone on with later."""
        self._is_stopping = True
        if self._run is not None:
            self._run.cancel()

    def close(self) -> None:
        """End what runs and forget the rest."""
        self._timer.stop()
        self.stop()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        self._let_go()

    def _let_go(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _work(self, make: Callable[[], CompareRun]) -> None:
        self._is_running, self._is_paused, self._is_stopping = True, False, False
        self._thread = threading.Thread(target=self._do, args=(make,), name="compare", daemon=True)
        self._thread.start()
        self._timer.start(_FRAME_MS)

    def _do(self, make: Callable[[], CompareRun]) -> None:
        """Work on the thread of the run."""
        try:
            self._run = run = make()
            if self._is_stopping:  # before there was a run to be told
                run.cancel()
            is_finished = run.run()
            fault = self._keep(run.comparison()) if is_finished else None
            if fault:
                self._events.append(Notice(fault))
            self._events.append(Ended(run.comparison(), is_finished, run.is_saved))
        except Exception as error:
            if not isinstance(error, AppError):
                _LOG.error("a comparison ended", exc_info=error)
            self._events.append(NotBegun(error))

    def _drain(self) -> None:
        began = time.perf_counter()
        deadline = began + _BUDGET_S
        while self._events and time.perf_counter() < deadline:
            self._take(self._events.popleft())
        # The one that has waited longest comes first.
        while self._texts and time.perf_counter() < deadline:
            place = next(iter(self._texts))
            self.happened.emit(self._texts.pop(place))
        spent_ms = (time.perf_counter() - began) * 1000
        if self._is_running or self._events or self._texts:
            self._timer.setInterval(max(_FRAME_MS, round(_PACE * spent_ms)))
        else:
            self._timer.stop()

    def _take(self, event: JobEvent) -> None:
        match event:
            case CellText(place=place):
                before = self._texts.get(place)
                self._texts[place] = event if before is None else _joined(before, event)
            case CellDone(cell):
                self._texts.pop(Place(cell.column, cell.prompt, cell.repeat), None)  # the cell has all of it
                self.happened.emit(event)
            case Paused() if not self._is_paused:
                pass  # it was ended before it was told
            case Ended() | NotBegun():
                self._is_running = self._is_paused = False
                self._texts.clear()
                self.happened.emit(event)
            case _:
                self.happened.emit(event)


def _joined(before: CellText, after: CellText) -> CellText:
    """Return two pieces as one."""
    if after.was_thinking:
        thinking, text = before.thinking + before.text + after.thinking, after.text
    else:
        thinking, text = before.thinking + after.thinking, before.text + after.text
    return after._replace(text=text, thinking=thinking, was_thinking=before.was_thinking or after.was_thinking)
