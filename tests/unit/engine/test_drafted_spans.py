"""Which characters of an answer came from accepted drafts, whatever is held back, cut off or split away."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.messages import Finished, FinishReason, TextSpan
from engine.params import SamplingParams
from engine.reasoning import PLAIN_THINKING, ThinkingStart, find_thinking_format
from engine.reply_text import ReplyText
from engine.sequence import Prompt, Sequence
from tests.unit.engine.stub_vocabulary import StubVocabulary

TAGS = ("<think>", "</think>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>")
VOCABULARY = StubVocabulary(controls=TAGS)
CHANNELS = find_thinking_format("<|channel|>analysis<|message|>")
TELLING = [chr(0x4E00 + number) for number in range(400)]  # each stands at most once in a reply: it tells its token


def say(tokens: list[int], drafted: list[bool], thinking: ThinkingStart | None, **sampling) -> ReplyText:
    """Return a reply that has ended, by itself or at a stop string."""
    said = ReplyText(VOCABULARY, SamplingParams(**sampling), thinking)
    for token, is_drafted in zip(tokens, drafted, strict=True):
        said.close_thinking(None)
        said.push(token, is_drafted=is_drafted)
        if said.stop_string:
            break
    said.finish()
    return said


def flags(spans: tuple[TextSpan, ...], length: int) -> list[bool]:
    """Return for each character whether a span holds it; fails where spans are not as they should be."""
    for span in spans:
        assert 0 <= span.start < span.end <= length
    for one, other in itertools.pairwise(spans):
        assert one.end < other.start
    return [any(span.start <= place < span.end for span in spans) for place in range(length)]


def completed(text: str, drafted: list[bool]) -> list[bool]:
    """Return for each character of a text of one-byte tokens whether the token that completed it was drafted."""
    ends = itertools.accumulate(len(letter.encode()) for letter in text)
    return [drafted[end - 1] for end in ends]


@given(st.text("ab \n`<é日😀", max_size=40), st.data())
def test_spans_are_what_drafted_tokens_completed_when_text_is_held_back_and_cut(text: str, data: st.DataObject):
    tokens = list(text.encode())
    drafted = data.draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    stop = tuple(data.draw(st.lists(st.text("ab \né日", min_size=1, max_size=4), max_size=2)))
    said = say(tokens, drafted, None, stop=stop)
    assert text.startswith(said.answer)
    assert flags(said.drafted_spans, len(said.answer)) == completed(text, drafted)[: len(said.answer)]


TEXTS = ["x", "x", "x", " ", "\n", "`", *TAGS[:2], "</thi", "<|end|>", "<|start|>assistant"]
TEXTS += ["<|channel|>analysis<|message|>", "<|channel|>final<|message|>"]


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("thinking", [PLAIN_THINKING, CHANNELS], ids=["tags", "channels"])
@settings(max_examples=150)
@example(items=[(True, "x"), (False, "</think>"), (True, "\n"), (True, "x")], budget=None)
@example(items=[(True, "<think>"), (True, "x"), (False, "x"), (True, "x"), (False, "x")], budget=2)
@example(items=[(False, "<|channel|>final<|message|>"), (True, "x"), (False, "<|end|>"), (True, "x")], budget=None)
@given(
    items=st.lists(st.tuples(st.booleans(), st.sampled_from(TEXTS)), max_size=24),
    budget=st.sampled_from([None, None, 3]),
)
def test_spans_follow_the_answer_when_thinking_is_split_off(items, budget, thinking, is_open):
    telling = iter(TELLING)
    tokens: list[int] = []
    drafted: list[bool] = []
    by_letter = {}
    for is_drafted, text in items:
        letter = next(telling) if text == "x" else ""
        by_letter[letter] = is_drafted
        new = VOCABULARY.tokenize(letter or text, parse_special=True)
        tokens += new
        drafted += [is_drafted] * len(new)
    start = ThinkingStart(thinking, is_open, (10, 257), VOCABULARY.control_ids)
    said = say(tokens, drafted, start, thinking_budget=budget)
    found = flags(said.drafted_spans, len(said.answer))
    for letter, is_drafted in zip(said.answer, found, strict=True):
        if letter in by_letter:
            assert is_drafted is by_letter[letter]
    if all(drafted) and budget is None:
        assert all(found)
    if not any(drafted):
        assert not any(found)


def test_spans_come_with_the_reply_when_it_ends():
    prompt = Prompt("r", [1], SamplingParams(), 7, received_at=0.0)
    sequence = Sequence(prompt, VOCABULARY)
    for number, token in enumerate(b"abcdef"):
        sequence.accept(token, is_end=False, is_drafted=number in (1, 2, 4))
    finished = sequence.finish(FinishReason.STOP, None)[-1]
    assert isinstance(finished, Finished)
    assert finished.drafted_spans == (TextSpan(1, 3), TextSpan(4, 5))
