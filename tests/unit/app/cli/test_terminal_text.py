"""Text of a model on a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.terminal_text import one_line, safe_text, wrapped
from engine import is_blank


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two three four five six seven", "one two three four five\nsix seven"),
        ("one\n\ntwo", "one\n\ntwo"),
        ("/a   first second third fourth", "/a   first second third\n     fourth"),
        ("a-b " * 7, "a-b a-b a-b a-b a-b a-b\n     a-b"),
    ],
    ids=["words", "line breaks", "indented", "hyphens"],
)
def test_words_stay_whole_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, text: str, expected: str) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    assert wrapped(text, indent="     " if "   " in text or "-" in text else "") == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("123456789", "123456789"), ("1234567890", "123456789"), ("日本日本日本", "日本日本")]
)
def test_line_to_be_written_over_is_one_line(monkeypatch: pytest.MonkeyPatch, text: str, expected: str) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert one_line(text) == expected


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\u200b", "\u00a0\u2003", "\ufeff", "\u200d\u2060"])
def test_what_cannot_be_seen_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", " . ", "\u200bx", "👍", "\u0301"])
def test_what_can_be_seen_is_not_blank(text: str) -> None:
    assert not is_blank(text)
