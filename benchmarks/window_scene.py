"""The real window with an engine played by a script, and the clocks that are held beside it.

Only this file knows how a window is opened and how its engine is played.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from benchmarks.window_corpus import CHARS_PER_TOKEN
from engine import (
    Command,
    Counted,
    CountTokens,
    Delta,
    DescribeEngine,
    EngineDescribed,
    EngineDescription,
    Event,
    Finished,
    FinishReason,
    Generate,
    Hello,
    LoadModel,
    ModelDescription,
    ModelLoaded,
    OnEvent,
    RequestMetrics,
)

SIZE = (1240, 820)
_WAIT_S = 120.0
_BEAT_MS = 5
_POLL_MS = 20
_PIECE_S = 1 / 60  # the worker joins tokens for about this long


class PlayedEngine:
    """Implements EngineClient: has a model at once, counts quickly, and writes a reply when told to."""

    def __init__(self) -> None:
        self.asked: list[Generate] = []
        self._on_event: OnEvent = lambda event: None
        self._num_tokens = 0

    def start(self, on_event: OnEvent) -> None:
        """See EngineClient."""
        self._on_event = on_event
        on_event(Hello(protocol_version=1, pid=os.getpid(), engine_version=""))

    def send(self, command: Command) -> None:
        """See EngineClient."""
        match command:
            case LoadModel():
                self._answer(ModelLoaded(request_id=command.request_id, description=_description(command.path)))
            case CountTokens():
                num_chars = sum(len(str(message.content)) for message in command.messages)
                self._answer(Counted(request_id=command.request_id, num_tokens=num_chars // CHARS_PER_TOKEN))
            case DescribeEngine():
                description = EngineDescription(binding="", library="", features="", devices=(), default_threads=1)
                self._answer(EngineDescribed(request_id=command.request_id, description=description))
            case Generate():
                self.asked.append(command)

    def close(self, timeout_s: float = 2.0) -> None:
        """See EngineClient."""

    def write(self, text: str) -> None:
        """Let a piece of the reply arrive."""
        self._num_tokens += max(1, len(text) // CHARS_PER_TOKEN)
        self._on_event(
            Delta(
                request_id=self.asked[-1].request_id,
                text=text,
                num_generated_tokens=self._num_tokens,
                num_context_tokens=self._num_tokens,
                decode_s=self._num_tokens / 300,
            )
        )

    def stream(self, text: str, tokens_per_s: float) -> threading.Thread:
        """Let a text arrive at a rate, from a thread of its own."""

        def run() -> None:
            pause = threading.Event()
            began, written = time.perf_counter(), 0
            while written < len(text):
                due = int((time.perf_counter() - began) * tokens_per_s * CHARS_PER_TOKEN)
                if due > written:
                    self.write(text[written:due])
                    written = due
                pause.wait(_PIECE_S)

        thread = threading.Thread(target=run, name="played-engine", daemon=True)
        thread.start()
        return thread

    def finish(self, text: str) -> None:
        """Let the reply end."""
        metrics = RequestMetrics(num_prompt_tokens=1, num_cached_tokens=0, num_generated_tokens=self._num_tokens)
        self._answer(
            Finished(
                request_id=self.asked[-1].request_id,
                text=text,
                token_ids=(),
                finish_reason=FinishReason.STOP,
                metrics=metrics,
            )
        )

    def _answer(self, event: Event) -> None:
        threading.Thread(target=self._on_event, args=(event,), daemon=True).start()


def run_in_window(case: Callable[[Any, PlayedEngine], dict[str, Any]]) -> dict[str, Any]:
    """Open the program's window, wait for its model, and return what `case(parts, engine)` measures in it."""
    from app.desktop import application
    from app.paths import find_paths

    engine, outcome = PlayedEngine(), dict[str, Any]()
    build = application.build_window
    vars(application).update(ProcessClient=lambda **_: engine)

    def build_and_measure(*args: Any, **kwargs: Any) -> Any:
        parts = build(*args, **kwargs)
        parts.window.resize(*SIZE)
        parts.window.first_painted.connect(lambda: QTimer.singleShot(0, lambda: measure(parts)))
        return parts

    def measure(parts: Any) -> None:
        try:
            wait_until(lambda: parts.model.description is not None)
            settle()
            outcome.update(case(parts, engine))
        finally:
            parts.window.close()

    vars(application).update(build_window=build_and_measure)
    sys.excepthook = sys.__excepthook__
    with tempfile.TemporaryDirectory() as folder:
        application.run_window(find_paths(folder), model=None, fake_engine=False)
    return outcome


def wait_until(is_done: Callable[[], bool]) -> None:
    """Let the window live until something is so."""
    loop, poll = QEventLoop(), QTimer()
    deadline = time.monotonic() + _WAIT_S
    poll.timeout.connect(lambda: loop.quit() if is_done() or time.monotonic() > deadline else None)
    poll.start(_POLL_MS)
    if not is_done():
        loop.exec()
    poll.stop()
    if not is_done():
        raise TimeoutError("the window did not get there")


def settle(quiet_s: float = 0.15) -> None:
    """Let the window live for so long."""
    loop = QEventLoop()
    QTimer.singleShot(round(quiet_s * 1000), loop.quit)
    loop.exec()
    # What was given up before that loop waits for the one around it, in which a person's program is all the time.
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


class Painted(QObject):
    """Sees when anything below a widget was painted."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__()
        self._widget = widget
        self._was_painted = False

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """See QObject."""
        if event.type() == QEvent.Type.Paint and isinstance(watched, QWidget):
            self._was_painted |= watched is self._widget or self._widget.isAncestorOf(watched)
        return False

    def after(self, action: Callable[[], object], limit_s: float = 30.0) -> tuple[float, float]:
        """Return the milliseconds from an action until its paint is done: of this thread's CPU, and by the wall.

        An action that changes nothing to be painted counts until the window has nothing left to do.
        """
        application = QApplication.instance()
        assert application is not None
        self._was_painted = False
        application.installEventFilter(self)
        cpu, wall = time.thread_time(), time.perf_counter()
        action()
        idle = 0
        while not self._was_painted and idle < 2 and time.perf_counter() - wall < limit_s:
            dispatcher = QCoreApplication.eventDispatcher()
            idle = 0 if dispatcher.processEvents(QEventLoop.ProcessEventsFlag.AllEvents) else idle + 1
        spent = (time.thread_time() - cpu) * 1000, (time.perf_counter() - wall) * 1000
        application.removeEventFilter(self)
        return spent


class Heartbeat:
    """A timer of 5 ms; what it is late by is how long the window could not answer."""

    def __init__(self) -> None:
        self._last_at = 0.0
        self.longest_ms = 0.0
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(_BEAT_MS)
        self._timer.timeout.connect(self._on_beat)

    def start(self) -> None:
        """Begin to beat."""
        self._last_at = time.perf_counter()
        self._timer.start()

    def stop(self) -> None:
        """Stop."""
        self._timer.stop()

    def _on_beat(self) -> None:
        now = time.perf_counter()
        self.longest_ms = max(self.longest_ms, (now - self._last_at) * 1000 - _BEAT_MS)
        self._last_at = now


def resident_mb() -> float:
    """Return the resident memory of this process in MB."""
    try:
        with open("/proc/self/status", encoding="utf-8") as file:  # noqa: PTH123 - as little as can be is imported here
            line = next(line for line in file if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        import psutil

        return float(psutil.Process().memory_info().rss) / 1e6


def _description(path: str) -> ModelDescription:
    return ModelDescription(
        path=path,
        name="Played model",
        architecture="llama",
        type_name="Q4_1",
        n_params=1,
        weight_bytes=1,
        n_ctx=32_768,
        n_ctx_requested=0,
        n_ctx_train=32_768,
        n_vocab=1,
        n_layer=1,
        n_batch=1,
        n_ubatch=1,
        n_seq_max=4,
        n_threads=1,
        n_gpu_layers=0,
        device="cpu",
        type_k="f16",
        type_v="f16",
        kv_bytes_per_token=1024,
        has_chat_template=True,
        load_s=0.1,
    )
