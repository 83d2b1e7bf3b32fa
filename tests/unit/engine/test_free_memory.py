"""Free memory as control groups and limits leave it."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.free_memory import _group_bytes, free_memory


def write_group(folder: Path, limit: str, used: int, cache: int, *, names: tuple[str, str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {cache}\n")


NEW = ("memory.max", "memory.current", "inactive_file")
OLD = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def test_tightest_group_counts_and_its_file_cache_is_free(tmp_path: Path) -> None:
    write_group(tmp_path / "a", "1000", 700, 100, names=NEW)
    write_group(tmp_path / "a" / "b", "max", 600, 0, names=NEW)
    (tmp_path / "self").write_text("0::/a/b\n")
    assert _group_bytes(tmp_path, tmp_path / "self") == 400


def test_group_of_the_first_kind_counts(tmp_path: Path) -> None:
    write_group(tmp_path / "memory" / "a", "1000", 1200, 50, names=OLD)
    (tmp_path / "self").write_text("7:cpu,memory:/a\n6:pids:/x\n")
    assert _group_bytes(tmp_path, tmp_path / "self") == 0


def test_root_counts_where_the_path_is_that_outside_a_container(tmp_path: Path) -> None:
    write_group(tmp_path, "500", 100, 0, names=NEW)
    (tmp_path / "self").write_text("0::/docker/abc\n")
    assert _group_bytes(tmp_path, tmp_path / "self") == 400


@pytest.mark.parametrize("text", ["", "nonsense\n", "0::/\n"])
def test_nothing_is_limited_where_no_group_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "self").write_text(text)
    assert _group_bytes(tmp_path, tmp_path / "self") is None


def test_free_memory_is_no_more_than_the_machine_has() -> None:
    free = free_memory()
    assert 0 < free.resident_bytes <= psutil.virtual_memory().total
    assert free.address_bytes is None


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process_count(name: str) -> None:
    program = (
        "import resource\n"
        "from engine.free_memory import free_memory\n"
        f"resource.setrlimit(resource.{name}, (900 << 20, 900 << 20))\n"
        "print(*free_memory())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    resident, address = done.stdout.split()
    assert 100 << 20 < int(resident) < 900 << 20
    assert address == (resident if name == "RLIMIT_AS" else "None")
