"""Copies of states outside the context: none is made, or read from a file, where memory is short."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import prompt_cache
from engine.core import Engine
from engine.free_memory import FreeMemory, has_memory
from engine.metrics import CacheMissCause, CacheSource
from engine.params import CacheParams
from engine.prompt_cache import PromptCache
from tests.unit.engine.fake_engine import alone, make_backend, make_prompt, reply

CHAT = make_prompt("a", "tell me everything about the sea and its tides, and whatever lives in it", chat_id="a")
SHORT = FreeMemory(100)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[PromptCache]:
    kept = PromptCache(CacheParams(ram_mib=64, disk_mib=64, folder=str(tmp_path / "cache")))
    yield kept
    kept.close()


def written(kept: PromptCache) -> list[str | None]:
    assert kept.folder is not None
    kept.folder.flush(10)
    return [entry.chat_id for entry in kept.describe()]


def test_no_chat_is_copied_when_memory_is_short(kept: PromptCache, monkeypatch: pytest.MonkeyPatch):
    engine = Engine(make_backend(n_seq_max=1), prompt_cache=kept)
    reply(engine, CHAT)
    with monkeypatch.context() as patched:
        patched.setitem(has_memory.__globals__, "free_memory", lambda: SHORT)
        engine.room.saver.save_all()
        assert written(kept) == []
    engine.close()
    assert written(kept) == ["a"]


@pytest.mark.parametrize("is_opened", [False, True])
def test_no_file_is_read_when_memory_is_short(is_opened: bool, kept: PromptCache, monkeypatch: pytest.MonkeyPatch):
    engine = Engine(make_backend(), prompt_cache=kept)
    reply(engine, CHAT)
    engine.close()
    assert written(kept) == ["a"]
    engine = Engine(make_backend(), prompt_cache=kept)
    monkeypatch.setitem(has_memory.__globals__, "free_memory", lambda: SHORT)
    if is_opened:
        engine.room.opened.open("a")
    answer = reply(engine, CHAT)
    assert answer.metrics.cache_source is CacheSource.NONE
    assert answer.text == alone(CHAT).text
    engine.close()


def test_limit_is_a_quarter_of_what_this_process_may_take(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prompt_cache, "free_memory", lambda: FreeMemory(4000))
    assert PromptCache(CacheParams()).ram_bytes() == 1000, "a control group's limit counts, as for the model itself"


@pytest.mark.parametrize("memory", ["", "can_trim=0", "window=8"], ids=["plain", "recurrent", "window"])
def test_chat_is_read_again_when_a_state_holds_less_than_its_tokens(memory: str, kept: PromptCache):
    engine = Engine(make_backend(memory, n_seq_max=1), prompt_cache=kept)
    reply(engine, CHAT)
    reply(engine, make_prompt("b", "tell me everything about bread, and how it rises in the oven", chat_id="b"))
    [entry] = [entry for entry in engine.room._store.entries if entry.chat_id == "a"]
    entry.snapshot.state = entry.snapshot.state[:-4]  # the last token
    again = reply(engine, CHAT._replace(request_id="again"))
    assert again.text == alone(CHAT, memory).text
    assert again.metrics.cache_miss_cause is CacheMissCause.DAMAGED
    engine.close()
