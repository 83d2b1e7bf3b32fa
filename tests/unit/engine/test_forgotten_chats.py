"""What is to be written nowhere, or no longer, is not, whatever its request is doing at that moment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import cache_commands, snapshot_folder
from engine.core import Engine
from engine.folder_lock import folder_lock
from engine.messages import Finished, ForgetChats
from engine.metrics import CacheSource
from engine.params import CacheParams
from engine.prompt_cache import PromptCache
from engine.sequence import Prompt
from engine.snapshot_file import read_header
from engine.snapshot_folder import SnapshotFolder
from tests.unit.engine.fake_engine import alone, finished, make_backend, make_prompt, reply, run, states, step_until
from tests.unit.engine.snapshot_writers import header_of, state_of

POOL = 512
TOPIC = "tell me everything about the sea and its tides, and about whatever lives in it, in many words"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[PromptCache]:
    kept = PromptCache(CacheParams(ram_mib=64, disk_mib=64, folder=str(tmp_path / "cache")))
    yield kept
    kept.close()


def chat(name: str, *, is_private: bool = False) -> Prompt:
    return make_prompt(name, f"{TOPIC}, says {name}", chat_id=name)._replace(is_private=is_private)


def forget(engine: Engine, kept: PromptCache, *chat_ids: str) -> None:
    cache_commands.obey(ForgetChats(chat_ids=chat_ids), kept, engine)


def written(engine: Engine, kept: PromptCache) -> set[str | None]:
    """Return which chats are on disk when the model has gone."""
    engine.close()
    assert kept.folder is not None
    kept.folder.flush(10)
    return {entry.chat_id for entry in kept.describe()}


def pause_one(engine: Engine, *prompts: Prompt) -> tuple[list, str]:
    """Run requests until one of them is paused; return the events and which it is."""
    events = [event for prompt in prompts for event in engine.add(prompt)]

    def paused() -> list[str]:
        return [prompt.request_id for prompt in prompts if states(events, prompt.request_id)[-1:] == ["paused"]]

    step_until(engine, events, lambda: bool(paused()))
    return events, paused()[0]


@pytest.mark.parametrize("is_private", [False, True])
def test_chat_keeps_its_owner_when_its_reply_was_paused(is_private: bool, kept: PromptCache):
    engine = Engine(make_backend("n_words=60", n_ctx=POOL, n_seq_max=3), prompt_cache=kept)
    prompts = [chat(name, is_private=is_private) for name in ("a", "b")]
    events, paused = pause_one(engine, *prompts)
    answer: Finished = finished(events + run(engine))[paused]
    assert answer.text == alone(chat(paused), "n_words=60", n_ctx=POOL).text
    assert paused in {entry.chat_id for entry in engine.room.describe()}
    assert written(engine, kept) == (set() if is_private else {"a", "b"})


def test_nothing_is_written_when_a_chat_is_forgotten_while_its_reply_is_paused(kept: PromptCache):
    engine = Engine(make_backend("n_words=60", n_ctx=POOL, n_seq_max=3), prompt_cache=kept)
    events, paused = pause_one(engine, chat("a"), chat("b"))
    forget(engine, kept, paused)
    assert len(finished(events + run(engine))) == 2
    assert written(engine, kept) == {"a", "b"} - {paused}


def test_nothing_is_written_when_a_chat_is_forgotten_while_its_file_is_read(kept: PromptCache):
    engine = Engine(make_backend(), prompt_cache=kept)
    reply(engine, chat("a"))
    assert written(engine, kept) == {"a"}
    engine = Engine(make_backend(), prompt_cache=kept)
    events = engine.add(chat("a"))
    for awaited in engine.room.reads._reads.values():
        awaited.reading.result(10)
    forget(engine, kept, "a")
    answer = finished(events + run(engine))["a"]
    assert answer.text == alone(chat("a")).text
    assert answer.metrics.cache_source is CacheSource.NONE
    assert written(engine, kept) == set()


def test_files_go_when_their_chat_is_forgotten_before_the_folder_was_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = SnapshotFolder(tmp_path / "cache", max_bytes=1 << 30)
    for number, chat_id in enumerate("ab"):
        first.write(header_of([number, 1], chat_id=chat_id, num_bytes=8), [state_of([number, 1], 8)], can_cut=True)
    first.close(10)
    monkeypatch.setattr(snapshot_folder, "_SCAN_WAIT_S", 0.0)
    with folder_lock(tmp_path / "cache" / "lock", wait_s=1) as has_it:
        assert has_it
        folder = SnapshotFolder(tmp_path / "cache", max_bytes=1 << 30)
        folder.forget(["a"])
    folder.flush(10)
    folder.close(10)
    assert [read_header(path).chat_id for path in (tmp_path / "cache").glob("*.snapshot")] == ["b"]
