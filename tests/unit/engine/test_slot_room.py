"""Chats that leave the context and come back from memory or disk: texts are those of a lone engine, and the ledger says
what happened."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backend import StateBytes
from engine.core import Engine
from engine.messages import Adapter, Finished
from engine.metrics import CacheMissCause, CacheSource
from engine.params import CacheParams, SamplingParams
from engine.prompt_cache import PromptCache
from engine.sequence import Prompt
from tests.unit.engine.fake_engine import alone, ask, finished, make_backend, make_prompt, reply, run, step_until

TOPICS = ["the sea and its tides", "a walk in the mountains", "bread and how it rises", "old maps of the north"]
MEMORIES = pytest.mark.parametrize("memory", ["", "can_trim=0", "window=8"], ids=["plain", "recurrent", "window"])

MakeEngine = Callable[..., Engine]


@pytest.fixture
def engine_in(tmp_path: Path) -> Iterator[MakeEngine]:
    """Return what makes engines that keep chats in memory and in one folder; a later one comes after a restart."""
    with contextlib.ExitStack() as opened:

        def make(settings_text: str = "", *, ram_mib: int = 64, disk: bool = True, reuse: bool = True, **params: int):
            opened.close()
            folder = str(tmp_path / "cache") if disk else ""
            kept = PromptCache(CacheParams(ram_mib=ram_mib, disk_mib=64, folder=folder, reuse=reuse))
            engine = Engine(make_backend(settings_text, **params), prompt_cache=kept)
            opened.callback(kept.close)
            opened.callback(engine.close)
            return engine

        yield make


def chat(number: int, request_id: str = "", *turns: str, **more) -> Prompt:
    """Return a request of the chat with a topic; a name is made up where none is given."""
    topic = f"tell me everything about {TOPICS[number % 4]}, in the words of number {number}"
    return make_prompt(request_id or f"r{number}", topic, *turns, chat_id=f"c{number}", **more)


def settled(prompt: Prompt) -> Prompt:
    """Return a request with checkpoints where a chat would have them."""
    return prompt._replace(num_settled_tokens=8, num_system_tokens=4)


def num_evaluated(answer: Finished) -> int:
    return answer.metrics.num_prompt_tokens - answer.metrics.num_cached_tokens


def source(answer: Finished) -> CacheSource:
    return answer.metrics.cache_source


# --- memory ---


@MEMORIES
@pytest.mark.parametrize("n_seq_max", [1, 2, 3])
def test_every_chat_comes_back_from_memory_when_there_are_more_than_slots(
    memory: str, n_seq_max: int, engine_in: MakeEngine
):
    engine = engine_in(memory, disk=False, n_seq_max=n_seq_max)
    first = [reply(engine, settled(chat(number))) for number in range(6)]
    for number, answer in enumerate(first):
        follow_up = settled(chat(number, f"again{number}", answer.text, "and then"))
        second = reply(engine, follow_up)
        assert second.text == alone(follow_up, memory).text
        assert num_evaluated(second) < 80
        assert source(second) is (CacheSource.SLOT if number > 6 - n_seq_max else CacheSource.RAM) or number > 2
        assert second.metrics.cache_miss_cause is None


def test_ledger_tells_what_was_reused_and_saved_when_a_chat_comes_back(engine_in: MakeEngine):
    engine = engine_in(disk=False, n_seq_max=1)
    reply(engine, chat(0))
    reply(engine, chat(1))
    again = reply(engine, chat(0, "again"))
    assert again.cache is not None
    assert again.cache.source is CacheSource.RAM
    assert again.cache.num_cached_tokens == again.metrics.num_cached_tokens == again.metrics.num_prompt_tokens - 1
    assert again.cache.num_recomputed_tokens == 0
    assert again.cache.seconds_saved is not None
    assert again.cache.miss_message is None


def test_chat_is_read_again_when_memory_keeps_nothing(engine_in: MakeEngine):
    engine = engine_in(ram_mib=0, disk=False, n_seq_max=1)
    reply(engine, chat(0))
    reply(engine, chat(1))
    again = reply(engine, chat(0, "again"))
    assert again.cache is not None
    assert again.cache.miss_cause is CacheMissCause.EVICTED
    assert again.cache.num_recomputed_tokens == again.metrics.num_prompt_tokens - again.cache.num_cached_tokens - 1


def test_message_of_a_miss_is_told_when_its_place_is_known(engine_in: MakeEngine):
    engine = engine_in(disk=False)
    first = reply(engine, chat(0))
    reply(engine, chat(0, "b", first.text, "and then"))
    edited = chat(0, "c", first.text, "but when")
    lengths = [len(make_prompt("x", *turns).tokens) for turns in ((edited_turn,) for edited_turn in ("",))]
    ends = (len(chat(0).tokens), len(edited.tokens) - 40, len(edited.tokens) - lengths[0])
    answer = reply(engine, edited._replace(message_ends=ends))
    assert answer.cache is not None
    assert answer.cache.miss_cause is CacheMissCause.EDITED
    assert answer.cache.miss_message == 2


@MEMORIES
def test_cause_is_damage_and_the_reply_right_when_a_snapshot_cannot_be_restored(memory: str, engine_in: MakeEngine):
    engine = engine_in(memory, disk=False, n_seq_max=1)
    reply(engine, settled(chat(0)))
    reply(engine, settled(chat(1)))
    restore = engine.backend.set_seq_state

    def refuse_once(seq_id: int, state: StateBytes) -> bool:
        engine.backend.set_seq_state = restore
        return False

    engine.backend.set_seq_state = refuse_once
    again = reply(engine, settled(chat(0, "again")))
    assert again.text == alone(chat(0), memory).text
    assert again.metrics.cache_miss_cause is CacheMissCause.DAMAGED
    assert all(entry.chat_id != "c0" for entry in engine.room.describe() if entry.source is CacheSource.RAM)
    assert reply(engine, settled(chat(1, "back"))).metrics.cache_source is CacheSource.RAM


def test_nothing_is_taken_from_another_adapter_when_chats_come_back(engine_in: MakeEngine):
    engine = engine_in(n_seq_max=1)
    with_a = (Adapter(path="a", scale=0.5),)
    reply(engine, chat(0)._replace(adapters=with_a))
    reply(engine, chat(1))
    bare = reply(engine, chat(0, "bare"))
    assert bare.metrics.cache_miss_cause is CacheMissCause.ADAPTER_CHANGED
    assert bare.text == alone(chat(0)).text
    warm = reply(engine, chat(0, "warm")._replace(adapters=with_a))
    assert source(warm) is CacheSource.RAM
    assert warm.text == alone(chat(0)._replace(adapters=with_a)).text != bare.text


def test_idle_chat_leaves_the_context_when_another_has_much_to_compute(engine_in: MakeEngine):
    engine = engine_in(disk=False)
    long = make_prompt("a", "word " * 200, chat_id="a")
    reply(engine, long)
    events = engine.add(make_prompt("b", "text " * 200, chat_id="b"))
    step_until(engine, events, lambda: len(events) > 2)
    assert [kept.chat_id for kept in engine.room.describe()] == ["a"], "and it is in memory only"
    assert engine.room.describe()[0].source is CacheSource.RAM
    events += run(engine)
    assert finished(events)["b"].text == alone(make_prompt("b", "text " * 200)).text
    again = reply(engine, long._replace(request_id="c"))
    assert (source(again), num_evaluated(again)) == (CacheSource.RAM, 1)
    assert again.text == alone(long).text


def test_short_idle_chat_stays_in_the_context_when_another_runs(engine_in: MakeEngine):
    engine = engine_in(disk=False)
    reply(engine, chat(0))
    reply(engine, make_prompt("b", "text " * 200, chat_id="b"))
    assert source(reply(engine, chat(0, "again"))) is CacheSource.SLOT


def test_reproducible_request_takes_nothing_and_costs_others_nothing_when_chats_are_kept(engine_in: MakeEngine):
    engine = engine_in(disk=False)
    reply(engine, chat(0))
    exact = chat(0, "exact")._replace(sampling=SamplingParams(reproducible=True))
    answer = reply(engine, exact)
    assert (answer.metrics.num_cached_tokens, answer.text) == (0, alone(chat(0)).text)
    reply(engine, chat(1))
    assert num_evaluated(reply(engine, chat(0, "again"))) == 1


def test_nothing_is_reused_when_reuse_is_off(engine_in: MakeEngine):
    engine = engine_in(ram_mib=0, disk=False, reuse=False)
    for number in range(3):
        answer = reply(engine, chat(0, f"r{number}"))
        assert (answer.metrics.num_cached_tokens, source(answer)) == (0, CacheSource.NONE)
        assert answer.text == alone(chat(0)).text


@MEMORIES
def test_chats_come_back_beside_running_ones_when_the_pool_is_small(memory: str, engine_in: MakeEngine):
    engine = engine_in(f"n_words=12,{memory}", disk=False, n_seq_max=3, n_ctx=512)
    first = {number: reply(engine, settled(chat(number))).text for number in range(5)}
    for pair in ((0, 1), (2, 3), (4, 0), (1, 2)):
        prompts = [settled(chat(number, f"{pair}{number}", first[number], "go on")) for number in pair]
        for request_id, answer in ask(engine, *prompts).items():
            expected = next(prompt for prompt in prompts if prompt.request_id == request_id)
            assert answer.text == alone(expected, f"n_words=12,{memory}", n_ctx=512).text


# --- disk ---


@MEMORIES
def test_chat_goes_on_from_disk_when_the_engine_was_started_again(memory: str, engine_in: MakeEngine):
    first = reply(engine_in(memory), settled(chat(0)))
    engine = engine_in(memory)
    follow_up = settled(chat(0, "b", first.text, "and then"))
    second = reply(engine, follow_up)
    assert source(second) is CacheSource.DISK
    assert num_evaluated(second) < 80
    assert second.metrics.cache_miss_cause is None
    assert second.text == alone(follow_up, memory).text
    assert source(reply(engine, settled(chat(0, "c", first.text, "and then")))) is CacheSource.SLOT


@MEMORIES
def test_same_first_message_is_found_on_disk_when_a_program_runs_twice(memory: str, engine_in: MakeEngine):
    for number in range(3):
        engine = engine_in(memory)
        first = reply(engine, settled(chat(0)))
        second = reply(engine, settled(chat(0, "b", first.text, "and then")))
        assert source(first) is (CacheSource.DISK if number else CacheSource.NONE)
        assert first.text == alone(chat(0), memory).text
        assert second.text == alone(chat(0, "b", first.text, "and then"), memory).text


@MEMORIES
def test_edit_is_the_cause_when_a_chat_came_from_disk(memory: str, engine_in: MakeEngine):
    first = reply(engine_in(memory), settled(chat(0)))
    reply(engine_in(memory), settled(chat(0, "b", first.text, "and then")))
    engine = engine_in(memory)
    edited = settled(chat(0, "c", first.text, "but when"))
    answer = reply(engine, edited)
    assert source(answer) is CacheSource.DISK
    cannot = CacheMissCause.UNSUPPORTED_BY_MODEL
    assert answer.metrics.cache_miss_cause is (cannot if memory else CacheMissCause.EDITED)
    assert answer.text == alone(edited, memory).text


def test_file_is_read_ahead_when_its_chat_is_opened(engine_in: MakeEngine):
    for number in range(3):
        engine = engine_in()
        reply(engine, chat(number))
    engine = engine_in()
    for chat_id in ("nothing", "c1"):
        engine.room.opened.open(chat_id)
    assert engine.room.opened._reading is not None
    _, reading = engine.room.opened._reading
    reading.result(10)
    engine.add(chat(1))
    assert engine.room.reads.is_ready(engine._scheduler.waiting[0])
    answer = finished(run(engine))["r1"]
    assert (source(answer), num_evaluated(answer)) == (CacheSource.DISK, 1)
    assert answer.text == alone(chat(1)).text
    engine.room.opened.open("c1")
    assert engine.room.opened._reading is None, "it is in a slot"
    engine.room.opened.open("c2")
    engine.room.forget(["c2"])
    assert engine.room.opened._reading is None


def test_all_chats_are_on_disk_when_there_were_more_than_slots(engine_in: MakeEngine):
    engine = engine_in(n_seq_max=2)
    for number in range(4):
        reply(engine, chat(number))
    engine = engine_in(n_seq_max=2)
    for number in range(4):
        again = reply(engine, chat(number))
        assert (source(again), num_evaluated(again)) == (CacheSource.DISK, 1)


@pytest.mark.parametrize("is_private", [True, False])
def test_nothing_of_a_chat_is_written_when_it_is_private(is_private: bool, engine_in: MakeEngine, tmp_path: Path):
    engine = engine_in(n_seq_max=1)
    reply(engine, chat(0)._replace(is_private=is_private))
    reply(engine, chat(1)._replace(chat_id=None))  # of no chat: nobody could have it forgotten
    assert source(reply(engine, chat(0, "b")._replace(is_private=is_private))) is CacheSource.RAM, "memory is no file"
    engine.close()
    engine_in()
    assert len(list((tmp_path / "cache").glob("*.snapshot"))) == (0 if is_private else 1)


@pytest.mark.parametrize("damage", ["flipped", "torn", "gone", "other settings"])
def test_chat_is_read_again_when_its_file_is_of_no_use(damage: str, engine_in: MakeEngine, tmp_path: Path):
    reply(engine_in(), chat(0))
    engine = engine_in("n_words=24" if damage == "other settings" else "")
    assert len(engine.room._prompt_cache.describe()) == 1, "it was seen whole"
    [path] = (tmp_path / "cache").glob("*.snapshot")
    match damage:
        case "flipped":
            data = bytearray(path.read_bytes())
            data[-20] ^= 1
            path.write_bytes(data)
        case "torn":
            path.write_bytes(path.read_bytes()[:-20])
        case "gone":
            path.unlink()
    again = reply(engine, chat(0))
    assert again.text == alone(chat(0)).text
    is_damaged = damage in ("flipped", "torn")
    assert again.metrics.cache_miss_cause is (CacheMissCause.DAMAGED if is_damaged else CacheMissCause.FIRST_USE)
    assert path.exists() == (damage == "other settings")
    assert num_evaluated(reply(engine, chat(0, "again"))) == 1


def test_cause_is_damage_when_a_file_was_torn_before_the_start(engine_in: MakeEngine, tmp_path: Path):
    engine = engine_in()
    reply(engine, chat(0))
    engine.close()
    engine.room._prompt_cache.close()
    [path] = (tmp_path / "cache").glob("*.snapshot")
    path.write_bytes(path.read_bytes()[:-20])
    engine = engine_in()
    causes = [reply(engine, chat(0, name)).metrics.cache_miss_cause for name in ("a", "b")]
    assert causes == [CacheMissCause.DAMAGED, None]


def test_file_goes_when_its_state_cannot_be_restored(engine_in: MakeEngine, tmp_path: Path):
    reply(engine_in(), chat(0))
    engine = engine_in()
    engine.backend.set_seq_state = lambda seq_id, state: False
    again = reply(engine, chat(0))
    assert again.metrics.cache_miss_cause is CacheMissCause.DAMAGED
    assert again.text == alone(chat(0)).text
    assert list((tmp_path / "cache").glob("*.snapshot")) == []


def test_other_chats_go_on_when_one_waits_for_the_disk(engine_in: MakeEngine):
    reply(engine_in(), chat(0))
    engine = engine_in()
    events = engine.add(make_prompt("running", "say something", chat_id="x"))
    step_until(engine, events, lambda: len(events) > 3)
    events += engine.add(chat(0)) + engine.add(chat(1)) + run(engine)
    for request_id, prompt in (("running", make_prompt("running", "say something")), ("r0", chat(0)), ("r1", chat(1))):
        assert finished(events)[request_id].text == alone(prompt).text
    assert source(finished(events)["r0"]) is CacheSource.DISK


def test_request_ends_when_it_is_aborted_while_it_waits_for_the_disk(engine_in: MakeEngine):
    reply(engine_in(), chat(0))
    engine = engine_in()
    events = engine.add(chat(0))
    engine.request_abort("r0")
    events += run(engine)
    assert finished(events)["r0"].finish_reason.value == "abort"
    assert reply(engine, chat(0, "again")).text == alone(chat(0)).text


def test_chat_is_written_after_a_rest_when_the_engine_is_idle(engine_in: MakeEngine, monkeypatch: pytest.MonkeyPatch):
    engine = engine_in()
    saver = engine.room.saver
    assert saver.rest_s is None
    reply(engine, chat(0))
    assert saver.rest_s is not None
    assert saver.rest_s > 0
    saver.rest()
    assert all(kept.source is CacheSource.SLOT for kept in engine.room.describe()), "there was no rest yet"
    monkeypatch.setattr("engine.chat_saver._IDLE_S", 0.0)
    monkeypatch.setattr("engine.chat_saver._WRITER_BUSY_S", 0.0)
    folder = engine.room._prompt_cache.folder
    assert folder is not None
    for _ in range(3):
        saver.rest()
        folder.flush(10)
    assert saver.rest_s is None
    assert {kept.source for kept in engine.room.describe()} == {CacheSource.SLOT, CacheSource.RAM}


def test_model_and_settings_are_the_cause_when_a_known_chat_meets_another(engine_in: MakeEngine):
    kept = PromptCache(CacheParams(ram_mib=8))
    causes = []
    for path, type_k in (("", "f16"), ("", "q8_0"), ("", "q8_0"), ("n_words=3", "q8_0")):
        engine = Engine(make_backend(path, type_k=type_k), prompt_cache=kept)
        causes.append(reply(engine, chat(0)).metrics.cache_miss_cause)
        engine.close()
    changed, reloaded = CacheMissCause.SETTINGS_CHANGED, CacheMissCause.MODEL_RELOADED
    assert causes == [CacheMissCause.FIRST_USE, changed, reloaded, reloaded]


def test_chats_are_gone_from_everywhere_when_they_are_forgotten(engine_in: MakeEngine, tmp_path: Path):
    engine = engine_in(n_seq_max=1)
    for number in range(3):
        reply(engine, chat(number))
    engine.room.forget(["c0", "c2"])
    assert [kept.chat_id for kept in engine.room.describe()] == ["c1"]
    events = engine.add(chat(1, "again"))
    events += engine.step()
    engine.room.forget(["c1"])
    events += run(engine)
    assert finished(events)["again"].text == alone(chat(1)).text
    engine_in()
    assert list((tmp_path / "cache").glob("*.snapshot")) == []


# --- any order ---

ADAPTERS = ((), (Adapter(path="a"),))
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 4), st.sampled_from(["go on", "and then", "why"])),
        st.tuples(st.just("again"), st.integers(0, 4), st.just("")),
        st.tuples(st.just("edit"), st.integers(0, 4), st.sampled_from(["instead", "or else"])),
        st.tuples(st.just("adapters"), st.integers(0, 4), st.just("")),
        st.tuples(st.just("steps"), st.integers(1, 40), st.just("")),
        st.tuples(st.just("abort"), st.integers(0, 4), st.just("")),
        st.tuples(st.just("evict"), st.just(0), st.just("")),
        st.tuples(st.just("restart"), st.just(0), st.just("")),
        st.tuples(st.just("open"), st.integers(0, 4), st.just("")),
    ),
    max_size=25,
)


class _Chats:
    """Chats that a random run goes on with."""

    def __init__(self) -> None:
        self.turns: dict[int, list[str]] = {}
        self.adapters: dict[int, int] = {}
        self.open: dict[str, tuple[int, Prompt]] = {}
        self.count = 0

    def prompt(self, number: int, operation: str, text: str) -> Prompt | None:
        """Return the request that an operation makes; None while one of that chat runs."""
        if any(other == number for other, _ in self.open.values()):
            return None
        turns = self.turns.setdefault(number, [f"speak about {TOPICS[number % 4]} at some length"])
        if operation == "again" and len(turns) % 2 == 0:
            del turns[-1]
        elif operation == "edit":
            turns[:] = [*turns[: (len(turns) - 1) // 2 * 2], text + " " + TOPICS[number % 4]]
        elif operation == "adapters":
            self.adapters[number] = 1 - self.adapters.get(number, 0)
        if len(turns) % 2 == 0:
            turns.append(text or "more")
        del turns[:-5]  # an odd number: it begins with the user
        self.count += 1
        prompt = make_prompt(f"q{self.count}", *turns, chat_id=f"c{number}", max_tokens=30)
        settled_at = len(make_prompt("x", *turns[:-1]).tokens) - 22 if len(turns) > 1 else 0
        prompt = prompt._replace(num_settled_tokens=settled_at, adapters=ADAPTERS[self.adapters.get(number, 0)])
        self.open[prompt.request_id] = (number, prompt)
        return prompt

    def note(self, events: list, memory: str) -> None:
        """Take the replies, compare them with those of a lone engine, and go on with them."""
        for request_id, answer in finished(events).items():
            number, prompt = self.open.pop(request_id)
            expected = alone(prompt, memory).text
            if answer.finish_reason.value == "abort":
                assert expected.startswith(answer.text)
            else:
                assert answer.text == expected
            self.turns[number].append(answer.text or "nothing")


@MEMORIES
@settings(max_examples=25)
@given(operations=OPERATIONS, n_seq_max=st.integers(1, 3), ram_mib=st.sampled_from([0, 1]))
def test_replies_are_those_of_a_lone_engine_when_chats_live_at_random(
    memory: str, operations: list, n_seq_max: int, ram_mib: int, tmp_path_factory: pytest.TempPathFactory
):
    folder = str(tmp_path_factory.mktemp("cache"))
    chats, params = _Chats(), CacheParams(ram_mib=ram_mib, disk_mib=16, folder=folder)
    kept = PromptCache(params)
    engine = Engine(make_backend(memory, n_seq_max=n_seq_max, n_ctx=1024, n_ubatch=16), prompt_cache=kept)
    for operation, number, text in [*operations, ("steps", 0, "")]:
        events: list = []
        match operation:
            case "open":
                engine.room.opened.open(f"c{number}")
                engine.room.opened._settled_at = 0.0
            case "steps":
                for _ in range(number):
                    events += engine.step()
            case "abort":
                for request_id, (other, _) in chats.open.items():
                    if other == number:
                        engine.request_abort(request_id)
            case "evict":
                while engine._cache.evict_idle():
                    pass
            case "restart":
                chats.note(run(engine), memory)
                engine.close()
                kept.close()
                kept = PromptCache(params)
                engine = Engine(make_backend(memory, n_seq_max=n_seq_max, n_ctx=1024, n_ubatch=16), prompt_cache=kept)
            case _ if (prompt := chats.prompt(number, operation, text)) is not None:
                events += engine.add(prompt)
        chats.note(events, memory)
    chats.note(run(engine), memory)
    assert not chats.open
    engine.close()
    kept.close()
