"""The state of the machine, and the program that keeps it busy."""

import multiprocessing
from pathlib import Path

import psutil
import pytest

from app.bench import machine_state
from app.bench.machine_state import num_throttled
from app.bench.neighbour import busy_neighbour, spin


def test_state_is_told_whatever_the_system_lets_be_read() -> None:
    state = machine_state()
    assert state.num_processors >= 1
    assert state.available_bytes > 0
    assert state.power_source in (None, "mains", "battery")


def test_throttling_is_added_over_the_cores(tmp_path: Path) -> None:
    for number, count in enumerate(("3", "4", "odd")):
        folder = tmp_path / f"cpu{number}" / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text(f"{count}\n", "ascii")
    assert num_throttled(tmp_path) == 7
    assert num_throttled(tmp_path / "cpu0") is None


def test_neighbour_computes_and_is_gone_afterwards() -> None:
    with busy_neighbour() as pid:
        process = psutil.Process(pid)
        used = process.cpu_times().user
        while process.cpu_times().user <= used:
            process.status()  # it is running, so its time goes on
    assert not psutil.pid_exists(pid)


def test_neighbour_is_gone_when_the_run_fails() -> None:
    with pytest.raises(KeyboardInterrupt), busy_neighbour() as pid:
        raise KeyboardInterrupt
    assert not psutil.pid_exists(pid)


def test_neighbour_ends_when_its_owner_is_gone() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=spin, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    assert ours.recv_bytes() == b"started"
    ours.close()
    process.join(30)
    assert process.exitcode == 0
    process.close()
