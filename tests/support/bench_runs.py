"""A run of `fireside bench` as a person starts it, and what each of them has to tell."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.one_core import ON_ONE_CORE

_ROOT = Path(__file__).resolve().parents[2]
_NAMES = [
    *("load", "cold_ttft", "follow_ttft", "switch_ttft", "prefill_short", "prefill_long", "decode_short"),
    *("decode_long", "stop_in_prefill", "parallel_2", "parallel_4", "parallel_8"),
    *("bandwidth", "matmul", "bandwidth_share", "edit_ttft", "edit_evaluated", "switch_ram_ttft", "restart_ttft"),
    *("snapshot_bytes", "write_gap", "quiet_gap"),
]


def check_model_is_measured(model: str | Path, data_dir: Path) -> None:
    """Measure a model once, with the shortest prompt, and check what is printed and kept."""
    flags = ("--repeats", "1", "--prompt-tokens", "16", "--json", "--data-dir", str(data_dir))
    done = subprocess.run(
        [sys.executable, "-m", "app", "bench", str(model), *flags],
        cwd=_ROOT,
        capture_output=True,
        timeout=110,
        check=True,
        text=True,
        **ON_ONE_CORE,
    )
    *lines, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["name"] for line in lines] == _NAMES
    told = {line["name"] for line in lines if line["repeats"] == 1 and line["median"] >= 0}
    assert told >= set(_NAMES) - {"write_gap"}  # so short a chat is written before a reply has begun
    assert {line["name"] for line in lines if line.get("bare_ratio", 0) > 0} >= {"decode_short", "prefill_long"}
    assert last["event"] == "run"
    assert last["record"]["model"]["fingerprint"]
    assert "read_bandwidth" in (data_dir / "settings.toml").read_text("utf-8")
