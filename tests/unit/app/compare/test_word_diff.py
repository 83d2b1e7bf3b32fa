"""Words in every script, and what differs between two replies."""

import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.compare.word_diff import MAX_WORDS, Change, similarity, word_diff
from app.compare.words import words_of

TEXT = st.text(alphabet="ab .\n日本กา\u0301é", max_size=40)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One two, three.", ["One", "two", ",", "three", "."]),
        ("don't  stop", ["don't", "  ", "stop"]),
        ("if x:\n    y = 1", ["if", "x", ":", "\n    ", "y", "=", "1"]),
        ("明日の朝", ["明", "日", "の", "朝"]),
        ("ฉันกิน", ["ฉั", "น", "กิ", "น"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("Grüße an Zoë", ["Grüße", "an", "Zoë"]),
        ("e\u0301t\u0301 x", ["e\u0301t\u0301", "x"]),
        ("👩\u200d👩\u200d👧!", ["👩\u200d👩\u200d👧", "!"]),
        ("안녕 세상", ["안녕", "세상"]),
        ("", []),
    ],
    ids=["latin", "blanks", "code", "japanese", "thai", "hindi", "umlauts", "combining", "emoji", "korean", "empty"],
)
def test_words_are_those_of_the_script(text: str, wanted: list[str]) -> None:
    assert [word.text for word in words_of(text) if word.text] == wanted


@given(st.text(max_size=60))
def test_words_make_the_text_again(text: str) -> None:
    assert "".join(word.text + word.blank for word in words_of(text)) == text


@given(TEXT, TEXT)
def test_pieces_make_the_second_text_again(one: str, other: str) -> None:
    diff = word_diff(one, other)
    assert "".join(piece.text for piece in diff.pieces if piece.change is not Change.REMOVED) == other
    first = "".join(piece.text for piece in diff.pieces if piece.change is not Change.ADDED)
    assert first.replace(" ", "") == one.replace(" ", "")


@given(st.lists(st.sampled_from("abc"), max_size=14), st.lists(st.sampled_from("abc"), max_size=14))
def test_no_more_words_could_be_the_same(one: list[str], other: list[str]) -> None:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for left, first in enumerate(one):
        for right, second in enumerate(other):
            table[left + 1][right + 1] = (
                table[left][right] + 1 if first == second else max(table[left][right + 1], table[left + 1][right])
            )
    assert word_diff(" ".join(one), " ".join(other)).num_same == table[-1][-1]


def test_the_first_difference_is_marked_once() -> None:
    diff = word_diff("the boat left at seven in the morning", "the boat came at eight in the morning")
    assert [(piece.change.value, piece.text, piece.is_first) for piece in diff.pieces] == [
        ("same", "the boat ", False),
        ("removed", "left ", True),
        ("added", "came ", False),
        ("same", "at ", False),
        ("removed", "seven ", False),
        ("added", "eight ", False),
        ("same", "in the morning", False),
    ]
    assert diff.similarity == pytest.approx(6 / 8)


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [("", "", 1.0), ("a b", "a b", 1.0), ("a b", "", 0.0), ("a b c d", "x y", 0.0), ("a b c", "a b", 0.8)],
    ids=["both empty", "equal", "one empty", "nothing in common", "shorter"],
)
def test_similarity_is_known(one: str, other: str, wanted: float) -> None:
    assert similarity(one, other) == pytest.approx(wanted)
    assert word_diff(one, other).similarity == pytest.approx(wanted)


def test_a_single_equal_word_between_long_changes_does_not_tear_the_text() -> None:
    diff = word_diff("one two three four the five six seven eight", "red green blue grey the pink brown black white")
    assert [piece.change for piece in diff.pieces] == [Change.REMOVED, Change.ADDED]
    assert diff.num_same == 1


def test_eight_thousand_words_take_little_time_when_nothing_is_unique() -> None:
    source = random.Random(5)
    common = ["the", "a", "of", "and", "to", *string.ascii_lowercase]
    one, other = (" ".join(source.choices(common, k=8000)) for _ in range(2))
    began = time.thread_time()
    diff = word_diff(one, other)
    assert diff.is_complete
    assert diff.num_same > 2000
    assert time.thread_time() - began < 5.0  # it takes some tenths of a second


def test_texts_beyond_the_limit_are_compared_in_part_and_it_says_so() -> None:
    one = " ".join(f"a{number}" for number in range(MAX_WORDS + 50))
    other = " ".join(f"a{number + 1}" for number in range(MAX_WORDS + 60))
    diff = word_diff(one, other)
    assert not diff.is_complete
    assert "".join(piece.text for piece in diff.pieces if piece.change is not Change.REMOVED) == other
