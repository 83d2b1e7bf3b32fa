"""Run records: to a file and back, and files that hold none."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.bench import BenchPlan, read_record
from app.errors import UsageError
from tests.unit.app.bench.records import record

MADE = record({"decode_short": (1.0, 2.5), "load": ()})


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("form", ["printed events", "event alone", "record alone", "pretty record"])
def test_record_comes_back_whole(tmp_path: Path, form: str) -> None:
    plain = MADE.to_plain()
    event = json.dumps({"event": "run", "record": plain})
    text = {
        "printed events": f'{{"event": "line", "name": "load"}}\n{event}\n',
        "event alone": event,
        "record alone": json.dumps(plain),
        "pretty record": json.dumps(plain, indent=2),
    }[form]
    assert read_record(written(tmp_path / "run.json", text)) == MADE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no run record"),
        ("[1, 2]", "no run record"),
        ('{"event": "line"}', "no run record"),
        ("[" * 100_000, "no run record"),
        ('{"record_version": 99}', "another version"),
        ('{"record_version": 1}', "damaged"),
    ],
    ids=["empty", "list", "other events", "nested", "newer", "cut"],
)
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_record(written(tmp_path / "run.json", text))


@pytest.mark.parametrize(
    "change",
    [{"plan": {"repeats": 0}}, {"measures": 3}, {"params": {"n_ctx": -1}}, {"model": None}],
    ids=lambda change: next(iter(change)),
)
def test_changed_record_is_refused_in_a_sentence(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="damaged"):
        read_record(written(tmp_path / "run.json", json.dumps({**MADE.to_plain(), **change})))


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_record(tmp_path / name)


@pytest.mark.parametrize(
    "values",
    [{"repeats": 0}, {"repeats": 1001}, {"prompt_tokens": 15}, {"prompt_tokens": 1_000_001}],
    ids=lambda values: "=".join(map(str, *values.items())),
)
def test_plan_is_refused_when_a_number_is_out_of_range(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--"):
        BenchPlan(**values)


def test_replies_are_as_short_as_the_prompt_allows() -> None:
    assert [BenchPlan(prompt_tokens=count).reply_tokens for count in (16, 256, 512, 4096)] == [8, 32, 64, 64]


def test_context_holds_every_chat_of_a_repeat() -> None:
    plan = BenchPlan(prompt_tokens=1024)
    assert plan.n_ctx % 256 == 0
    assert plan.n_ctx >= 2.5 * plan.prompt_tokens + 8 * plan.reply_tokens
