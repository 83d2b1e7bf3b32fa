"""Stored replies: given again to just the same request, and to no other; never of a private chat, never a half one."""

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.backend import StateKeys
from engine.client import InprocClient
from engine.messages import (
    Abort,
    Adapter,
    CacheDescribed,
    ClearCache,
    Delta,
    DescribeCache,
    Finished,
    FinishReason,
    ForgetChats,
    Generate,
    LoadModel,
    ModelLoaded,
    PromptMode,
    PromptOptions,
    SetCache,
)
from engine.metrics import CacheSource
from engine.params import CacheParams, ModelParams, SamplingParams
from engine.response_cache import ResponseCache, key_of
from engine.response_file import KeptReply, reply_bytes
from tests.unit.engine.fake_engine import make_backend, make_prompt
from tests.unit.engine.recorder import Recorder, chat
from tests.unit.engine.reply_writers import reply_of

GREEDY = SamplingParams(temperature=0.0, max_tokens=12)
MARKER = "zebra-marker"


@dataclasses.dataclass
class Desk:
    """An engine on the fake backend that stores replies.

    Attributes:
        folder: of its files.
    """

    client: InprocClient
    recorder: Recorder
    folder: Path
    number: int = 0

    def load(self, *, path: str = "fake:", **params: Any) -> None:
        self.number += 1
        request_id = f"load{self.number}"
        self.client.send(LoadModel(request_id=request_id, path=path, params=ModelParams(**params)))
        assert isinstance(self.recorder.wait_for(request_id), ModelLoaded)

    def set(self, **params: Any) -> None:
        usual: dict[str, Any] = {"ram_mib": 0, "folder": str(self.folder), "responses": True}
        self.client.send(SetCache(params=CacheParams(**usual | params)))

    def ask(self, text: str = "hello", **command: Any) -> Finished:
        self.number += 1
        request_id = f"ask{self.number}"
        usual: dict[str, Any] = {"sampling": GREEDY, "chat_id": "a", "messages": chat(text)}
        self.client.send(Generate(request_id=request_id, **usual | command))
        answer = self.recorder.wait_for(request_id)
        assert isinstance(answer, Finished)
        return answer

    def describe(self, kind: type[DescribeCache | ClearCache] = DescribeCache) -> CacheDescribed:
        self.number += 1
        request_id = f"describe{self.number}"
        self.client.send(kind(request_id=request_id))
        self.recorder.wait(lambda events: any(_is_described(event, request_id) for event in events))
        return next(event for event in self.recorder.events if _is_described(event, request_id))

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.reply"))


def _is_described(event: object, request_id: str) -> bool:
    return isinstance(event, CacheDescribed) and event.request_id == request_id


MakeDesk = Callable[[], Desk]


@pytest.fixture
def make_desk(tmp_path: Path) -> Iterator[MakeDesk]:
    """Return what starts an engine; all share one folder."""
    made: list[Desk] = []

    def make() -> Desk:
        recorder = Recorder()
        client = InprocClient(fake=True)
        client.start(recorder.add)
        desk = Desk(client, recorder, tmp_path / "cache")
        made.append(desk)
        desk.set()
        desk.load()
        return desk

    yield make
    for desk in made:
        desk.client.close()


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    return make_desk()


def is_stored(reply: Finished) -> bool:
    return reply.metrics.cache_source is CacheSource.RESPONSE


def without_times(reply: Finished) -> tuple[object, ...]:
    return reply.text, reply.thinking, reply.token_ids, reply.finish_reason, reply.stop_string


@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(seed=7, max_tokens=12)], ids=["greedy", "fixed seed"])
def test_reply_is_given_again_when_the_same_is_asked_in_another_chat(sampling: SamplingParams, desk: Desk):
    first, again = desk.ask(sampling=sampling), desk.ask(sampling=sampling, chat_id="b")
    assert not is_stored(first)
    assert is_stored(again)
    assert without_times(first) == without_times(again)


def test_nothing_is_told_that_did_not_happen_when_a_reply_is_stored(desk: Desk):
    first, again = desk.ask(), desk.ask()
    told, report = again.metrics, again.cache
    assert told.num_prompt_tokens == told.num_cached_tokens == first.metrics.num_prompt_tokens
    assert told.num_generated_tokens == len(first.token_ids)
    assert told.seed == first.metrics.seed
    assert told.ttft_s is not None
    assert (told.prefill_s, told.decode_s, told.prefill_rate, told.decode_rate, told.tpot_s) == (None,) * 5
    assert (told.num_threads, told.num_drafts, told.cache_miss_cause) == (None, 0, None)
    assert report is not None
    assert (report.source, report.num_cached_tokens) == (CacheSource.RESPONSE, told.num_prompt_tokens)
    assert report.seconds_saved is not None


def test_deltas_are_the_whole_text_and_one_end_comes_when_a_reply_is_stored(desk: Desk):
    desk.ask()
    again = desk.ask()
    events = [event for event in desk.recorder.events if getattr(event, "request_id", "") == again.request_id]
    assert [type(event) for event in events] == [Delta, Finished]
    assert events[0].text == again.text


OTHERS: dict[str, dict[str, Any]] = {
    "text": {"messages": chat("hullo")},
    "length": {"sampling": msgspec.structs.replace(GREEDY, max_tokens=11)},
    "stop string": {"sampling": msgspec.structs.replace(GREEDY, stop=("e",))},
    "bias": {"sampling": msgspec.structs.replace(GREEDY, logit_bias=((65, 5.0),))},
    "grammar": {"sampling": msgspec.structs.replace(GREEDY, grammar='root ::= "a"+')},
    "schema": {"sampling": msgspec.structs.replace(GREEDY, json_schema='{"type": "integer"}')},
    "penalty": {"sampling": msgspec.structs.replace(GREEDY, repeat_penalty=1.5)},
    "reproducible": {"sampling": msgspec.structs.replace(GREEDY, reproducible=True)},
    "thinking budget": {"sampling": msgspec.structs.replace(GREEDY, thinking_budget=3)},
    "completion": {"options": PromptOptions(mode=PromptMode.COMPLETION)},
}


def test_reply_is_computed_when_anything_of_the_request_is_another(desk: Desk):
    desk.ask()
    assert {name: is_stored(desk.ask(**other)) for name, other in OTHERS.items()} == dict.fromkeys(OTHERS, False)
    assert is_stored(desk.ask()), "the first one is still there"


@pytest.mark.parametrize(
    "keys", [StateKeys("other", "s"), StateKeys("m", "other")], ids=["another model", "another context"]
)
def test_request_is_another_when_the_model_or_its_context_is(keys: StateKeys):
    backend, command, prompt = make_backend(), Generate(request_id="r", messages=chat()), make_prompt("r", "hello")
    backend.state_keys = StateKeys("m", "s")
    before = key_of(command, prompt, backend)
    backend.state_keys = keys
    assert key_of(command, prompt, backend) != before


def test_request_is_another_when_its_adapters_are():
    backend, command, prompt = make_backend(), Generate(request_id="r", messages=chat()), make_prompt("r", "hello")
    keys = {
        key_of(command, prompt._replace(adapters=adapters), backend)
        for adapters in ((), (Adapter(path="fake:a"),), (Adapter(path="fake:a", scale=0.5),))
    }
    assert len(keys) == 3


def test_request_is_the_same_when_only_its_names_and_the_unused_seed_differ():
    backend, prompt = make_backend(), make_prompt("r", "hello")
    first = Generate(request_id="a", messages=chat(), sampling=GREEDY)
    other = Generate(
        request_id="b",
        messages=chat("hello", "rendered", "alike"),
        sampling=msgspec.structs.replace(GREEDY, seed=4),
        chat_id="c",
        read_ahead=False,
        is_fresh=True,
    )
    assert key_of(first, prompt, backend) == key_of(other, prompt._replace(request_id="b"), backend)


def test_reply_is_computed_when_a_request_has_no_fixed_seed(desk: Desk):
    random = SamplingParams(max_tokens=5)
    assert [is_stored(desk.ask(sampling=random)) for _ in range(2)] == [False, False]
    assert desk.describe().num_replies == 0


def test_reply_is_computed_and_stored_anew_when_it_is_asked_for_afresh(desk: Desk):
    desk.ask()
    assert not is_stored(desk.ask(is_fresh=True))
    assert is_stored(desk.ask())
    assert desk.describe().num_replies == 1


def test_nothing_is_stored_nor_given_when_a_chat_is_private(desk: Desk):
    desk.ask(MARKER, is_private=True)
    assert desk.describe().num_replies == 0
    desk.ask(MARKER)
    assert not is_stored(desk.ask(MARKER, is_private=True))


def test_half_a_reply_is_not_stored_when_it_is_aborted(desk: Desk):
    desk.load(path="fake:step_s=0.02")
    endless = msgspec.structs.replace(GREEDY, max_tokens=500)
    desk.client.send(Generate(request_id="half", messages=chat(), sampling=endless))
    desk.recorder.wait_for_text("half")
    desk.client.send(Abort(request_id="half"))
    assert desk.recorder.wait_for("half").finish_reason is FinishReason.ABORT
    assert desk.describe().num_replies == 0


def test_nothing_is_stored_when_it_is_off(desk: Desk):
    desk.set(responses=False)
    desk.ask()
    assert not is_stored(desk.ask())
    assert desk.describe().num_replies == 0


@pytest.mark.parametrize("how", ["off", "clear", "forget", "forget the other"])
def test_reply_goes_from_memory_and_disk_when_it_is_dropped(how: str, make_desk: MakeDesk):
    desk = make_desk()
    desk.ask()
    assert is_stored(desk.ask(chat_id="b"))
    match how:
        case "off":
            desk.set(responses=False)
            desk.set()
        case "clear":
            assert desk.describe(ClearCache).num_replies == 0
        case "forget":
            desk.client.send(ForgetChats(chat_ids=("a",)))
        case _:
            desk.client.send(ForgetChats(chat_ids=("b",)))
    assert desk.describe().num_replies == 0
    desk.client.close()
    assert desk.files() == []
    assert not is_stored(make_desk().ask())


def test_others_stay_when_a_chat_is_forgotten(desk: Desk):
    desk.ask("one", chat_id="a")
    desk.ask("two", chat_id="b")
    desk.client.send(ForgetChats(chat_ids=("a",)))
    assert is_stored(desk.ask("two", chat_id="b"))
    assert not is_stored(desk.ask("one", chat_id="a"))


def test_reply_is_not_stored_when_its_chat_is_forgotten_meanwhile(desk: Desk):
    desk.load(path="fake:step_s=0.02")
    desk.client.send(Generate(request_id="r", messages=chat(), sampling=GREEDY, chat_id="a"))
    desk.recorder.wait_for_text("r")
    desk.client.send(ForgetChats(chat_ids=("a",)))
    desk.recorder.wait_for("r")
    assert desk.describe().num_replies == 0


def test_reply_is_given_again_when_the_engine_was_started_anew(make_desk: MakeDesk):
    desk = make_desk()
    first = desk.ask()
    desk.client.close()
    [path] = desk.files()
    assert path.stat().st_mode & 0o777 == 0o600 or os.name != "posix"
    again = make_desk().ask()
    assert is_stored(again)
    assert without_times(first) == without_times(again)


@pytest.mark.parametrize("params", [{"disk_mib": 0}, {"folder": ""}], ids=["no room", "no folder"])
def test_reply_is_in_memory_alone_when_nothing_is_written(params: dict[str, Any], desk: Desk):
    desk.set(**params)
    desk.ask()
    assert is_stored(desk.ask())
    desk.client.close()
    assert desk.files() == []


def test_reply_is_in_memory_alone_when_it_belongs_to_no_chat(desk: Desk):
    desk.ask(chat_id=None)
    assert is_stored(desk.ask(chat_id=None))
    desk.client.close()
    assert desk.files() == []


def torn(data: bytes) -> bytes:
    return data[:-3]


def flipped(data: bytes) -> bytes:
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


@pytest.mark.parametrize(
    "spoil",
    [torn, flipped, lambda data: b"", lambda data: data + b"x", lambda data: b"GGUF" + data[4:]],
    ids=["torn", "flipped", "empty", "longer", "foreign"],
)
def test_file_is_discarded_and_the_reply_computed_when_it_is_not_whole(
    spoil: Callable[[bytes], bytes], make_desk: MakeDesk
):
    desk = make_desk()
    first = desk.ask()
    desk.client.close()
    [path] = desk.files()
    path.write_bytes(spoil(path.read_bytes()))
    again = make_desk()
    answer = again.ask(is_fresh=False)
    assert not is_stored(answer)
    assert answer.text == first.text


@pytest.mark.parametrize(
    "change", [{"finish_reason": FinishReason.ABORT}, {"token_ids": (-4,)}, {"key": "another"}, {"seconds": -1.0}]
)
def test_file_is_discarded_when_its_checksum_is_right_and_its_content_is_not(
    change: dict[str, Any], make_desk: MakeDesk
):
    desk = make_desk()
    desk.ask()
    desk.client.close()
    [path] = desk.files()
    reply = msgspec.msgpack.decode(path.read_bytes()[20:], type=KeptReply)
    path.write_bytes(reply_bytes(msgspec.structs.replace(reply, **change)))
    again = make_desk()
    again.describe(ClearCache)  # waits for the scan
    again.client.close()
    assert again.files() == []


def test_others_are_found_when_a_name_is_a_pipe_or_a_folder(make_desk: MakeDesk):
    desk = make_desk()
    desk.ask()
    desk.client.close()
    (desk.folder / "0.reply").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(desk.folder / "1.reply")
    assert is_stored(make_desk().ask())


def test_what_a_killed_process_left_goes_when_the_folder_is_opened(make_desk: MakeDesk, tmp_path: Path):
    (tmp_path / "cache").mkdir()
    left = tmp_path / "cache" / "k-1.reply-part"
    left.write_bytes(b"half a reply")
    make_desk().ask()
    assert not left.exists()


def test_those_used_longest_ago_go_when_there_are_too_many_bytes(tmp_path: Path):
    cache = ResponseCache(max_bytes=1000)
    cache.set_on(True, tmp_path / "cache", max_disk_bytes=1 << 30, close_s=5)
    for number in range(6):
        cache._put(reply_of(number, size=100))
        assert cache._find("key0") is not None, "it is used again and again"
    assert cache.num_bytes <= 1000
    assert cache.num_replies >= 2
    assert cache._find("key1") is None
    assert cache._find("key5") is not None
    cache.close(5)
    assert sum(path.stat().st_size for path in (tmp_path / "cache").glob("*.reply")) <= 1000


def test_reply_is_not_kept_when_it_is_larger_than_all_may_be(tmp_path: Path):
    cache = ResponseCache(max_bytes=100)
    cache.set_on(True, None, max_disk_bytes=0, close_s=5)
    cache._put(reply_of(1, size=100))
    assert (cache.num_replies, cache.num_bytes) == (0, 0)
