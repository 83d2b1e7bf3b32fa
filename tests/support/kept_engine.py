"""One engine for window after window: a window that closes leaves it running."""

import threading
from pathlib import Path

from engine import Command, Event, Hello, LoadModel, ModelLoaded, ModelParams, OnEvent, ProcessClient


class KeptEngine:
    """Implements EngineClient.

    Attributes:
        sent: all commands, of every window.
    """

    def __init__(self) -> None:
        self.sent: list[Command] = []
        self._client = ProcessClient()
        self._lock = threading.Lock()
        self._hello: Hello | None = None
        self._on_event: OnEvent | None = None
        self._is_loaded = threading.Event()
        self._client.start(self._pass_on)

    def start(self, on_event: OnEvent) -> None:
        """Hand the events to another window from now on."""
        with self._lock:
            self._on_event = on_event
            if self._hello is not None:
                on_event(self._hello)

    def send(self, command: Command) -> None:
        """See EngineClient."""
        self.sent.append(command)
        self._client.send(command)

    def close(self, timeout_s: float = 2.0) -> None:
        """Let go of the window; the engine runs on."""
        with self._lock:
            self._on_event = None

    def load(self, path: Path) -> None:
        """Load a model before any test begins, so that all processes of the engine are there."""
        self._client.send(LoadModel(request_id="first", path=str(path), params=ModelParams(n_ctx=512, n_threads=1)))
        assert self._is_loaded.wait(60)

    def end(self) -> None:
        """End the engine."""
        self._client.close()

    def num_loads(self) -> int:
        """Return how often a model was asked for."""
        return sum(isinstance(command, LoadModel) for command in self.sent)

    def _pass_on(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, Hello):
                self._hello = event
            if isinstance(event, ModelLoaded):
                self._is_loaded.set()
            if self._on_event is not None:
                self._on_event(event)
