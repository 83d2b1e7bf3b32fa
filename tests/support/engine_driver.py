"""Drives an EngineClient from a test: sends, collects events by request, and holds the client to its promises."""

import itertools
import queue
import time
from collections.abc import Callable
from typing import TypeVar

from engine import (
    CacheDescribed,
    ChatMessage,
    Counted,
    Delta,
    DraftSet,
    EngineClient,
    EngineDescribed,
    EngineDied,
    Event,
    Failed,
    Finished,
    Generate,
    LoadCancelled,
    LoadModel,
    ModelLoaded,
    ModelParams,
    PrepareCancelled,
    Prepared,
    Rendered,
    Role,
    SamplingParams,
)

FINAL = (
    *(Finished, Failed, ModelLoaded, LoadCancelled, Counted, Rendered, EngineDescribed),
    *(Prepared, PrepareCancelled, CacheDescribed, DraftSet),
)
LIMIT_S = 60.0

_Expected = TypeVar("_Expected")


class EngineDriver:
    """Starts a client and remembers every event in order; any answer after a final one fails the test."""

    def __init__(self, client: EngineClient) -> None:
        self.client = client
        self.events: list[Event] = []
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._ended: set[str] = set()
        self._ids = itertools.count(1)
        client.start(self._queue.put)

    def new_id(self) -> str:
        """Return a request id that was not used yet."""
        return f"r{next(self._ids)}"

    def load(self, path: str, params: ModelParams | None = None) -> Event:
        """Load a model and return the final event."""
        request_id = self.new_id()
        self.client.send(LoadModel(request_id=request_id, path=path, params=params or ModelParams()))
        return self.wait_final(request_id)

    def generate(
        self,
        *messages: ChatMessage | str,
        sampling: SamplingParams | None = None,
        chat_id: str | None = None,
    ) -> str:
        """Ask for a reply and return the request's id; a plain string is a user's message."""
        request_id = self.new_id()
        chat = tuple(ChatMessage(Role.USER, item) if isinstance(item, str) else item for item in messages)
        self.client.send(
            Generate(request_id=request_id, messages=chat, sampling=sampling or SamplingParams(), chat_id=chat_id)
        )
        return request_id

    def reply(self, *messages: ChatMessage | str, sampling: SamplingParams | None = None) -> Finished:
        """Ask for a reply and return it."""
        return self.wait_finished(self.generate(*messages, sampling=sampling))

    def wait_finished(self, request_id: str) -> Finished:
        """Return the reply of a request."""
        event = self.wait_final(request_id)
        assert isinstance(event, Finished), event
        assert self.text_of(request_id) == event.text, "deltas and whole text differ"
        return event

    def wait_failed(self, request_id: str) -> Failed:
        """Return the failure of a request."""
        event = self.wait_final(request_id)
        assert isinstance(event, Failed), event
        return event

    def wait_final(self, request_id: str) -> Event:
        """Return the final event of a request."""
        return self.wait(lambda event: isinstance(event, FINAL) and event.request_id == request_id)

    def wait_type(self, event_type: type[_Expected], request_id: str | None = None) -> _Expected:
        """Return the first event of a type that is still to come or has come, of one request if given."""
        event = self.wait(
            lambda event: (
                isinstance(event, event_type)
                and (request_id is None or getattr(event, "request_id", None) == request_id)
            )
        )
        assert isinstance(event, event_type)
        return event

    def wait(self, is_wanted: Callable[[Event], bool]) -> Event:
        """Return the first event, past or to come, that is wanted."""
        found = next((event for event in self.events if is_wanted(event)), None)
        deadline = time.monotonic() + LIMIT_S
        while found is None:
            event = self._take(deadline)
            found = event if is_wanted(event) else None
        return found

    def drain(self) -> None:
        """Take what has come without waiting."""
        while not self._queue.empty():
            self._take(time.monotonic() + 1)

    def text_of(self, request_id: str) -> str:
        """Return the joined deltas of a request, without what turned out to be thinking."""
        text = ""
        for event in self.events:
            if isinstance(event, Delta) and event.request_id == request_id:
                text = event.text if event.was_thinking else text + event.text
        return text

    def finals_of(self, request_id: str) -> list[Event]:
        """Return all final events of a request that have come."""
        return [event for event in self.events if isinstance(event, FINAL) and event.request_id == request_id]

    def close(self) -> None:
        """End the engine."""
        self.client.close()

    def _take(self, deadline: float) -> Event:
        event = self._queue.get(timeout=max(deadline - time.monotonic(), 0.01))
        request_id = getattr(event, "request_id", None)
        if request_id is not None:
            assert request_id not in self._ended, f"an event after the final one: {event}"
            if isinstance(event, FINAL):
                self._ended.add(request_id)
        self.events.append(event)
        return event


def died(driver: EngineDriver) -> EngineDied:
    """Return the death of the engine."""
    return driver.wait_type(EngineDied)
