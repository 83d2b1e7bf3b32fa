"""Engine on the deterministic backend where its memory cannot be cut, with adapters, and with chats that were cut."""

import threading
from collections.abc import Sequence

import msgspec
import pytest

from engine.backend import AdapterKey, BatchPart, DecodeStatus
from engine.backend_fake import FakeBackend
from engine.core import Engine
from engine.errors import DecodeFailed
from engine.messages import Adapter, Delta, Event, FinishReason, TurnsDropped
from engine.metrics import CacheMissCause
from engine.reasoning import ThinkingFormat, ThinkingStart
from engine.sequence import Prompt
from tests.unit.engine.fake_engine import (
    alone,
    ask,
    failed,
    finished,
    make_backend,
    make_engine,
    make_prompt,
    reply,
    run,
    step_until,
    tokens_of,
)

# --- memories that go back by checkpoints ---


@pytest.mark.parametrize("memory", ["can_trim=0", "window=8"])
def test_regenerating_reads_one_token_when_the_memory_cannot_be_cut(memory: str):
    engine = make_engine(memory, n_ubatch=16)
    prompt = make_prompt("a", "the cache holds every token once", num_system_tokens=5)
    first = reply(engine, prompt)
    again = reply(engine, prompt._replace(request_id="b"))
    assert again.text == first.text == alone(prompt).text
    assert again.metrics.num_cached_tokens == again.metrics.num_prompt_tokens - 1


@pytest.mark.parametrize("memory", ["can_trim=0", "window=8"])
def test_another_chat_starts_after_the_system_prompt_when_the_memory_cannot_be_cut(memory: str):
    engine = make_engine(memory, n_ubatch=16)
    num_system = len(tokens_of("<|im_start|>user\nthe rules of this house"))
    reply(engine, make_prompt("a", "the rules of this house and a question", num_system_tokens=num_system))
    other = make_prompt("b", "the rules of this house but another", num_system_tokens=num_system)
    got = reply(engine, other)
    assert got.text == alone(other).text
    assert got.metrics.num_cached_tokens >= num_system


def test_model_is_the_cause_when_there_is_no_checkpoint_to_go_back_to():
    engine = make_engine("can_trim=0", n_seq_max=1)
    turns = ["the cache", "holds", "every token"]
    reply(engine, make_prompt("a", *turns, chat_id="chat"))
    got = reply(engine, make_prompt("b", "the cache", chat_id="chat"))
    assert got.metrics.cache_miss_cause is CacheMissCause.UNSUPPORTED_BY_MODEL


def test_long_prompt_goes_back_to_a_finished_micro_batch_when_a_recurrent_step_is_broken_off():
    engine = make_engine("can_trim=0,token_s=0.002", n_ubatch=64)
    prompt = make_prompt("a", "the cache holds every token once " * 40)
    engine.add(prompt)
    step_until(engine, [], lambda: len(engine._scheduler.running[0].slot.tokens) >= 128)
    timer = threading.Timer(0.03, engine.request_abort, ("a",))
    timer.start()
    events = run(engine)
    timer.join()
    assert finished(events)["a"].finish_reason is FinishReason.ABORT
    engine.backend._settings = make_backend("can_trim=0")._settings
    again = reply(engine, prompt._replace(request_id="b"))
    assert again.text == alone(prompt).text
    assert again.metrics.num_cached_tokens >= 128


def test_step_is_not_broken_off_when_that_would_cost_more_than_it_takes():
    engine = make_engine("can_trim=0,step_s=0.05")
    engine.add(make_prompt("a", "hello"))
    events: list[Event] = []
    step_until(engine, events, lambda: any(isinstance(event, Delta) for event in events))
    timer = threading.Timer(0.02, engine.request_abort, ("a",))
    timer.start()
    slot = engine._scheduler.running[0].slot
    before = len(slot.tokens)
    engine.step()
    timer.join()
    assert len(slot.tokens) == before + 1, "a decode step is short: it goes on to its end"
    assert finished(run(engine))["a"].finish_reason is FinishReason.ABORT


# --- adapters ---


def test_no_step_mixes_adapters_when_chats_use_different_ones():
    keys: set[AdapterKey] = set()

    class Watched:
        """Compares the adapters of a step with those its sequences asked for."""

        key: AdapterKey = ()

        def __init__(self, inner: FakeBackend) -> None:
            self.inner = inner

        def __getattr__(self, name: str):
            return getattr(self.inner, name)

        def use_adapters(self, key: AdapterKey) -> None:
            self.key = key
            self.inner.use_adapters(key)

        def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
            keys.add(self.key)
            for sequence in engine._scheduler.running:
                if sequence.slot.seq_id in {part.seq_id for part in parts}:
                    assert sequence.adapters == self.key
            return self.inner.decode(parts)

    engine = Engine(Watched(make_backend(n_seq_max=4)))
    prompts = [
        make_prompt(name, "the cache holds")._replace(adapters=adapters)
        for name, adapters in [("a", ()), ("b", (Adapter(path="x"),)), ("c", (Adapter(path="x"),)), ("d", ())]
    ]
    replies = ask(engine, *prompts)
    assert keys == {(), (("x", 1.0),)}
    assert replies["a"].text == replies["d"].text == alone(prompts[0]).text
    assert replies["b"].text == replies["c"].text == alone(prompts[1]).text
    assert replies["a"].text != replies["b"].text


def test_nothing_is_reused_when_the_adapters_changed():
    engine = make_engine()
    prompt = make_prompt("a", "the cache holds every token", chat_id="chat")
    reply(engine, prompt)
    other = prompt._replace(request_id="b", adapters=(Adapter(path="x", scale=0.5),))
    got = reply(engine, other)
    assert got.text == alone(other).text
    assert got.metrics.num_cached_tokens == 0
    assert got.metrics.cache_miss_cause is CacheMissCause.ADAPTER_CHANGED
    without = reply(engine, prompt._replace(request_id="c", adapters=(Adapter(path="x", scale=0.0),)))
    assert without.text == alone(prompt).text
    assert without.metrics.num_cached_tokens == without.metrics.num_prompt_tokens - 1


def test_only_its_request_fails_when_an_adapter_is_missing():
    engine = make_engine()
    events = engine.add(make_prompt("a", "hello")._replace(adapters=(Adapter(path="missing.gguf"),)))
    assert failed(events)["a"].error.error == "AdapterMismatch"
    assert reply(engine, make_prompt("b", "hello")).text


# --- what was left out ---


def test_dropped_turns_are_told_first_and_are_the_cause_when_a_chat_was_cut():
    engine = make_engine(n_seq_max=1)
    reply(engine, make_prompt("a", "the cache", "holds", "every token", "so", "and now", chat_id="chat"))
    dropped = TurnsDropped(request_id="b", num_messages=2, num_tokens=5)
    prompt = make_prompt("b", "every token", "so", "and now", "yes", "then", chat_id="chat")._replace(dropped=dropped)
    events = engine.add(prompt)
    assert events == [dropped]
    got = finished(run(engine))["b"]
    assert got.metrics.cache_miss_cause is CacheMissCause.TRIMMED


# --- thinking ---


def _thinks(prompt: Prompt, budget: int | None, *, is_open: bool) -> Prompt:
    start = ThinkingStart(ThinkingFormat("<think>", "</think>"), is_open, tuple(tokens_of("</think>")), frozenset())
    sampling = msgspec.structs.replace(prompt.sampling, thinking_budget=budget)
    return prompt._replace(thinking=start, sampling=sampling)


@pytest.mark.parametrize("memory", ["", "can_trim=0"])
@pytest.mark.parametrize("budget", [0, 1, 7])
def test_answer_begins_when_the_budget_of_thinking_is_used_up(budget: int, memory: str):
    engine = make_engine(memory)
    prompt = _thinks(make_prompt("a", "the cache"), budget, is_open=True)
    got = reply(engine, prompt)
    closing = tokens_of("</think>")
    assert list(got.token_ids)[budget : budget + len(closing)] == closing
    assert len(got.thinking.encode()) <= budget
    assert got.text
    assert (got.metrics.ttft_s or 0.0) >= (got.metrics.prefill_s or 9.9) > 0


def test_neighbours_go_on_from_their_checkpoints_when_a_step_of_a_recurrent_memory_failed():
    class Failing:
        """Fails the step that holds the long prompt, and spoils every state by it."""

        def __init__(self, inner: FakeBackend) -> None:
            self.inner = inner

        def __getattr__(self, name: str):
            return getattr(self.inner, name)

        def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
            if parts[0].seq_id == 1:
                self.inner._broken.update(range(4))
                raise DecodeFailed("The step failed.")
            return self.inner.decode(parts)

    engine = Engine(Failing(make_backend("can_trim=0", n_seq_max=2)))
    idle = make_prompt("idle", "the cache holds")
    reply(engine, idle)
    prompt = make_prompt("a", "every token")._replace(adapters=(Adapter(path="x"),))
    assert failed([*engine.add(prompt), *run(engine)])["a"].error.error == "DecodeFailed"
    again = reply(engine, idle._replace(request_id="again"))
    assert again.text == alone(idle).text
    assert again.metrics.num_cached_tokens == again.metrics.num_prompt_tokens - 1
