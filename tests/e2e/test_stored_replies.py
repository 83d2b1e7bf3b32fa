"""Whole replies in the real program: the second start gives the first one's reply, from disk, and says so."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def chat(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app", "--data-dir", str(data_dir), "chat", "--fake-engine", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)


def finished(data_dir: Path, *arguments: str) -> dict[str, Any]:
    lines = chat(data_dir, "--json", *arguments).stdout.splitlines()
    return next(event for event in map(json.loads, lines) if event["event"] == "finished")


def test_second_start_gives_the_reply_of_the_first_and_says_so(tmp_path: Path) -> None:
    arguments = ("--response-cache", "--temperature", "0", "--max-tokens", "20", "hello there")
    first, second = finished(tmp_path, *arguments), finished(tmp_path, *arguments)
    assert [reply["metrics"]["cache_source"] for reply in (first, second)] == ["none", "response"]
    assert second["text"] == first["text"]
    assert second["metrics"]["decode_rate"] is None
    plain = chat(tmp_path, *arguments)
    assert plain.stdout.rstrip("\n") == first["text"].rstrip("\n")
    assert "from the cache" in plain.stderr


@pytest.mark.parametrize("flag", ["--no-cache", "--reproducible"])
def test_reply_is_computed_when_it_is_asked_for_otherwise(flag: str, tmp_path: Path) -> None:
    arguments = ("--response-cache", "--seed", "4", "--max-tokens", "5", "hello")
    finished(tmp_path, *arguments)
    assert finished(tmp_path, flag, *arguments)["metrics"]["cache_source"] != "response"
