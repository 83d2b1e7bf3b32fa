"""The one interface through which a front end talks to an engine, and its in-process form for tests."""

import threading
from collections.abc import Callable
from typing import Protocol

from engine.messages import Command, Event

OnEvent = Callable[[Event], None]


class EngineClient(Protocol):
    """Sends commands to one engine and hands its events to a callback.

    Promises, whatever happens to the engine: each Generate, LoadModel, CountTokens and RenderPrompt is answered by
    exactly one final event with its request id and nothing after it; if the engine dies every open one gets Failed,
    then EngineDied comes, and the next LoadModel starts a new engine.
    """

    def start(self, on_event: OnEvent) -> None:
        """Start the engine; `on_event` is called from one thread of the client's, in order, and must not block.

        Raises:
            EngineStartFailed: the engine could not be started.
        """

    def send(self, command: Command) -> None:
        """Hand over a command without waiting; safe from any thread.

        After the engine died a command that wants an answer gets its Failed event; LoadModel starts a new engine.
        """

    def close(self, timeout_s: float = 2.0) -> None:
        """End the engine within `timeout_s`, by force if need be; no event comes after the return."""


class InprocClient:
    """Runs the worker's loop on a thread of this process: for tests and debugging, an abort here ends the program."""

    def __init__(self, *, fake: bool = False) -> None:
        self._fake = fake
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._submit: Callable[[Command], None] | None = None

    def start(self, on_event: OnEvent) -> None:
        """See EngineClient."""
        from engine.worker_loop import WorkerLoop  # the worker half is only loaded where it runs

        lock = threading.Lock()

        def emit(event: Event) -> None:
            with lock:
                if not self._is_closed:
                    on_event(event)

        loop = WorkerLoop(emit, fake=self._fake)
        self._submit = loop.submit
        self._thread = threading.Thread(target=loop.run, name="engine-inproc", daemon=True)
        self._thread.start()

    def send(self, command: Command) -> None:
        """See EngineClient."""
        if self._submit is None:
            raise RuntimeError("start() comes before send()")
        self._submit(command)

    def close(self, timeout_s: float = 2.0) -> None:
        """See EngineClient; a thread cannot be ended by force, so a step that hangs outlives this call."""
        from engine.messages import Shutdown

        if self._thread is not None and self._submit is not None:
            self._submit(Shutdown())
            self._thread.join(timeout_s)
            self._thread = None
            self._is_closed = True
