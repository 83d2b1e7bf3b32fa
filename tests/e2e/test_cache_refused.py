"""The real program where nothing can be kept on disk: the reply comes, and it is said that nothing was kept."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.test_documents import ROOT

SENTENCE = "could not be kept on disk"


def chat(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app", "--data-dir", str(data_dir), "chat", "--fake-engine", "--max-tokens", "4"]
    return subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_it_is_said_once_when_the_data_folder_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "prompt-cache" / "lock").mkdir(parents=True)
    done = chat(tmp_path, "hello")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stderr.count(SENTENCE) == 1
    assert str(tmp_path / "prompt-cache") in done.stderr
    assert SENTENCE not in chat(tmp_path, "hello", "--no-cache").stderr


def test_it_is_an_event_when_json_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "prompt-cache" / "lock").mkdir(parents=True)
    events = [json.loads(line) for line in chat(tmp_path, "hello", "--json").stdout.splitlines()]
    [refused] = [event for event in events if event["event"] == "cache_refused"]
    assert SENTENCE in refused["message"]
    assert refused["hint"]
