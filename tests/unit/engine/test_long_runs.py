"""Runs of one kind of character that a tokeniser would take very long for, or die of, come to it in parts."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text_tokens import TextTokenizer
from tests.unit.engine.stub_vocabulary import StubVocabulary


def parts_of(text: str) -> list[str]:
    vocabulary = StubVocabulary(controls=())
    tokens = TextTokenizer(vocabulary).tokenize([(text, False)])
    assert vocabulary.text_of(tokens) == text
    return vocabulary.seen


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("1" * 998, [998]),
        ("1" * 999, [999]),
        ("1" * 1000, [999, 1]),
        ("1" * 1999, [999, 999, 1]),
        ("a" * 700 + "1" * 700, [1400]),
        (f"from {'7' * 1500} on", [5 + 999, 501 + 3]),
        ("٣" * 1200, [999, 201]),
        ("1," * 5000, [10_000]),
        ("1 " * 5000, [10_000]),
        ("1" * 1000 + " " + "2" * 1000, [999, 1 + 1 + 999, 1]),
    ],
    ids=[
        "limit - 1",
        "limit",
        "limit + 1",
        "twice",
        "letters before",
        "in a text",
        "Arabic",
        "commas",
        "blanks",
        "two",
    ],
)
def test_digits_come_in_parts_when_there_are_very_many_in_a_row(text: str, lengths: list[int]) -> None:
    assert list(map(len, parts_of(text))) == lengths


@given(st.lists(st.tuples(st.sampled_from("1٣a \n,"), st.integers(1, 2500)), max_size=6))
def test_nothing_is_lost_when_runs_are_of_any_length(runs: list[tuple[str, int]]) -> None:
    text = "".join(character * length for character, length in runs)
    assert "".join(parts_of(text)) == text


def test_numbers_cost_no_more_than_their_length_when_they_are_just_short_enough() -> None:
    text = f"{'1' * 999} " * 2000
    began = time.thread_time()
    assert "".join(TextTokenizerParts().cut(text)) == text
    assert time.thread_time() - began < 5.0


class TextTokenizerParts:
    """Cuts as the tokeniser does, and makes no tokens."""

    adds_bos, bos_id, adds_space = False, None, False

    def __init__(self) -> None:
        self.seen: list[str] = []

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        self.seen.append(text)
        return [0]

    def cut(self, text: str) -> list[str]:
        TextTokenizer(self).tokenize([(text, False)])  # type: ignore[arg-type]
        return self.seen
