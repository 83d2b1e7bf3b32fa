"""Texts that nobody can see are blank, whichever characters they are made of; a dot among them is enough to be seen."""

import pytest

from engine import is_blank
from engine.text import clean_text

_UNSEEN = {
    "nothing": "",
    "line breaks": "\r\n\n\t\v\f\x85\u2028\u2029",
    "wide blanks": "\u00a0\u2003\u3000\u202f",
    "zero width": "\u200b\u200c\u200d\u2060\ufeff",
    "directions": "\u200e\u202e\u2066\u2069",
    "controls": "\x00\x1b\x7f",
    "fillers": "\u115f\u1160\u3164\uffa0",
    "empty Braille cell": "\u2800",
    "joiners": "\u034f\u17b4\u180b\u180e",
    "variation selectors": "\ufe00\ufe0f\U000e0100\U000e01ef",
    "tags": "\U000e0001\U000e0041",
}


@pytest.mark.parametrize("text", _UNSEEN.values(), ids=_UNSEEN)
def test_text_is_blank_when_nothing_of_it_can_be_seen(text: str) -> None:
    assert is_blank(text)
    assert not is_blank(f"{text}.{text}")


@pytest.mark.parametrize("text", ["\ufffd", clean_text("\ud83d"), "\u0301", "\u2801", "\ufe10", "\u0e31"])
def test_text_is_not_blank_when_a_sign_of_it_is_drawn(text: str) -> None:
    assert not is_blank(text)
