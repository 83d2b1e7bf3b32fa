"""Which processors this process may compute on, and how many threads that makes.

The trial of a model file needs this in a process of its own, so it imports nothing heavy.
"""

import ctypes
import math
import os
import platform
from pathlib import Path

import psutil

_WINDOW_FROM = 4  # cores, from which on one is left to the window and the rest of the desktop
_PERFORMANCE_SHARE = 0.6  # of the strongest core's capacity: slower ones would keep it waiting at every barrier


def default_threads() -> int:
    """Return how many threads compute where nobody chose: the physical cores this process may use, within its affinity
    and its control group's quota, performance cores where the system tells them apart, without one for the window."""
    cores = _physical_cores_in_affinity() or _apple_performance_cores() or psutil.cpu_count(logical=False)
    cores = cores or os.cpu_count() or 1
    quota = cgroup_quota()
    if quota is not None:
        cores = min(cores, max(1, math.floor(quota)))
    return cores - 1 if cores >= _WINDOW_FROM else max(1, cores)


def affinity() -> set[int] | None:
    """Return the processors this process may use, None where the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def cgroup_quota() -> float | None:
    """Return the processors' worth of time the control group may use, None without a limit."""
    try:
        quota, period = _read(Path("/sys/fs/cgroup/cpu.max")).split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        base = Path("/sys/fs/cgroup/cpu")
        quota_us, period_us = int(_read(base / "cpu.cfs_quota_us")), int(_read(base / "cpu.cfs_period_us"))
        return quota_us / period_us if quota_us > 0 and period_us > 0 else None
    except (OSError, ValueError):
        return None


def _physical_cores_in_affinity() -> int | None:
    """Count distinct cores among the processors of the affinity mask; None where the system does not tell."""
    allowed = affinity()
    if allowed is None:
        return None
    cores: set[tuple[str, str]] = set()
    for cpu in allowed & _performance_processors(allowed) or allowed:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            cores.add((_read(topology / "physical_package_id"), _read(topology / "core_id")))
        except OSError:
            return None
    return len(cores)


def _performance_processors(processors: set[int]) -> set[int]:
    """Return those that are not of the weaker kind; all where the kinds are not told apart."""
    try:
        return _numbers(_read(Path("/sys/devices/cpu_core/cpus")))  # of hybrid Intel processors
    except (OSError, ValueError):
        pass
    try:
        capacity = {cpu: int(_read(Path(f"/sys/devices/system/cpu/cpu{cpu}/cpu_capacity"))) for cpu in processors}
    except (OSError, ValueError):
        return processors
    strongest = max(capacity.values(), default=0)
    return {cpu for cpu, value in capacity.items() if value >= _PERFORMANCE_SHARE * strongest}


def _numbers(text: str) -> set[int]:
    """Return the numbers of a list such as 0-3,8."""
    numbers: set[int] = set()
    for item in text.split(","):
        first, _, last = item.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _apple_performance_cores() -> int | None:
    if platform.system() != "Darwin":
        return None
    value = ctypes.c_int(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    name = b"hw.perflevel0.physicalcpu"
    failed = ctypes.CDLL(None).sysctlbyname(name, ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return value.value if not failed and value.value > 0 else None


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
