"""Engine on the deterministic backend, whose every token depends on all tokens before it: a fault of the cache or of
the scheduling changes a text."""

import itertools
import threading
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backend import BatchPart, DecodeStatus, Proposal
from engine.backend_fake import FakeBackend
from engine.backend_fake_samplers import FakeSampler
from engine.core import Engine
from engine.errors import DecodeFailed, EngineUnavailable
from engine.messages import Delta, Failed, Finished, FinishReason, PrefillProgress
from engine.metrics import CacheMissCause, CacheSource
from engine.params import SamplingParams
from engine.sequence import Prompt
from tests.unit.engine.fake_engine import (
    alone,
    ask,
    chat_text,
    failed,
    finished,
    make_backend,
    make_engine,
    make_prompt,
    reply,
    run,
    states,
    step_until,
    tokens_of,
)
from tests.unit.engine.schedules import ACTIONS, MEMORIES, SHAPES, check_schedule

TURNS = ["hello", "what does the cache hold", "tell me about weights and tokens", "once again, without any network"]


class SteppedBackend:
    """A fake backend that notes every step and can be told to misbehave in one."""

    def __init__(self, inner: FakeBackend) -> None:
        self.inner = inner
        self.steps: list[list[BatchPart]] = []
        self.misbehave: dict[int, str] = {}  # number of the step -> how it fails

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        number = len(self.steps)
        self.steps.append(list(parts))
        match self.misbehave.get(number):
            case "fails at once":
                raise DecodeFailed("The step failed.")
            case "fails half-way":
                first, *_ = parts
                half = max(1, len(first.tokens) // 2)
                self.inner.decode([first._replace(tokens=first.tokens[:half], wants_logits=False)])
                raise DecodeFailed("The step failed.")
            case "has no room":
                return DecodeStatus.NO_ROOM
        return self.inner.decode(parts)

    def new_sampler(self, params: SamplingParams, seed: int, prompt: Sequence[int], **options) -> FakeSampler:
        return FakeSampler(self.inner)


def stepped_engine(settings_text: str = "", **params: int) -> tuple[Engine, SteppedBackend]:
    backend = SteppedBackend(make_backend(settings_text, **params))
    return Engine(backend), backend


# --- texts do not depend on company ---


def test_four_replies_equal_those_of_one_after_the_other_when_they_run_at_once():
    prompts = [make_prompt(f"r{i}", turn) for i, turn in enumerate(TURNS)]
    together = ask(make_engine(n_seq_max=4), *prompts)
    for prompt in prompts:
        assert together[prompt.request_id].text == alone(prompt).text
    assert len({answer.text for answer in together.values()}) == len(TURNS)  # else equality would prove nothing


@pytest.mark.parametrize("joins_after", [0, 1, 2, 7, 40])
def test_running_reply_is_unchanged_when_another_joins_at_a_step(joins_after: int):
    engine = make_engine(n_seq_max=2, n_ubatch=8)
    first, second = make_prompt("first", TURNS[1]), make_prompt("second", TURNS[2] * 3)
    events = engine.add(first)
    for _ in range(joins_after):
        events += engine.step()
    assert "first" not in finished(events)
    events += engine.add(second) + run(engine)
    assert finished(events)["first"].text == alone(first).text
    assert finished(events)["second"].text == alone(second).text


@pytest.mark.parametrize("aborted_after", [0, 1, 2, 3, 12, 50])
def test_neighbours_are_unchanged_when_one_is_aborted_at_a_step(aborted_after: int):
    engine = make_engine(n_seq_max=3, n_ubatch=8)
    prompts = [make_prompt(f"r{i}", turn) for i, turn in enumerate(TURNS[:3])]
    events = [event for prompt in prompts for event in engine.add(prompt)]
    for _ in range(aborted_after):
        events += engine.step()
    engine.request_abort("r1")
    events += run(engine)
    replies = finished(events)
    assert replies["r1"].finish_reason is FinishReason.ABORT
    assert alone(prompts[1]).text.startswith(replies["r1"].text)
    assert replies["r0"].text == alone(prompts[0]).text
    assert replies["r2"].text == alone(prompts[2]).text
    # What the aborted one left behind is right as well.
    assert reply(engine, prompts[1]._replace(request_id="again")).text == alone(prompts[1]).text


# --- the cache over a chat ---


def test_regenerate_evaluates_one_token_when_the_chat_is_warm():
    engine = make_engine()
    first = reply(engine, make_prompt("a", TURNS[1], chat_id="c"))
    again = reply(engine, make_prompt("b", TURNS[1], chat_id="c"))
    assert again.text == first.text
    assert again.metrics.num_prompt_tokens - again.metrics.num_cached_tokens == 1
    assert again.metrics.cache_source is CacheSource.SLOT
    assert again.metrics.cache_miss_cause is None


def test_follow_up_evaluates_only_what_is_new_when_the_reply_is_cached():
    engine = make_engine()
    first = reply(engine, make_prompt("a", TURNS[1], chat_id="c"))
    follow_up = make_prompt("b", TURNS[1], first.text, "and then", chat_id="c")
    second = reply(engine, follow_up)
    new_text = "<|im_end|>\n<|im_start|>user\nand then<|im_end|>\n<|im_start|>assistant\n"
    evaluated = second.metrics.num_prompt_tokens - second.metrics.num_cached_tokens
    assert evaluated == len(tokens_of(new_text))
    assert second.text == alone(follow_up).text
    assert second.metrics.cache_miss_cause is None


def test_edit_evaluates_only_tokens_after_the_edit_when_the_chat_is_warm():
    engine = make_engine()
    beginning = "keep every token of this long beginning and change only the last word "
    reply(engine, make_prompt("a", beginning + "here", chat_id="c"))
    edited = make_prompt("b", beginning + "there", chat_id="c")
    answer = reply(engine, edited)
    num_kept = len(tokens_of("<|im_start|>user\n" + beginning))
    assert answer.metrics.num_prompt_tokens - answer.metrics.num_cached_tokens <= len(edited.tokens) - num_kept + 1
    assert answer.text == alone(edited).text
    assert answer.metrics.cache_miss_cause is CacheMissCause.EDITED


def test_every_reply_equals_a_cold_engine_when_turns_are_edited_undone_regenerated_and_switched():
    engine = make_engine(n_seq_max=2)
    first = alone(make_prompt("x", TURNS[1])).text
    chats = [
        ("a", (TURNS[1], first, "next question")),
        ("a", (TURNS[1].replace("cache", "model"), first, "next question")),  # edited
        ("a", (TURNS[1], first, "next question")),  # undone
        ("a", (TURNS[1], first, "next question")),  # regenerated
        ("b", (TURNS[2],)),  # another chat
        ("a", (TURNS[1], first, "next question")),  # and back
        ("a", (TURNS[1],)),  # turns deleted
        ("b", (TURNS[2], "short", "go on")),
    ]
    for number, (chat_id, turns) in enumerate(chats):
        prompt = make_prompt(f"r{number}", *turns, chat_id=chat_id)
        assert reply(engine, prompt).text == alone(prompt).text, f"request {number}"


@pytest.mark.parametrize("settings_text", ["can_trim=1", "can_trim=0"], ids=["trims", "cannot trim"])
@pytest.mark.parametrize("n_seq_max", [1, 2])
def test_edit_equals_a_cold_engine_when_memory_may_refuse_to_trim(settings_text: str, n_seq_max: int):
    engine = make_engine(settings_text, n_seq_max=n_seq_max)
    for number, turn in enumerate(["one two three", "one two four", "one two three", "one two three and more"]):
        prompt = make_prompt(f"r{number}", turn, chat_id="c")
        answer = reply(engine, prompt)
        assert answer.text == alone(prompt).text
    assert answer.metrics.num_prompt_tokens == len(prompt.tokens)


def test_reply_is_right_when_text_spells_the_control_tokens_that_are_cached():
    engine = make_engine(n_seq_max=1)
    reply(engine, make_prompt("a", "Hi", "Hello", "Bye"))
    spelled = "Hi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye"
    tokens = [
        *tokens_of("<|im_start|>user\n"),
        *spelled.encode(),
        *tokens_of("<|im_end|>\n<|im_start|>assistant\n"),
    ]
    prompt = make_prompt("b", "x")._replace(tokens=tokens)
    answer = reply(engine, prompt)
    assert answer.metrics.num_cached_tokens == len(tokens_of("<|im_start|>user\nHi"))
    assert answer.text == alone(prompt).text


def test_nothing_is_missed_when_a_chat_goes_on_after_a_stop_string():
    engine = make_engine()
    whole = alone(make_prompt("x", TURNS[1])).text
    first = reply(engine, make_prompt("a", TURNS[1], stop=[whole.split()[3]], chat_id="c"))
    assert first.stop_string is not None
    second = reply(engine, make_prompt("b", TURNS[1], first.text, "and then", chat_id="c"))
    assert second.metrics.cache_miss_cause is None
    assert second.metrics.num_cached_tokens >= len(make_prompt("x", TURNS[1]).tokens)


def test_causes_of_misses_are_told_when_a_chat_changes():
    engine = make_engine(n_seq_max=1)
    system = "<|im_start|>system\nBe {}.<|im_end|>\n"

    def ask_with(request_id: str, word: str, text: str, chat_id: str) -> CacheMissCause | None:
        beginning = tokens_of(system.format(word))
        prompt = Prompt(
            request_id=request_id,
            tokens=beginning + tokens_of(chat_text(text)),
            sampling=SamplingParams(max_tokens=3),
            seed=0,
            received_at=0.0,
            chat_id=chat_id,
            num_system_tokens=len(beginning),
        )
        return reply(engine, prompt).metrics.cache_miss_cause

    assert ask_with("1", "kind", "hello", "a") is CacheMissCause.FIRST_USE
    assert ask_with("2", "kind", "hello", "a") is None
    assert ask_with("3", "kind", "help", "a") is CacheMissCause.EDITED
    assert ask_with("4", "rude", "help", "a") is CacheMissCause.SYSTEM_PROMPT_CHANGED
    ask_with("5", "long and quite another one altogether", "other", "b")
    assert ask_with("6", "rude", "help", "a") is CacheMissCause.EVICTED


# --- abort ---


def test_finished_micro_batches_are_kept_and_reported_as_cached_when_prefill_is_aborted():
    class Held(SteppedBackend):
        """Stays in its third micro-batch until the abort comes."""

        is_aborted = threading.Event()
        is_in_third = threading.Event()

        def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
            if parts[0].start < 128 or self.is_aborted.is_set():
                return super().decode(parts)
            self.is_in_third.set()
            assert self.is_aborted.wait(20)
            return DecodeStatus.ABORTED

        def raise_abort(self) -> None:
            self.is_aborted.set()

    backend = Held(make_backend(n_ubatch=64))
    engine = Engine(backend)

    def abort() -> None:
        if backend.is_in_third.wait(20):
            engine.request_abort("a")

    aborter = threading.Thread(target=abort)
    aborter.start()
    prompt = make_prompt("a", "word " * 100)
    try:
        events = engine.add(prompt) + run(engine)
    finally:
        aborter.join(20)
    assert finished(events)["a"].finish_reason is FinishReason.ABORT
    assert finished(events)["a"].text == ""
    retry = reply(engine, prompt._replace(request_id="b"))
    assert retry.metrics.num_cached_tokens == 128
    assert retry.text == alone(prompt).text


@pytest.mark.parametrize("num_kept_batches", [0, 1, 2])
def test_whole_micro_batches_stay_cached_when_one_step_of_several_is_broken_off(num_kept_batches: int):
    class BrokenOff(SteppedBackend):
        """Ends the first step as an abort does, after some of its micro-batches."""

        def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
            if self.steps:
                return super().decode(parts)
            self.steps.append(list(parts))
            (part,) = parts
            kept = part.tokens[: 4 * num_kept_batches]
            if kept:
                self.inner.decode([part._replace(tokens=kept, wants_logits=False)])
            engine.request_abort("a")
            return DecodeStatus.ABORTED

    backend = BrokenOff(make_backend(n_ubatch=64))
    engine = Engine(backend)
    prompt = make_prompt("a", "hello there")
    events = engine.add(prompt) + run(engine)
    assert finished(events)["a"].finish_reason is FinishReason.ABORT
    retry = reply(engine, prompt._replace(request_id="b"))
    assert retry.metrics.num_cached_tokens == 4 * num_kept_batches
    assert retry.text == alone(prompt).text


def test_shared_step_is_not_broken_off_when_one_of_its_requests_is_aborted():
    engine, backend = stepped_engine(n_seq_max=2)
    raised: list[bool] = []
    backend.inner.raise_abort = lambda: raised.append(True)
    prompts = [make_prompt("a", "hello"), make_prompt("b", "world")]
    events = [event for prompt in prompts for event in engine.add(prompt)]
    inner_decode = backend.inner.decode

    def decode(parts: Sequence[BatchPart]) -> DecodeStatus:
        if len(backend.steps) == 5:
            assert len(parts) == 2
            engine.request_abort("a")
        return inner_decode(parts)

    backend.inner.decode = decode
    events += run(engine)
    assert not raised
    assert finished(events)["a"].finish_reason is FinishReason.ABORT
    assert finished(events)["b"].text == alone(prompts[1]).text


class BrokenOffOnce(SteppedBackend):
    """Ends the first step that has some number of parts as an abort does, after a number of its tokens."""

    def __init__(self, inner: FakeBackend, *, num_parts: int, num_kept: int) -> None:
        super().__init__(inner)
        self.num_parts = num_parts
        self.num_kept = num_kept
        self.on_break = lambda parts: None
        self.is_broken = False

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        if self.is_broken or len(parts) < self.num_parts:
            return super().decode(parts)
        self.is_broken, left = True, self.num_kept
        self.on_break(parts)
        for part in parts:
            kept, left = part.tokens[:left], max(0, left - len(part.tokens))
            if kept:
                self.inner.decode([part._replace(tokens=kept, wants_logits=False)])
        return DecodeStatus.ABORTED


@pytest.mark.parametrize("num_kept", [0, 1, 2, 20, 10_000])
def test_neighbours_are_unchanged_when_a_shared_step_is_broken_off(num_kept: int):
    backend = BrokenOffOnce(make_backend(n_seq_max=3), num_parts=3, num_kept=num_kept)
    engine = Engine(backend)
    prompts = [make_prompt("a", "hello"), make_prompt("b", "world"), make_prompt("long", "word " * 60)]
    backend.on_break = lambda parts: engine.request_abort("long")
    events = engine.add(prompts[0]) + engine.add(prompts[1])
    step_until(engine, events, lambda: states(events, "b")[-1:] == ["decode"])
    events += engine.add(prompts[2]) + run(engine)
    assert backend.is_broken
    assert finished(events)["long"].finish_reason is FinishReason.ABORT
    for prompt in prompts[:2]:
        assert finished(events)[prompt.request_id].text == alone(prompt).text
    assert reply(engine, prompts[2]._replace(request_id="again")).text == alone(prompts[2]).text


@pytest.mark.parametrize("num_kept", [0, 1, 30, 10_000])
def test_prompts_are_read_again_as_needed_when_a_step_of_their_last_parts_is_broken_off(num_kept: int):
    backend = BrokenOffOnce(make_backend(n_seq_max=2), num_parts=2, num_kept=num_kept)
    engine = Engine(backend)
    prompts = [make_prompt("a", TURNS[1]), make_prompt("b", TURNS[2])]
    replies = ask(engine, *prompts)
    assert backend.is_broken
    for prompt in prompts:
        assert replies[prompt.request_id].text == alone(prompt).text


@pytest.mark.parametrize("when", ["before its first step", "while it waits for a slot", "after its end", "unknown"])
def test_abort_ends_at_most_its_own_request_when_it_comes(when: str):
    engine = make_engine(n_seq_max=1)
    first, second = make_prompt("first", "hello"), make_prompt("second", "world")
    events = engine.add(first)
    if when == "before its first step":
        engine.request_abort("first")
        events += run(engine)
        assert finished(events)["first"].finish_reason is FinishReason.ABORT
        assert finished(events)["first"].text == ""
    elif when == "while it waits for a slot":
        events += engine.add(second) + engine.step()
        engine.request_abort("second")
        events += run(engine)
        assert finished(events)["second"].finish_reason is FinishReason.ABORT
        assert finished(events)["first"].text == alone(first).text
    else:
        events += run(engine)
        engine.request_abort("first" if when == "after its end" else "nobody")
        assert not engine.has_work
        assert finished(events)["first"].finish_reason is FinishReason.STOP
    assert reply(engine, second._replace(request_id="next")).text == alone(second).text


def test_request_of_an_old_name_is_not_aborted_when_the_abort_came_after_the_old_one_ended():
    engine = make_engine()
    prompt = make_prompt("same", "hello")
    reply(engine, prompt)
    engine.request_abort("same")
    assert reply(engine, prompt).finish_reason is FinishReason.STOP
    engine.add(prompt)
    engine.request_abort("same")
    assert finished(run(engine))["same"].finish_reason is FinishReason.ABORT
    assert reply(engine, prompt).finish_reason is FinishReason.STOP


# --- steps ---


def test_running_replies_decode_in_every_step_when_a_prompt_is_read_in_bounded_chunks():
    engine, backend = stepped_engine(n_seq_max=3, n_ubatch=32, n_batch=64)
    events = engine.add(make_prompt("a", "hello")) + engine.add(make_prompt("b", "world"))
    step_until(engine, events, lambda: states(events, "a")[-1:] == states(events, "b")[-1:] == ["decode"])
    began = len(backend.steps)
    long_prompt = make_prompt("long", "word " * 60)
    events += engine.add(long_prompt)
    step_until(engine, events, lambda: states(events, "long")[-1:] == ["decode"])
    during = backend.steps[began:]
    assert len(during) > 3
    for parts in during:
        sizes = sorted(len(part.tokens) for part in parts)
        assert len(sizes) == 3
        assert sizes[:2] == [1, 1], "both replies decode"
        assert sizes[2] <= 32, "the prompt is read in chunks of at most a micro-batch"
    events += run(engine)
    assert finished(events)["long"].text == alone(long_prompt).text


@pytest.mark.parametrize(("n_batch", "n_ubatch"), [(16, 16), (4, 4), (2, 1), (1, 1)], ids=lambda value: str(value))
def test_step_never_exceeds_the_batch_when_replies_decode_beside_a_prompt(n_batch: int, n_ubatch: int):
    engine, backend = stepped_engine(n_seq_max=4, n_batch=n_batch, n_ubatch=n_ubatch)
    prompts = [make_prompt(f"r{i}", turn, max_tokens=30) for i, turn in enumerate(TURNS)]
    replies = ask(engine, *prompts)
    # A batch that could not hold a token of every slot is made larger.
    assert max(sum(len(part.tokens) for part in parts) for parts in backend.steps) <= max(n_batch, 4)
    for prompt in prompts:
        assert replies[prompt.request_id].text == alone(prompt).text


def test_twelve_requests_take_fourteen_steps_when_four_slots_are_refilled():
    lengths = [5, 3, 4, 4, 2, 8, 4, 3, 3, 2, 3, 6]
    assert sum(lengths) == 47
    assert sum(max(lengths[i : i + 4]) for i in range(0, 12, 4)) == 19  # what waiting for whole groups would take
    engine, backend = stepped_engine(n_seq_max=4)
    for number, length in enumerate(lengths):
        prompt = make_prompt(f"r{number}", "x", max_tokens=length)
        engine.add(prompt._replace(tokens=[256, 10, 97 + number]))
    events = run(engine)
    assert [len(finished(events)[f"r{i}"].token_ids) for i in range(12)] == lengths
    assert len(backend.steps) == 14
    assert sum(len(parts) for parts in backend.steps) == 47


def test_requests_start_in_the_order_of_arrival_when_slots_are_few():
    engine = make_engine(n_seq_max=2)
    prompts = [make_prompt(f"r{i}", f"hello {i}", max_tokens=4) for i in range(6)]
    events = [event for prompt in prompts for event in engine.add(prompt)] + run(engine)
    begun = [
        event.request_id
        for event in events
        if isinstance(event, PrefillProgress) and event.num_done_tokens == event.num_total_tokens
    ]
    assert begun == [prompt.request_id for prompt in prompts]
    assert states(events, "r5") == ["queued", "prefill", "decode"]
    assert states(events, "r0") == ["prefill", "decode"]


# --- pool ---


def test_replies_pause_and_resume_with_the_texts_of_a_lone_engine_when_the_pool_is_small():
    prompts = [make_prompt(f"r{i}", turn) for i, turn in enumerate(TURNS)]
    engine = make_engine(n_ctx=256, n_seq_max=4)
    events = [event for prompt in prompts for event in engine.add(prompt)] + run(engine)
    assert not failed(events)
    replies = finished(events)
    paused = [prompt.request_id for prompt in prompts if "paused" in states(events, prompt.request_id)]
    assert paused, "the pool was meant to be too small"
    for prompt in prompts:
        fitting = alone(prompt, n_ctx=256)
        assert replies[prompt.request_id].text == fitting.text
        assert replies[prompt.request_id].finish_reason is fitting.finish_reason
    for request_id in paused:
        path = states(events, request_id)
        assert path[path.index("paused") + 1] in ("decode", "prefill")


def test_paused_reply_is_read_again_when_its_snapshot_cannot_be_restored():
    class Forgetful(SteppedBackend):
        """Makes snapshots it cannot read."""

        def set_seq_state(self, seq_id: int, state: bytes) -> bool:
            return False

    prompts = [make_prompt(f"r{i}", turn) for i, turn in enumerate(TURNS)]
    engine = Engine(Forgetful(make_backend(n_ctx=256, n_seq_max=4)))
    events = [event for prompt in prompts for event in engine.add(prompt)] + run(engine)
    assert not failed(events)
    assert any("paused" in states(events, prompt.request_id) for prompt in prompts)
    for prompt in prompts:
        assert finished(events)[prompt.request_id].text == alone(prompt, n_ctx=256).text


def test_aborted_reply_keeps_its_text_when_it_is_paused():
    prompts = [make_prompt(f"r{i}", turn) for i, turn in enumerate(TURNS)]
    engine = make_engine(n_ctx=256, n_seq_max=4)
    events = [event for prompt in prompts for event in engine.add(prompt)]
    paused: list[str] = []

    def find_paused() -> bool:
        paused[:] = [p.request_id for p in prompts if states(events, p.request_id)[-1:] == ["paused"]]
        return bool(paused)

    step_until(engine, events, find_paused)
    engine.request_abort(paused[0])
    events += run(engine)
    aborted = finished(events)[paused[0]]
    whole = alone(next(p for p in prompts if p.request_id == paused[0]), n_ctx=256).text
    assert aborted.finish_reason is FinishReason.ABORT
    assert aborted.text
    assert whole.startswith(aborted.text)


def test_idle_chats_give_way_when_a_reply_needs_their_room():
    engine = make_engine(n_ctx=256, n_seq_max=4)
    for number, turn in enumerate(TURNS[:3]):
        reply(engine, make_prompt(f"r{number}", turn, chat_id=f"c{number}"))
    big = make_prompt("big", "word " * 30)
    answer = reply(engine, big)
    assert answer.text == alone(big, n_ctx=256).text
    assert answer.finish_reason is alone(big, n_ctx=256).finish_reason


def test_reply_ends_as_context_full_with_its_text_when_the_context_ends():
    prompt = make_prompt("a", TURNS[2])
    n_ctx = len(prompt.tokens) + 20
    answer = alone(prompt, n_ctx=n_ctx)
    assert answer.finish_reason is FinishReason.CONTEXT_FULL
    assert len(answer.token_ids) == 21  # the last one needs no cell
    assert alone(prompt).text.startswith(answer.text)
    assert answer.text


@pytest.mark.parametrize("num_over", [1, 500])
def test_prompt_is_refused_unread_when_it_is_longer_than_the_context(num_over: int):
    engine, backend = stepped_engine(n_ctx=64)
    prompt = make_prompt("a", "x")._replace(tokens=[97] * (64 + num_over))
    (event,) = engine.add(prompt)
    assert isinstance(event, Failed)
    assert event.error.error == "ContextOverflow"
    assert str(64 + num_over) in event.error.message
    assert str(num_over) in event.error.hint
    assert not engine.has_work
    assert not backend.steps
    assert reply(engine, make_prompt("b", "hi")).text


def test_prompt_gets_its_one_token_when_it_fills_the_context():
    prompt = make_prompt("a", "hello there")
    answer = alone(prompt, n_ctx=len(prompt.tokens))
    assert answer.finish_reason is FinishReason.CONTEXT_FULL
    assert len(answer.token_ids) == 1


@pytest.mark.parametrize("max_tokens", [1, 2, 17])
def test_reply_ends_as_length_when_it_has_as_many_tokens_as_asked_for(max_tokens: int):
    prompt = make_prompt("a", TURNS[1], max_tokens=max_tokens)
    answer = alone(prompt)
    assert answer.finish_reason is FinishReason.LENGTH
    assert len(answer.token_ids) == answer.metrics.num_generated_tokens == max_tokens


# --- failures ---


@pytest.mark.parametrize("how", ["fails at once", "fails half-way"])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_only_requests_of_a_step_fail_and_the_next_works_when_it_fails(how: str, number: int):
    engine, backend = stepped_engine(n_seq_max=2, n_ubatch=16)
    backend.misbehave[number] = how
    prompts = [make_prompt("a", TURNS[1] * 2), make_prompt("b", TURNS[2] * 2), make_prompt("c", TURNS[3])]
    events = [event for prompt in prompts for event in engine.add(prompt)] + run(engine)
    failures = failed(events)
    assert len(failures) == len(backend.steps[number])
    assert all(event.error.error == "DecodeFailed" for event in failures.values())
    for prompt in prompts:
        if prompt.request_id in finished(events):
            assert finished(events)[prompt.request_id].text == alone(prompt).text
    for prompt in prompts:
        again = prompt._replace(request_id=f"again-{prompt.request_id}")
        assert reply(engine, again).text == alone(prompt).text


def test_only_its_request_fails_when_a_sampler_finds_no_numbers():
    class Broken(SteppedBackend):
        """Hands out a sampler that fails to the second request."""

        num_samplers = 0

        def new_sampler(self, params: SamplingParams, seed: int, prompt: Sequence[int], **options) -> FakeSampler:
            sampler = super().new_sampler(params, seed, prompt, **options)
            self.num_samplers += 1
            if self.num_samplers == 2:

                def sample(row: int, proposal: Proposal | None = None) -> int:
                    raise DecodeFailed("The logits are no numbers.")

                sampler.sample = sample
            return sampler

    engine = Engine(Broken(make_backend(n_seq_max=2)))
    prompts = [make_prompt("a", "hello"), make_prompt("b", "world")]
    events = [event for prompt in prompts for event in engine.add(prompt)] + run(engine)
    assert set(failed(events)) == {"b"}
    assert finished(events)["a"].text == alone(prompts[0]).text
    assert reply(engine, prompts[1]._replace(request_id="c")).text == alone(prompts[1]).text


def test_only_its_request_fails_when_its_sampler_cannot_be_made():
    class Refusing(SteppedBackend):
        """Makes no sampler for a request with this seed."""

        def new_sampler(self, params: SamplingParams, seed: int, prompt: Sequence[int], **options) -> FakeSampler:
            if seed == 13:
                raise DecodeFailed("A sampler could not be made.")
            return super().new_sampler(params, seed, prompt, **options)

    engine = Engine(Refusing(make_backend(n_seq_max=2)))
    prompts = [make_prompt("a", "hello"), make_prompt("b", "world")._replace(seed=13), make_prompt("c", "again")]
    events = [event for prompt in prompts for event in engine.add(prompt)] + run(engine)
    assert set(failed(events)) == {"b"}
    for prompt in (prompts[0], prompts[2]):
        assert finished(events)[prompt.request_id].text == alone(prompt).text


def test_reply_goes_on_when_the_memory_has_no_room_for_a_step_that_should_fit():
    engine, backend = stepped_engine(n_seq_max=2)
    backend.misbehave[6] = "has no room"
    prompts = [make_prompt("a", "hello"), make_prompt("b", "world")]
    events = [event for prompt in prompts for event in engine.add(prompt)] + run(engine)
    assert not failed(events)
    assert "paused" in states(events, "b")
    for prompt in prompts:
        assert finished(events)[prompt.request_id].text == alone(prompt).text


def test_lone_request_fails_and_the_next_works_when_the_memory_has_no_room():
    engine, backend = stepped_engine()
    backend.misbehave[2] = "has no room"
    events = engine.add(make_prompt("a", "hello")) + run(engine)
    assert failed(events)["a"].error.error == "DecodeFailed"
    assert reply(engine, make_prompt("b", "hello")).text == alone(make_prompt("b", "hello")).text


def test_every_request_fails_once_when_the_model_goes():
    engine = make_engine(n_seq_max=2)
    events = [event for i in range(4) for event in engine.add(make_prompt(f"r{i}", "hello"))]
    for _ in range(5):
        events += engine.step()
    events += engine.fail_all(EngineUnavailable("The model was unloaded."))
    assert Counter(event.request_id for event in events if isinstance(event, Failed)) == {f"r{i}": 1 for i in range(4)}
    assert not engine.has_work
    assert engine.step() == []


# --- events ---


KNOWN: dict[tuple, Finished] = {}


@settings(max_examples=120)
@given(actions=st.lists(ACTIONS, min_size=1, max_size=14), shape=SHAPES, memory=MEMORIES)
def test_each_request_ends_once_with_the_text_of_a_lone_engine_when_schedules_are_random(actions, shape, memory):
    check_schedule(actions, shape, KNOWN, memory)


def test_deltas_join_to_the_text_and_count_tokens_when_a_reply_streams():
    engine = make_engine()
    events = engine.add(make_prompt("a", "hello", stop=["every"])) + run(engine)
    deltas = [event for event in events if isinstance(event, Delta)]
    end = finished(events)["a"]
    assert "".join(delta.text for delta in deltas) == end.text
    counts = [delta.num_generated_tokens for delta in deltas]
    assert counts == sorted(counts)
    assert deltas[0].num_context_tokens - deltas[0].num_generated_tokens == end.metrics.num_prompt_tokens


def test_progress_rises_from_the_cached_tokens_to_all_when_a_prompt_is_read():
    engine = make_engine(n_ubatch=16)
    reply(engine, make_prompt("a", "word " * 20))
    prompt = make_prompt("b", "word " * 20 + "more " * 20)
    events = engine.add(prompt) + run(engine)
    shown = [event for event in events if isinstance(event, PrefillProgress)]
    done = [event.num_done_tokens for event in shown]
    assert done == sorted(done)
    assert done[0] == shown[0].num_cached_tokens > 0
    assert done[-1] == shown[-1].num_total_tokens == finished(events)["b"].metrics.num_prompt_tokens
    assert max(later - earlier for earlier, later in itertools.pairwise(done)) <= 16


def test_metrics_report_the_memory_the_engine_was_given_when_a_reply_ends():
    engine = Engine(make_backend(), peak_memory=lambda: 12345)
    prompt = make_prompt("a", "hello")._replace(seed=77)
    metrics = reply(engine, prompt).metrics
    assert metrics.peak_memory_bytes == 12345
    assert metrics.seed == 77
    assert metrics.ttft_s >= metrics.prefill_s > 0
    assert metrics.decode_s > 0


def test_stop_string_names_itself_and_ends_the_reply_when_it_is_met():
    prompt = make_prompt("a", TURNS[1])
    whole = alone(prompt).text
    third_word = whole.split()[2]
    answer = alone(make_prompt("a", TURNS[1], stop=[third_word]))
    assert answer.finish_reason is FinishReason.STOP
    assert answer.stop_string == third_word
    assert answer.text == whole[: whole.index(third_word)]


def test_history_does_not_stop_a_reply_when_it_holds_the_stop_string():
    whole = alone(make_prompt("a", "User: what does User: mean?")).text
    answer = alone(make_prompt("a", "User: what does User: mean?", stop=["User:", "\n"]))
    assert answer.text == whole
    assert answer.stop_string is None


def test_reply_is_empty_and_names_the_stop_string_when_it_is_met_at_once():
    whole = alone(make_prompt("a", "hello")).text
    answer = alone(make_prompt("a", "hello", stop=[whole[:3]]))
    assert answer.text == ""
    assert answer.finish_reason is FinishReason.STOP
    assert answer.stop_string == whole[:3]


def test_samplers_are_closed_when_their_requests_end_in_any_way():
    class Counting(SteppedBackend):
        """Counts its samplers."""

        def __init__(self, inner: FakeBackend) -> None:
            super().__init__(inner)
            self.num_open = 0
            self.num_made = 0

        def new_sampler(self, params: SamplingParams, seed: int, prompt: Sequence[int], **options) -> FakeSampler:
            sampler = super().new_sampler(params, seed, prompt, **options)
            self.num_open += 1
            self.num_made += 1

            def close() -> None:
                self.num_open -= 1

            sampler.close = close
            return sampler

    backend = Counting(make_backend(n_ctx=256, n_seq_max=4))
    engine = Engine(backend)
    for number, turn in enumerate(TURNS):
        engine.add(make_prompt(f"r{number}", turn))
    for _ in range(10):
        engine.step()
    engine.request_abort("r0")
    run(engine)
    engine.add(make_prompt("last", "hello"))
    engine.step()
    engine.fail_all(EngineUnavailable("The model was unloaded."))
    assert backend.num_made == 5
    assert backend.num_open == 0
