"""Bytes to text: whole characters only, at the earliest moment, and no control token."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.detokenizer import Detokenizer

SENTENCE = "ok 🏋️‍♂️ 👍🏽 🇨🇭 日本 é नमस्ते end"
BYTES = [bytes([value]) for value in range(256)]


def _feed(pieces: list[bytes]) -> list[str]:
    detokenizer = Detokenizer(pieces)
    return [*(detokenizer.push(token) for token in range(len(pieces))), detokenizer.flush()]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_sentence_is_whole_and_without_marks_when_characters_are_split_over_tokens(size: int):
    data = SENTENCE.encode()
    shown = _feed([data[i : i + size] for i in range(0, len(data), size)])
    assert "".join(shown) == SENTENCE
    assert not any("\ufffd" in text for text in shown)
    assert shown[-1] == ""


def test_each_character_is_shown_with_its_last_byte_when_bytes_come_one_by_one():
    detokenizer, data = Detokenizer(BYTES), b""
    for value in SENTENCE.encode():
        data += bytes([value])
        text = detokenizer.push(value)
        try:
            data.decode()
        except UnicodeDecodeError:
            assert text == ""
        else:
            assert len(text) == 1


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"a\xff", b"b"], ["a\ufffd", "b", ""]),
        ([b"\xe6\x97", b"a"], ["", "\ufffda", ""]),
        ([b"\xe6", b"\x97"], ["", "", "\ufffd"]),
        ([b"\x80"], ["\ufffd", ""]),
        ([b"\xc0\xaf"], ["\ufffd\ufffd", ""]),
        ([b"\xed\xa0\x80"], ["\ufffd\ufffd\ufffd", ""]),
        ([b"\xf0\x9f", b"\xf0\x9f\x98\x80"], ["", "\ufffd😀", ""]),
        ([b"a\x00b"], ["a\x00b", ""]),
        ([b"", b"a"], ["", "a", ""]),
    ],
    ids=[
        "bad byte", "cut short", "never ended", "stray", "overlong", "surrogate", "begun anew", "NUL", "empty",
    ],
)  # fmt: skip
def test_replacement_marks_come_at_the_earliest_moment_when_bytes_are_no_text(pieces, expected):
    assert _feed(pieces) == expected


@given(data=st.binary(max_size=40), places=st.lists(st.integers(0, 40), max_size=8))
def test_text_equals_that_of_all_bytes_at_once_when_they_are_cut_anyhow(data: bytes, places: list[int]):
    borders = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    shown = _feed([data[start:end] for start, end in itertools.pairwise(borders)])
    assert "".join(shown) == data.decode("utf-8", "replace")
    for text in shown:
        text.encode("utf-8")


@given(text=st.text(max_size=30))
def test_no_mark_is_shown_when_the_bytes_are_valid(text: str):
    shown = _feed([bytes([value]) for value in text.encode()])
    assert "".join(shown) == text
    assert shown[-1] == ""


def test_control_tokens_are_not_shown_when_they_are_sampled():
    detokenizer = Detokenizer([b"a", b"<|im_end|>", b"\xc3", b"\xa9"], {1})
    assert [detokenizer.push(token) for token in (0, 1, 2, 3, 1)] == ["a", "", "", "é", ""]
    assert detokenizer.flush() == ""


@pytest.mark.parametrize("text", ["  indented", "\n    code", " is", "    "])
def test_leading_blanks_are_kept_when_a_reply_begins_with_them(text: str):
    assert "".join(_feed([text[:1].encode(), text[1:].encode()])) == text
