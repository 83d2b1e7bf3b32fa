"""How fast this machine reads memory: the ceiling of decode, which reads all weights for each token."""

import re
import threading
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

_MIB = 1 << 20
_TIMES_CACHE = 4  # smaller buffers are partly read out of the cache
_MIN_BUFFER, _UNKNOWN_CACHE = 128 * _MIB, 64 * _MIB
_MEMORY_SHARE = 0.25  # of what is free: measuring must not push out what others hold
_MIN_PASSES, _MAX_PASSES, _LIMIT_S = 3, 12, 0.5
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def last_level_cache() -> int:
    """Return the bytes of the largest cache of the first processor, 0 where the system does not tell."""
    sizes = [0]
    for folder in _CACHES.glob("index*"):
        try:
            found = re.fullmatch(r"(\d+)([KM]?)", (folder / "size").read_text("ascii").strip())
        except (OSError, ValueError):
            continue
        if found:
            sizes.append(int(found[1]) * {"K": 1 << 10, "M": _MIB}.get(found[2], 1))
    return max(sizes)


def buffer_bytes(cache_bytes: int, free_bytes: int) -> int:
    """Return how large a buffer is read: four times the cache, unless memory is short."""
    wanted = max(_MIN_BUFFER, _TIMES_CACHE * (cache_bytes or _UNKNOWN_CACHE))
    limit = int(free_bytes * _MEMORY_SHARE)
    return max(_MIB, min(wanted, limit)) // _MIB * _MIB


def read_bandwidth(n_threads: int, num_bytes: int) -> float:
    """Return bytes a second that threads read together, in the fastest of some passes over a buffer.

    The fastest one is the ceiling: whatever delays a pass is somebody else's work.
    """
    values = np.ones(num_bytes // 4, np.float32)  # written once, else all pages would be one page of zeros
    slices = np.array_split(values, n_threads)
    fastest, ends_at, num_passes = 0.0, time.perf_counter() + _LIMIT_S, 0
    while num_passes < _MIN_PASSES or (num_passes < _MAX_PASSES and time.perf_counter() < ends_at):
        fastest = max(fastest, num_bytes / _pass_s(slices))
        num_passes += 1
    return fastest


def free_bytes() -> int:
    """Return the memory that may be taken for measuring."""
    return int(psutil.virtual_memory().available)


def _pass_s(slices: list[npt.NDArray[np.float32]]) -> float:
    """Read all slices at once, the first on this thread; looking for the largest item is as fast as memory is."""
    others = [threading.Thread(target=part.max, daemon=True) for part in slices[1:]]
    began = time.perf_counter()
    for thread in others:
        thread.start()
    slices[0].max()
    for thread in others:
        thread.join()
    return max(time.perf_counter() - began, 1e-9)
