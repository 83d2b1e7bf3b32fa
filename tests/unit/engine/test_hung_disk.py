"""A disk that does not answer keeps no reply waiting: what is deleted is deleted on another thread."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import response_folder
from engine.core import Engine
from engine.params import CacheParams
from engine.prompt_cache import PromptCache
from engine.snapshot_folder import SnapshotFolder
from tests.unit.engine.fake_engine import make_backend, make_prompt, reply
from tests.unit.engine.snapshot_writers import header_of, state_of


class HungDisk:
    """Deletes nothing until it is told to answer; knows which threads have asked."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked = threading.Event()
        self.threads: set[str] = set()

    def hang(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def late(*arguments: Any, **more: Any) -> Any:
            self.threads.add(threading.current_thread().name)
            self.asked.set()
            assert self.answers.wait(20)
            return call(*arguments, **more)

        return late


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[HungDisk]:
    disk = HungDisk()
    monkeypatch.setattr(Path, "unlink", disk.hang(Path.unlink))
    yield disk
    disk.answers.set()


def put(folder: SnapshotFolder, tokens: list[int], chat_id: str, num_bytes: int = 8) -> None:
    header = header_of(tokens, num_bytes=num_bytes, chat_id=chat_id)
    folder.write(header, [state_of(tokens, num_bytes)], can_cut=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[SnapshotFolder]:
    folder = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    for number, chat_id in enumerate("ab"):
        put(folder, [number, 1], chat_id)
    folder.flush(10)
    yield folder
    folder.close(10)


ACTS: dict[str, Callable[[SnapshotFolder], None]] = {
    "discard": lambda folder: folder.discard(folder.entries[0].name, "it is of no use"),
    "forget": lambda folder: folder.forget(["a"]),
    "forget named": lambda folder: folder.forget_named(["n"]),
    "clear": lambda folder: folder.clear(),
    "limit": lambda folder: folder.set_max_bytes(0),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_engine_goes_on_at_once_when_the_disk_deletes_nothing(
    act: Callable[[SnapshotFolder], None], folder: SnapshotFolder, disk: HungDisk
):
    act(folder)
    assert threading.current_thread().name not in disk.threads
    is_told = threading.Event()
    folder.when_forgotten(is_told.set)
    disk.answers.set()
    assert is_told.wait(10)


def test_nothing_is_said_to_be_forgotten_when_its_file_is_still_there(folder: SnapshotFolder, disk: HungDisk):
    folder.forget(["a"])
    assert [entry.chat_id for entry in folder.entries] == ["b"], "it is not used any more"
    is_told = threading.Event()
    folder.when_forgotten(is_told.set)
    assert disk.asked.wait(10)
    assert not is_told.is_set()
    disk.answers.set()
    assert is_told.wait(10)
    assert len(list(folder.path.glob("*.snapshot"))) == 1


def test_chat_goes_before_the_next_chunk_when_something_long_is_being_written(folder: SnapshotFolder):
    folder.set_calm(False)  # a chunk in a quarter of a second: a minute for all
    put(folder, [7, 7, 7], "c", num_bytes=64 << 20)
    folder.forget(["a"])
    is_gone = threading.Event()
    folder.when_forgotten(is_gone.set)
    assert is_gone.wait(10)
    assert [entry.chat_id for entry in folder.entries] == ["b"]
    folder.forget(["c"])


def test_writing_ends_at_the_next_chunk_when_its_chat_is_forgotten(folder: SnapshotFolder):
    folder.set_calm(False)
    put(folder, [7, 7, 7], "c", num_bytes=64 << 20)
    folder.forget(["c"])
    is_gone = threading.Event()
    folder.when_forgotten(is_gone.set)
    assert is_gone.wait(10)
    folder.flush(10)
    assert not folder.is_writing
    assert sorted(path.suffix for path in folder.path.iterdir() if path.suffix) == [".gone", ".snapshot", ".snapshot"]


def test_reply_comes_when_the_disk_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: HungDisk):
    kept = PromptCache(CacheParams(ram_mib=64, disk_mib=64, folder=str(tmp_path / "cache"), responses=True))
    engine = Engine(make_backend(), prompt_cache=kept)
    monkeypatch.setattr(response_folder.ResponseFolder, "_delete", disk.hang(response_folder.ResponseFolder._delete))
    reply(engine, make_prompt("a", "tell me everything about the sea and its tides", chat_id="a"))
    kept.forget(["a"])
    assert reply(engine, make_prompt("b", "tell me something else", chat_id="b")).text
    disk.answers.set()
    engine.close()
    kept.close()
