"""Tags in code are text, whatever the code stands in, and however the text is cut into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.code_context import CodeContext
from engine.reasoning import PLAIN_THINKING, ThinkingSplitter


def is_inside(*pieces: str) -> bool:
    context = CodeContext()
    for piece in pieces:
        context.note(piece)
    return context.is_inside


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```\n", True),
        ("```python\nx = 1\n", True),
        ("```\nx\n```\n", False),
        ("~~~\nx\n", True),
        ("~~~\n```\n", True),
        ("```\n~~~\n", True),
        ("````\n```\nx\n```\n", True),
        ("````\n```\nx\n```\n````\n", False),
        ("```\nx\n`````\n", False),
        ("```\nx\n``` \t\n", False),
        ("```\nx\n```js\n", True),
        ("~~~ a ` b\n", True),
        ("```x``` is code\n", False),
        ("``\n", False),
        ("- a\n  ```\n  x\n", True),
        ("a `b", True),
        ("a `b` c", False),
        ("a `b\nc", False),
    ],
)
def test_code_is_told_from_prose_when_fences_stand_in_fences(text: str, expected: bool) -> None:
    assert is_inside(text) is expected
    assert is_inside(*text) is expected


@given(st.lists(st.sampled_from(["`", "```", "````", "~~~", "~", " ", "\t", "x", "\n"]), max_size=24))
def test_pieces_do_not_matter_when_text_comes_anyhow(pieces: list[str]) -> None:
    assert is_inside(*pieces) == is_inside("".join(pieces)) == is_inside(*"".join(pieces))


@pytest.mark.parametrize(
    "answer",
    [
        "````md\n```\n</think>\n```\n````\n42",
        "~~~\n</think>\n```\n</think>\n~~~\n42",
        "```\nx\n```js\n</think>\n```\n42",
        "Write `</think>` there, or <think> here.",
    ],
)
def test_answer_is_whole_when_a_tag_stands_in_its_code(answer: str) -> None:
    splitter = ThinkingSplitter(PLAIN_THINKING)
    parts = [splitter.push(letter) for letter in answer] + [splitter.flush()]
    assert "".join(part.answer for part in parts) == answer
    assert not any(part.thinking or part.was_thinking for part in parts)
