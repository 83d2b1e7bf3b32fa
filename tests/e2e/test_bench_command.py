"""`python -m app bench` as a real program: on a real model, and stopped by Ctrl-C."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.bench_runs import check_model_is_measured
from tests.support.gguf_files import write_tiny_model

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="signals work differently on Windows")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "app", "bench", *map(str, arguments)]


def test_model_is_measured_and_its_bandwidth_remembered(tmp_path: Path) -> None:
    check_model_is_measured(write_tiny_model(tmp_path / "tiny.gguf", n_ctx_train=4096, seed=1), tmp_path / "data")


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
    slow = "fake:step_s=0.002,n_words=2000"
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
