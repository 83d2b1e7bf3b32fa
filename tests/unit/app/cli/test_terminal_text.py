"""Text of a model on a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.terminal_text import is_blank, safe_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("é日👍\tx\n", "é日👍\tx\n"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("a\x07\x08\x00\x7f", "a␇␈␀␡"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("\x9b31m\x85", "\ufffd31m\ufffd"),
        ("abc\u202edef\u2066", "abc\ufffddef\ufffd"),
        ("👩\u200d👩\u200d👧 שלום", "👩\u200d👩\u200d👧 שלום"),
    ],
)
def test_control_characters_become_pictures(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(st.text())
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    assert not any((ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160 for c in safe_text(text))


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\u200b", "\u00a0\u2003", "\ufeff", "\u200d\u2060"])
def test_what_cannot_be_seen_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", " . ", "\u200bx", "👍", "\u0301"])
def test_what_can_be_seen_is_not_blank(text: str) -> None:
    assert not is_blank(text)
