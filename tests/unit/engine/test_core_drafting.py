"""Drafting in the engine: the text of plain decoding on every path, and an account that adds up."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backend import BatchPart, DecodeStatus
from engine.backend_fake import FakeBackend
from engine.backend_fake_settings import settings_of
from engine.errors import CannotTrim
from engine.messages import FinishReason
from engine.metrics import DraftState
from engine.params import DraftMode, ModelParams, SamplingParams
from tests.support.eager_referee import FullReferee
from tests.unit.engine.drafting_engine import drafted, drafting_engine
from tests.unit.engine.fake_engine import (
    alone,
    ask,
    failed,
    finished,
    make_prompt,
    reply,
    run,
    step_until,
)
from tests.unit.engine.schedules import ACTIONS, SHAPES, check_schedule

MODES = pytest.mark.parametrize("mode", [DraftMode.NGRAM, DraftMode.MODEL, DraftMode.BOTH, DraftMode.AUTO])
RIGHT = pytest.mark.parametrize("right", [0.0, 0.5, 1.0])


class CountingBackend(FakeBackend):
    """Notes the parts of its steps."""

    def __init__(self, settings: str = "", **params: Any) -> None:
        path = f"fake:{settings}"
        super().__init__(path, ModelParams(**params), settings_of(path))
        self.steps: list[list[BatchPart]] = []

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        self.steps.append(list(parts))
        return super().decode(parts)


@MODES
@RIGHT
def test_text_is_that_of_plain_decoding_when_tokens_are_drafted(mode, right):
    prompt = make_prompt("a", "say it again and again and again and again")
    engine = drafting_engine(draft=f"draft_right={right}")
    got, expected = reply(engine, drafted(prompt, mode)), alone(prompt)
    assert (got.text, got.token_ids, got.finish_reason) == (expected.text, expected.token_ids, expected.finish_reason)
    assert got.speculative.num_drafted_tokens > 0
    assert got.metrics.num_drafted_tokens == got.speculative.num_drafted_tokens


def test_three_rounds_of_three_accepted_drafts_bring_twelve_tokens_with_three_passes():
    backend = CountingBackend()
    engine = drafting_engine(backend=backend, draft="draft_right=1", referee=FullReferee)
    prompt = make_prompt("a", "hello", max_tokens=13)
    got = reply(engine, drafted(prompt, DraftMode.MODEL, draft_max=3))
    # What comes after the reply measures steps in an empty slot.
    steps = [parts[0] for parts in backend.steps if parts[0].start > 0]
    assert [part.num_drafted for part in steps] == [3, 3, 3]
    assert steps[0].start == len(prompt.tokens)  # the prompt brought the first token
    assert len(got.token_ids) == 1 + 12
    stats = got.speculative
    assert (stats.num_drafts, stats.num_drafted_tokens, stats.num_accepted_tokens) == (3, 9, 9)
    assert (stats.acceptance_rate, stats.mean_acceptance_length) == (1.0, 4.0)


def test_nothing_is_accepted_and_nothing_changes_when_drafts_are_always_wrong():
    prompt = make_prompt("a", "hello")
    got = reply(drafting_engine(draft="draft_right=0"), drafted(prompt, DraftMode.MODEL))
    assert got.token_ids == alone(prompt).token_ids
    assert got.speculative.num_accepted_tokens == 0
    assert got.speculative.mean_acceptance_length == 1.0
    assert got.drafted_spans == ()


def test_every_token_but_one_a_step_is_told_as_drafted_when_all_are_right():
    got = reply(
        drafting_engine(draft="draft_right=1", referee=FullReferee),
        drafted(make_prompt("a", "hello"), DraftMode.MODEL, draft_max=3),
    )
    told = sum(span.end - span.start for span in got.drafted_spans)
    # The end token was drafted, too.
    assert told == got.speculative.num_accepted_tokens - 1 > 0.7 * len(got.text)


@pytest.mark.parametrize("max_tokens", range(1, 9))
def test_a_reply_has_just_its_tokens_when_the_limit_lies_in_a_draft(max_tokens):
    prompt = make_prompt("a", "hello", max_tokens=max_tokens)
    engine = drafting_engine(draft="draft_right=1", referee=FullReferee)
    got = reply(engine, drafted(prompt))
    assert got.token_ids == alone(prompt).token_ids
    assert (len(got.token_ids), got.finish_reason) == (max_tokens, FinishReason.LENGTH)


@pytest.mark.parametrize("stop", [" ", "a", "he", "s t"])
def test_a_reply_ends_at_its_stop_string_when_it_lies_in_a_draft(stop):
    prompt = make_prompt("a", "hello there", stop=(stop,))
    got, expected = reply(drafting_engine(draft="draft_right=1"), drafted(prompt)), alone(prompt)
    assert (got.text, got.stop_string, got.token_ids) == (expected.text, expected.stop_string, expected.token_ids)


@pytest.mark.parametrize("n_words", [1, 2, 3])
def test_nothing_comes_behind_an_end_token_when_it_was_drafted(n_words):
    prompt = make_prompt("a", "hello")
    settings = f"n_words={n_words}"
    engine = drafting_engine(settings, draft=f"draft_right=1,{settings}", referee=FullReferee)
    got = reply(engine, drafted(prompt))
    assert got.token_ids == alone(prompt, settings).token_ids
    assert got.finish_reason is FinishReason.STOP


@pytest.mark.parametrize("n_ctx", range(60, 68))
def test_a_reply_fills_the_context_to_its_last_cell_when_tokens_are_drafted(n_ctx):
    prompt = make_prompt("a", "hello hello hello")
    engine = drafting_engine(draft="draft_right=1", n_ctx=n_ctx, n_seq_max=1)
    got, expected = reply(engine, drafted(prompt)), alone(prompt, n_ctx=n_ctx, n_seq_max=1)
    assert got.finish_reason is expected.finish_reason is FinishReason.CONTEXT_FULL
    assert got.token_ids == expected.token_ids


def test_next_message_reuses_all_of_the_reply_when_it_was_drafted():
    engine = drafting_engine(draft="draft_right=0.5")
    first = reply(engine, drafted(make_prompt("a", "hello", chat_id="c")))
    second = reply(engine, drafted(make_prompt("b", "hello", first.text, "more", chat_id="c")))
    assert second.cache.num_recomputed_tokens == 0
    assert second.cache.num_cached_tokens >= len(make_prompt("x", "hello").tokens) + len(first.token_ids)
    assert second.token_ids == alone(make_prompt("b", "hello", first.text, "more")).token_ids


@RIGHT
def test_neighbours_say_what_they_say_alone_when_some_of_them_draft(right):
    prompts = [make_prompt(name, f"{name} says it again and again") for name in "abcd"]
    asked = [drafted(prompt) if number % 2 else prompt for number, prompt in enumerate(prompts)]
    replies = ask(drafting_engine(draft=f"draft_right={right}", n_seq_max=4), *asked)
    for prompt in prompts:
        assert replies[prompt.request_id].token_ids == alone(prompt).token_ids


def test_no_step_has_more_rows_than_the_context_was_made_for_when_many_draft():
    backend = CountingBackend(n_seq_max=8)
    engine = drafting_engine(backend=backend, draft="draft_right=1", referee=FullReferee)
    ask(engine, *(drafted(make_prompt(f"r{number}", "hello")) for number in range(8)))
    most = max(sum(1 + part.num_drafted for part in parts if part.wants_logits) for parts in backend.steps)
    assert 8 < most <= backend.max_step_logits


@pytest.mark.parametrize("seed", range(12))
def test_both_caches_are_right_after_an_abort_at_any_point(seed):
    rng = random.Random(seed)
    engine = drafting_engine(draft=f"draft_right={rng.choice((0.3, 0.9))}", n_seq_max=3, n_ubatch=8)
    events = []
    for number in range(4):
        events += engine.add(drafted(make_prompt(f"r{number}", f"{number % 2} says", chat_id=str(number % 2))))
    for _ in range(rng.randrange(1, 40)):
        events += engine.step()
    engine.request_abort(f"r{rng.randrange(4)}")
    events += run(engine)
    for number in range(2):
        again = make_prompt(f"again{number}", f"{number} says", chat_id=str(number))
        assert reply(engine, drafted(again)).token_ids == alone(again).token_ids


@pytest.mark.allow_log("the draft model failed")
def test_a_reply_goes_on_plainly_when_its_draft_model_fails():
    prompt = make_prompt("a", "hello")
    engine = drafting_engine(draft="fail=1")
    assert reply(engine, drafted(prompt, DraftMode.MODEL)).token_ids == alone(prompt).token_ids


def test_one_reason_is_told_when_the_memory_cannot_go_back():
    prompt = make_prompt("a", "hello")
    engine = drafting_engine("can_trim=0", draft=None)
    got = reply(engine, drafted(prompt))
    assert got.token_ids == alone(prompt, "can_trim=0").token_ids
    assert got.speculative.state is DraftState.UNAVAILABLE
    assert "memory" in got.speculative.reason
    with pytest.raises(CannotTrim):
        engine.speculator.check()


@pytest.mark.parametrize(
    ("mode", "part"), [(DraftMode.MODEL, "no draft model"), (DraftMode.NGRAM, "reproducible")], ids=["model", "fixed"]
)
def test_one_reason_is_told_when_nothing_may_draft(mode, part):
    prompt = make_prompt("a", "hello")
    if mode is DraftMode.NGRAM:
        prompt = prompt._replace(sampling=SamplingParams(reproducible=True))
    got = reply(drafting_engine(draft=None), drafted(prompt, mode))
    assert got.speculative.state is DraftState.UNAVAILABLE
    assert part in got.speculative.reason


def test_nothing_is_told_of_drafting_when_it_was_not_asked_for():
    got = reply(drafting_engine(), make_prompt("a", "hello"))
    assert got.speculative is None
    assert got.metrics.num_drafts == 0


def test_a_strict_reply_is_computed_alone_and_checks_no_more_than_is_the_same():
    backend = CountingBackend("same_to=4", n_seq_max=2)
    engine = drafting_engine(backend=backend, draft="draft_right=1", referee=FullReferee)
    prompts = [drafted(make_prompt("a", "hello"), strict=True), make_prompt("b", "there")]
    replies = ask(engine, *prompts)
    assert {name: got.token_ids for name, got in replies.items()} == {
        prompt.request_id: alone(prompt._replace(speculative=make_prompt("x", "y").speculative)).token_ids
        for prompt in prompts
    }
    begin = len(prompts[0].tokens)  # steps before it find out how many that is
    checked = [parts for parts in backend.steps if parts[0].num_drafted and parts[0].start >= begin]
    assert max(len(parts[0].tokens) for parts in checked) == 4
    assert all(len(parts) == 1 for parts in checked)


def test_a_draft_model_can_go_and_come_while_a_reply_is_written():
    prompt = make_prompt("a", "hello")
    engine = drafting_engine(draft="draft_right=1")
    events = engine.add(drafted(prompt))
    step_until(engine, events, lambda: len(engine._scheduler.running[0].generated) > 5)
    engine.speculator.set_model(None)
    events += run(engine)
    assert not failed(events)
    assert finished(events)["a"].token_ids == alone(prompt).token_ids


@settings(max_examples=25)
@given(st.lists(ACTIONS, max_size=25), SHAPES, st.sampled_from(["", "window=40"]), st.sampled_from([0.2, 0.9]))
def test_each_request_ends_once_with_the_text_of_a_lone_engine_when_schedules_draft(actions, shape, memory, right):
    check_schedule(actions, shape, {}, memory, draft=f"draft_right={right}")
