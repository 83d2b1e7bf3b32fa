"""`python -m app bench` as a real program: on the starter, and stopped by Ctrl-C."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    *("load", "cold_ttft", "follow_ttft", "switch_ttft", "prefill_short", "prefill_long", "decode_short"),
    *("decode_long", "stop_in_prefill", "parallel_2", "parallel_4", "parallel_8"),
    *("bandwidth", "matmul", "bandwidth_share", "edit_ttft", "edit_evaluated", "switch_ram_ttft", "restart_ttft"),
    *("snapshot_bytes", "write_gap", "quiet_gap"),
]
posix = pytest.mark.skipif(os.name != "posix", reason="signals work differently on Windows")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "app", "bench", *map(str, arguments)]


def test_starter_is_measured_and_its_bandwidth_remembered(tmp_path: Path) -> None:
    folder = ("--data-dir", tmp_path / "data")
    flags = ("--repeats", "1", "--prompt-tokens", "16", "--json")
    first = subprocess.run(
        command("starter", *flags, *folder),
        cwd=ROOT,
        capture_output=True,
        timeout=110,
        check=True,
        text=True,
        **ON_ONE_CORE,
    )
    *lines, last = [json.loads(line) for line in first.stdout.splitlines()]
    assert [line["name"] for line in lines] == NAMES
    told = {line["name"] for line in lines if line["repeats"] == 1 and line["median"] >= 0}
    assert told >= set(NAMES) - {"write_gap"}  # so short a chat is written before a reply has begun
    assert {line["name"] for line in lines if line.get("bare_ratio", 0) > 0} >= {"decode_short", "prefill_long"}
    assert last["event"] == "run"
    assert last["record"]["model"]["fingerprint"]
    assert "read_bandwidth" in (tmp_path / "data" / "settings.toml").read_text("utf-8")


def test_unknown_file_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    done = subprocess.run(
        command("starter", "--replay", tmp_path / "none", "--data-dir", tmp_path),
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
    )
    assert done.returncode == 2
    assert "cannot be read" in done.stderr


@posix
def test_ctrl_c_ends_it_and_leaves_no_process(tmp_path: Path) -> None:
    slow = "fake:step_s=0.02,n_words=2000"
    folder = ("--repeats", "1", "--prompt-tokens", "16", "--data-dir", tmp_path)
    arguments = ("--fake-engine", "-m", slow, "--busy", *folder)
    with subprocess.Popen(command(*arguments), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stderr is not None
        told = b""
        while b"beside a busy program" not in told:
            told = program.stderr.readline()
            assert told, "it ended before it was stopped"
        children = psutil.Process(program.pid).children(recursive=True)
        assert len(children) >= 2
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 130
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.wait_procs(children, timeout=10)
    assert [child for child in children if child.is_running()] == []
