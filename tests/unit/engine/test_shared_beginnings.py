"""Beginnings that belong to no chat: they outlive the chat that had them read, and nothing private is among them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cache_commands import obey
from engine.core import Engine
from engine.messages import ForgetChats, ForgetNamed
from engine.metrics import CacheSource
from engine.params import CacheParams
from engine.prompt_cache import PromptCache
from tests.unit.engine.fake_engine import make_backend, make_prompt, reply, step_until
from tests.unit.engine.test_preparing import BEGINNING, MEMORIES, POLICY, preparation, prepare, question

FORGET_A = ForgetChats(chat_ids=("a",))


class Started:
    """Engines one after the other on one folder."""

    def __init__(self, folder: Path) -> None:
        self.params = CacheParams(ram_mib=64, disk_mib=64, folder=str(folder))
        self._open: list[tuple[Engine, PromptCache]] = []

    def start(self, memory: str = "", **params: int) -> tuple[Engine, PromptCache]:
        """Start another one; the one before has ended."""
        self.close()
        kept = PromptCache(self.params)
        engine = Engine(make_backend(memory, **params), prompt_cache=kept)
        self._open.append((engine, kept))
        return engine, kept

    def close(self) -> None:
        """End the last one."""
        for engine, kept in self._open:
            engine.close()
            kept.close()
        self._open = []


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path / "cache")
    yield started
    started.close()


def flush(kept: PromptCache) -> list[tuple[str, str | None]]:
    """Wait for the disk, and return names and chats of the files."""
    assert kept.folder is not None
    kept.folder.flush(10)
    return sorted((entry.name, entry.chat_id) for entry in kept.describe())


@MEMORIES
def test_document_is_reused_when_the_chat_that_asked_first_is_forgotten(memory: str, started: Started) -> None:
    engine, kept = started.start(memory)
    prepare(engine, preparation())
    reply(engine, question("q", chat_id="a"))
    engine.room.saver.save_all()
    obey(FORGET_A, kept, engine)
    assert flush(kept) == [("policy.md", None)]
    engine, kept = started.start(memory)
    answer = reply(engine, question("q2", "another question", chat_id="b"))
    assert (answer.metrics.cache_source, answer.metrics.num_cached_tokens) == (CacheSource.DISK, len(BEGINNING))


def test_file_of_a_chat_becomes_one_of_nobody_when_it_is_read_for_all(started: Started) -> None:
    engine, kept = started.start()
    assert prepare(engine, preparation(chat_id="a")).is_for_disk
    assert flush(kept) == [("policy.md", "a")]
    assert prepare(engine, preparation("p2")).is_for_disk
    assert flush(kept) == [("policy.md", None)]
    assert prepare(engine, preparation("p3", chat_id="a")).is_for_disk
    obey(FORGET_A, kept, engine)
    assert flush(kept) == [("policy.md", None)]
    obey(ForgetNamed(names=("policy.md",)), kept, engine)
    assert flush(kept) == []


@pytest.mark.parametrize("is_first", [True, False], ids=["private first", "private last"])
def test_private_chat_neither_writes_nor_takes_away_when_it_reads_the_same(is_first: bool, started: Started) -> None:
    engine, kept = started.start()
    shared, private = preparation(), preparation("p2", chat_id="a", is_private=True)
    for wanted in (private, shared) if is_first else (shared, private):
        assert prepare(engine, wanted).is_for_disk is not wanted.prompt.is_private
        assert len(flush(kept)) == (wanted is shared or not is_first)
    obey(FORGET_A, kept, engine)
    assert flush(kept) == [("policy.md", None)]
    assert [entry.chat_id for entry in engine.room.describe() if entry.name] == [None]


def test_document_is_nobodys_when_a_private_chat_read_on_in_its_slot(started: Started) -> None:
    engine, kept = started.start(n_ubatch=64, n_batch=64, n_seq_max=1)
    events = engine.idle.preparations.add(preparation())
    step_until(engine, events, lambda: len(events) > 3)
    events = engine.add(make_prompt("r", POLICY, chat_id="a")._replace(is_private=True))
    step_until(engine, events, lambda: len(events) > 3)
    engine.request_abort("r")
    step_until(engine, events, lambda: not engine.has_work)
    obey(FORGET_A, kept, engine)
    assert flush(kept) == [("policy.md", None)]
