"""Several engines of one front end: who computes, who waits, and what is told."""

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.client import EngineClient, InprocClient, OnEvent
from engine.core_budget import BudgetedClient, CoreBudget, Sharing
from engine.messages import (
    Abort,
    Command,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    RequestState,
    SetThreads,
    StateChanged,
    UnloadModel,
)
from engine.metrics import RequestMetrics
from tests.unit.engine.recorder import Recorder, generate, load

NOTHING = RequestMetrics(num_prompt_tokens=0, num_cached_tokens=0, num_generated_tokens=0)


class Engine:
    """Takes commands and ends requests when it is told to."""

    def __init__(self) -> None:
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self.on_event: OnEvent = lambda event: None

    def start(self, on_event: OnEvent) -> None:
        self.on_event = on_event

    def send(self, command: Command) -> None:
        self.commands.put(command)

    def close(self, timeout_s: float = 2.0) -> None:
        pass

    def next(self) -> Any:
        """Return the next command that comes."""
        return self.commands.get(timeout=5)

    def end(self, request_id: str) -> None:
        """Finish a request."""
        self.on_event(
            Finished(request_id=request_id, text="", token_ids=(), finish_reason=FinishReason.STOP, metrics=NOTHING)
        )


class Pair:
    """Two engines under one budget, and what their front end heard."""

    def __init__(self, sharing: Sharing = Sharing.TURNS) -> None:
        budget = CoreBudget(6, sharing=sharing)
        self.engines = [Engine(), Engine()]
        self.clients: list[BudgetedClient] = [budget.client(engine) for engine in self.engines]
        self.heard: list[queue.SimpleQueue[Event]] = [queue.SimpleQueue(), queue.SimpleQueue()]
        for client, heard in zip(self.clients, self.heard, strict=True):
            client.start(heard.put)

    def hear(self, number: int) -> Any:
        """Return the next event of an engine."""
        return self.heard[number].get(timeout=5)

    def close(self) -> None:
        for client in self.clients:
            client.close()


@pytest.fixture
def make_pair() -> Iterator[Callable[..., Pair]]:
    made: list[Pair] = []

    def make(sharing: Sharing = Sharing.TURNS) -> Pair:
        made.append(Pair(sharing))
        return made[-1]

    yield make
    for pair in made:
        pair.close()


def ask(request_id: str) -> Generate:
    return generate(request_id, "hello")


def test_a_request_waits_when_another_engine_computes_and_goes_on_when_it_is_done(make_pair) -> None:
    pair = make_pair()
    first, second = pair.engines
    pair.clients[0].send(ask("a"))
    pair.clients[0].send(ask("b"))
    pair.clients[1].send(ask("c"))
    assert [first.next().request_id, first.next().request_id] == ["a", "b"]
    assert pair.hear(1) == StateChanged(request_id="c", state=RequestState.QUEUED)
    first.end("a")
    assert second.commands.empty()
    first.end("b")
    assert second.next().request_id == "c"


def test_nobody_overtakes_when_two_engines_have_requests_in_turn(make_pair) -> None:
    pair = make_pair()
    first, second = pair.engines
    for number, request_id in enumerate(["a", "b", "c"]):
        pair.clients[number % 2].send(ask(request_id))
    assert first.next().request_id == "a"
    assert pair.hear(0) == StateChanged(request_id="c", state=RequestState.QUEUED)
    first.end("a")
    assert second.next().request_id == "b"
    assert first.commands.empty()
    second.end("b")
    assert first.next().request_id == "c"


def test_a_waiting_request_ends_at_once_when_it_is_aborted(make_pair) -> None:
    pair = make_pair()
    first, second = pair.engines
    pair.clients[0].send(ask("a"))
    pair.clients[1].send(ask("b"))
    assert pair.hear(1).state is RequestState.QUEUED
    pair.clients[1].send(Abort(request_id="b"))
    ended = pair.hear(1)
    assert (ended.request_id, ended.finish_reason, ended.text) == ("b", FinishReason.ABORT, "")
    pair.clients[0].send(Abort(request_id="a"))
    assert [type(first.next()), type(first.next())] == [Generate, Abort]
    first.end("a")
    pair.clients[1].send(ask("c"))
    assert second.next().request_id == "c"


def test_waiting_requests_reach_their_engine_before_its_model_goes(make_pair) -> None:
    pair = make_pair()
    second = pair.engines[1]
    pair.clients[0].send(ask("a"))
    pair.clients[1].send(ask("b"))
    pair.clients[1].send(UnloadModel())
    assert [type(second.next()), type(second.next())] == [Generate, UnloadModel]


@pytest.mark.parametrize("how", ["closed", "failed"])
def test_the_next_goes_on_when_the_engine_that_computed_is_gone(make_pair, how: str) -> None:
    pair = make_pair()
    first, second = pair.engines
    pair.clients[0].send(ask("a"))
    pair.clients[1].send(ask("b"))
    assert first.next().request_id == "a"
    if how == "closed":
        pair.clients[0].close()
    else:
        first.on_event(Failed(request_id="a", error=_error()))
    assert second.next().request_id == "b"


def test_threads_are_split_when_both_may_compute(make_pair) -> None:
    pair = make_pair(Sharing.SPLIT)
    first, second = pair.engines
    pair.clients[0].send(ask("a"))
    pair.clients[1].send(ask("b"))
    assert first.next().request_id == "a"
    assert (first.next(), second.next().request_id) == (SetThreads(most=3), "b")
    assert second.next() == SetThreads(most=3)
    second.end("b")
    assert first.next() == SetThreads(most=0)


def test_two_real_loops_take_turns_when_they_share_a_budget(recorder: Recorder) -> None:
    budget, other = CoreBudget(2), Recorder()
    clients: list[EngineClient] = [budget.client(InprocClient(fake=True)) for _ in range(2)]
    try:
        for client, heard in zip(clients, (recorder, other), strict=True):
            client.start(heard.add)
            load(client, heard, "step_s=0.001")
        for number in range(3):
            clients[0].send(generate(f"a{number}", "hello"))
            clients[1].send(generate(f"b{number}", "hello"))
        for number in range(3):
            assert isinstance(recorder.wait_for(f"a{number}"), Finished)
            assert isinstance(other.wait_for(f"b{number}"), Finished)
    finally:
        for client in clients:
            client.close()


def _error() -> Any:
    from engine.errors import EngineUnavailable

    return EngineUnavailable("It is gone.", "Load it again.").info()
