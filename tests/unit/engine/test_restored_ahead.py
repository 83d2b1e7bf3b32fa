"""A chat that was opened comes back to a slot while nothing is computed: its next message finds it there, and is told
where it was before."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.backend import StateBytes
from engine.core import Engine
from engine.messages import Adapter, Finished
from engine.metrics import CacheMissCause, CacheSource
from engine.params import CacheParams
from engine.prompt_cache import PromptCache
from engine.sequence import Prompt
from tests.unit.engine.fake_engine import alone, finished, make_backend, make_prompt, reply, run

MEMORIES = pytest.mark.parametrize("memory", ["", "can_trim=0", "window=8"], ids=["plain", "recurrent", "window"])
WHERE = pytest.mark.parametrize("where", [CacheSource.DISK, CacheSource.RAM], ids=["disk", "memory"])


class Opening:
    """An engine that has had chats, and counts the snapshots that it puts into slots."""

    def __init__(self, folder: Path, memory: str = "", *, n_seq_max: int = 2, ram_mib: int = 64) -> None:
        self._memory, self._num_slots = memory, n_seq_max
        self.kept = PromptCache(CacheParams(ram_mib=ram_mib, disk_mib=64, folder=str(folder)))
        self.engine = self._start()

    def _start(self) -> Engine:
        self.backend = make_backend(self._memory, n_seq_max=self._num_slots, n_ctx=1024)
        self.num_restored = 0
        restore = self.backend.set_seq_state

        def counted(seq_id: int, state: StateBytes) -> bool:
            self.num_restored += 1
            return restore(seq_id, state)

        self.backend.set_seq_state = counted
        return Engine(self.backend, prompt_cache=self.kept)

    def restart(self) -> None:
        """Have all chats written, and start another engine."""
        self.engine.close()
        assert self.kept.folder is not None
        self.kept.folder.flush(10)
        self.engine = self._start()

    def evict(self) -> None:
        """Have all chats leave the context."""
        while self.engine._cache.evict_idle():
            pass

    def leave(self, where: CacheSource) -> None:
        """Have all chats go there."""
        self.restart() if where is CacheSource.DISK else self.evict()

    def open(self, *chat_ids: str) -> None:
        """Open chats, wait for the last one's file, and let the time pass after which it is looked at."""
        opened = self.engine.room.opened
        for chat_id in chat_ids:
            opened.open(chat_id)
        if opened._reading is not None:
            opened._reading[1].result(10)
        self.settle()

    def settle(self) -> None:
        """Let that time pass."""
        self.engine.room.opened._settled_at = 0.0

    def chats_in_slots(self) -> list[str | None]:
        """Return whose tokens the slots hold."""
        return [kept.chat_id for kept in self.engine.room.describe() if kept.source is CacheSource.SLOT]

    def close(self) -> None:
        self.engine.close()
        self.kept.close()


Open = Callable[..., Opening]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Open]:
    with contextlib.ExitStack() as stack:

        def opening(memory: str = "", **more: int) -> Opening:
            made = Opening(tmp_path / "cache", memory, **more)
            stack.callback(made.close)
            return made

        yield opening


def chat(name: str, *turns: str, request_id: str = "") -> Prompt:
    text = f"{name * 3} has seen the sea and its tides, so tell me everything about them, in the words of {name}"
    return make_prompt(request_id or name, text, *turns, chat_id=name)._replace(num_settled_tokens=8)


def more_of(name: str, first: Finished) -> Prompt:
    return chat(name, first.text, "and then", request_id=f"{name}-more")


# --- what the request is told ---


@MEMORIES
@WHERE
def test_next_message_finds_its_chat_in_a_slot_when_it_was_opened(memory: str, where: CacheSource, make: Open):
    bench = make(memory)
    first = reply(bench.engine, chat("a"))
    bench.leave(where)
    bench.open("a")
    run(bench.engine)
    assert (bench.num_restored, bench.chats_in_slots()) == (1, ["a"])
    asked = more_of("a", first)
    answer = reply(bench.engine, asked)
    assert bench.num_restored == 1, "nothing is left to be done"
    assert answer.text == alone(asked, memory).text
    assert (answer.metrics.cache_source, answer.metrics.cache_miss_cause) == (where, None)
    again = reply(bench.engine, asked._replace(request_id="again"))
    assert again.metrics.cache_source is CacheSource.SLOT


@WHERE
def test_ledger_is_that_of_a_chat_not_opened_when_one_was(where: CacheSource, make: Open):
    reports = []
    for is_opened in (True, False):
        bench = make()
        first = reply(bench.engine, chat("a"))
        bench.leave(where)
        if is_opened:
            bench.open("a")
            run(bench.engine)
        bench.engine.room.cost.prefill_s_per_token = 1000.0
        report = reply(bench.engine, more_of("a", first)).cache
        assert report is not None
        assert report.seconds_saved is not None
        all_of_it = report.num_cached_tokens * 1000.0
        assert all_of_it - 5 < report.seconds_saved < all_of_it, "what it cost to bring it back is counted"
        reports.append((report.num_cached_tokens, report.source, report.miss_cause, report.num_recomputed_tokens))
    assert reports[0] == reports[1]


def test_source_is_the_disk_when_the_chat_left_its_slot_again_before_it_was_asked(make: Open):
    bench = make()
    first = reply(bench.engine, chat("a"))
    bench.restart()
    bench.open("a")
    run(bench.engine)
    bench.evict()
    answer = reply(bench.engine, more_of("a", first))
    assert answer.metrics.cache_source is CacheSource.DISK
    assert answer.text == alone(more_of("a", first)).text


def test_cause_is_damage_when_the_file_was_found_damaged_ahead(make: Open, tmp_path: Path):
    bench = make()
    reply(bench.engine, chat("a"))
    bench.restart()
    assert len(bench.kept.describe()) == 1
    [path] = (tmp_path / "cache").glob("*.snapshot")
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    bench.open("a")
    run(bench.engine)
    assert not path.exists()
    answer = reply(bench.engine, chat("a"))
    assert answer.text == alone(chat("a")).text
    assert answer.metrics.cache_miss_cause is CacheMissCause.DAMAGED


@MEMORIES
def test_snapshot_that_cannot_be_restored_is_discarded_by_the_request(memory: str, make: Open):
    bench = make(memory)
    first = reply(bench.engine, chat("a"))
    bench.evict()
    [entry] = bench.engine.room._store.entries
    entry.snapshot.state = entry.snapshot.state[:-4]
    bench.open("a")
    run(bench.engine)
    assert bench.chats_in_slots() == []
    answer = reply(bench.engine, more_of("a", first))
    assert answer.text == alone(more_of("a", first), memory).text
    assert answer.metrics.cache_miss_cause is CacheMissCause.DAMAGED


@MEMORIES
def test_text_is_right_when_the_next_message_has_other_adapters(memory: str, make: Open):
    bench = make(memory)
    first = reply(bench.engine, chat("a"))
    bench.evict()
    bench.open("a")
    run(bench.engine)
    asked = more_of("a", first)._replace(adapters=(Adapter(path="a"),))
    answer = reply(bench.engine, asked)
    assert answer.text == alone(asked, memory).text
    assert (answer.metrics.cache_source, answer.metrics.cache_miss_cause) == (
        CacheSource.NONE,
        CacheMissCause.ADAPTER_CHANGED,
    )


# --- when, and which ---


def test_nothing_is_done_before_the_opening_has_settled(make: Open):
    bench = make()
    reply(bench.engine, chat("a"))
    bench.evict()
    opened = bench.engine.room.opened
    opened.open("a")
    opened._settled_at = time.monotonic() + 1000.0
    assert not bench.engine.has_work
    rest_s = bench.engine.room.rest_s
    assert rest_s is not None
    bench.settle()
    assert bench.engine.room.rest_s == 0.0
    assert bench.engine.has_work
    run(bench.engine)
    assert (bench.engine.has_work, bench.chats_in_slots()) == (False, ["a"])


@WHERE
def test_only_the_last_comes_back_when_chats_are_opened_one_after_the_other(where: CacheSource, make: Open):
    bench = make(n_seq_max=4)
    for name in "abc":
        reply(bench.engine, chat(name))
    bench.leave(where)
    bench.open("a", "c", "b", "c", "b")
    run(bench.engine)
    assert (bench.num_restored, bench.chats_in_slots()) == (1, ["b"])


def test_it_waits_for_the_reply_that_is_computed(make: Open):
    bench = make(n_seq_max=3)
    reply(bench.engine, chat("a"))
    bench.evict()
    events = bench.engine.add(chat("b"))
    events += bench.engine.step()
    bench.open("a")
    while not finished(events):
        events += bench.engine.step()
        assert bench.num_restored == 0
    bench.settle()
    run(bench.engine)
    assert sorted(map(str, bench.chats_in_slots())) == ["a", "b"]
    assert finished(events)["b"].text == alone(chat("b")).text


def test_it_is_put_off_when_something_arrives(make: Open):
    bench = make()
    reply(bench.engine, chat("a"))
    bench.evict()
    bench.open("a")
    assert bench.engine.has_work
    bench.engine.drop_read_ahead()  # as whatever comes from the window does, before it is looked at
    assert not bench.engine.has_work
    answer = reply(bench.engine, chat("b"))
    assert (answer.text, bench.num_restored) == (alone(chat("b")).text, 0)
    bench.settle()
    run(bench.engine)
    assert sorted(map(str, bench.chats_in_slots())) == ["a", "b"]


def test_request_goes_first_when_it_comes_between_two_copies(make: Open):
    bench = make(n_seq_max=1)
    first = reply(bench.engine, chat("a"))
    reply(bench.engine, chat("b"))
    bench.open("a")
    for _ in range(2):  # the first sees whether another process has written something newer
        bench.engine.step()
    assert (bench.chats_in_slots(), bench.num_restored) == ([], 0), "b has left for memory, a is not there yet"
    asked = chat("b", "so", "and", request_id="b2")
    assert reply(bench.engine, asked).text == alone(asked).text
    bench.settle()
    run(bench.engine)
    assert bench.chats_in_slots() == ["a"]
    assert reply(bench.engine, more_of("a", first)).text == alone(more_of("a", first)).text


def test_copy_that_takes_long_is_left_to_the_request_that_needs_it(make: Open, monkeypatch: pytest.MonkeyPatch):
    bench = make()
    first = reply(bench.engine, chat("a"))
    bench.evict()
    monkeypatch.setattr(bench.engine.room.cost, "restore_s", lambda num_bytes, is_in_file=False: 3.0)
    bench.open("a")
    run(bench.engine)
    assert bench.chats_in_slots() == []
    monkeypatch.undo()
    assert reply(bench.engine, more_of("a", first)).metrics.cache_source is CacheSource.RAM


def test_nothing_comes_back_when_the_chat_is_in_a_slot(make: Open):
    bench = make()
    reply(bench.engine, chat("a"))
    bench.open("a")
    run(bench.engine)
    assert (bench.num_restored, bench.engine.has_work) == (0, False)


# --- who makes way ---


def test_chat_used_last_goes_to_memory_when_there_is_one_slot(make: Open):
    bench = make(n_seq_max=1)
    first = {name: reply(bench.engine, chat(name)) for name in "ab"}
    for name in "aba":
        bench.open(name)
        run(bench.engine)
        assert bench.chats_in_slots() == [name]
    for name in "ab":
        asked = more_of(name, first[name])
        answer = reply(bench.engine, asked)
        assert (answer.text, answer.metrics.cache_source) == (alone(asked).text, CacheSource.RAM)


def test_chat_used_last_stays_when_memory_cannot_keep_it(make: Open, monkeypatch: pytest.MonkeyPatch):
    bench = make(n_seq_max=1)
    reply(bench.engine, chat("a"))
    reply(bench.engine, chat("b"))
    monkeypatch.setattr(bench.engine.room.opened, "_keep", lambda slot: False)
    bench.open("a")
    run(bench.engine)
    assert (bench.num_restored, bench.chats_in_slots()) == (0, ["b"])


def test_chat_that_was_opened_in_vain_is_the_first_to_leave(make: Open):
    bench = make(n_seq_max=2)
    for name in "abc":
        reply(bench.engine, chat(name))
    bench.evict()
    reply(bench.engine, chat("c", "so", "and"))
    for name in "ab":
        bench.open(name)
        run(bench.engine)
    assert sorted(map(str, bench.chats_in_slots())) == ["b", "c"]


# --- chats that go ---


@WHERE
@pytest.mark.parametrize("is_back", [True, False], ids=["in a slot", "on the way"])
def test_nothing_is_left_of_a_chat_that_is_forgotten_after_it_was_opened(where: CacheSource, is_back: bool, make: Open):
    bench = make()
    reply(bench.engine, chat("a"))
    bench.leave(where)
    bench.open("a")
    if is_back:
        run(bench.engine)
    bench.engine.forget(["a"])
    bench.kept.forget(["a"])
    run(bench.engine)
    assert bench.engine.room.describe() == []
    answer = reply(bench.engine, chat("a"))
    assert (answer.text, answer.metrics.cache_source) == (alone(chat("a")).text, CacheSource.NONE)


def test_nothing_of_a_private_chat_is_written_when_it_came_back(make: Open, tmp_path: Path):
    bench = make()
    reply(bench.engine, chat("a")._replace(is_private=True))
    bench.evict()
    bench.open("a")
    run(bench.engine)
    assert bench.chats_in_slots() == ["a"]
    bench.restart()
    assert list((tmp_path / "cache").glob("*.snapshot")) == []


def test_nothing_comes_back_when_reuse_is_switched_off(make: Open):
    bench = make()
    reply(bench.engine, chat("a"))
    bench.evict()
    bench.kept.set_params(CacheParams(ram_mib=64, disk_mib=64, folder=bench.kept.params.folder, reuse=False))
    bench.open("a")
    run(bench.engine)
    assert bench.chats_in_slots() == []
