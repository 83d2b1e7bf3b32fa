"""How many threads a model gets, on machines that are only folders of a test, and what is told of changes."""

import os
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from engine import processors, threads
from engine.backend import BatchPart
from engine.messages import ThreadsChanged, ThreadsReason
from engine.threads import StepThreads
from tests.unit.engine.fake_engine import make_backend


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Return a function that sets up a machine: core number of each processor, affinity, quota."""
    monkeypatch.setattr(processors, "Path", lambda path: tmp_path / str(path).lstrip("/"))
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
        ([0, 1, 2], {0, 1, 2}, {}, 3),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {}, 3),
        ([0, 0, 1, 1, 2, 2, 3, 3], set(range(8)), {}, 3),
        ([0, 0, 1, 1, 2, 2, 3, 3], {0, 1}, {}, 1),
        ([0, 1, 2, 3], {1, 3}, {}, 2),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu.max": "max 100000\n"}, 3),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu.max": "200000 100000\n"}, 2),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu.max": "50000 100000\n"}, 1),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu.max": "nonsense\n"}, 3),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ([0, 1, 2, 3], {0, 1, 2, 3}, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 3),
        (None, {0, 1}, {}, 5),
    ],
    ids=[
        "three cores", "one is left to the window", "two threads a core",
        "one core's threads", "affinity", "no quota", "quota", "half a processor",
        "odd file", "old quota", "old, no quota", "system does not tell",
    ],
)  # fmt: skip
def test_threads_are_the_cores_that_may_be_used_when_none_are_set(machine, cores, affinity, files, expected):
    machine(cores, affinity, files)
    assert processors.default_threads() == expected


def test_one_thread_is_the_least_when_the_system_tells_nothing(machine, monkeypatch: pytest.MonkeyPatch):
    machine(None, {0})
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: None)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors.default_threads() == 1


def test_threads_are_within_this_machine_when_it_is_asked():
    assert 1 <= processors.default_threads() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"sys/devices/cpu_core/cpus": "0-2\n"}, 3),
        ({"sys/devices/cpu_core/cpus": "0,2\n"}, 2),
        ({f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity": "1024" if cpu < 2 else "400" for cpu in range(6)}, 2),
        ({f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity": "1024" for cpu in range(6)}, 5),
        ({"sys/devices/cpu_core/cpus": "nonsense\n"}, 5),
        ({"sys/devices/cpu_core/cpus": "8-9\n"}, 5),
    ],
    ids=["range", "list", "capacities", "all the same", "odd file", "none allowed"],
)
def test_performance_cores_alone_compute_when_the_system_tells_them_apart(machine, tmp_path: Path, files, expected):
    machine(list(range(6)), set(range(6)))
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert processors.default_threads() == expected


# --- other programs ---


class Times(NamedTuple):
    """What the system tells of all processors."""

    user: float
    system: float = 0.0
    idle: float = 0.0


def test_what_others_use_is_all_but_our_own_when_it_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch):
    told = iter([(Times(100.0), 10.0), (Times(103.0, 1.0), 12.0)])
    own = [0.0]

    def cpu_times() -> Times:
        times, own[0] = next(told)
        return times

    monkeypatch.setattr(threads, "cgroup_quota", lambda: None)
    monkeypatch.setattr(threads, "affinity", lambda: None)
    monkeypatch.setattr(psutil, "cpu_times", cpu_times)
    monkeypatch.setattr(os, "times", lambda: Times(own[0]))
    others = threads.OtherPrograms()
    assert others.num_cores(1.0) is None
    assert others.num_cores(3.0) == pytest.approx(1.0)


@pytest.mark.parametrize(("quota", "affinity"), [(1.5, None), (None, {0})], ids=["quota", "affinity"])
def test_others_are_not_told_when_this_process_may_not_use_all(monkeypatch: pytest.MonkeyPatch, quota, affinity):
    monkeypatch.setattr(threads, "cgroup_quota", lambda: quota)
    monkeypatch.setattr(threads, "affinity", lambda: affinity)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    others = threads.OtherPrograms()
    assert [others.num_cores(1.0), others.num_cores(2.0)] == [None, None]


# --- the threads of a step ---


class Rig:
    """Steps on a machine of two cores; a neighbour makes two threads three times slower."""

    def __init__(self, *, is_fixed: bool = False, count: int = 2) -> None:
        self.now = 0.0
        self.busy: float | None = 0.0
        self.is_disturbed = False
        self.allowed = count
        self.set: list[tuple[int, int]] = []
        self.threads = StepThreads(
            lambda *counts: self.set.append(counts),
            count=count,
            is_fixed=is_fixed,
            count_allowed=lambda: self.allowed,
            others=lambda now: self.busy,
            clock=lambda: self.now,
        )

    def steps(self, number: int, *, num_rows: int = 1, num_tokens: int = 1, **options: bool) -> list[ThreadsChanged]:
        """Compute steps and return what was told."""
        told = []
        for _ in range(number):
            self.threads.begin([BatchPart(row, 100, [1] * num_tokens, True) for row in range(num_rows)], **options)
            count = self.threads.count
            seconds = 0.01 / (1 + 0.2 * (count - 1)) * (3 if self.is_disturbed and count > 1 else 1)
            self.now += seconds
            event = self.threads.end(seconds)
            told += [event] if event else []
        return told


def test_a_neighbour_is_told_when_it_costs_a_thread():
    rig = Rig()
    assert rig.steps(100) == []
    rig.busy, rig.is_disturbed = 1.0, True
    told = rig.steps(100)
    assert [(event.num_threads, event.num_available, event.reason) for event in told] == [
        (1, 2, ThreadsReason.NEIGHBOUR)
    ]
    rig.busy, rig.is_disturbed = 0.0, False
    told = rig.steps(200)
    assert [(event.num_threads, event.reason) for event in told] == [(2, ThreadsReason.ALL)]


def test_a_neighbour_is_told_when_the_system_does_not_say_what_others_use():
    rig = Rig()
    rig.busy = None
    rig.steps(100)
    rig.is_disturbed = True
    assert [event.reason for event in rig.steps(100)] == [ThreadsReason.NEIGHBOUR]


@pytest.mark.parametrize("num_rows", [1, 4], ids=["one reply", "several"])
def test_the_count_of_the_user_is_obeyed_when_there_is_one(num_rows: int):
    rig = Rig(is_fixed=True)
    rig.is_disturbed = True
    assert rig.steps(200, num_rows=num_rows) == []
    rig.threads.set_most(1)
    assert rig.steps(10) == []
    assert rig.threads.count == 2


def test_a_reproducible_step_has_the_count_of_the_load_when_fewer_are_in_use():
    rig = Rig()
    rig.steps(50)
    rig.busy, rig.is_disturbed = 1.0, True
    rig.steps(50)
    assert rig.threads.count == 1
    rig.set.clear()
    assert rig.steps(20, is_reproducible=True) == []
    assert rig.set == [(2, 2)]


def test_threads_are_taken_away_and_given_back_when_the_quota_changes():
    rig = Rig(count=4)
    rig.steps(200)
    rig.allowed = 2
    told = rig.steps(200)
    assert [(event.num_threads, event.num_prefill_threads, event.reason) for event in told] == [
        (2, 2, ThreadsReason.QUOTA)
    ]
    rig.allowed = 4
    assert rig.steps(300)[-1].reason is ThreadsReason.ALL


def test_threads_are_shared_when_another_model_computes_too():
    rig = Rig()
    rig.steps(50)
    rig.threads.set_most(1)
    assert [(event.num_threads, event.reason) for event in rig.steps(20)] == [(1, ThreadsReason.SHARED)]
    rig.threads.set_most(0)
    assert rig.steps(100)[-1].reason is ThreadsReason.ALL


def test_prompts_follow_replies_until_a_count_of_their_own_is_found():
    rig = Rig()
    rig.steps(30, num_rows=3)
    rig.busy, rig.is_disturbed = 1.0, True
    (event,) = rig.steps(60, num_rows=3)
    assert (event.num_threads, event.num_prefill_threads) == (1, 1)
    rig.is_disturbed = False  # as if a neighbour cost prompts nothing
    told = rig.steps(60, num_tokens=300)
    assert [(event.num_threads, event.num_prefill_threads) for event in told] == [(1, 2)]


def test_calibration_is_short_and_leaves_nothing_behind_when_a_model_was_loaded():
    backend = make_backend("step_s=0.001")
    threads_of = StepThreads(backend.set_threads, count=2, is_fixed=False, others=lambda now: None)
    began = time.perf_counter()
    threads_of.calibrate(backend)
    assert time.perf_counter() - began < 1.0
    assert backend.seq_len(0) == 0
    assert backend.n_threads in ((1, 1), (2, 2))
