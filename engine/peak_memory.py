"""The high-water mark of this process's resident memory."""

import contextlib
import re
from pathlib import Path

import psutil

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def reset_peak_memory() -> None:
    """Begin a new high-water mark where the system can do that (Linux)."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5", encoding="ascii")


def peak_memory_bytes() -> int | None:
    """Return the high-water resident bytes since the last reset, or since the start where there is no reset."""
    if _STATUS.exists():
        # Not getrusage: its maximum is inherited from the process that started this one.
        found = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    info = psutil.Process().memory_info()
    return int(getattr(info, "peak_wset", info.rss))
