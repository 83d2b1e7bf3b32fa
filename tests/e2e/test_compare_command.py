"""`python -m app compare` as a real program: on real models, stopped by Ctrl-C, killed, and gone on with."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.gguf_files import write_tiny_model
from tests.support.one_core import ON_ONE_CORE

ROOT = Path(__file__).resolve().parents[2]
SLOW = "fake:step_s=0.01,n_words=8"
posix = pytest.mark.skipif(os.name != "posix", reason="signals work differently on Windows")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "app", "compare", *map(str, arguments)]


def fireside(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        capture_output=True,
        timeout=110,
        check=check,
        text=True,
        **ON_ONE_CORE,
    )


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_real_models_are_compared_and_the_report_written(tmp_path: Path, starter_path: Path) -> None:
    tiny = write_tiny_model(tmp_path / "tiny.gguf")
    report = tmp_path / "out.html"
    flags = ("--prompt", "Say hello.", "--repeats", "2", "--max-tokens", "6", "--report", report)
    done = fireside(starter_path, tiny, tmp_path / "missing.gguf", *flags, "--json", "--data-dir", tmp_path / "data")
    last = events(done.stdout)[-1]
    assert last["event"] == "comparison"
    columns = {column["id"]: column for column in last["record"]["columns"]}
    assert [bool(column["error"]) for column in columns.values()] == [False, False, True]
    assert "There is no file" in columns["c3"]["error"]
    cells = last["record"]["cells"]
    assert [(cell["column"], cell["repeat"]) for cell in cells] == [("c1", 0), ("c2", 0), ("c2", 1), ("c1", 1)]
    for cell in cells:
        assert cell["error"] == ""
        assert {"load_s", "ttft_s", "peak_memory_bytes", "num_generated_tokens"} <= set(cell["values"])
        assert "num_cached_tokens" not in cell["values"]
    # The same prompt is read whole again each time, and greedy replies come out the same.
    assert cells[0]["text"] == cells[3]["text"]
    assert cells[0]["token_ids"] == cells[3]["token_ids"]
    sizes = [columns[name]["values"]["file_bytes"] for name in ("c1", "c2")]
    assert sizes == [starter_path.stat().st_size, tiny.stat().st_size]
    peaks = [
        max(cell["values"]["peak_memory_bytes"] for cell in cells if cell["column"] == name)
        for name in columns
        if name != "c3"
    ]
    assert peaks[0] > peaks[1]
    assert columns["c1"]["vocabulary_hash"] != columns["c2"]["vocabulary_hash"]
    assert b"fireside-record" in report.read_bytes()


def test_samples_of_a_real_model_differ(tmp_path: Path, starter_path: Path) -> None:
    flags = ("--prompt", "Name an animal.", "--samples", "3", "--max-tokens", "12", "--json")
    done = fireside(starter_path, *flags, "--data-dir", tmp_path)
    texts = [cell["text"] for cell in events(done.stdout)[-1]["record"]["cells"]]
    assert len(texts) == 3
    assert len(set(texts)) > 1


@posix
def test_ctrl_c_keeps_what_is_done_and_tells_how_to_go_on(tmp_path: Path) -> None:
    folder = ("--fake-engine", "--data-dir", tmp_path, "--json")
    arguments = (SLOW, f"{SLOW},can_trim=0", "--repeats", "40", "--prompt", "hi")
    with subprocess.Popen(command(*arguments, *folder), cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        seen: list[dict[str, Any]] = []
        while sum(event["event"] == "cell" for event in seen) < 3:
            line = program.stdout.readline()
            assert line, "it ended before it was stopped"
            seen.append(json.loads(line))
        children = psutil.Process(program.pid).children(recursive=True)
        program.send_signal(signal.SIGINT)
        rest = program.stdout.read()
        assert program.wait(30) == 130
    seen += events(rest)
    assert seen[-1]["event"] == "interrupted"
    assert f"fireside compare --resume {seen[-1]['id']}" in seen[-1]["resume"]
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.wait_procs(children, timeout=10)
    assert [child for child in children if child.is_running()] == []
    cells = [event for event in seen if event["event"] == "cell"]
    assert seen[-1]["num_done"] == len(cells)


def test_killed_program_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = ("--fake-engine", "--data-dir", tmp_path, "--json")
    arguments = (SLOW, f"{SLOW},can_trim=0", "--repeats", "2", "--prompt", "hi")
    with subprocess.Popen(command(*arguments, *folder), cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        seen = [json.loads(program.stdout.readline())]
        while seen[-1]["event"] != "cell":
            seen.append(json.loads(program.stdout.readline()))
        program.kill()
    done = events(fireside("--resume", "last", *folder).stdout)
    again = [event for event in done if event["event"] == "cell"]
    cells = done[-1]["record"]["cells"]
    assert cells[0] == {key: seen[-1][key] for key in seen[-1] if key != "event"}
    assert sorted((cell["column"], cell["repeat"]) for cell in cells) == [("c1", 0), ("c1", 1), ("c2", 0), ("c2", 1)]
    assert len(again) <= 3
