"""`fireside cache` with the real program: what another run has kept is listed and forgotten."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.test_documents import LINES, ROOT, fireside


def cache(data_dir: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "app", "--data-dir", str(data_dir), "cache", *arguments, "--json"]
    done = subprocess.run(
        [*command, "--fake-engine"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_document_of_another_run_is_listed_and_forgotten(tmp_path: Path) -> None:
    path, data_dir = tmp_path / "policy.md", tmp_path / "data"
    path.write_text("\n".join(LINES[:12]))
    fireside(data_dir, "--document", str(path), "--prepare")
    row, listed = cache(data_dir, "list")
    assert (row["name"], row["chat_id"], row["source"]) == ("policy.md", None, "disk")
    assert listed["disk_bytes"] == row["num_bytes"] > 0
    [failed] = cache(data_dir, "forget", "policy", code=2)
    assert failed["event"] == "failed" and failed["error"] == "UsageError"
    [forgotten] = cache(data_dir, "forget", "policy.md")
    assert forgotten["num_bytes"] == row["num_bytes"]
    assert cache(data_dir, "list")[0]["num_kept"] == 0
    assert list((data_dir / "prompt-cache").rglob("*.snapshot")) == []
