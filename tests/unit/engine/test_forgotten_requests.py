"""Chats that are forgotten while their requests are on the way: nothing of them is kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.client import InprocClient
from engine.messages import (
    CacheDescribed,
    ChatMessage,
    ClearCache,
    Command,
    DescribeCache,
    Finished,
    ForgetChats,
    Generate,
    Prepare,
    PrepareCancelled,
    Role,
    SetCache,
    UnloadModel,
)
from engine.params import CacheParams, SamplingParams
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
    return [path.suffix for path in folder.iterdir() if path.suffix]


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
