"""A folder that several processes write to: what is forgotten goes, whoever has written it; a clock that was wrong."""

import os
import threading
import time
from pathlib import Path

import pytest

from engine.response_cache import ResponseCache
from engine.response_folder import ResponseFolder
from engine.snapshot_folder import SnapshotFolder
from tests.unit.engine.reply_writers import reply_of
from tests.unit.engine.snapshot_writers import header_of, state_of


def put(folder: SnapshotFolder, tokens: list[int], *, chat_id: str, name: str = "") -> None:
    folder.write(header_of(tokens, num_bytes=8, chat_id=chat_id, name=name), [state_of(tokens, 8)], can_cut=True)
    folder.flush(10)


@pytest.mark.parametrize("by", ["chat", "name"])
def test_file_goes_when_another_process_has_written_it_meanwhile(by: str, tmp_path: Path):
    first, second = (SnapshotFolder(tmp_path, max_bytes=1 << 30) for _ in range(2))
    assert first.entries == []
    put(second, [1, 2], chat_id="a", name="gone")
    put(second, [3, 4], chat_id="b", name="kept")
    if by == "chat":
        first.forget(["a"])
    else:
        first.forget_named(["gone"])
    first.flush(10)
    third = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    assert [list(entry.tokens) for entry in third.entries] == [[3, 4]]
    for folder in (first, second, third):
        folder.close(10)


def test_replies_go_with_their_chat_when_this_process_does_not_know_of_them(tmp_path: Path):
    cache = ResponseCache()
    cache.set_on(True, tmp_path, max_disk_bytes=1 << 20, close_s=10)
    cache.forget(["nobody"])  # the folder was looked through
    other = ResponseFolder(tmp_path, max_bytes=1 << 20, on_read=lambda reply: None)
    other.write(reply_of(1, chat_id="a", size=100))
    other.write(reply_of(2, chat_id="b", size=100))
    other.close(10)
    cache.forget(["a"])
    is_gone = threading.Event()
    cache.when_forgotten(is_gone.set)
    assert is_gone.wait(10)
    assert [path.name for path in tmp_path.glob("*.reply")] == ["key2.reply"], "before it is said that it has gone"
    cache.close(10)


def test_file_is_not_the_last_to_go_when_it_was_written_by_a_clock_that_was_ahead(tmp_path: Path):
    first = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    put(first, [1, 2], chat_id="a")
    first.close(10)
    [path] = tmp_path.glob("*.snapshot")
    os.utime(path, (time.time() + 1e7,) * 2)
    again = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    [entry] = again.entries
    assert entry.last_used <= time.time()
    assert path.stat().st_mtime < time.time() + 1000
    again.close(10)
