"""How many threads a model gets by default, on machines that are only folders of a test."""

import os
from pathlib import Path

import psutil
import pytest

from engine import threads


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Return a function that sets up a machine: core number of each processor, affinity, quota."""
    monkeypatch.setattr(threads, "Path", lambda path: tmp_path / str(path).lstrip("/"))
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 6)

    def set_up(cores: list[int] | None, affinity: set[int], files: dict[str, str] | None = None) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: affinity, raising=False)
        for cpu, core in enumerate(cores or []):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
            folder.mkdir(parents=True)
            (folder / "core_id").write_text(f"{core}\n")
            (folder / "physical_package_id").write_text("0\n")
        for name, text in (files or {}).items():
            path = tmp_path / "sys/fs/cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return set_up


@pytest.mark.parametrize(
    ("cores", "affinity", "files", "expected"),
    [
        ([0, 1, 2, 3], {0, 1, 2, 3}, {}, 4),
        ([0, 0, 1, 1, 2, 2, 3, 3], set(range(8)), {}, 4),
        ([0, 0, 1, 1, 2, 2, 3, 3], {0, 1}, {}, 1),
        ([0, 1, 2, 3], {1, 3}, {}, 2),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu.max": "max 100000\n"}, 4),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu.max": "200000 100000\n"}, 2),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu.max": "50000 100000\n"}, 1),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu.max": "nonsense\n"}, 4),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 4),
        (None, {0, 1}, {}, 6),
    ],
    ids=[
        "plain", "two threads a core", "one core's threads", "affinity", "no quota", "quota", "half a processor",
        "odd file", "old quota", "old, no quota", "system does not tell",
    ],
)  # fmt: skip
def test_threads_are_the_cores_that_may_be_used_when_none_are_set(machine, cores, affinity, files, expected):
    machine(cores, affinity, files)
    assert threads.default_threads() == expected


def test_one_thread_is_the_least_when_the_system_tells_nothing(machine, monkeypatch: pytest.MonkeyPatch):
    machine(None, {0})
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: None)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads.default_threads() == 1


def test_threads_are_within_this_machine_when_it_is_asked():
    assert 1 <= threads.default_threads() <= (os.cpu_count() or 1)
