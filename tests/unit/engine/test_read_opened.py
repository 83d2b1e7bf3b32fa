"""A chat that was opened and of which nothing is kept is read while nothing is computed; any request goes first."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.core import Engine
from engine.messages import Event, Finished, PrefillProgress, PrepareCancelled, Prepared
from engine.metrics import CacheSource
from engine.params import CacheParams, SamplingParams
from engine.preparing import Preparation
from engine.prompt_cache import PromptCache
from engine.sequence import Prompt
from tests.unit.engine.fake_engine import alone, finished, make_backend, make_prompt, reply, run, tokens_of

MEMORIES = pytest.mark.parametrize("memory", ["", "can_trim=0", "window=8"], ids=["plain", "recurrent", "window"])
ROOMY = CacheParams(ram_mib=64)
TURNS = ("what do the tides do when the moon is low " * 8, "they wait for it and then they rise " * 8)
LATER = "and then"


def opened_chat(request_id: str = "p", **more) -> Preparation:
    """Return the reading of a chat, up to where its next question begins."""
    asked, replied = TURNS
    text = f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n{replied}<|im_end|>\n<|im_start|>user\n"
    more = {"chat_id": "a"} | more
    return Preparation(
        Prompt(request_id, [*tokens_of(text), 0], SamplingParams(max_tokens=1), 0, time.perf_counter(), **more), ""
    )


def next_of(request_id: str = "next", chat_id: str = "a") -> Prompt:
    return make_prompt(request_id, *TURNS, LATER, chat_id=chat_id)


def num_evaluated(answer: Finished) -> int:
    return answer.metrics.num_prompt_tokens - answer.metrics.num_cached_tokens


def engine_with(kept: CacheParams = ROOMY, memory: str = "", **params: int) -> Engine:
    return Engine(make_backend(memory, **params), prompt_cache=PromptCache(kept))


def read(engine: Engine, **more) -> list[Event]:
    return engine.idle.preparations.add(opened_chat(**more)) + run(engine)


@MEMORIES
def test_next_message_reads_only_itself_when_its_chat_was_read(memory: str):
    engine = engine_with(memory=memory)
    events = read(engine)
    [prepared] = [event for event in events if isinstance(event, Prepared)]
    assert (prepared.name, prepared.num_cached_tokens) == ("", 0)
    assert [event.num_done_tokens for event in events if isinstance(event, PrefillProgress)][-1] == prepared.num_tokens
    answer = reply(engine, next_of())
    assert answer.text == alone(next_of(), memory).text
    assert (answer.metrics.cache_source, answer.metrics.cache_miss_cause) == (CacheSource.SLOT, None)
    assert num_evaluated(answer) < 40


@MEMORIES
def test_slots_stay_as_they_are_when_all_of_the_chat_is_kept(memory: str):
    engine = engine_with(memory=memory)
    first = reply(engine, make_prompt("a", *TURNS, LATER, chat_id="a")._replace(num_settled_tokens=8))
    read(engine)
    before = [list(slot.tokens) for slot in engine._cache.slots]
    [prepared] = [event for event in read(engine, request_id="p2") if isinstance(event, Prepared)]
    assert prepared.num_bytes == 0
    assert [list(slot.tokens) for slot in engine._cache.slots] == before
    asked = make_prompt("b", *TURNS, LATER, first.text, "so", chat_id="a")
    assert reply(engine, asked).text == alone(asked, memory).text


def test_it_is_given_up_when_the_chat_itself_is_asked():
    engine = engine_with(n_ubatch=16)
    events = engine.idle.preparations.add(opened_chat()) + engine.step() + engine.step()
    events += engine.add(next_of()) + run(engine)
    assert [type(event) for event in events if isinstance(event, Prepared | PrepareCancelled)] == [PrepareCancelled]
    assert finished(events)["next"].text == alone(next_of()).text


def test_it_goes_on_when_the_reply_of_another_chat_has_ended():
    engine = engine_with(n_ubatch=16)
    other = make_prompt("other", "bread and how it rises", chat_id="b")
    events = engine.idle.preparations.add(opened_chat()) + engine.step() + engine.step()
    events += engine.add(other) + run(engine)
    kinds = [type(event) for event in events if isinstance(event, Prepared | Finished)]
    assert kinds == [Finished, Prepared]
    assert finished(events)["other"].text == alone(other).text


class HeldBackend:
    """A fake backend whose first step waits until it is broken off."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.is_in_step, self.was_broken_off = threading.Event(), threading.Event()

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        if not self.was_broken_off.is_set():
            self.is_in_step.set()
            assert self.was_broken_off.wait(20)
            self.inner.raise_abort()
        return self.inner.decode(parts)

    def raise_abort(self) -> None:
        self.was_broken_off.set()


def test_its_step_is_broken_off_when_something_arrives():
    backend = HeldBackend(make_backend())
    engine = Engine(backend, prompt_cache=PromptCache(ROOMY))
    events = engine.idle.preparations.add(opened_chat()) + engine.step()
    stepping = threading.Thread(target=engine.step)
    stepping.start()
    assert backend.is_in_step.wait(20)
    engine.drop_read_ahead()
    stepping.join(20)
    assert not stepping.is_alive()
    events += engine.add(next_of()) + run(engine)
    assert finished(events)["next"].text == alone(next_of()).text


def test_what_was_read_is_on_disk_as_its_chat_when_the_model_goes(tmp_path: Path):
    kept = PromptCache(CacheParams(ram_mib=64, disk_mib=64, folder=str(tmp_path / "cache")))
    engine = Engine(make_backend(), prompt_cache=kept)
    read(engine)
    engine.close()
    assert kept.folder is not None
    kept.folder.flush(10)
    assert [(entry.chat_id, entry.name) for entry in kept.describe()] == [("a", "")]
    engine = Engine(make_backend(), prompt_cache=kept)
    assert reply(engine, next_of()).metrics.cache_source is CacheSource.DISK
    engine.close()
    kept.close()


@pytest.mark.parametrize("is_restored", [True, False], ids=["restored ahead", "restored by the reading"])
def test_source_is_the_disk_when_the_rest_of_a_restored_chat_was_read(is_restored: bool, tmp_path: Path):
    kept = PromptCache(CacheParams(ram_mib=64, disk_mib=64, folder=str(tmp_path / "cache")))
    engine = Engine(make_backend(), prompt_cache=kept)
    reply(engine, make_prompt("a", TURNS[0], chat_id="a", max_tokens=4))
    engine.close()
    assert kept.folder is not None
    kept.folder.flush(10)
    engine = Engine(make_backend(), prompt_cache=kept)
    if is_restored:
        engine.room.opened.open("a")
        assert engine.room.opened._reading is not None
        engine.room.opened._reading[1].result(10)
        engine.room.opened._settled_at = 0.0
        run(engine)
        assert engine._cache.num_used_cells > 0
    read(engine)
    answer = reply(engine, next_of())
    assert answer.text == alone(next_of()).text
    assert answer.metrics.cache_source is CacheSource.DISK
    assert num_evaluated(answer) < 40
    engine.close()
    kept.close()
