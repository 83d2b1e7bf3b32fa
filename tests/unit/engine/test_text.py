"""Text is always valid Unicode once it has crossed a border."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text import clean_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a\ud83d b", "a\ufffd b"),
        ("\udc00", "\ufffd"),
        ("\ud83d\ude00", "😀"),  # a pair that came in halves
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("a\u0000b", "a\u0000b"),
        ("\ufeffhello", "\ufeffhello"),
        ("e\u0301", "e\u0301"),
        ("\u202eabc", "\u202eabc"),
        ("one\u2028two", "one\u2028two"),
        ("\ue000\uf8ff", "\ue000\uf8ff"),
    ],
    ids=ascii,
)
def test_only_unpaired_surrogates_change_when_text_is_cleaned(text: str, expected: str):
    assert clean_text(text) == expected


@given(st.text(st.characters()))
def test_cleaned_text_is_valid_and_stays_when_text_is_anything(text: str):
    cleaned = clean_text(text)
    cleaned.encode("utf-8")
    assert clean_text(cleaned) == cleaned
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert cleaned == text
