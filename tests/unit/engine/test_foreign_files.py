"""Files that somebody else has put into the folder of the prompt cache: whatever they say, they are not read."""

from pathlib import Path

import msgspec
import pytest

from engine.backend import StateKeys
from engine.core import Engine
from engine.folder_entry import file_name_of
from engine.metrics import CacheMissCause, CacheSource
from engine.params import CacheParams
from engine.prompt_cache import PromptCache
from engine.response_file import KeptReply, reply_bytes
from engine.response_folder import ResponseFolder
from engine.snapshot_file import SnapshotHeader, read_snapshot, write_snapshot
from engine.snapshot_folder import SnapshotFolder
from tests.unit.engine.fake_engine import alone, make_backend, make_prompt, reply
from tests.unit.engine.reply_writers import reply_of
from tests.unit.engine.snapshot_writers import header_of, state_of

WORDS = "tell me everything about the sea and its tides, and whatever lives in it"
CHAT = make_prompt("a", WORDS, chat_id="a")
MORE = make_prompt("b", WORDS, "x", "and more", chat_id="a")


def params(folder: Path) -> CacheParams:
    return CacheParams(ram_mib=0, disk_mib=64, folder=str(folder))


def write_foreign(folder: Path, header: SnapshotHeader, state: bytes) -> Path:
    """Write a file with all checksums right, as anybody can."""
    name = file_name_of(StateKeys(header.model, header.settings), header.adapters, header.tokens)
    path = folder / f"{name}.snapshot"
    with path.open("wb") as file:
        assert write_snapshot(file, header, [state, *(b"" for _ in header.checkpoints)])
    return path


def written(folder: Path) -> Path:
    """Return the file of a chat that this program has written."""
    kept = PromptCache(params(folder))
    engine = Engine(make_backend(), prompt_cache=kept)
    reply(engine, CHAT)
    engine.close()
    kept.close()
    [path] = folder.glob("*.snapshot")
    return path


@pytest.mark.parametrize("mac", [b"", b"x" * 16, None], ids=["none", "any", "of another folder"])
def test_file_is_a_miss_with_its_cause_when_somebody_else_has_written_it(mac: bytes | None, tmp_path: Path):
    other = read_snapshot(written(tmp_path / "other"))
    mine = written(tmp_path / "mine")
    header = other.header if mac is None else msgspec.structs.replace(other.header, mac=mac)
    mine.unlink()
    foreign = write_foreign(mine.parent, header, b"\xff" * header.num_state_bytes)
    kept = PromptCache(params(mine.parent))
    engine = Engine(make_backend(), prompt_cache=kept)
    answer = reply(engine, MORE)
    assert answer.text == alone(MORE).text
    assert answer.metrics.cache_source is CacheSource.NONE
    assert answer.metrics.cache_miss_cause is CacheMissCause.DAMAGED
    assert not foreign.exists()
    engine.close()
    kept.close()


def test_file_is_not_read_when_it_was_exchanged_after_it_was_found(tmp_path: Path):
    folder = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    folder.write(header_of([1, 2], num_bytes=8), [state_of([1, 2], 8)], can_cut=True)
    folder.flush(10)
    [entry] = folder.entries
    path = write_foreign(tmp_path, header_of([1, 2], num_bytes=8), b"\xff" * 8)
    assert folder.read(entry).result(10).content is None
    assert not path.exists()
    folder.close(10)


def test_files_are_found_again_by_every_process_when_one_has_made_the_key(tmp_path: Path):
    folders = [SnapshotFolder(tmp_path, max_bytes=1 << 30) for _ in range(2)]
    for number, folder in enumerate(folders):
        folder.write(header_of([number, 7], num_bytes=8), [state_of([number, 7], 8)], can_cut=True)
        folder.close(10)
    again = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    assert sorted(list(entry.tokens) for entry in again.entries) == [[0, 7], [1, 7]]
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    again.close(10)


@pytest.mark.parametrize("key", [b"", b"short", b"long" * 9], ids=["empty", "short", "long"])
def test_folder_begins_anew_when_its_key_is_damaged(key: bytes, tmp_path: Path):
    first = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    first.write(header_of([1, 2], num_bytes=8), [state_of([1, 2], 8)], can_cut=True)
    first.close(10)
    (tmp_path / "key").write_bytes(key)
    again = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    assert again.entries == []
    again.write(header_of([3, 4], num_bytes=8), [state_of([3, 4], 8)], can_cut=True)
    again.close(10)
    third = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    assert [list(entry.tokens) for entry in third.entries] == [[3, 4]]
    third.close(10)


@pytest.mark.allow_log("cannot be used")
def test_nothing_is_written_when_there_can_be_no_key(tmp_path: Path):
    (tmp_path / "key").mkdir()
    folder = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    folder.set_max_bytes(1 << 30)
    folder.write(header_of([1, 2], num_bytes=8), [state_of([1, 2], 8)], can_cut=True)
    folder.close(10)
    assert not list(tmp_path.glob("*.snapshot"))


def test_reply_is_not_believed_when_somebody_else_has_written_it(tmp_path: Path):
    found: list[KeptReply] = []
    (tmp_path / "key1.reply").write_bytes(reply_bytes(reply_of(1)))
    folder = ResponseFolder(tmp_path, max_bytes=1 << 20, on_read=found.append)
    assert folder.is_read(10)
    folder.close(10)
    assert (found, list(tmp_path.glob("*.reply"))) == ([], [])
