"""Thinking told from the answer, however the text of a reply is cut."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.reasoning import PLAIN_THINKING, ThinkingFormat, ThinkingSplitter, begin_reply, find_thinking_format

GPT_OSS = "<|channel|>analysis<|message|>"
FORMATS = {
    name: find_thinking_format(source)
    for name, source in {
        "think": "{{ '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}",
        "thinking": "<thinking></thinking>",
        "brackets": "[THINK][/THINK]",
        "seed": "<seed:think></seed:think>",
        "command": "<|START_THINKING|><|END_THINKING|>",
        "gemma": "<|channel>thought\n<channel|>",
        "reasoning": "<reasoning></reasoning>",
    }.items()
}


def split(pieces, thinking: ThinkingFormat | None = PLAIN_THINKING, *, is_open: bool = False) -> tuple[str, str, bool]:
    """Return thinking, answer, and whether an answer was taken back."""
    splitter = ThinkingSplitter(thinking, is_open=is_open)
    thought, answer, was_thinking = "", "", False
    for part in [*map(splitter.push, pieces), splitter.flush()]:
        if part.was_thinking:
            thought, answer, was_thinking = thought + answer, "", True
        thought += part.thinking
        answer += part.answer
    return thought, answer, was_thinking


CASES = [
    ("abc</think>42", True, ("abc", "42", False)),
    ("abc</think>42", False, ("abc", "42", True)),
    ("<think>abc</think>42", False, ("abc", "42", False)),
    ("<think>\nabc\n</think>\n\n42", True, ("abc", "42", False)),
    ("<think>abc", False, ("abc", "", False)),
    ("abc", True, ("abc", "", False)),
    ("I use the word <think> here", False, ("", "I use the word <think> here", False)),
    ("Close it with </think> and go on", False, ("", "Close it with </think> and go on", False)),
    ('The tag "</think>" ends it', False, ("", 'The tag "</think>" ends it', False)),
    ("`</think>` and `<think>`", False, ("", "`</think>` and `<think>`", False)),
    ("Look:\n```\n<think>\nx</think>\n```\n", False, ("", "Look:\n```\n<think>\nx</think>\n```\n", False)),
    ("<think></think>text", False, ("", "text", False)),
    ("<think>\n\n</think>\n\ntext", False, ("", "text", False)),
    ("</think>\n\ntext", False, ("", "text", True)),
    ("<think>a `</think>` b</think>c", False, ("a `</think>` b", "c", False)),
    ("<think>```\n</think>\n```\nb\n</think>\nc", False, ("```\n</think>\n```\nb", "c", False)),
    ("<think>a</think>b<think>c</think>d", False, ("a", "b<think>c</think>d", False)),
    ("<think>a</think>\n\n    code", False, ("a", "    code", False)),
    ("  indented", False, ("", "  indented", False)),
    ("\n    code", False, ("", "\n    code", False)),
    ("<thin", False, ("", "<thin", False)),
    ("", True, ("", "", False)),
]


@pytest.mark.parametrize(("text", "is_open", "expected"), CASES)
@pytest.mark.parametrize("length", [1, 2, 3, 7, 1000])
def test_thinking_and_answer_are_told_apart_when_a_reply_comes_in_pieces(text, is_open, expected, length):
    pieces = [text[at : at + length] for at in range(0, len(text), length)]
    assert split(pieces, is_open=is_open)[:2] == expected[:2]
    assert split([text], is_open=is_open) == expected


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("is_open", [True, False])
def test_every_family_is_told_apart_when_its_own_tags_come(name: str, is_open: bool):
    thinking = FORMATS[name]
    assert thinking is not None
    text = f"{'' if is_open else thinking.opening}abc{thinking.closing_text}42"
    assert split(text, thinking, is_open=is_open) == ("abc", "42", False)
    assert split("<other>abc</other>42", thinking) == ("", "<other>abc</other>42", False)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "think"])
def test_tags_of_another_family_are_text_when_they_come(name: str):
    assert split("<think>abc</think>42", FORMATS[name]) == ("", "<think>abc</think>42", False)


def test_all_is_answer_when_the_model_marks_no_thinking():
    assert find_thinking_format("{{ messages[0].content }}") is None
    assert split("<think>abc</think>42", None) == ("", "<think>abc</think>42", False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{GPT_OSS}hm<|end|><|start|>assistant<|channel|>final<|message|>42", ("hm", "42", False)),
        ("<|channel|>final<|message|>42", ("", "42", False)),
        (f"{GPT_OSS}hm", ("hm", "", False)),
        (
            f"<|channel|>commentary<|message|>so<|end|><|start|>assistant{GPT_OSS}hm<|end|><|start|>assistant"
            "<|channel|>final<|message|>42",
            ("hm", "so42", False),
        ),
    ],
    ids=["both", "answer only", "cut", "preamble"],
)
def test_frames_of_the_channels_are_not_shown_when_a_family_has_them(text, expected):
    thinking = find_thinking_format(GPT_OSS)
    assert split(text, thinking) == split([text], thinking) == expected


_BITS = ["<think>", "</think>", "<", "think>", "`", "```", "\n", " ", "abc", "é", "</", '"']


@settings(max_examples=300)
@given(
    bits=st.lists(st.sampled_from(_BITS), max_size=12),
    cuts=st.lists(st.integers(1, 5), max_size=40),
    is_open=st.booleans(),
)
@example(bits=["abc", "</think>", "42"], cuts=[1] * 40, is_open=False)
def test_parts_are_the_same_and_nothing_is_lost_when_the_text_is_cut_anywhere(bits, cuts, is_open):
    text = "".join(bits)
    pieces, at = [], 0
    for length in cuts:
        pieces.append(text[at : at + length])
        at += length
    thought, answer, _ = split([*pieces, text[at:]], is_open=is_open)
    assert (thought, answer) == split([text], is_open=is_open)[:2]
    said, left = "".join(text.split()), "".join((thought + answer).split())
    assert len(said) - len(left) in (0, 7, 8, 15)  # one tag of a kind at most is taken out
    letters = iter(said)
    assert all(letter in letters for letter in left)


def test_next_tag_closes_wherever_it_stands_when_it_was_announced():
    splitter = ThinkingSplitter(PLAIN_THINKING, is_open=True)
    assert splitter.push("```\ncode").thinking == "```\ncode"
    splitter.expect_closing()
    assert splitter.push("</think>42").answer == "42"
    assert not splitter.is_thinking


@pytest.mark.parametrize(
    ("thought", "answer", "is_open", "prompt", "expected", "is_thinking"),
    [
        ("", "half", True, "a\n<think>\n", "</think>\n\nhalf", False),
        ("hm", "half", True, "a\n<think>\n", "hm\n</think>\n\nhalf", False),
        ("hm", "", True, "a\n<think>", "\nhm", True),
        ("", "", True, "a\n<think>\n", "", True),
        ("hm", "half", False, "a\n", "<think>\nhm\n</think>\n\nhalf", False),
        ("hm", "", False, "a\n", "<think>\nhm", True),
        ("hm", "half", False, "a\n<think>\n\n</think>\n\n", "half", False),
        ("", "half", False, "a\n", "half", False),
    ],
)
def test_half_reply_is_begun_where_it_stopped_when_it_goes_on(thought, answer, is_open, prompt, expected, is_thinking):
    begun = begin_reply(PLAIN_THINKING, prompt, thought, answer, is_open=is_open)
    assert "".join(text for text, _ in begun.pieces) == expected
    assert begun.is_thinking is is_thinking
    assert begin_reply(None, prompt, thought, answer, is_open=False).pieces == [(answer, False)]


def test_comments_of_a_template_do_not_count_and_cost_little_when_they_never_end():
    assert find_thinking_format("{# </think> #}{{ x }}{# <think> #}") is None
    assert find_thinking_format("{# a #}</think>{# b") == find_thinking_format("</think>")
    began = time.thread_time()
    assert find_thinking_format("{#" * 100_000) is None
    assert time.thread_time() - began < 1.0
