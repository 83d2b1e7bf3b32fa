"""`fireside chat --draft` as a real program on real models: a draft that serves, and each kind that does not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import DraftState
from tests.support.one_core import ON_ONE_CORE
from tests.support.refused_drafts import REFUSED, write_refused

ROOT = Path(__file__).resolve().parents[2]
GREEDY = ("--temperature", "0", "--max-tokens", "12", "--threads", "1")


def chat(data_dir: Path, *arguments: str | Path) -> tuple[list[dict[str, Any]], str]:
    """Return the events and the standard error of a chat that ends well."""
    done = subprocess.run(
        [sys.executable, "-m", "app", "--data-dir", str(data_dir), "chat", "--json", *GREEDY, *map(str, arguments)],
        cwd=ROOT,
        input=b"one two three one two three one two",
        capture_output=True,
        timeout=60,
        env=os.environ,
        check=False,
        **ON_ONE_CORE,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()], done.stderr.decode()


def test_draft_model_is_loaded_and_what_it_did_is_told_when_it_fits(tmp_path: Path) -> None:
    target, _ = write_refused(tmp_path, "broken file")
    found, err = chat(tmp_path / "data", "-m", target, "--draft", "both", "--draft", target, "--draft-max", "4")
    [draft] = [event for event in found if event["event"] == "draft"]
    assert (draft["is_used"], draft["path"], err) == (True, str(target), "")
    assert draft["total_bytes"] > draft["weight_bytes"] > 0
    metrics = found[-1]["metrics"]
    assert metrics["draft_state"] in {state.value for state in DraftState} - {"off", "unavailable"}
    assert metrics["num_accepted_tokens"] <= metrics["num_drafted_tokens"]
    assert metrics["num_drafted_tokens"] == sum(item["num_drafted_tokens"] for item in metrics["drafters"])


@pytest.mark.parametrize("kind", REFUSED)
def test_reply_is_that_of_plain_decoding_and_the_reason_is_told_when_a_file_cannot_draft(
    kind: str, tmp_path: Path
) -> None:
    target, draft = write_refused(tmp_path, kind)
    plain, _ = chat(tmp_path / "data", "-m", target, "--draft", "none")
    found, err = chat(tmp_path / "data", "-m", target, "--draft", draft)
    assert found[-1]["event"] == "finished"
    assert found[-1]["text"] == plain[-1]["text"]
    [told] = [event for event in found if event["event"] == "draft"]
    assert not told["is_used"] and REFUSED[kind] in told["reason"] and told["hint"]
    assert err.splitlines()[0] == f"fireside: {told['reason']}"
    assert found[-1]["metrics"]["num_drafted_tokens"] == 0
    assert found[-1]["metrics"]["draft_state"] == DraftState.UNAVAILABLE.value
