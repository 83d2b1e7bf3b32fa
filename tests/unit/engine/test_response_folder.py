"""The stored replies on disk: whole or not there, within their limit, whoever is killed and whoever else writes."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.response_file import KeptReply
from engine.response_folder import ResponseFolder
from tests.unit.engine.reply_writers import MAX_BYTES, reply_of

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def opened(path: Path, *, max_bytes: int = MAX_BYTES) -> Iterator[tuple[ResponseFolder, list[KeptReply]]]:
    """Open a folder and read what is in it."""
    found: list[KeptReply] = []
    folder = ResponseFolder(path, max_bytes=max_bytes, on_read=found.append)
    assert folder.is_read(10)
    yield folder, found
    folder.close(10)


def check_kills(path: Path, count: int) -> None:
    """Kill a process again and again while it writes; what is found is whole, and nothing else is left."""
    for number in range(count):
        command = [sys.executable, "-m", "tests.unit.engine.reply_writers", str(path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            try:
                process.wait(random.Random(number).uniform(0, 0.05))
            except subprocess.TimeoutExpired:
                process.kill()
        with opened(path) as (_, found):
            assert found
            assert all(reply == reply_of(int(reply.key.removeprefix("key"))) for reply in found)
        assert {part.suffix for part in path.iterdir()} <= {".reply", ""}
        assert sum(part.stat().st_size for part in path.glob("*.reply")) <= MAX_BYTES


def test_every_reply_is_whole_when_the_writing_process_is_killed(tmp_path: Path):
    check_kills(tmp_path / "cache", 3)


def test_those_used_longest_ago_are_read_first_so_that_the_newest_stay(tmp_path: Path):
    with opened(tmp_path) as (folder, _):
        for number in range(3):
            folder.write(reply_of(number))
            folder._thread.submit(lambda: None).result(10)
            os.utime(tmp_path / f"key{number}.reply", (number, number))
        folder.touch("key0")
    with opened(tmp_path) as (_, found):
        assert [reply.key for reply in found] == ["key1", "key2", "key0"]


def test_all_go_when_nothing_may_be_kept(tmp_path: Path):
    with opened(tmp_path) as (folder, _):
        folder.write(reply_of(1))
    with opened(tmp_path, max_bytes=0) as (folder, found):
        assert found == []
        folder.write(reply_of(2))
    assert list(tmp_path.glob("*.reply")) == []


@pytest.mark.allow_log("cannot be used|could not be stored")
def test_nothing_fails_when_the_folder_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with opened(tmp_path / "file" / "cache") as (folder, found):
        assert found == []
        folder.write(reply_of(1))
        folder.touch("key1")
        folder.delete(["key1"])
        folder.clear()


def test_two_processes_share_the_folder_when_both_write(tmp_path: Path):
    with opened(tmp_path) as (first, _), opened(tmp_path) as (second, _):
        first.write(reply_of(1))
        second.write(reply_of(2))
        second.write(reply_of(1))
    with opened(tmp_path) as (_, found):
        assert {reply.key for reply in found} == {"key1", "key2"}
