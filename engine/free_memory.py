"""How much memory this process may still take: the machine's, its control group's, and its own limits."""

import contextlib
import sys
from pathlib import Path
from typing import NamedTuple

# psutil is imported where it is used: the first paint of the window does not wait for it.
_CGROUP_ROOT = Path("/sys/fs/cgroup")


class FreeMemory(NamedTuple):
    """What is free.

    Attributes:
        resident_bytes: memory that can be filled. Mapped files do not count: their pages can go again.
        address_bytes: where addresses are limited, what is left of them, for mapped files too; else None.
    """

    resident_bytes: int
    address_bytes: int | None = None


def free_memory() -> FreeMemory:
    """Return what this process may still take."""
    import psutil

    free = psutil.virtual_memory().available
    if sys.platform != "linux":
        return FreeMemory(free)
    group = _group_bytes(_CGROUP_ROOT, Path("/proc/self/cgroup"))
    if group is not None:
        free = min(free, group)
    data_bytes, address_bytes = _limits()
    if data_bytes is not None:
        free = min(free, data_bytes)
    if address_bytes is not None:
        free = min(free, address_bytes)
    return FreeMemory(free, address_bytes)


def _limits() -> tuple[int | None, int | None]:
    """Return what is left of the limits on data and on addresses."""
    import resource  # not on Windows

    import psutil

    used = psutil.Process().memory_info()
    left: list[int | None] = []
    for limit, taken in ((resource.RLIMIT_DATA, used.data), (resource.RLIMIT_AS, used.vms)):
        soft = resource.getrlimit(limit)[0]
        left.append(None if soft == resource.RLIM_INFINITY else max(soft - taken, 0))
    return left[0], left[1]


def _group_bytes(root: Path, membership: Path) -> int | None:
    """Return what is left in the tightest control group above this process, None where none is limited."""
    left: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for line in membership.read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                left += _left_in(root, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                left += _left_in(root / "memory", path, *names)
    return min(left) if left else None


def _left_in(root: Path, path: str, limit_name: str, used_name: str, cache_name: str) -> list[int]:
    folder = root / path.lstrip("/")
    left = []
    # Inside a container the path may be the one outside: its groups are not there, the root is.
    for group in (folder, *folder.parents):
        with contextlib.suppress(OSError, ValueError, KeyError):
            limit, used = (int((group / name).read_text("ascii")) for name in (limit_name, used_name))
            fields = dict(line.split() for line in (group / "memory.stat").read_text("ascii").splitlines())
            left.append(max(limit - used + int(fields[cache_name]), 0))
        if group == root:
            break
    return left


def has_memory(num_bytes: int) -> bool:
    """Whether a copy of so many bytes leaves others enough: the system ends a process that takes more than there is."""
    return num_bytes <= free_memory().resident_bytes // 2
