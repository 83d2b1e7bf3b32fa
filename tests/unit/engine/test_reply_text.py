"""What the tokens of a reply say: answer, thinking, the budget of thinking, and stop strings in both."""

import pytest

from engine.messages import Delta, Finished, FinishReason
from engine.params import SamplingParams
from engine.reasoning import PLAIN_THINKING, ThinkingStart, find_thinking_format
from engine.reply_text import ReplyText
from engine.sequence import Prompt, Sequence
from tests.unit.engine.stub_vocabulary import StubVocabulary

TAGS = ("<|im_end|>", "<think>", "</think>")
VOCABULARY = StubVocabulary(controls=TAGS)
SHOWN = frozenset({257, 258})


def start(*, is_open: bool = False) -> ThinkingStart:
    """Return a start whose tags are control tokens."""
    return ThinkingStart(PLAIN_THINKING, is_open, (10, 258, 10, 10), SHOWN)


def reply(text: str, thinking: ThinkingStart | None, **sampling) -> ReplyText:
    """Return a reply that has said something."""
    said = ReplyText(VOCABULARY, SamplingParams(**sampling), thinking)
    for token in VOCABULARY.tokenize(text, parse_special=True):
        said.push(token)
        if said.stop_string:
            break
    return said


@pytest.mark.parametrize(
    ("text", "is_open", "expected"),
    [
        ("<think>\nhm\n</think>\n\n42", False, ("hm", "42")),
        ("hm\n</think>\n\n42", True, ("hm", "42")),
        ("hm</think>42", False, ("hm", "42")),
        ("a<|im_end|>b", False, ("", "ab")),
    ],
)
def test_tags_split_the_reply_when_they_are_control_tokens(text, is_open, expected):
    said = reply(text, start(is_open=is_open))
    said.finish()
    assert (said.thinking, said.answer) == expected


def test_control_tokens_stay_hidden_when_the_model_marks_no_thinking():
    said = reply("<think>a</think>b", None)
    said.finish()
    assert (said.thinking, said.answer, said.thinking_s) == ("", "ab", None)


@pytest.mark.parametrize(
    ("stop", "expected"), [("m", ("h", "")), ("4", ("hm", "")), ("k>\n\n42", ("hm", "")), ("</think>", ("hm", ""))]
)
def test_stop_string_is_found_before_the_split_when_it_stands_anywhere(stop: str, expected):
    said = reply("<think>hm</think>\n\n42", start(), stop=(stop,))
    said.finish()
    assert said.stop_string == stop
    assert (said.thinking.removesuffix("</thin"), said.answer) == expected


@pytest.mark.parametrize("budget", [0, 1, 5])
@pytest.mark.parametrize("is_open", [True, False])
def test_closing_tokens_are_forced_once_when_the_budget_is_used_up(budget: int, is_open: bool):
    said = ReplyText(VOCABULARY, SamplingParams(thinking_budget=budget), start(is_open=is_open))
    forced, num_before = [], 0
    for number, token in enumerate([*(() if is_open else (257,)), *b"```\nthinking on and on"]):
        if tokens := said.close_thinking(None):
            forced, num_before = tokens, number
            break
        said.push(token)
    assert forced == [10, 258, 10, 10]
    assert num_before == max(budget, 0 if is_open else 1)
    for token in b"42":
        said.push(token)
        assert said.close_thinking(None) == []
    said.finish()
    assert said.answer == "42"
    assert said.num_thinking_tokens == num_before + len(forced)
    assert not said.is_thinking


def test_nothing_is_forced_when_there_is_no_budget_or_no_thinking():
    assert reply("<think>a long thought", start()).close_thinking(None) == []
    assert reply("an answer", start(), thinking_budget=0).close_thinking(None) == []
    assert reply("an answer", None, thinking_budget=0).close_thinking(None) == []


def _events(text: str, thinking: ThinkingStart | None) -> list[Delta | Finished]:
    prompt = Prompt("r", [1], SamplingParams(), 7, received_at=0.0, thinking=thinking)
    sequence = Sequence(prompt, VOCABULARY)
    events: list[Delta | Finished] = []
    for token in VOCABULARY.tokenize(text, parse_special=True):
        sequence.accept(token, is_end=False)
        if (delta := sequence.last_delta()) is not None:
            events.append(delta)
    return [*events, *sequence.finish(FinishReason.STOP, None)]


@pytest.mark.parametrize(
    "text", ["abc\n</think>\n\n42", "<think>abc</think>42", "only an answer", "<think>only thought"]
)
def test_deltas_joined_are_the_reply_when_thinking_turns_up_late(text: str):
    *deltas, finished = _events(text, start())
    assert isinstance(finished, Finished)
    thought, answer = "", ""
    for delta in deltas:
        assert isinstance(delta, Delta)
        if delta.was_thinking:
            thought, answer = thought + answer, ""
        thought, answer = thought + delta.thinking, answer + delta.text
    assert (thought, answer) == (finished.thinking, finished.text)
    assert (finished.metrics.num_thinking_tokens > 0) is ("</think>" in text or "<think>" in text)
    assert (finished.metrics.thinking_s is not None) is ("</think>" in text or "<think>" in text)


def test_channels_are_told_apart_when_their_marks_are_control_tokens():
    marks = ("<|start|>", "<|end|>", "<|channel|>", "<|message|>")
    vocabulary = StubVocabulary(controls=marks)
    thinking = find_thinking_format("<|channel|>analysis<|message|>")
    assert thinking is not None
    said = ReplyText(vocabulary, SamplingParams(), ThinkingStart(thinking, shown_ids=vocabulary.control_ids))
    text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>42"
    for token in vocabulary.tokenize(text, parse_special=True):
        said.push(token)
    said.finish()
    assert (said.thinking, said.answer) == ("hm", "42")
