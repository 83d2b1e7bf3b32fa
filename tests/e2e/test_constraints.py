"""Forced replies of real models, streamed, and `--grammar` and `--json-schema` as a person uses them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import Delta, Failed, Finished, FinishReason, ModelLoaded, ModelParams, ProcessClient, SamplingParams
from tests.support.engine_driver import EngineDriver
from tests.support.gguf_files import write_tiny_model
from tests.support.one_core import ON_ONE_CORE

ROOT = Path(__file__).resolve().parents[2]
EMOJI = "ok 🏋️‍♂️ 👍🏽 🇨🇭 日本 é नमस्ते end"


def chat(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "app", "chat", *map(str, arguments), "Hello"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, timeout=60, env=os.environ, check=False, **ON_ONE_CORE
    )


def grammar_file(folder: Path, sentence: str) -> Path:
    path = folder / "forced grammar é.gbnf"
    path.write_text(f"root ::= {json.dumps(sentence, ensure_ascii=False)}\n", encoding="utf-8")
    return path


def ask(model: str | Path, *arguments: str | Path) -> tuple[list[str], dict[str, Any]]:
    """Return the deltas of a reply at the command line, and its end."""
    done = chat("-m", model, "--json", "--temperature", "0", "--max-tokens", "120", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    events = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    return [event["text"] for event in events if event["event"] == "delta"], events[-1]


@pytest.fixture(scope="module", params=["starter", "tiny"])
def driver(
    request: pytest.FixtureRequest, starter_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineDriver]:
    """Return an engine with a model loaded; the tiny one has a vocabulary of little more than bytes."""
    path = starter_path
    if request.param == "tiny":
        path = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf", n_ctx_train=512)
    driver = EngineDriver(ProcessClient())
    assert isinstance(driver.load(str(path), ModelParams(n_ctx=512, n_threads=1)), ModelLoaded)
    yield driver
    driver.close()


def forced(driver: EngineDriver, sentence: str, *stop: str) -> tuple[list[str], Finished]:
    """Return the deltas of a reply that can be nothing but a sentence, and its end."""
    grammar = f"root ::= {json.dumps(sentence, ensure_ascii=False)}"
    request_id = driver.generate(
        "Hello", sampling=SamplingParams(temperature=0, max_tokens=120, grammar=grammar, stop=stop)
    )
    finished = driver.wait_finished(request_id)
    return [e.text for e in driver.events if isinstance(e, Delta) and e.request_id == request_id], finished


@pytest.mark.parametrize("sentence", [EMOJI, "  indented", "\n    x"], ids=["emoji", "two blanks", "line break"])
def test_forced_reply_streams_whole_characters_and_is_kept_to_the_byte(driver: EngineDriver, sentence: str) -> None:
    deltas, end = forced(driver, sentence)
    assert ("".join(deltas), end.text, end.finish_reason) == (sentence, sentence, FinishReason.STOP)
    assert not any("\ufffd" in delta for delta in deltas)


@pytest.mark.parametrize(
    ("sentence", "stop", "expected"),
    [
        ("alpha beta gamma delta", "ta ga", "alpha be"),
        ("alpha beta gamma delta", "gamma", "alpha beta "),
        ("alpha beta gamma delta", "mma de", "alpha beta ga"),
        ("aa é日本 bb", "日本", "aa é"),
        ("{}", "}", "{"),
        ("\nUser: said", "\n", ""),
        ("alpha beta", "beta!", "alpha beta"),
    ],
    ids=["over tokens", "a word", "over words", "of many bytes", "the last token", "the first", "only its beginning"],
)
def test_stop_string_ends_a_forced_reply_and_no_part_of_it_is_shown(
    driver: EngineDriver, sentence: str, stop: str, expected: str
) -> None:
    deltas, end = forced(driver, sentence, stop)
    assert ("".join(deltas), end.text, end.finish_reason) == (expected, expected, FinishReason.STOP)
    assert end.stop_string == (stop if expected != sentence else None)


def test_grammar_that_is_complete_ends_the_reply_without_another_token(driver: EngineDriver) -> None:
    end = driver.reply("Hello", sampling=SamplingParams(temperature=0, max_tokens=30, grammar='root ::= "{" "}"'))
    assert (end.text, end.finish_reason) == ("{}", FinishReason.STOP)
    assert end.metrics.num_generated_tokens <= 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"grammar": 'root ::= "{" x'}, "line 1 of the grammar the rule `root` uses `x`"),
        ({"grammar": ""}, "no rule named `root`"),
        ({"json_schema": '{"$ref": "http://127.0.0.1:1/x"}'}, "leads out of it"),
        ({"json_schema": "{"}, "is no JSON"),
        ({"json_schema": '{"\\ud800": 1}'}, "cannot be kept"),
        ({"grammar": 'root ::= (("a"?){0,1000}){0,1000} "b"'}, "too many ways"),
        ({"grammar": 'root ::= "é" <[0]> "x"{1000000} <|nobody|>'}, "does not have"),
    ],
    ids=[
        "unknown rule", "empty", "reference to a server", "no JSON", "half a surrogate pair", "counts of nothing",
        "unknown token",
    ],
)  # fmt: skip
def test_constraint_that_cannot_be_kept_costs_one_sentence(
    driver: EngineDriver, settings: dict[str, Any], sentence: str
) -> None:
    request_id = driver.generate("Hello", sampling=SamplingParams(max_tokens=200, **settings))
    event = driver.wait_final(request_id)
    assert isinstance(event, Failed), event
    assert event.error.error == "GrammarError"
    assert sentence in event.error.message and event.error.hint
    assert driver.reply("Hello", sampling=SamplingParams(max_tokens=1)).metrics.num_generated_tokens == 1


def test_forced_reply_comes_from_a_file_at_the_command_line(tmp_path: Path) -> None:
    deltas, end = ask("starter", "--grammar", grammar_file(tmp_path, "aa é日本 bb"), "--stop", "日本")
    assert ("".join(deltas), end["text"], end["stop_string"]) == ("aa é", "aa é", "日本")


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
    [("--grammar", "root ::= (((", "line 1"), ("--json-schema", '{"type": "strin"}', "`type` names no type")],
    ids=["grammar", "schema"],
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
