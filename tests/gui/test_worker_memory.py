"""How much memory the worker holds: measured while asked, at most once in an interval."""

import os
import threading
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from app.desktop.bridge import worker_memory
from app.desktop.bridge.background import Background
from app.desktop.bridge.worker_memory import WorkerMemory

NO_PROCESS = 2**22 + 1  # above what the kernel hands out


@pytest.fixture
def background(qtbot: QtBot) -> Iterator[Background]:
    background = Background()
    yield background
    background.close()


def watch(memory: WorkerMemory) -> list[object]:
    seen: list[object] = []
    memory.measured.connect(seen.append)
    return seen


def test_resident_bytes_are_measured_again_and_again(background: Background, qtbot: QtBot) -> None:
    memory = WorkerMemory(os.getpid, background, background, interval_ms=10)
    seen = watch(memory)
    memory.start()
    qtbot.waitUntil(lambda: len(seen) >= 3)
    memory.stop()
    assert all(isinstance(num_bytes, int) and 10**7 < num_bytes < 10**11 for num_bytes in seen)


def test_nothing_is_measured_unless_asked(background: Background, qtbot: QtBot) -> None:
    asked: list[None] = []

    def pid() -> int:
        asked.append(None)
        return os.getpid()

    memory = WorkerMemory(pid, background, background, interval_ms=1)
    seen = watch(memory)
    qtbot.wait(20)
    assert (asked, seen, memory.is_running) == ([], [], False)
    memory.start()
    memory.stop()
    qtbot.wait(20)
    assert (len(asked), seen) == (1, [])


def test_starting_again_at_once_does_not_measure_more_often(background: Background, qtbot: QtBot) -> None:
    asked: list[None] = []
    memory = WorkerMemory(lambda: asked.append(None), background, background)
    for _ in range(5):
        memory.start()
        memory.start()
        memory.stop()
    assert len(asked) == 1


@pytest.mark.parametrize("pid", [None, NO_PROCESS], ids=["no worker", "worker that has ended"])
def test_unknown_is_told_as_none(background: Background, qtbot: QtBot, pid: int | None) -> None:
    memory = WorkerMemory(lambda: pid, background, background)
    with qtbot.waitSignal(memory.measured) as caught:
        memory.start()
    memory.stop()
    assert caught.args == [None]


def test_slow_system_is_not_asked_twice_at_once(
    background: Background, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[int] = []
    pause = threading.Event()

    def measure(pid: int) -> int:
        running.append(1)
        busy = sum(running)
        pause.wait(0.03)
        running.append(-1)
        return busy

    monkeypatch.setattr(worker_memory, "_resident_bytes", measure)
    memory = WorkerMemory(os.getpid, background, background, interval_ms=1)
    seen = watch(memory)
    memory.start()
    qtbot.waitUntil(lambda: len(seen) >= 3)
    memory.stop()
    assert set(seen) == {1}
