"""What other processes do with a folder that is in use: what they write is found, what they forget is not written."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cache_commands import obey
from engine.core import Engine
from engine.messages import ForgetChats, ForgetNamed
from engine.metrics import CacheSource
from engine.params import CacheParams
from engine.preparing import Preparation
from engine.prompt_cache import PromptCache
from engine.response_folder import ResponseFolder
from engine.sequence import Prompt
from engine.snapshot_folder import SnapshotFolder
from tests.unit.engine.fake_engine import alone, make_backend, make_prompt, reply, run
from tests.unit.engine.reply_writers import reply_of
from tests.unit.engine.snapshot_writers import header_of, state_of

TOPIC = "tell me everything about the sea and its tides, and about whatever lives in it, in many words"


def chat(name: str, number: int = 0) -> Prompt:
    return make_prompt(f"{name}{number}", f"{TOPIC}, says {name}", chat_id=name)


class Process:
    """An engine with the cache that it has in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.kept = PromptCache(CacheParams(ram_mib=64, disk_mib=64, folder=str(folder)))
        self.engine = Engine(make_backend(), prompt_cache=self.kept)
        assert self.kept.folder is not None
        self.folder = self.kept.folder
        self.folder.flush(10)

    def forget(self, *chat_ids: str) -> None:
        obey(ForgetChats(chat_ids=chat_ids), self.kept, self.engine)
        self.folder.flush(10)

    def unload(self) -> None:
        self.engine.close()
        self.folder.flush(10)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[list[Process]]:
    """Two of them, with one folder."""
    made = [Process(tmp_path / "cache") for _ in range(2)]
    yield made
    for process in made:
        process.kept.close()


def on_disk(folder: Path) -> set[str]:
    again = SnapshotFolder(folder, max_bytes=1 << 30)
    found = {entry.label or entry.chat_id for entry in again.entries}
    again.close(10)
    return found


def test_chat_is_read_from_disk_when_another_process_wrote_it_meanwhile(processes: list[Process]):
    first, second = processes
    assert first.folder.entries == []
    reply(second.engine, chat("a"))
    second.unload()
    answer = reply(first.engine, chat("a", 1))
    assert answer.cache is not None
    assert answer.cache.source is CacheSource.DISK
    assert answer.text == alone(chat("a", 1)).text
    first.engine.close()


def test_folder_is_looked_at_when_a_chat_is_opened(processes: list[Process]):
    first, second = processes
    assert first.folder.entries == []
    reply(second.engine, chat("a"))
    second.unload()
    first.engine.room.opened.open("a")
    looking = first.folder._look
    assert looking is not None
    looking.result(10)
    assert [entry.chat_id for entry in first.folder.entries] == ["a"]
    first.engine.close()
    assert len(list(first.folder.path.glob("*.snapshot"))) == 1


def test_files_are_not_listed_again_when_nothing_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    folder.write(header_of([1, 2], num_bytes=8), [state_of([1, 2], 8)], can_cut=True)
    folder.flush(10)
    os.utime(tmp_path, (1e9, 1e9))
    looks: list[str] = []

    def listed() -> list[Path]:
        looks.append("listed")
        return []

    for _ in range(3):
        looking = folder.look()
        assert looking is not None
        looking.result(10)
        monkeypatch.setattr(folder._files, "paths", listed)
    assert looks == []
    folder.close(10)


def test_file_is_known_no_more_when_another_process_deleted_it(tmp_path: Path):
    first, second = (SnapshotFolder(tmp_path, max_bytes=1 << 30) for _ in range(2))
    first.write(header_of([1, 2], num_bytes=8), [state_of([1, 2], 8)], can_cut=True)
    first.flush(10)
    second.clear()
    second.flush(10)
    looking = first.look()
    assert looking is not None
    looking.result(10)
    assert first.entries == []
    for folder in (first, second):
        folder.close(10)


def test_nobody_waits_for_a_second_look_when_the_first_is_not_answered(
    processes: list[Process], monkeypatch: pytest.MonkeyPatch
):
    first, _ = processes
    answers, asked = threading.Event(), []

    def hang() -> bool:
        asked.append(threading.current_thread().name)
        return answers.wait(20)

    monkeypatch.setattr(first.folder._files, "has_changed", hang)
    monkeypatch.setattr("engine.file_reads._LOOK_WAIT_S", 0.05)
    for number in range(3):
        reply(first.engine, chat(f"c{number}"))
    assert len(asked) == 1
    assert threading.current_thread().name not in asked
    answers.set()
    first.engine.close()


@pytest.mark.parametrize("is_written_before", [False, True])
def test_chat_is_not_written_again_when_another_process_forgot_it(is_written_before: bool, processes: list[Process]):
    first, second = processes
    for name in "ab":
        reply(first.engine, chat(name))
    if is_written_before:
        first.engine.room.saver.save_all()
        first.folder.flush(10)
        assert on_disk(first.folder.path) == {"a", "b"}
    second.forget("a")
    first.unload()
    assert on_disk(first.folder.path) == {"b"}
    second.engine.close()


def test_chat_is_not_written_when_it_is_forgotten_elsewhere_while_its_reply_is_computed(processes: list[Process]):
    first, second = processes
    first.engine.add(chat("a"))
    first.engine.step()
    second.forget("a")
    run(first.engine)
    first.unload()
    assert on_disk(first.folder.path) == set()
    second.engine.close()


def test_chat_is_written_when_it_goes_on_after_it_was_forgotten(processes: list[Process]):
    first, second = processes
    reply(first.engine, chat("a"))
    second.forget("a")
    reply(first.engine, chat("a", 1))
    first.unload()
    assert on_disk(first.folder.path) == {"a"}
    second.engine.close()


def test_documents_are_not_written_again_when_another_process_forgot_them(processes: list[Process]):
    first, second = processes
    prepare(first.engine, "policy.md")
    first.folder.flush(10)
    assert on_disk(first.folder.path) == {"policy.md"}
    obey(ForgetNamed(names=("policy.md",)), second.kept, second.engine)
    second.folder.flush(10)
    looking = first.folder.look()
    assert looking is not None
    looking.result(10)
    reply(first.engine, chat("a"))
    first.unload()
    assert "policy.md" not in on_disk(first.folder.path)
    second.engine.close()


def test_forgotten_file_goes_at_the_next_start_when_whoever_forgot_it_was_killed(tmp_path: Path):
    folder = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    for number, chat_id in enumerate("ab"):
        header = header_of([number, 1], num_bytes=8, chat_id=chat_id, written_at=time.time() - 10)
        folder.write(header, [state_of([number, 1], 8)], can_cut=True)
    folder.flush(10)
    folder._marks.set(["chat a"], time.time())
    folder.close(10)
    assert on_disk(tmp_path) == {"b"}
    assert len(list(tmp_path.glob("*.snapshot"))) == 1


def test_marks_say_nothing_of_whom_they_are_and_go_when_they_are_old(tmp_path: Path):
    folder = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    folder.forget(["chat-of-a-person"])
    folder.close(10)
    [mark] = tmp_path.glob("*.gone")
    assert "person" not in mark.name
    assert mark.read_bytes() == b""
    os.utime(mark, (1e9, 1e9))
    SnapshotFolder(tmp_path, max_bytes=1 << 30).close(10)
    assert not mark.exists()


def test_whole_reply_is_not_written_when_another_process_forgot_its_chat(tmp_path: Path):
    other = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    asked_at = time.time() - 1
    other.forget(["a"])
    other.flush(10)
    folder = ResponseFolder(tmp_path, max_bytes=1 << 20, on_read=lambda reply: None)
    folder.write(reply_of(1, chat_id="a", size=100), asked_at=asked_at)
    folder.write(reply_of(2, chat_id="b", size=100), asked_at=asked_at)
    folder.write(reply_of(3, chat_id="a", size=100), asked_at=time.time() + 1)
    folder.close(10)
    assert sorted(path.name for path in tmp_path.glob("*.reply")) == ["key2.reply", "key3.reply"]
    other.close(10)


def prepare(engine: Engine, name: str) -> None:
    prompt = make_prompt(f"prepare {name}", f"{TOPIC}: this is the text of a document")
    engine.idle.preparations.add(Preparation(prompt, name))
    run(engine)


def test_documents_are_written_again_when_they_had_to_make_way_and_are_prepared_again(processes: list[Process]):
    first, second = processes
    prepare(first.engine, "policy.md")
    first.folder.flush(10)
    assert on_disk(first.folder.path) == {"policy.md"}
    first.folder._trim(1 << 40)
    assert on_disk(first.folder.path) == set()
    prepare(first.engine, "policy.md")
    first.folder.flush(10)
    assert on_disk(first.folder.path) == {"policy.md"}
    for process in (first, second):
        process.engine.close()
