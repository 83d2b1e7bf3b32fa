"""Collects the events of a client and lets a test wait for one."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from engine.client import EngineClient
from engine.messages import (
    CacheDescribed,
    ChatMessage,
    Counted,
    Delta,
    EngineDescribed,
    EngineDied,
    Event,
    Failed,
    Finished,
    Generate,
    LoadCancelled,
    LoadModel,
    ModelLoaded,
    PrepareCancelled,
    Prepared,
    Rendered,
    Role,
)
from engine.params import ModelParams, SamplingParams
from engine.process import ProcessClient

FINAL = (
    *(ModelLoaded, LoadCancelled, Finished, Failed, Counted, Rendered, EngineDescribed),
    *(Prepared, PrepareCancelled, CacheDescribed),
)
WAIT_S = 20.0


class Recorder:
    """The events of one client, in order; `add` is its callback."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._changed = threading.Condition()

    def add(self, event: Event) -> None:
        """Take an event."""
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, is_reached: Callable[[list[Any]], object], *, timeout_s: float = WAIT_S) -> None:
        """Wait until something is true of the events."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not is_reached(self.events):
                if not self._changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"it did not come; there were {self.events[-5:]}")

    def wait_for(self, request_id: str) -> Any:
        """Wait for the answer to a request."""
        self.wait(lambda events: self.answers(request_id))
        return self.answers(request_id)[0]

    def wait_for_type(self, event_type: type, count: int = 1) -> None:
        """Wait for a number of events of a type."""
        self.wait(lambda events: sum(isinstance(event, event_type) for event in events) >= count)

    def wait_for_text(self, request_id: str) -> None:
        """Wait until a reply has begun."""
        self.wait(lambda events: any(isinstance(e, Delta) and e.request_id == request_id for e in events))

    def answers(self, request_id: str) -> list[Any]:
        """Return the final events of a request."""
        return [event for event in self.events if isinstance(event, FINAL) and event.request_id == request_id]

    def of_type(self, event_type: type) -> list[Any]:
        """Return the events of a type."""
        return [event for event in self.events if isinstance(event, event_type)]

    def check(self, request_ids: set[str]) -> None:
        """Each request has one answer, nothing follows it, and each death comes after the failures it caused."""
        ended: Counter[str] = Counter()
        for event in self.events:
            request_id = getattr(event, "request_id", None)
            if request_id is not None:
                assert not ended[request_id], f"{event} came after the end"
            if isinstance(event, FINAL):
                ended[event.request_id] += 1
        assert set(ended) == request_ids

    def num_before_death(self) -> int:
        """Return how many events came before the first death."""
        return next(index for index, event in enumerate(self.events) if isinstance(event, EngineDied))


def chat(text: str = "hello", *more: str) -> tuple[ChatMessage, ...]:
    """Return a chat that begins with the user."""
    roles = (Role.USER, Role.ASSISTANT)
    return tuple(ChatMessage(roles[number % 2], turn) for number, turn in enumerate((text, *more)))


def generate(request_id: str, text: str = "hello", **sampling) -> Generate:
    """Return a request."""
    return Generate(request_id=request_id, messages=chat(text), sampling=SamplingParams(**sampling))


def load(client: EngineClient, recorder: Recorder, settings: str = "", request_id: str = "load", **params) -> None:
    """Load the fake model and wait for it."""
    client.send(LoadModel(request_id=request_id, path=f"fake:{settings}", params=ModelParams(**params)))
    answer = recorder.wait_for(request_id)
    assert isinstance(answer, ModelLoaded), answer


def pid_of(client: ProcessClient) -> int:
    """Return the worker's process, which must be there."""
    assert client.pid is not None
    return client.pid
