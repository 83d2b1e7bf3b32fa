"""Chats that are forgotten while their requests are on the way: nothing of them is kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cache_commands import obey
from engine.client import InprocClient
from engine.core import Engine
from engine.messages import (
    CacheDescribed,
    ChatMessage,
    ClearCache,
    Command,
    Delta,
    DescribeCache,
    Finished,
    ForgetChats,
    Generate,
    Prepare,
    PrepareCancelled,
    Prepared,
    Role,
    SetCache,
    UnloadModel,
)
from engine.params import CacheParams, SamplingParams
from engine.preparing import Preparation
from engine.prompt_cache import PromptCache
from engine.sequence import Prompt
from tests.unit.engine.fake_engine import alone, finished, make_backend, make_prompt, run, step_until, tokens_of
from tests.unit.engine.recorder import Recorder, load

WORDS = "tell me everything about the sea and its tides, and about whatever lives in it"
MESSAGES = (ChatMessage(Role.USER, WORDS),)


@pytest.fixture
def client(recorder: Recorder, tmp_path: Path) -> Iterator[InprocClient]:
    client = InprocClient(fake=True)
    client.start(recorder.add)
    load(client, recorder, n_ctx=512)
    client.send(SetCache(params=CacheParams(ram_mib=64, disk_mib=64, folder=str(tmp_path / "cache"), responses=True)))
    yield client
    client.close()


def on_disk(client: InprocClient, recorder: Recorder, folder: Path) -> list[str]:
    """Return the files there are when the model has gone."""
    client.send(UnloadModel())
    client.close()
    return [path.suffix for path in folder.iterdir() if path.suffix not in ("", ".gone")]


@pytest.mark.parametrize(
    ("command", "is_kept"),
    [(ForgetChats(chat_ids=("a",)), False), (ClearCache(request_id="c"), False), (ForgetChats(chat_ids=("b",)), True)],
    ids=["chat", "all", "other chat"],
)
def test_nothing_is_written_when_the_chat_is_forgotten_before_its_prompt_is_made(
    command: Command, is_kept: bool, client: InprocClient, recorder: Recorder, tmp_path: Path
):
    sampling = SamplingParams(max_tokens=4, temperature=0.0)
    client.send(Generate(request_id="a", messages=MESSAGES, sampling=sampling, chat_id="a"))
    client.send(command)  # is handled at once, while the tokeniser has the other one
    recorder.wait_for_type(Finished)
    assert bool(on_disk(client, recorder, tmp_path / "cache")) is is_kept


def test_reading_ahead_is_given_up_when_its_chat_is_forgotten(client: InprocClient, recorder: Recorder):
    messages = (ChatMessage(Role.USER, WORDS * 3),)
    client.send(Prepare(request_id="p", messages=messages, name="secret.pdf", chat_id="a", is_private=True))
    client.send(ForgetChats(chat_ids=("a",)))
    recorder.wait_for_type(PrepareCancelled)
    client.send(DescribeCache(request_id="d"))
    recorder.wait_for_type(CacheDescribed)
    assert recorder.of_type(CacheDescribed)[0].kept == ()


def test_what_is_read_ahead_stays_its_own_chats_when_another_took_its_slot_meanwhile():
    engine = Engine(
        make_backend(n_ubatch=64, n_batch=64, n_seq_max=1), prompt_cache=PromptCache(CacheParams(ram_mib=64))
    )
    policy = tokens_of("<|im_start|>user\n" + WORDS * 4)
    prompt = Prompt("p", [*policy, 0], SamplingParams(max_tokens=1), 0, 0.0, chat_id="p")
    events = engine.idle.preparations.add(Preparation(prompt, "policy.md"))
    step_until(engine, events, lambda: len(events) > 2)
    other = Prompt("x", [*policy, *tokens_of("when is lunch")], SamplingParams(), 0, 0.0, chat_id="x")
    events += engine.add(other)
    events += engine.step()
    engine.request_abort("x")
    events += run(engine)
    assert any(isinstance(event, Prepared) for event in events)
    assert {kept.chat_id for kept in engine.room.describe() if kept.name == "policy.md"} == {"p"}


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "ended"])
def test_nothing_stays_in_the_context_when_a_chat_was_forgotten_while_its_reply_ran(is_stopped: bool):
    kept = PromptCache(CacheParams(ram_mib=64))
    engine = Engine(make_backend(), prompt_cache=kept)
    chat, other = (make_prompt(name, WORDS, name, chat_id=name, max_tokens=9) for name in "ab")
    events = [*engine.add(chat), *engine.add(other)]
    step_until(engine, events, lambda: any(isinstance(event, Delta) for event in events))
    if is_stopped:
        engine.request_abort("a")
    obey(ForgetChats(chat_ids=("a",)), kept, engine)
    events += run(engine)
    assert {kept.chat_id for kept in engine.room.describe()} == {"b"}
    assert finished(events)["b"].text == alone(other).text
