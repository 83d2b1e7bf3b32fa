"""Chats as other programs write them: whatever a row holds becomes text, or is refused with its number."""

import pytest

from engine.chat_rows import chat_of_rows
from engine.errors import RequestError
from engine.messages import ChatMessage, Role, ToolCall
from engine.text import text_of_content

HI = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("hi", "hi"),
        ([], ""),
        ([HI], "hi"),
        (["hi", None], "hi"),
        ([{"type": "image_url", "image_url": {"url": "x"}}, HI], "[image left out]\nhi"),
        ([{"type": "input_audio"}], "[audio left out]"),
        ([{"type": "text", "text": None}], "[text left out]"),
        ([7], "[content that is no text left out]"),
        ({"text": "hi"}, "hi"),
        (HI, "hi"),
        ("a\ud83d b", "a\ufffd b"),
        ([{"type": "a\ud83d\nb"}], "[a\ufffd b left out]"),
        ([{"type": "a\x1b[31m\u202eb"}], "[a [31m b left out]"),
        ({"content_type": "text", "parts": ["hi", None, {"content_type": "picture"}]}, "hi\n[picture left out]"),
        ([{"type": "refusal", "refusal": "no"}], "no"),
        ([{"type": "output_text", "text": "hi", "annotations": []}, {"type": "thinking"}], "hi\n[thinking left out]"),
        ([["hi"]], "[content that is no text left out]"),
        (b"hi", "[content that is no text left out]"),
        (("a", "b"), "a\nb"),
    ],
    ids=[
        "null", "text", "no parts", "a part", "bare texts", "image", "audio", "empty part", "number", "untyped",
        "one part", "surrogate", "odd type", "escapes", "exported", "refusal", "answer", "nested", "bytes", "tuple",
    ],
)  # fmt: skip
def test_content_becomes_text_when_it_comes_in_another_form(content: object, text: str):
    assert text_of_content(content) == text
    assert chat_of_rows([{"role": "user", "content": content}]) == (ChatMessage(Role.USER, text),)


def test_chat_is_read_whole_when_rows_have_calls_and_thinking():
    rows = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": "é"}}},
                {"name": "g", "arguments": "{}"},
                {"function": {"name": "h"}},
            ],
        },
        {"role": "tool", "content": "22", "tool_call_id": "1"},
        {"role": "Human", "content": "so"},
    ]
    assert chat_of_rows(rows) == (
        ChatMessage(Role.SYSTEM, "Be brief."),
        ChatMessage(Role.USER, ""),
        ChatMessage(
            Role.ASSISTANT,
            "",
            "hm",
            (
                ToolCall(name="f", arguments='{"x": "é"}', call_id="1"),
                ToolCall(name="g", arguments="{}"),
                ToolCall(name="h", arguments="{}"),
            ),
        ),
        ChatMessage(Role.TOOL, "22", call_id="1"),
        ChatMessage(Role.USER, "so"),
    )
    assert chat_of_rows([]) == ()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("nonsense", "list of messages"),
        ({"role": "user"}, "list of messages"),
        (None, "list of messages"),
        ([{"role": "user", "content": "a"}, "b"], r"^Message 2 is no object"),
        ([{"content": "a"}], r"^Message 1 has the role None"),
        ([{"role": "wizard"}], "'wizard'"),
        ([{"role": ["user"]}], "the role"),
        ([{"role": "user", "content": 7}], "number"),
        ([{"role": "assistant", "tool_calls": "f"}], "no list"),
        ([{"role": "assistant", "tool_calls": [{}]}], "without a name"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": {1, 2}}}}]}], "no JSON"),
    ],
)
def test_error_says_which_message_is_wrong_when_a_row_is_nonsense(rows: object, message: str):
    with pytest.raises(RequestError, match=message) as caught:
        chat_of_rows(rows)
    assert caught.value.hint
