"""When chats go to disk: each once, whatever the disk and its limit have room for."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import snapshot_folder
from engine.cache_commands import obey
from engine.core import Engine
from engine.messages import ClearCache, ForgetChats
from engine.params import CacheParams
from engine.prompt_cache import PromptCache
from tests.unit.engine.fake_engine import make_backend, make_prompt, reply

TEXT = "tell me everything about number {} of the many things that nobody has asked about yet"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine that writes as soon as it is idle."""
    monkeypatch.setattr("engine.chat_saver._IDLE_S", 0.0)
    monkeypatch.setattr("engine.chat_saver._WRITER_BUSY_S", 0.0)
    kept = PromptCache(CacheParams(ram_mib=64, disk_mib=64, folder=str(tmp_path / "cache")))
    engine = Engine(make_backend(), prompt_cache=kept)
    yield engine
    engine.close()
    kept.close()


def num_rests(engine: Engine) -> int:
    """Rest until nothing is left to write; return how often."""
    folder = engine.room._prompt_cache.folder
    assert folder is not None
    for count in range(20):
        if engine.room.saver.rest_s is None:
            return count
        engine.room.saver.rest()
        folder.flush(10)
    raise AssertionError("there is always something to write")


def reply_to(engine: Engine, number: int) -> None:
    reply(engine, make_prompt(f"r{number}", TEXT.format(number), chat_id=f"c{number}"))


def limit_to(num_bytes: int) -> Callable[[Engine, pytest.MonkeyPatch], None]:
    def set_limit(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = engine.room._prompt_cache.folder
        assert folder is not None
        folder.set_max_bytes(num_bytes)

    return set_limit


def refuse(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> bool:
        raise OSError("no quota")

    monkeypatch.setattr(snapshot_folder, "write_snapshot", write)


def fill_disk(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage)


@pytest.mark.allow_log("a snapshot could not be written")
@pytest.mark.parametrize(
    "hinder",
    [limit_to(100), limit_to(2500), refuse, fill_disk],
    ids=["limit below one", "limit below all", "disk refuses", "disk is full"],
)
def test_each_chat_is_handed_over_once_when_the_disk_cannot_hold_them_all(
    hinder: Callable[[Engine, pytest.MonkeyPatch], None], engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    hinder(engine, monkeypatch)
    for number in range(4):
        reply_to(engine, number)
    assert num_rests(engine) <= 5, "one for each, and one that finds nothing"


def test_chat_is_written_again_when_its_file_was_discarded(engine: Engine):
    reply_to(engine, 0)
    num_rests(engine)
    folder = engine.room._prompt_cache.folder
    assert folder is not None
    [entry] = folder.entries
    folder.discard(entry.name, "it is damaged")
    engine.room.saver.note_end()
    num_rests(engine)
    assert [entry.chat_id for entry in folder.entries] == ["c0"]


def test_what_is_being_written_goes_on_when_the_limit_changes(engine: Engine, tmp_path: Path):
    kept = engine.room._prompt_cache
    folder = kept.folder
    for number in range(4):
        reply_to(engine, number)
    num_rests(engine)
    kept.set_params(CacheParams(ram_mib=64, disk_mib=None, folder=str(tmp_path / "cache")))
    assert kept.folder is folder, "closing it would keep running replies waiting"
    assert folder is not None
    folder.flush(10)
    assert len(folder.entries) == 4
    folder.set_max_bytes(2500)
    folder.flush(10)
    assert 0 < sum(entry.num_bytes for entry in folder.entries) <= 2500


def test_refused_chat_is_written_when_the_limit_was_raised(engine: Engine):
    folder = engine.room._prompt_cache.folder
    assert folder is not None
    folder.set_max_bytes(100)
    reply_to(engine, 0)
    num_rests(engine)
    assert folder.entries == []
    folder.set_max_bytes(1 << 20)
    engine.room.saver.note_end()
    num_rests(engine)
    assert [entry.chat_id for entry in folder.entries] == ["c0"]


@pytest.mark.parametrize("is_all", [False, True])
def test_chat_is_written_again_when_it_goes_on_after_it_was_forgotten(is_all: bool, engine: Engine):
    kept = engine.room._prompt_cache
    assert kept.folder is not None
    for _ in range(2):
        reply_to(engine, 0)
        num_rests(engine)
        assert [entry.chat_id for entry in kept.folder.entries] == ["c0"]
        obey(ClearCache(request_id="x") if is_all else ForgetChats(chat_ids=("c0",)), kept, engine)
        assert kept.folder.entries == []
