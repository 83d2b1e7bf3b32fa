"""The bundled prompts, and files of all kinds."""

import codecs
import json
from collections import Counter
from pathlib import Path

import pytest

from app.compare.prompt_sets import (
    MAX_FILE_BYTES,
    bundled_prompts,
    prompts_of_chats,
    read_prompts,
    short_prompts,
)
from app.errors import UsageError
from engine import ChatMessage, Role


def written(folder: Path, name: str, data: str | bytes) -> Path:
    """Return a file with some contents."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def texts(path: Path) -> list[str]:
    """Return what the prompts of a file ask."""
    return [prompt.text for prompt in read_prompts(path).prompts]


def test_bundled_set_has_prompts_of_all_kinds() -> None:
    prompts = bundled_prompts().prompts
    kinds = Counter(prompt.category for prompt in prompts)
    assert len(prompts) >= 40
    assert set(kinds) == {
        *("chat", "code", "extraction", "arithmetic", "translation", "summarising", "long document"),
    }
    assert min(kinds.values()) >= 5
    assert len({prompt.id for prompt in prompts}) == len(prompts)
    assert len({prompt.text for prompt in prompts}) == len(prompts)
    assert all(prompt.text.strip() and prompt.messages[-1].role is Role.USER for prompt in prompts)
    assert all(len(prompt.text.split()) > 400 for prompt in prompts if prompt.category == "long document")


def test_short_choice_has_one_of_each_kind() -> None:
    kinds = [prompt.category for prompt in short_prompts().prompts]
    assert sorted(kinds) == sorted({prompt.category for prompt in bundled_prompts().prompts})


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("a.txt", "one\ntwo\n\n", ["one", "two"]),
        ("a.txt", "one\r\ntwo", ["one", "two"]),
        ("a.txt", "one\nmore of it\n\n \ntwo", ["one\nmore of it", "two"]),
        ("a.txt", codecs.BOM_UTF8 + "é".encode(), ["é"]),
        ("a.txt", "é\nü".encode("utf-16"), ["é", "ü"]),
        ("noext", "one", ["one"]),
        ("a.md", "# First\n\nWhat?\n\n```\n# no heading\n```\n## Second\nWhy?\n# Empty\n", None),
        ("a.md", "one\ntwo", ["one", "two"]),
        ("a.json", '["one", "two"]', ["one", "two"]),
        ("a.json", '"one"', ["one"]),
        ("a.json", '{"prompts": ["one", {"prompt": "two"}]}', ["one", "two"]),
        ("a.json", '[{"role": "user", "content": "one"}]', ["one"]),
        ("a.json", '[[{"role": "user", "content": "one"}], "two"]', ["one", "two"]),
        ("a.jsonl", '{"text": "one"}\n\n"two"\n', ["one", "two"]),
        ("A.JSONL", '{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}', ["u"]),
    ],
    ids=[
        *("lines", "crlf", "blocks", "bom", "utf-16", "no ending", "headings", "plain markdown", "list", "one text"),
        *("object", "one chat", "chats", "jsonl", "system"),
    ],
)
def test_prompts_of_a_file_are_read(tmp_path: Path, name: str, data: str | bytes, wanted: list[str] | None) -> None:
    path = written(tmp_path, name, data)
    if wanted is None:
        found = read_prompts(path).prompts
        assert [(prompt.id, prompt.text) for prompt in found] == [
            ("First", "What?\n\n```\n# no heading\n```"),
            ("Second", "Why?"),
        ]
    else:
        assert texts(path) == wanted


def test_ids_and_categories_are_taken_over_and_told_apart(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "category": "chat", "prompt": "1"},
        {"id": "a", "prompt": "2"},
        {"id": 7, "prompt": "3"},
        {"id": "a", "prompt": "4"},
        {"id": " ", "prompt": "5"},
    ]
    found = read_prompts(written(tmp_path, "a.json", json.dumps(rows))).prompts
    assert len({prompt.id for prompt in found}) == 5
    assert (found[0].id, found[0].category, found[2].id, found[4].id) == ("a", "chat", "7", "5")


@pytest.mark.parametrize(
    ("name", "data", "part"),
    [
        ("a.txt", b"", "holds no prompt"),
        ("a.txt", b" \n\n\t\n", "holds no prompt"),
        ("a.txt", b"\xff\xfe\xfa", "no text"),
        ("a.txt", b"caf\xe9", "UTF-8"),
        ("a.txt", b"GGUF\0\0\0", "no text"),
        ("a.txt", b"x\n" * 10_001, "10,001 prompts"),
        ("a.json", b"", "holds no prompt"),
        ("a.json", b"{", "no JSON"),
        ("a.json", b"[" * 200_000, "no JSON"),
        ("a.json", b"[]", "holds no prompt"),
        ("a.json", b"[1]", "empty, or no text"),
        ("a.json", b'[""]', "empty, or no text"),
        ("a.json", b'[{"prompt": "  "}]', "empty, or no text"),
        ("a.json", b'{"messages": [{"role": "king", "content": "x"}]}', "no chat"),
        ("a.json", b'{"messages": [{"role": "assistant", "content": "x"}]}', "ends with an answer"),
        ("a.jsonl", b'"one"\n{oops}\n', "Line 2 of"),
        ("a.md", b"# Title alone\n", "holds no prompt"),
    ],
    ids=[
        *(
            "empty",
            "blank",
            "half a character",
            "latin-1",
            "binary",
            "too many",
            "empty json",
            "cut",
            "deep",
            "no rows",
        ),
        *("number", "empty text", "blank text", "role", "answer last", "bad line", "title alone"),
    ],
)
def test_files_without_prompts_are_refused_in_a_sentence(tmp_path: Path, name: str, data: bytes, part: str) -> None:
    with pytest.raises(UsageError, match=part) as caught:
        read_prompts(written(tmp_path, name, data))
    assert caught.value.hint


def test_huge_files_folders_and_missing_ones_are_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    for path, part in ((huge, "larger than 16 MiB"), (tmp_path, "is no file"), (tmp_path / "gone", "cannot be read")):
        with pytest.raises(UsageError, match=part):
            read_prompts(path)


def test_past_chats_are_cut_behind_the_last_question() -> None:
    question, answer = ChatMessage(Role.USER, "q"), ChatMessage(Role.ASSISTANT, "a")
    chats = [("First", (question, answer)), ("", (answer,)), ("First", (question, answer, question))]
    found = prompts_of_chats("chats", chats).prompts
    assert [(prompt.id, prompt.messages) for prompt in found] == [
        ("1: First", (question,)),
        ("2: First", (question, answer, question)),
    ]
