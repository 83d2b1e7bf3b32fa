"""Reading ahead while the engine is idle: what a follow-up saves, and that nothing else changes."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.backend_fake import FakeBackend
from engine.backend_fake_vocabulary import FakeVocabulary
from engine.client import InprocClient
from engine.core import Engine
from engine.errors import DecodeFailed
from engine.messages import ChatMessage, Finished, FinishReason, Generate, MeasureCacheTypes, Role
from engine.sequence import Prompt
from engine.template_renderer import TemplateRenderer
from engine.tokenizing import PromptEncoder
from tests.unit.engine.fake_engine import (
    alone,
    ask,
    finished,
    make_backend,
    make_engine,
    make_prompt,
    reply,
    step_until,
    tokens_of,
)
from tests.unit.engine.recorder import Recorder, load

BETWEEN = "<|im_end|>\n<|im_start|>user\n"
NEXT_TURN = tuple(tokens_of(BETWEEN))
MEMORIES = pytest.mark.parametrize("memory", ["", "can_trim=0", "window=8"], ids=["plain", "recurrent", "window"])
QUESTION, FOLLOW_UP = "what does the cache hold", "and then"


class WatchedBackend:
    """A fake backend that notes the steps that read ahead, and can hold, break or fail them."""

    def __init__(self, inner: FakeBackend) -> None:
        self.inner = inner
        self.ahead: list[BatchPart] = []
        self.fails = False
        self.is_held = False
        self.is_in_step = threading.Event()
        self.was_broken_off = threading.Event()

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        if tuple(parts[-1].tokens)[-len(NEXT_TURN) :] != NEXT_TURN:
            return self.inner.decode(parts)
        self.ahead += parts
        if self.fails:
            raise DecodeFailed("The step failed.")
        if self.is_held:
            self.is_in_step.set()
            assert self.was_broken_off.wait(20)
            self.inner.raise_abort()
        return self.inner.decode(parts)

    def raise_abort(self) -> None:
        self.was_broken_off.set()
        self.inner.raise_abort()


def watched_engine(memory: str = "", **params: int) -> tuple[Engine, WatchedBackend]:
    backend = WatchedBackend(make_backend(memory, **params))
    return Engine(backend), backend


def asked(request_id: str, *turns: str, **more) -> Prompt:
    return make_prompt(request_id, *turns, **more)._replace(next_turn_tokens=NEXT_TURN)


def num_evaluated(answer: Finished) -> int:
    return answer.metrics.num_prompt_tokens - answer.metrics.num_cached_tokens


def until_finished(engine: Engine, prompt: Prompt) -> Finished:
    events = engine.add(prompt)
    step_until(engine, events, lambda: prompt.request_id in finished(events))
    return finished(events)[prompt.request_id]


# --- what it saves ---


@MEMORIES
def test_follow_up_evaluates_only_the_message_when_the_engine_was_idle(memory: str):
    engine, backend = watched_engine(memory)
    first = reply(engine, asked("a", QUESTION, chat_id="c"))
    assert [tuple(part.tokens) for part in backend.ahead] == [NEXT_TURN]
    follow_up = asked("b", QUESTION, first.text, FOLLOW_UP, chat_id="c")
    second = reply(engine, follow_up)
    assert num_evaluated(second) == len(tokens_of(f"{FOLLOW_UP}<|im_end|>\n<|im_start|>assistant\n"))
    assert second.text == alone(follow_up).text
    assert second.metrics.cache_miss_cause is None


@MEMORIES
@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.ABORT], ids=["its length", "a stop"])
def test_follow_up_evaluates_only_the_message_when_the_reply_was_cut_off(memory: str, reason: FinishReason):
    engine, _ = watched_engine(memory)
    events = engine.add(asked("a", QUESTION, chat_id="c", max_tokens=9 if reason is FinishReason.LENGTH else None))
    if reason is FinishReason.ABORT:
        step_until(engine, events, lambda: any(len(one.generated) == 9 for one in engine._scheduler.running))
        engine.request_abort("a")
    step_until(engine, events, lambda: not engine.has_work)
    first = finished(events)["a"]
    assert first.finish_reason is reason
    follow_up = asked("b", QUESTION, first.text, FOLLOW_UP, chat_id="c")
    second = reply(engine, follow_up)
    assert num_evaluated(second) == len(tokens_of(f"{FOLLOW_UP}<|im_end|>\n<|im_start|>assistant\n"))
    assert second.text == alone(follow_up).text


@MEMORIES
def test_every_reply_equals_a_cold_engine_when_chats_go_on_in_all_ways(memory: str):
    engine = make_engine(memory, n_seq_max=2)
    first = alone(asked("x", QUESTION)).text
    chats = [
        (QUESTION,),
        (QUESTION, first, FOLLOW_UP),
        (QUESTION, first + "edited", FOLLOW_UP),  # the client's stored reply is another
        (QUESTION, first, "\nbegins with an empty line"),
        (QUESTION, first[:-9], FOLLOW_UP),
        (QUESTION,),  # regenerated
        ("quite another chat",),
        (QUESTION, first, FOLLOW_UP),
    ]
    for number, turns in enumerate(chats):
        prompt = asked(f"r{number}", *turns, chat_id="c")
        assert reply(engine, prompt).text == alone(prompt).text, f"request {number}"


@MEMORIES
def test_last_question_is_all_that_is_read_again_when_it_is_edited(memory: str):
    engine = make_engine(memory)
    first = reply(engine, asked("a", QUESTION))
    reply(engine, asked("b", QUESTION, first.text, FOLLOW_UP))
    edited = asked("c", QUESTION, first.text, "something else")
    got = reply(engine, edited)
    assert got.text == alone(edited).text
    assert num_evaluated(got) <= len(tokens_of(f"{BETWEEN}something else<|im_end|>\n<|im_start|>assistant\n"))


def test_ends_of_all_turns_are_read_when_several_chats_have_ended():
    engine, backend = watched_engine(n_seq_max=3)
    prompts = [asked(name, f"{QUESTION} {name}") for name in "abc"]
    replies = ask(engine, *prompts)
    assert sorted(part.seq_id for part in backend.ahead) == [0, 1, 2]
    for prompt, name in zip(prompts, "abc", strict=True):
        follow_up = asked(f"{name}2", f"{QUESTION} {name}", replies[name].text, FOLLOW_UP)
        second = reply(engine, follow_up)
        assert second.text == alone(follow_up).text
        assert second.metrics.num_cached_tokens >= len(prompt.tokens) + len(NEXT_TURN)


# --- what it leaves alone ---


@pytest.mark.parametrize(
    "prompt",
    [
        asked("a", QUESTION, stop=[" "]),
        make_prompt("a", QUESTION),
    ],
    ids=["ended by a stop string", "not to be read ahead"],
)
def test_nothing_is_read_when_a_stop_string_ended_the_reply_or_nobody_wants_it(prompt: Prompt):
    engine, backend = watched_engine()
    reply(engine, prompt)
    assert not backend.ahead


def test_nothing_is_read_when_a_prompt_is_aborted():
    engine, backend = watched_engine()
    events = engine.add(asked("a", QUESTION))
    engine.request_abort("a")
    step_until(engine, events, lambda: not engine.has_work)
    assert finished(events)["a"].finish_reason is FinishReason.ABORT
    assert not backend.ahead


def test_it_waits_when_another_reply_runs():
    engine, backend = watched_engine(n_seq_max=2)
    events = engine.add(asked("short", QUESTION)) + engine.add(asked("long", "w " * 40))
    step_until(engine, events, lambda: "short" in finished(events))
    step_until(engine, events, lambda: "long" in finished(events) or bool(backend.ahead))
    assert "long" in finished(events)
    step_until(engine, events, lambda: not engine.has_work)
    assert len(backend.ahead) == 2


def test_nothing_is_evicted_when_the_pool_is_full():
    prompt = asked("b", QUESTION)
    length = len(prompt.tokens) + len(alone(prompt).token_ids)
    engine, backend = watched_engine(n_ctx=length, n_seq_max=2)
    assert reply(engine, prompt).finish_reason is FinishReason.STOP
    assert not backend.ahead
    assert reply(engine, prompt._replace(request_id="c")).metrics.num_cached_tokens == len(prompt.tokens) - 1


# --- what drops it ---


@MEMORIES
def test_it_is_dropped_when_a_request_arrives_first(memory: str):
    engine, backend = watched_engine(memory)
    first = until_finished(engine, asked("a", QUESTION))
    follow_up = asked("b", QUESTION, first.text, FOLLOW_UP)
    second = until_finished(engine, follow_up)
    assert not backend.ahead
    assert second.text == alone(follow_up).text
    assert num_evaluated(second) == len(tokens_of(f"{BETWEEN}{FOLLOW_UP}<|im_end|>\n<|im_start|>assistant\n"))


@MEMORIES
def test_its_step_is_broken_off_when_something_arrives_meanwhile(memory: str):
    engine, backend = watched_engine(memory)
    first = until_finished(engine, asked("a", QUESTION))
    backend.is_held = True
    stepping = threading.Thread(target=engine.step)
    stepping.start()
    assert backend.is_in_step.wait(20)
    engine.drop_read_ahead()
    stepping.join(20)
    assert backend.was_broken_off.is_set()
    assert not engine.has_work
    backend.is_held = False
    follow_up = asked("b", QUESTION, first.text, FOLLOW_UP)
    assert reply(engine, follow_up).text == alone(follow_up).text


@MEMORIES
def test_later_replies_are_right_when_its_step_fails(memory: str):
    engine, backend = watched_engine(memory)
    backend.fails = True
    first = reply(engine, asked("a", QUESTION))
    assert backend.ahead
    backend.fails = False
    follow_up = asked("b", QUESTION, first.text, FOLLOW_UP)
    assert reply(engine, follow_up).text == alone(follow_up).text


# --- from the template to the worker ---


def test_tokens_of_the_next_turn_are_those_of_the_template(renderer: TemplateRenderer):
    encoder = PromptEncoder(FakeVocabulary(), renderer, n_ctx=1000)
    encoder.try_out()
    assert encoder.encode([ChatMessage(Role.USER, QUESTION)]).next_turn_tokens == NEXT_TURN


def test_tokens_end_where_the_next_message_may_change_them(renderer: TemplateRenderer):
    class Joining(FakeVocabulary):
        """Makes one token of a line break and the letter behind it, as some vocabularies do with spaces."""

        def __init__(self) -> None:
            super().__init__()
            self.pieces = [*self.pieces, b"\na"]

        def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
            head, found, tail = text.partition("user\na")
            if not found:
                return super().tokenize(text, parse_special=parse_special)
            tokens = super().tokenize(head + "user", parse_special=parse_special)
            return [*tokens, len(self.pieces) - 1, *super().tokenize(tail, parse_special=parse_special)]

    encoder = PromptEncoder(Joining(), renderer, n_ctx=1000)
    encoder.try_out()
    assert encoder.encode([ChatMessage(Role.USER, QUESTION)]).next_turn_tokens == NEXT_TURN[:-1]


@pytest.mark.parametrize("reads_ahead", [True, False])
def test_worker_reads_ahead_when_the_command_allows_it(reads_ahead: bool, recorder: Recorder):
    client = InprocClient(fake=True)
    client.start(recorder.add)
    try:
        load(client, recorder)
        chat: tuple[ChatMessage, ...] = (ChatMessage(Role.USER, QUESTION),)
        client.send(Generate(request_id="a", messages=chat, read_ahead=reads_ahead))
        text = recorder.wait_for("a").text
        loop: Any = client._submit
        while loop.__self__._engine.has_work:
            pass
        chat += (ChatMessage(Role.ASSISTANT, text), ChatMessage(Role.USER, FOLLOW_UP))
        client.send(Generate(request_id="b", messages=chat))
        second = recorder.wait_for("b")
    finally:
        client.close()
    message = f"{FOLLOW_UP}<|im_end|>\n<|im_start|>assistant\n"
    assert num_evaluated(second) == len(tokens_of(message if reads_ahead else BETWEEN + message))


def test_measurement_is_not_refused_when_a_reply_has_just_ended(recorder: Recorder):
    client = InprocClient(fake=True)
    client.start(recorder.add)
    try:
        load(client, recorder, "step_s=0.05,n_words=1")
        client.send(Generate(request_id="a", messages=(ChatMessage(Role.USER, QUESTION),)))
        recorder.wait_for("a")
        client.send(MeasureCacheTypes(request_id="m"))
        recorder.wait(lambda events: any(getattr(event, "request_id", "") == "m" for event in events))
    finally:
        client.close()
    (answer,) = (event for event in recorder.events if getattr(event, "request_id", "") == "m")
    assert type(answer).__name__ == "CacheTypesMeasured"
