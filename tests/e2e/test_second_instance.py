"""The real program started twice over the same chats: one window stays, whoever comes later says so to it and ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., "subprocess.Popen[bytes]"]

# The real window, which writes down what is asked of it.
PROGRAM = """
import sys
from pathlib import Path


def main():
    from app.__main__ import main as fireside
    from app.desktop import application

    heard = Path(sys.argv[1])
    build = application.build_window

    def build_and_listen(*args, **kwargs):
        parts = build(*args, **kwargs)
        choose = parts.actions.choose_model

        def note(wanted):
            with heard.open("a") as file:
                file.write(f"{wanted}\\n")
            choose(wanted)

        parts.actions.choose_model = note
        return parts

    application.build_window = build_and_listen
    sys.exit(fireside(sys.argv[2:]))


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    started: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(script), str(tmp_path / "heard"), "--fake-engine", *arguments]
        command += ["--data-dir", str(tmp_path / "data")]
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE
        )
        started.append(process)
        return process

    yield run
    for process in started:
        end(process)
        assert process.stderr is not None
        process.stderr.close()


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a window and its engine by force."""
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    process.wait(10)
    psutil.wait_procs(children, timeout=10)


def heard(tmp_path: Path) -> list[str]:
    file = tmp_path / "heard"
    return file.read_text().splitlines() if file.exists() else []


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_second_start_hands_its_model_to_the_first_and_ends(start: Start, tmp_path: Path) -> None:
    first = start("-m", "starter")
    wait_for(lambda: heard(tmp_path) == ["starter"])
    began = time.monotonic()
    second = start("-m", "models/other.gguf")
    assert second.wait(10) == 0
    assert time.monotonic() - began < 5  # 0.5 s on an idle machine
    wait_for(lambda: heard(tmp_path) == ["starter", str(ROOT / "models/other.gguf")])
    assert first.poll() is None


def test_of_five_starts_at_once_one_window_stays(start: Start, tmp_path: Path) -> None:
    processes = [start("-m", "starter") for _ in range(5)]
    wait_for(lambda: sum(process.poll() is None for process in processes) == 1, 60)
    assert sorted(process.returncode for process in processes if process.returncode is not None) == [0, 0, 0, 0]
    wait_for(lambda: heard(tmp_path) == ["starter"] * 5)


def test_start_after_a_kill_gets_the_chats(start: Start, tmp_path: Path) -> None:
    first = start("-m", "starter")
    wait_for(lambda: heard(tmp_path) == ["starter"])
    end(first)
    assert (tmp_path / "data" / "window.lock").exists()
    second = start("-m", "starter")
    wait_for(lambda: heard(tmp_path) == ["starter"] * 2)
    assert second.poll() is None


def test_window_that_hangs_is_told_and_left_alone(start: Start, tmp_path: Path) -> None:
    first = start("-m", "starter")
    wait_for(lambda: heard(tmp_path) == ["starter"])
    os.kill(first.pid, signal.SIGSTOP)
    an_hour_ago = time.time() - 3600
    os.utime(tmp_path / "data" / "window.lock", (an_hour_ago, an_hour_ago))
    second = start()
    assert second.wait(20) == 1
    assert second.stderr is not None
    complaint = second.stderr.read().decode().splitlines()
    assert complaint == [
        "fireside: Fireside is open already, and its window does not answer.",
        "Wait until it does, or end it and start again.",
    ]
    os.kill(first.pid, signal.SIGCONT)
    assert first.poll() is None
