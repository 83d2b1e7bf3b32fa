"""Engine on scripted replies that think: what a budget forces, where a grammar begins, and what ends a reply."""

from typing import Any

import msgspec
import pytest

from engine.backend import Proposal
from engine.backend_fake import FakeBackend
from engine.core import Engine
from engine.messages import Delta, Finished, FinishReason
from engine.reasoning import ThinkingFormat, ThinkingStart, find_thinking_format
from tests.unit.engine.fake_engine import finished, make_backend, make_prompt, run, tokens_of
from tests.unit.engine.schedules import check_protocol

END = 257
THINK = ThinkingFormat("<think>", "</think>", (), "\n", "\n\n")
FRAMED = find_thinking_format("<|channel|>analysis<|message|>") or THINK


class ScriptedSampler:
    """Says a text, byte by byte, and remembers how much was said when the grammar began."""

    def __init__(self, said: str, *, is_thinking: bool) -> None:
        self._tokens = [*said.encode(), END]
        self.num_sampled = 0
        self.grammar_from = None if is_thinking else 0
        self.num_before_complete: int | None = None

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        """See Sampler."""
        self.num_sampled += 1
        return self._tokens[self.num_sampled - 1]

    @property
    def is_complete(self) -> bool:
        """See Sampler; once the grammar applies."""
        return self.grammar_from is not None and self.num_sampled == self.num_before_complete

    def end_thinking(self) -> None:
        """See Sampler."""
        self.grammar_from = self.num_sampled

    def close(self) -> None:
        """See Sampler."""


class Scripted:
    """A backend whose replies are written down."""

    def __init__(self, inner: FakeBackend, said: str) -> None:
        self.inner = inner
        self.said = said
        self.samplers: list[ScriptedSampler] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def new_sampler(self, *_: Any, is_thinking: bool = False, **__: Any) -> ScriptedSampler:
        self.samplers.append(ScriptedSampler(self.said, is_thinking=is_thinking))
        return self.samplers[-1]


def say(
    said: str,
    *,
    thinking: ThinkingFormat = THINK,
    is_open: bool = True,
    reply: str = "",
    ends_with: str = "",
    settings: str = "",
    n_ctx: int = 4096,
    **sampling: Any,
) -> tuple[Finished, ScriptedSampler]:
    """Return how a scripted reply ended, and its sampler."""
    backend = Scripted(make_backend(settings, n_ctx=n_ctx), said)
    prompt = make_prompt("a", "the cache")
    start = ThinkingStart(thinking, is_open, tuple(tokens_of(thinking.closing_text)), frozenset())
    prompt = prompt._replace(
        thinking=start,
        reply=reply,
        tokens=[*prompt.tokens, *tokens_of(ends_with)],
        sampling=msgspec.structs.replace(prompt.sampling, **sampling),
    )
    engine = Engine(backend)
    events = [*engine.add(prompt), *run(engine)]
    check_protocol(events, {"a"})
    return finished(events)["a"], backend.samplers[0]


# --- what a budget forces ---


@pytest.mark.parametrize("budget", [0, 1, 5])
def test_grammar_begins_with_the_answer_when_a_budget_ended_the_thinking(budget: int):
    got, sampler = say("12345 and so on", thinking_budget=budget, max_tokens=60)
    assert sampler.grammar_from == budget
    assert got.thinking == "12345"[:budget]
    assert got.text == "12345 and so on"[budget:]


@pytest.mark.parametrize("budget", [0, 1, 2, 4])
def test_block_that_the_model_opened_is_closed_when_the_budget_is_used_up(budget: int):
    got, _ = say("<think>12345", is_open=False, thinking_budget=budget)
    num_thought = max(budget - 1, 0)  # the tag counts as one
    assert (got.thinking, got.text) == ("12345"[:num_thought], "12345"[num_thought:])


@pytest.mark.parametrize("max_tokens", [1, 2, 5, 12, 13, 14, 30])
@pytest.mark.parametrize("budget", [0, 1, 2, 12])
def test_reply_has_no_more_tokens_than_it_may_when_a_budget_forces_some(budget: int, max_tokens: int):
    got, _ = say("1234567890 1234567890 1234567890", thinking_budget=budget, max_tokens=max_tokens)
    assert len(got.token_ids) == got.metrics.num_generated_tokens == max_tokens
    assert got.finish_reason is FinishReason.LENGTH
    assert got.thinking == "1234567890 1234567890"[: min(budget, max_tokens)]
    assert "<" not in got.thinking + got.text


def test_nothing_is_forced_when_a_stop_string_ends_the_reply_as_the_budget_is_used_up():
    got, _ = say("1234567", thinking_budget=4, stop=("34",))
    assert (got.thinking, got.text, got.stop_string) == ("12", "", "34")
    assert bytes(got.token_ids) == b"1234"


@pytest.mark.parametrize("stop", ["\n\n", ">", "</think>", "k>\n", "3\n"])
def test_stop_string_is_not_found_in_what_nobody_chose(stop: str):
    got, _ = say("123answer", thinking_budget=3, stop=(stop,))
    assert (got.thinking, got.text, got.finish_reason, got.stop_string) == ("123", "answer", FinishReason.STOP, None)


def test_half_a_stop_string_stays_thinking_when_the_budget_is_used_up():
    got, _ = say("123answer", thinking_budget=3, stop=("3a",))
    assert (got.thinking, got.text, got.stop_string) == ("123", "answer", None)


def test_half_a_character_ends_with_the_thinking_when_the_budget_is_used_up():
    got, _ = say("aéb", thinking_budget=2)
    assert (got.thinking, got.text) == ("a\ufffd", "\ufffdb")


@pytest.mark.parametrize("n_ctx", range(36, 64, 3))
def test_reply_ends_in_the_full_context_when_a_budget_forces_tokens_beyond_it(n_ctx: int):
    got, _ = say("1234567890 " * 10, thinking_budget=4, n_ctx=n_ctx)
    assert got.finish_reason is FinishReason.CONTEXT_FULL
    assert "<" not in got.thinking + got.text


# --- where a grammar begins ---


def test_grammar_waits_for_the_frame_of_the_answer_when_answers_are_framed():
    head = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
    got, sampler = say(head + "{}", thinking=FRAMED, is_open=False)
    assert sampler.grammar_from == len(head)
    assert (got.thinking, got.text) == ("hm", "{}")


def test_grammar_waits_for_the_frame_when_the_model_does_not_think():
    head = "<|channel|>final<|message|>"
    got, sampler = say(head + "{}", thinking=FRAMED, is_open=False)
    assert sampler.grammar_from == len(head)
    assert (got.thinking, got.text) == ("", "{}")


@pytest.mark.parametrize(
    "given", [{"reply": "{"}, {"ends_with": "<|channel|>final<|message|>"}], ids=["half a reply", "a frame"]
)
def test_grammar_applies_from_the_start_when_the_prompt_has_begun_the_answer(given: dict[str, Any]):
    _, sampler = say("{}", thinking=FRAMED, is_open=False, **given)
    assert sampler.grammar_from == 0


def test_grammar_begins_when_the_model_writes_no_frame():
    _, sampler = say("plain words", thinking=FRAMED, is_open=False)
    assert sampler.grammar_from == 1


def test_grammar_begins_after_the_forced_frame_when_a_framed_budget_is_used_up():
    head = "<|channel|>analysis<|message|>"
    got, sampler = say(head + "12{}", thinking=FRAMED, is_open=False, thinking_budget=3)
    assert sampler.grammar_from == len(head) + 2
    assert (got.thinking, got.text) == ("12", "{}")


def test_grammar_applies_from_the_start_when_answers_have_no_frame():
    _, sampler = say("{}", is_open=False)
    assert sampler.grammar_from == 0


# --- pauses ---


def test_reply_goes_on_thinking_when_it_was_paused():
    backend = Scripted(make_backend(n_ctx=160, n_seq_max=3), "1" * 40 + "\n</think>\n\nanswer")
    engine = Engine(backend)
    prompts = []
    for name in "abc":
        prompt = make_prompt(name, f"{name} cache", max_tokens=None)
        start = ThinkingStart(THINK, True, tuple(tokens_of(THINK.closing_text)), frozenset())
        prompts.append(prompt._replace(thinking=start))
    events = [event for prompt in prompts for event in engine.add(prompt)] + run(engine)
    check_protocol(events, set("abc"))
    assert any("paused" in str(getattr(event, "state", "")).lower() for event in events), "the pool was too large"
    for got in finished(events).values():
        assert (got.thinking, got.text) == ("1" * 40, "answer")
    assert all(sampler.grammar_from is not None for sampler in backend.samplers)
    assert any(isinstance(event, Delta) and event.thinking for event in events)
