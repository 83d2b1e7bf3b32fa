"""How many threads compute."""

import math
import os
from pathlib import Path

import psutil


def default_threads() -> int:
    """Return the physical cores this process may use: within its affinity and its control group's quota."""
    cores = _physical_cores_in_affinity() or psutil.cpu_count(logical=False) or os.cpu_count() or 1
    quota = _cgroup_quota()
    if quota is not None:
        cores = min(cores, max(1, math.floor(quota)))
    return max(1, cores)


def _physical_cores_in_affinity() -> int | None:
    """Count distinct cores among the processors of the affinity mask; None where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores: set[tuple[str, str]] = set()
    for cpu in os.sched_getaffinity(0):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            cores.add((_read(topology / "physical_package_id"), _read(topology / "core_id")))
        except OSError:
            return None
    return len(cores)


def _cgroup_quota() -> float | None:
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


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
