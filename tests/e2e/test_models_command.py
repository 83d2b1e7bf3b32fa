"""`python -m app models` as a real program, and models of the library in a chat."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.gguf_files import write_other_kinds, write_tiny_model
from tests.support.split_models import split_model

ROOT = Path(__file__).resolve().parents[2]
ODD = "dir ä日 #?%20&'\""


def fireside(*arguments: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    done = subprocess.run(
        [sys.executable, "-m", "app", *map(str, arguments), "--json"],
        cwd=ROOT,
        input=b"",
        capture_output=True,
        timeout=60,
        env=os.environ,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


@pytest.fixture
def parts(data_dir: Path, tmp_path: Path) -> list[Path]:
    return split_model(write_tiny_model(tmp_path / "tiny.gguf"), data_dir / "models" / ODD, "a b", 3)


@pytest.mark.parametrize("name", [0, 2, "tiny-llama"], ids=["first part", "last part", "name"])
def test_split_model_chats_from_any_part_and_by_its_name(parts: list[Path], name: int | str) -> None:
    model = parts[name] if isinstance(name, int) else name
    code, events, errors = fireside("chat", "-m", model, "--max-tokens", "2", "hi")
    assert (code, events[-1]["event"]) == (0, "finished"), errors


def test_split_model_is_one_row_and_what_is_missing_is_named(parts: list[Path]) -> None:
    _, events, _ = fireside("models", "list")
    [row] = [event for event in events if event.get("is_ours")]
    assert (row["paths"], row["can_chat"]) == ([str(path) for path in parts], True)
    parts[1].unlink()
    _, events, _ = fireside("models", "list")
    [row] = [event for event in events if event.get("is_ours")]
    assert row["missing_parts"] == ["a b-00002-of-00003.gguf"]
    code, events, _ = fireside("chat", "-m", "tiny-llama", "hi")
    assert (code, "00002" in events[-1]["message"]) == (3, True)


def test_other_kinds_are_listed_and_never_offered_for_chat(data_dir: Path) -> None:
    (data_dir / "models").mkdir(parents=True)
    paths = write_other_kinds(data_dir / "models")
    code, events, _ = fireside("models", "list")
    rows = [event for event in events if event.get("is_ours")]
    assert (code, len(rows)) == (0, len(paths))
    assert {row["can_chat"] for row in rows} == {False}
    code, events, _ = fireside("chat", "-m", "mmproj-x", "hi")
    assert (code, "projector" in events[-1]["message"]) == (3, True)
