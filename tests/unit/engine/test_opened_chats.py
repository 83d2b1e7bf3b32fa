"""Chats that are opened one after the other: only the last one's file is still read."""

import concurrent.futures
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.coming_back import Reading
from engine.core import Engine
from engine.folder_entry import FolderEntry
from engine.metrics import CacheSource
from engine.params import CacheParams, SamplingParams
from engine.prompt_cache import PromptCache
from engine.sequence import Prompt
from tests.unit.engine.fake_engine import alone, finished, make_backend, make_prompt, reply, run


def chat(name: str) -> Prompt:
    return make_prompt(name, f"tell me everything about the sea and its tides, says {name}", chat_id=name)


class SlowReader:
    """Reads files when the test lets it."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = engine.room._prompt_cache.folder
        assert folder is not None
        self._read = folder._read
        self.asked: list[tuple[FolderEntry, Reading]] = []
        monkeypatch.setattr(folder, "read", self._take)

    def _take(self, entry: FolderEntry) -> Reading:
        reading: Reading = concurrent.futures.Future()
        self.asked.append((entry, reading))
        return reading

    def go_on(self) -> list[str]:
        """Read what is still wanted; return whose files those were."""
        wanted = [(entry, reading) for entry, reading in self.asked if reading.set_running_or_notify_cancel()]
        for entry, reading in wanted:
            reading.set_result(self._read(entry))
        return [entry.chat_id for entry, _ in wanted]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine with three chats on disk."""
    kept = PromptCache(CacheParams(ram_mib=64, disk_mib=64, folder=str(tmp_path / "cache")))
    first = Engine(make_backend(), prompt_cache=kept)
    for name in "abc":
        reply(first, chat(name))
    first.close()
    assert kept.folder is not None
    kept.folder.flush(10)
    engine = Engine(make_backend(), prompt_cache=kept)
    yield engine
    engine.close()
    kept.close()


def test_only_the_last_is_read_when_chats_are_opened_one_after_the_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    reader = SlowReader(engine, monkeypatch)
    for name in "abcc":
        engine.room.opened.open(name)
    assert reader.go_on() == ["c"]


def test_opened_file_is_read_no_more_when_another_chat_goes_on(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    reader = SlowReader(engine, monkeypatch)
    engine.room.opened.open("a")
    events = engine.add(chat("b"))
    assert reader.go_on() == ["b"]
    assert finished(events + run(engine))["b"].text == alone(chat("b")).text


def test_opened_file_is_read_no_more_when_its_chat_is_forgotten(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    reader = SlowReader(engine, monkeypatch)
    engine.room.opened.open("a")
    engine.forget(["a"])
    assert reader.go_on() == []


def test_prompt_is_read_when_the_disk_does_not_answer(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    reader = SlowReader(engine, monkeypatch)
    monkeypatch.setattr("engine.file_reads._LEAST_DISK_WAIT_S", 0.0)
    answer = reply(engine, chat("a"))
    assert answer.text == alone(chat("a")).text
    assert answer.metrics.cache_source is CacheSource.NONE
    assert reader.go_on() == [], "nobody waits for it any more"


def test_file_is_left_alone_when_the_context_is_too_small_for_it(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    small = Engine(make_backend(n_ctx=128, n_seq_max=1), prompt_cache=engine.room._prompt_cache)
    assert len(small.room._prompt_cache.describe()) == 3
    reader = SlowReader(small, monkeypatch)
    small.room.opened.open("a")
    reply(small, chat("a")._replace(sampling=SamplingParams(max_tokens=5)))
    assert reader.asked == [], "it would be read, and find no room, with each message"
    small.close()
