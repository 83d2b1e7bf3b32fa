"""`--grammar` and `--json-schema` as a person uses them: forced replies on the starter model, streamed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.gguf_files import write_tiny_model

ROOT = Path(__file__).resolve().parents[2]
EMOJI = "ok 🏋️‍♂️ 👍🏽 🇨🇭 日本 é नमस्ते end"


def chat(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "app", "chat", *map(str, arguments), "Hello"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, env=os.environ, check=False)


def grammar_file(folder: Path, sentence: str) -> Path:
    path = folder / "forced grammar é.gbnf"
    path.write_text(f"root ::= {json.dumps(sentence, ensure_ascii=False)}\n", encoding="utf-8")
    return path


def ask(model: str | Path, *arguments: str | Path) -> tuple[list[str], dict[str, Any]]:
    """Return the deltas of a reply and its end."""
    done = chat("-m", model, "--json", "--temperature", "0", "--max-tokens", "120", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    events = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    return [event["text"] for event in events if event["event"] == "delta"], events[-1]


@pytest.mark.parametrize("sentence", [EMOJI, "  indented", "\n    x"], ids=["emoji", "two blanks", "line break"])
@pytest.mark.parametrize("model", ["starter", "tiny"])
def test_forced_reply_streams_whole_characters_and_is_kept_to_the_byte(
    tmp_path: Path, sentence: str, model: str
) -> None:
    path = "starter" if model == "starter" else write_tiny_model(tmp_path / "tiny.gguf", n_ctx_train=512)
    deltas, end = ask(path, "--grammar", grammar_file(tmp_path, sentence))
    assert ("".join(deltas), end["text"], end["finish_reason"]) == (sentence, sentence, "stop")
    assert not any("\ufffd" in delta for delta in deltas)


@pytest.mark.parametrize(
    ("sentence", "stop", "expected"),
    [
        ("alpha beta gamma delta", "ta ga", "alpha be"),
        ("alpha beta gamma delta", "gamma", "alpha beta "),
        ("alpha beta gamma delta", "mma de", "alpha beta ga"),
        ("aa é日本 bb", "日本", "aa é"),
        ("{}", "}", "{"),
        ("alpha beta", "beta!", "alpha beta"),
    ],
    ids=["over tokens", "a word", "over words", "of many bytes", "the last token", "only its beginning"],
)
def test_stop_string_ends_a_forced_reply_and_no_part_of_it_is_shown(
    tmp_path: Path, sentence: str, stop: str, expected: str
) -> None:
    deltas, end = ask("starter", "--grammar", grammar_file(tmp_path, sentence), "--stop", stop)
    assert ("".join(deltas), end["text"], end["finish_reason"]) == (expected, expected, "stop")
    assert end["stop_string"] == (stop if expected != sentence else None)


def test_grammar_that_is_complete_ends_the_reply_without_another_token(tmp_path: Path) -> None:
    path = tmp_path / "g.gbnf"
    path.write_text('root ::= "{" "}"')
    deltas, end = ask("starter", "--grammar", path, "--max-tokens", "30")
    assert ("".join(deltas), end["finish_reason"]) == ("{}", "stop")
    assert end["metrics"]["num_generated_tokens"] <= 2


def test_reply_to_a_schema_is_valid_json(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    schema = {
        "type": "object",
        "properties": {"größe": {"type": "integer", "minimum": 1, "maximum": 9}, "tags": {"$ref": "#/$defs/tags"}},
        "required": ["größe", "tags"],
        "$defs": {"tags": {"type": "array", "items": {"enum": ["a", None, True]}, "maxItems": 2}},
    }
    path.write_text(json.dumps(schema), encoding="utf-8")
    deltas, end = ask("starter", "--json-schema", path)
    value = json.loads("".join(deltas))
    assert end["finish_reason"] == "stop"
    assert list(value) == ["größe", "tags"] and 1 <= value["größe"] <= 9 and len(value["tags"]) <= 2


@pytest.mark.parametrize(
    ("flag", "text", "sentence"),
    [
        ("--grammar", 'root ::= "{" x', "line 1 of the grammar the rule `root` uses `x`"),
        ("--grammar", "root ::= (((", "line 1"),
        ("--grammar", "", "no rule named `root`"),
        ("--json-schema", '{"type": "strin"}', "`type` names no type"),
        ("--json-schema", '{"$ref": "http://127.0.0.1:1/x"}', "leads out of it"),
        ("--json-schema", "{", "is no JSON"),
    ],
    ids=["unknown rule", "open parentheses", "empty", "unknown type", "reference to a server", "no JSON"],
)
def test_constraint_that_cannot_be_used_fails_the_request_with_a_sentence(
    tmp_path: Path, flag: str, text: str, sentence: str
) -> None:
    path = tmp_path / "constraint"
    path.write_text(text)
    done = chat("-m", "starter", flag, path)
    complaint = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b"")
    assert sentence in complaint and len(complaint.strip().splitlines()) == 2


@pytest.mark.parametrize("flag", ["--grammar", "--json-schema"])
def test_constraint_that_cannot_be_read_is_wrong_usage(tmp_path: Path, flag: str) -> None:
    done = chat("-m", "starter", flag, tmp_path / "missing")
    assert done.returncode == 2
    assert b"cannot be read" in done.stderr


def test_grammar_and_schema_together_are_wrong_usage(tmp_path: Path) -> None:
    path = grammar_file(tmp_path, "{}")
    assert chat("-m", "starter", "--grammar", path, "--json-schema", path).returncode == 2
