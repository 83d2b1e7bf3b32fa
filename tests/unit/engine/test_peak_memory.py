"""The high-water mark of this process's memory."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.peak_memory import peak_memory_bytes

ROOT = Path(__file__).resolve().parents[3]
SIZE = 48 * 1024 * 1024
SLACK = 2 * 1024 * 1024  # the kernel counts pages in batches


def test_mark_stays_high_when_memory_is_given_back():
    before = peak_memory_bytes()
    block = bytearray(SIZE)
    block[::4096] = b"x" * len(block[::4096])
    with_block = peak_memory_bytes()
    del block
    assert with_block >= before - SLACK
    assert with_block >= SIZE
    assert peak_memory_bytes() >= with_block - SLACK


def test_mark_is_at_least_what_is_used_when_read():
    used = psutil.Process().memory_info().rss
    assert peak_memory_bytes() >= used * 0.9


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can begin a new mark")
def test_mark_begins_anew_when_it_is_reset():
    # In a process of its own: how much this one gives back depends on all the tests before.
    code = f"""if True:
    from engine.peak_memory import peak_memory_bytes, reset_peak_memory
    block = bytearray({SIZE})
    block[::4096] = b"x" * len(block[::4096])
    high = peak_memory_bytes()
    del block
    reset_peak_memory()
    print(high - peak_memory_bytes())
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) >= SIZE // 2
