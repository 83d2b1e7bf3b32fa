"""Text is always valid Unicode once it has crossed a border."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import RequestError
from engine.messages import ChatMessage, Failed, PromptOptions, Role, ToolCall, decode_event, encode
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


HALF, WHOLE = "a\ud83d b", "a\ufffd b"


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (ToolCall(name=HALF, arguments=HALF, call_id=HALF), ("name", "arguments", "call_id")),
        (ChatMessage(Role.TOOL, HALF, HALF, call_id=HALF), ("content", "thinking", "call_id")),
        (PromptOptions(variables=HALF), ("variables",)),
    ],
    ids=["call", "message", "options"],
)
def test_every_text_of_a_request_is_clean_when_it_is_made(value: object, names: tuple[str, ...]):
    assert [getattr(value, name) for name in names] == [WHOLE] * len(names)
    encode(value)  # type: ignore[arg-type]  # it crosses the border inside a command


def test_tools_are_clean_when_options_are_made():
    assert PromptOptions(tools=(HALF, "{}")).tools == (WHOLE, "{}")


def test_error_crosses_the_border_when_it_quotes_half_a_surrogate_pair():
    event = decode_event(encode(Failed(request_id="r", error=RequestError(HALF, HALF, HALF).info())))
    assert isinstance(event, Failed)
    assert (event.error.message, event.error.hint, event.error.details) == (WHOLE, WHOLE, WHOLE)
