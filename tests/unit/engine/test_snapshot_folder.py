"""The snapshots on disk: found again, within their limit, and never believed when they are not whole."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import snapshot_folder
from engine.backend import StateKeys
from engine.folder_entry import FolderEntry
from engine.folder_lock import folder_lock, try_lock
from engine.snapshot_file import FileFault, SnapshotFileError, read_snapshot
from engine.snapshot_folder import SnapshotFolder
from tests.unit.engine.snapshot_writers import header_of, state_of

KEYS = StateKeys("m", "s")
SIZE = 4000
ROOT = Path(__file__).resolve().parents[3]

Open = Callable[..., SnapshotFolder]


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[Open]:
    opened: list[SnapshotFolder] = []

    def make(max_bytes: int | None = 1 << 30) -> SnapshotFolder:
        opened.append(SnapshotFolder(tmp_path / "cache", max_bytes=max_bytes))
        return opened[-1]

    yield make
    for folder in opened:
        folder.close(5)


def put(folder: SnapshotFolder, tokens: list[int], *, can_cut: bool = True, **more) -> None:
    folder.write(header_of(tokens, num_bytes=SIZE, **more), [state_of(tokens, SIZE)], can_cut=can_cut)
    folder.flush(10)


def files(folder: SnapshotFolder) -> list[Path]:
    return sorted(folder.path.glob("*.snapshot"))


def held(folder: SnapshotFolder) -> list[list[int]]:
    return sorted(list(entry.tokens) for entry in folder.entries)


def look(folder: SnapshotFolder) -> bool:
    looking = folder.look()
    assert looking is not None
    return looking.result(10)


def entry_of(folder: SnapshotFolder, tokens: list[int]) -> FolderEntry:
    return next(entry for entry in folder.entries if list(entry.tokens) == tokens)


def test_snapshot_is_found_and_read_when_the_folder_is_opened_again(open_folder: Open):
    put(open_folder(), [1, 2, 3], chat_id="a")
    again = open_folder()
    [entry] = again.entries
    assert (entry.keys, entry.chat_id, list(entry.tokens)) == (KEYS, "a", [1, 2, 3])
    content = again.read(entry).result(10).content
    assert content is not None
    assert content.state == state_of([1, 2, 3], SIZE)
    assert again.has(KEYS, (), [1, 2, 3], can_cut=False)


def test_only_the_user_can_read_it_when_a_snapshot_is_written(open_folder: Open):
    folder = open_folder()
    put(folder, [1, 2, 3])
    modes = [path.stat().st_mode & 0o777 for path in (folder.path, *folder.path.iterdir())]
    assert modes == [0o700, 0o600, 0o600, 0o600] or os.name != "posix", "the lock and the key are among them"


def test_nothing_is_written_twice_when_the_same_is_handed_over_again(open_folder: Open):
    folder = open_folder()
    for _ in range(3):
        put(folder, [1, 2, 3])
    assert len(files(folder)) == 1


@pytest.mark.parametrize("can_cut", [True, False])
@pytest.mark.parametrize("chat_id", ["chat", "other"])
def test_beginning_makes_way_when_what_goes_on_from_it_is_written(can_cut: bool, chat_id: str, open_folder: Open):
    folder = open_folder()
    put(folder, [1, 2, 3], chat_id="chat", can_cut=can_cut)
    put(folder, [1, 2, 3, 4], chat_id=chat_id, can_cut=can_cut)
    put(folder, [1, 2, 9], can_cut=can_cut)
    is_needless = can_cut or chat_id == "chat"
    assert held(folder) == [*([] if is_needless else [[1, 2, 3]]), [1, 2, 3, 4], [1, 2, 9]]
    assert len(files(folder)) == len(held(folder))
    assert open_folder().has(KEYS, (), [1, 2, 3], can_cut=can_cut) == (can_cut or not is_needless)


@pytest.mark.parametrize(
    "more", [{"model": "n"}, {"settings": "t"}, {"adapters": (("a", 1.0),)}], ids=["model", "settings", "adapters"]
)
def test_beginning_stays_when_something_else_computed_it(more: dict, open_folder: Open):
    folder = open_folder()
    put(folder, [1, 2, 3])
    put(folder, [1, 2, 3, 4], **more)
    assert held(folder) == [[1, 2, 3], [1, 2, 3, 4]]
    assert not folder.has(KEYS, (), [1, 2, 3, 4], can_cut=True)


def test_what_was_used_longest_ago_goes_when_the_limit_is_reached(open_folder: Open):
    folder = open_folder(max_bytes=3 * SIZE + 2000)
    for number in (1, 2, 3):
        put(folder, [number, 0, 0])
    for age, number in enumerate((2, 3, 1)):
        os.utime(folder.path / entry_of(folder, [number, 0, 0]).name, (1000 + age, 1000 + age))
    folder.read(entry_of(folder, [2, 0, 0])).result(10)
    put(folder, [4, 0, 0])
    assert held(folder) == [[1, 0, 0], [2, 0, 0], [4, 0, 0]]
    assert sum(path.stat().st_size for path in files(folder)) <= folder.max_bytes


@pytest.mark.parametrize("limit", [0, SIZE // 2])
def test_nothing_is_written_when_it_is_larger_than_the_limit(limit: int, open_folder: Open):
    folder = open_folder(max_bytes=limit)
    put(folder, [1, 2, 3])
    assert held(folder) == []
    assert files(folder) == []


def test_files_go_when_the_folder_is_opened_with_a_smaller_limit(open_folder: Open):
    first = open_folder()
    for number in range(4):
        put(first, [number, 0, 0])
    smaller = open_folder(max_bytes=2 * SIZE + 1000)
    assert len(smaller.entries) == len(files(smaller)) == 2
    assert open_folder(max_bytes=0).entries == []


def test_limit_is_a_share_of_the_disk_when_none_is_set(open_folder: Open, monkeypatch: pytest.MonkeyPatch):
    class Usage:
        free = 100 << 30

    folder = open_folder(max_bytes=None)
    assert folder.entries == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage)
    look(folder)
    assert folder.max_bytes == 5 << 30
    Usage.free = 1000 << 30
    look(folder)
    assert folder.max_bytes == 8 << 30


@pytest.mark.parametrize("place", [0, 9, 30, 100, -1000, -2], ids=str)
def test_file_is_discarded_when_it_is_damaged(place: int, open_folder: Open):
    folder = open_folder()
    put(folder, [1, 2, 3])
    entry = folder.entries[0]
    data = bytearray((folder.path / entry.name).read_bytes())
    data[place] ^= 0x10
    (folder.path / entry.name).write_bytes(data)
    read = folder.read(entry).result(10)
    assert read.content is None
    assert read.fault in (FileFault.DAMAGED, FileFault.FOREIGN)
    assert held(folder) == files(folder) == []


@pytest.mark.parametrize("what", ["torn", "foreign", "renamed"])
def test_file_is_discarded_when_the_folder_is_looked_through(what: str, open_folder: Open):
    first = open_folder()
    put(first, [1, 2, 3])
    put(first, [7, 8, 9])
    path = first.path / entry_of(first, [1, 2, 3]).name
    match what:
        case "torn":
            path.write_bytes(path.read_bytes()[:-10])
        case "foreign":
            path.write_bytes(b"something else altogether, and long enough")
        case "renamed":
            path.rename(path.with_name("0" * 40 + ".snapshot"))
    again = open_folder()
    assert held(again) == [[7, 8, 9]]
    assert len(files(again)) == 1


def test_other_files_stay_when_the_folder_is_looked_through_and_cleared(open_folder: Open):
    folder = open_folder()
    put(folder, [1, 2, 3])
    (folder.path / "notes.txt").write_text("mine")
    folder.clear()
    assert held(folder) == []
    folder.flush(10)
    assert files(folder) == []
    assert (folder.path / "notes.txt").exists()


def test_file_is_a_miss_when_another_process_has_deleted_it(open_folder: Open):
    folder, other = open_folder(), open_folder()
    put(folder, [1, 2, 3])
    entry = folder.entries[0]
    other.clear()
    other.flush(10)
    assert folder.read(entry).result(10).fault is FileFault.GONE
    assert held(folder) == []


def test_chat_is_gone_when_it_is_forgotten_while_it_waits_to_be_written(open_folder: Open):
    folder = open_folder()
    put(folder, [1, 2, 3], chat_id="a")
    put(folder, [4, 5, 6], chat_id="b")
    with folder_lock(folder.path / "lock", wait_s=1) as has_it:
        assert has_it
        folder.write(header_of([1, 2, 3, 4], num_bytes=SIZE, chat_id="a"), [state_of([1, 2, 3, 4], SIZE)], can_cut=True)
        folder.forget(["a"])
    folder.flush(10)
    assert held(folder) == [[4, 5, 6]]
    assert len(files(folder)) == 1


@pytest.mark.allow_log("a snapshot could not be written")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_nothing_is_left_and_the_next_is_written_when_the_disk_refuses(
    code: int, open_folder: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    folder = open_folder()

    def refuse(file, header, body, may_go_on):
        file.write(b"a part")
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(snapshot_folder, "write_snapshot", refuse)
        put(folder, [1, 2, 3])
    assert sorted(path.name for path in folder.path.iterdir()) == ["key", "lock"]
    assert os.strerror(code) in caplog.text
    put(folder, [1, 2, 3])
    assert held(folder) == [[1, 2, 3]]


def test_nothing_is_written_when_the_disk_is_nearly_full(open_folder: Open, monkeypatch: pytest.MonkeyPatch):
    class Usage:
        free = 10 << 20

    folder = open_folder()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage)
    put(folder, [1, 2, 3])
    assert files(folder) == []


@pytest.mark.allow_log("the folder of the prompt cache cannot be used")
def test_nothing_is_kept_when_the_folder_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "file").write_text("in the way")
    folder = SnapshotFolder(tmp_path / "file", max_bytes=None)
    put(folder, [1, 2, 3])
    assert folder.entries == []
    folder.close(5)
    assert "cannot be used" in caplog.text


def test_leftovers_go_and_what_is_being_written_stays_when_another_process_opens_the_folder(open_folder: Open):
    first = open_folder()
    put(first, [1, 2, 3])
    left, live = first.path / "left.part", first.path / "live.part"
    left.write_bytes(b"half")
    with live.open("wb") as file:
        assert try_lock(file.fileno())
        assert held(open_folder()) == [[1, 2, 3]]
        assert not left.exists()
        assert live.exists()


def test_both_keep_what_they_wrote_when_two_share_a_folder(open_folder: Open):
    folders = [open_folder(), open_folder()]
    for number in range(20):
        tokens = [number, number % 3, 1]
        header = header_of(tokens, num_bytes=SIZE, chat_id=str(number))
        folders[number % 2].write(header, [state_of(tokens, SIZE)], can_cut=True)
    for folder in folders:
        folder.flush(20)
    third = open_folder()
    assert len(third.entries) == 20
    for entry in third.entries:
        content = third.read(entry).result(10).content
        assert content is not None
        assert content.state == state_of(list(entry.tokens), SIZE)


def test_file_is_written_again_when_another_process_took_it_for_a_leftover(open_folder: Open, monkeypatch):
    folder = open_folder()
    taken: list[Path] = []
    commit = folder._commit

    def commit_late(part: Path, *arguments: Any, **more: Any) -> None:
        if not taken:
            taken.append(part)
            part.unlink()
        commit(part, *arguments, **more)

    monkeypatch.setattr(folder, "_commit", commit_late)
    header = header_of([1, 2, 3], num_bytes=SIZE, chat_id="c")
    folder.write(header, [state_of([1, 2, 3], SIZE)], can_cut=True)
    folder.flush(20)
    assert len(taken) == 1
    assert len(folder.entries) == 1


def check_kills(folder: Path, num_kills: int) -> None:
    """Kill a process that writes, at moments that differ, and look at what it leaves."""
    command = [sys.executable, "-m", "tests.unit.engine.snapshot_writers", str(folder)]
    for number in range(num_kills):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(0.002 + 0.0137 * number % 0.11)
            except subprocess.TimeoutExpired:
                process.kill()
        for path in folder.glob("*.snapshot"):
            content = read_snapshot(path)
            assert content.state == state_of(list(content.header.token_ids()))
        left = SnapshotFolder(folder, max_bytes=1 << 30)
        assert len(left.entries) == len(list(folder.glob("*.snapshot")))
        left.close(5)
        assert list(folder.glob("*.part")) == []


def test_every_file_is_whole_when_the_writing_process_is_killed(tmp_path: Path):
    check_kills(tmp_path / "cache", 4)


def test_writing_ends_in_time_when_the_folder_is_closed(tmp_path: Path):
    folder = SnapshotFolder(tmp_path / "cache", max_bytes=1 << 30)
    folder.set_calm(False)
    for number in range(50):
        folder.write(header_of([number, 1, 2], num_bytes=SIZE), [state_of([number, 1, 2], SIZE)], can_cut=True)
    folder.close(0.0)
    assert not folder.is_writing
    for path in (tmp_path / "cache").glob("*.snapshot"):
        read_snapshot(path)
    assert list((tmp_path / "cache").glob("*.part")) == []


def test_error_says_what_is_wrong_when_a_file_is_refused():
    assert str(SnapshotFileError(FileFault.DAMAGED, "chunk 3")) == "damaged: chunk 3"
