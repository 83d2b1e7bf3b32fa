"""Files whose checksums are right and whose content is not: a miss with its cause, and never the end of the worker;
and a disk that hangs, which ends nothing either."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine import snapshot_folder
from engine.core import Engine
from engine.disk_thread import DiskThread
from engine.metrics import CacheMissCause, CacheSource
from engine.params import CacheParams
from engine.prompt_cache import PromptCache
from engine.snapshot_file import SnapshotContent, SnapshotHeader, read_snapshot, tokens_to_bytes
from engine.snapshot_folder import SnapshotFolder
from tests.unit.engine.fake_engine import alone, make_backend, make_prompt, reply
from tests.unit.engine.snapshot_writers import header_of, state_of

CHAT = make_prompt("a", "tell me everything about the sea and its tides, and whatever lives in it", chat_id="a")
MORE = make_prompt(
    "b", "tell me everything about the sea and its tides, and whatever lives in it", "x", "and more", chat_id="a"
)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[PromptCache]:
    kept = PromptCache(CacheParams(ram_mib=0, disk_mib=64, folder=str(tmp_path / "cache")))
    yield kept
    kept.close()


def forge(kept: PromptCache, **changes: Any) -> None:
    """Write a file as this program would, with other things in its header."""
    engine = Engine(make_backend(), prompt_cache=kept)
    reply(engine, CHAT)
    engine.close()
    folder = kept.folder
    assert folder is not None
    folder.flush(10)
    [entry] = folder.entries
    content: SnapshotContent = read_snapshot(folder.path / entry.name)
    folder.clear()
    header: SnapshotHeader = msgspec.structs.replace(content.header, **changes)
    folder.write(header, [content.state, *(b"" for _ in header.checkpoints)], can_cut=True)
    folder.flush(10)


@pytest.mark.parametrize("is_opened", [False, True], ids=["asked", "opened"])
@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": [*CHAT.tokens[:20], 2**31 - 1, *CHAT.tokens[21:]]},
        {"tokens": [*CHAT.tokens, len(make_backend().vocabulary.pieces)]},
        {"tokens": [-1, *CHAT.tokens[1:]]},
        {"tokens": []},
        {"checkpoints": ((10_000, 0),)},
        {"checkpoints": ((9, 0), (3, 0))},
        {"checkpoints": ((0, 0),)},
    ],
    ids=["huge", "first beyond", "negative", "none", "checkpoint beyond", "checkpoints falling", "checkpoint at none"],
)
def test_file_is_a_miss_with_its_cause_when_it_says_what_no_chat_has(
    changes: dict[str, Any], is_opened: bool, kept: PromptCache
):
    if "tokens" in changes:
        changes = {"tokens": tokens_to_bytes(changes["tokens"])}
    forge(kept, **changes)
    engine = Engine(make_backend(), prompt_cache=kept)
    if is_opened:
        engine.room.opened.open("a")
    answer = reply(engine, MORE)
    assert answer.text == alone(MORE).text
    assert answer.metrics.cache_source is CacheSource.NONE
    assert answer.metrics.cache_miss_cause is CacheMissCause.DAMAGED
    assert kept.folder is not None
    assert kept.folder.entries == []
    engine.close()


def test_sound_file_is_used_when_another_one_is_not(kept: PromptCache):
    forge(kept)
    folder = kept.folder
    assert folder is not None
    [entry] = folder.entries
    bad = header_of([7, 2**30], num_bytes=8, chat_id="b", model=entry.keys.model, settings=entry.keys.settings)
    folder.write(bad, [state_of([7, 2**30], 8)], can_cut=True)
    folder.flush(10)
    engine = Engine(make_backend(), prompt_cache=kept)
    answer = reply(engine, MORE)
    assert answer.metrics.cache_source is CacheSource.DISK
    assert answer.text == alone(MORE).text
    assert [kept.chat_id for kept in folder.entries] == ["a"]
    engine.close()


@pytest.mark.allow_log("takes long to answer")
def test_folder_closes_when_the_disk_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    folder.write(header_of([1, 2], num_bytes=8), [state_of([1, 2], 8)], can_cut=True)
    folder.flush(10)
    is_reading, answers = threading.Event(), threading.Event()

    def hang(path: Path) -> SnapshotContent:
        is_reading.set()
        answers.wait(60)
        return read_snapshot(path)

    monkeypatch.setattr(snapshot_folder, "read_snapshot", hang)
    reading = folder.read(folder.entries[0])
    assert is_reading.wait(10)
    closing = threading.Thread(target=folder.close, args=(0.05,))
    closing.start()
    closing.join(10)
    assert not closing.is_alive(), "it waits for the disk"
    assert not reading.done()
    answers.set()
    assert reading.result(10).content is not None
    assert folder._reader.end(10)


def test_thread_does_what_was_submitted_or_drops_what_has_not_begun():
    begun, may_end, done = threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        may_end.wait(10)
        done.append("first")

    thread = DiskThread("engine-test")
    thread.submit(first)
    dropped = thread.submit(done.append, "second")
    assert begun.wait(10)
    assert not thread.end(0.0, drops_waiting=True)
    assert dropped.cancelled()
    may_end.set()
    assert thread.end(10)
    assert done == ["first"]
