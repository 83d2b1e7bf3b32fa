"""The deterministic engine as these tests drive it: prompts, runs to the end, and what a lone engine would say."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.backend_fake import FakeBackend, FakeLoader
from engine.backend_fake_vocabulary import FakeVocabulary
from engine.core import Engine
from engine.messages import Event, Failed, Finished, StateChanged
from engine.params import ModelParams, SamplingParams
from engine.sequence import Prompt

VOCABULARY = FakeVocabulary()
MAX_STEPS = 20_000


def make_backend(settings: str = "", **params: Any) -> FakeBackend:
    """Return a backend; `settings` as in a `fake:` path."""
    backend = FakeLoader().load(f"fake:{settings}", ModelParams(**params), lambda share: True)
    assert backend is not None
    return backend


def make_engine(settings: str = "", **params: int) -> Engine:
    """Return an engine on the fake backend."""
    return Engine(make_backend(settings, **params))


def chat_text(*turns: str) -> str:
    """Return the prompt text of a chat, beginning with the user's first turn."""
    roles = ("user", "assistant")
    text = "".join(f"<|im_start|>{roles[i % 2]}\n{turn}<|im_end|>\n" for i, turn in enumerate(turns))
    return f"{text}<|im_start|>assistant\n"


def tokens_of(text: str) -> list[int]:
    """Return the tokens of a prompt text, control tokens included."""
    return VOCABULARY.tokenize(text, parse_special=True)


def make_prompt(
    request_id: str,
    *turns: str,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
    chat_id: str | None = None,
    num_system_tokens: int = 0,
) -> Prompt:
    """Return the request of a chat."""
    return Prompt(
        request_id=request_id,
        tokens=tokens_of(chat_text(*turns)),
        sampling=SamplingParams(max_tokens=max_tokens, stop=tuple(stop)),
        seed=0,
        received_at=time.perf_counter(),
        chat_id=chat_id,
        num_system_tokens=num_system_tokens,
    )


def run(engine: Engine) -> list[Event]:
    """Step until nothing is left to do."""
    events: list[Event] = []
    for _ in range(MAX_STEPS):
        if not engine.has_work:
            return events
        events += engine.step()
    raise AssertionError(f"the engine still has work after {MAX_STEPS} steps")


def step_until(engine: Engine, events: list[Event], is_reached: Callable[[], bool]) -> None:
    """Step until something holds; the events are added to `events`."""
    for _ in range(MAX_STEPS):
        events += engine.step()
        if is_reached():
            return
    raise AssertionError("it was never reached")


def ask(engine: Engine, *prompts: Prompt) -> dict[str, Finished]:
    """Run requests to their end together; all must finish."""
    events = [event for prompt in prompts for event in engine.add(prompt)] + run(engine)
    failures = [event for event in events if isinstance(event, Failed)]
    assert not failures
    replies = finished(events)
    assert set(replies) == {prompt.request_id for prompt in prompts}
    return replies


def reply(engine: Engine, prompt: Prompt) -> Finished:
    """Run one request to its end."""
    return ask(engine, prompt)[prompt.request_id]


def alone(prompt: Prompt, settings: str = "", **params: int) -> Finished:
    """Return what a fresh engine says to a request that has it for itself."""
    return reply(make_engine(settings, **params), prompt._replace(chat_id=None))


def finished(events: Iterable[Event]) -> dict[str, Finished]:
    """Return the finished replies by request."""
    return {event.request_id: event for event in events if isinstance(event, Finished)}


def failed(events: Iterable[Event]) -> dict[str, Failed]:
    """Return the failures by request."""
    return {event.request_id: event for event in events if isinstance(event, Failed)}


def states(events: Iterable[Event], request_id: str) -> list[str]:
    """Return the states a request went through."""
    return [event.state.value for event in events if isinstance(event, StateChanged) and event.request_id == request_id]
