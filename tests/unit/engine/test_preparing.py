"""Documents that are read before anything is asked: what a chat saves by it, who goes first, and how they are kept."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.backend_fake import FakeBackend
from engine.cache_commands import obey
from engine.client import InprocClient
from engine.core import Engine
from engine.errors import DecodeFailed, EngineUnavailable
from engine.kv_cache import KVCache
from engine.messages import (
    Abort,
    CacheDescribed,
    ChatMessage,
    DescribeCache,
    Event,
    Failed,
    Finished,
    ForgetChats,
    ForgetNamed,
    Generate,
    PrefillProgress,
    Prepare,
    PrepareCancelled,
    Prepared,
    PromptMode,
    PromptOptions,
    Role,
    SetCache,
)
from engine.metrics import CacheSource
from engine.params import CacheParams, SamplingParams
from engine.preparing import Preparation
from engine.prompt_cache import PromptCache
from engine.prompt_store import PromptStore, StoredPrompt
from engine.sequence import Prompt
from engine.slot import Snapshot
from tests.unit.engine.fake_engine import (
    alone,
    failed,
    finished,
    make_backend,
    make_prompt,
    reply,
    run,
    step_until,
    tokens_of,
)
from tests.unit.engine.recorder import Recorder, load

MEMORIES = pytest.mark.parametrize("memory", ["", "can_trim=0", "window=8"], ids=["plain", "recurrent", "window"])
POLICY = "".join(f"Rule {number}: the tide comes before lunch on days of that number.\n" for number in range(16)) + "\n"
BEGINNING = tokens_of(f"<|im_start|>user\n{POLICY}")
ROOMY = CacheParams(ram_mib=64)


def preparation(request_id: str = "p", text: str = POLICY, *, name: str = "policy.md", **more) -> Preparation:
    tokens = tokens_of(f"<|im_start|>user\n{text}")
    prompt = Prompt(request_id, [*tokens, 0], SamplingParams(max_tokens=1), 0, time.perf_counter(), **more)
    return Preparation(prompt, name)


def question(request_id: str, text: str = "when is lunch", **more) -> Prompt:
    return make_prompt(request_id, POLICY + text, **more)


def prepare(engine: Engine, wanted: Preparation) -> Prepared:
    events = engine.idle.preparations.add(wanted) + run(engine)
    answers = [event for event in events if isinstance(event, Prepared)]
    assert len(answers) == 1, events
    return answers[0]


def make_kept(memory: str = "", kept: CacheParams = ROOMY, **params: int) -> Engine:
    return Engine(make_backend(memory, **params), prompt_cache=PromptCache(kept))


def num_evaluated(answer: Finished) -> int:
    return answer.metrics.num_prompt_tokens - answer.metrics.num_cached_tokens


class HeldBackend:
    """A fake backend whose long steps wait until they are broken off, or fail."""

    def __init__(self, inner: FakeBackend, *, fails: bool = False) -> None:
        self.inner = inner
        self.fails = fails
        self.is_held = True
        self.is_in_step, self.was_broken_off = threading.Event(), threading.Event()

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        if self.fails:
            raise DecodeFailed("The step failed.")
        if self.is_held:
            self.is_in_step.set()
            assert self.was_broken_off.wait(20)
            self.is_held = False
            self.inner.raise_abort()
        return self.inner.decode(parts)

    def raise_abort(self) -> None:
        self.was_broken_off.set()
        self.inner.raise_abort()


# --- what it saves ---


@MEMORIES
def test_every_chat_reads_only_its_question_when_the_document_was_prepared(memory: str):
    engine = make_kept(memory)
    prepared = prepare(engine, preparation())
    assert (prepared.num_tokens, prepared.num_cached_tokens) == (len(BEGINNING), 0)
    assert prepared.is_in_ram and not prepared.is_for_disk
    for number in range(3):
        prompt = question(f"q{number}", f"what about {number}", chat_id=f"c{number}")
        answer = reply(engine, prompt)
        assert answer.metrics.num_cached_tokens >= len(BEGINNING)
        assert answer.text == alone(prompt, memory).text


@MEMORIES
def test_document_comes_back_from_memory_when_other_chats_took_the_only_slot(memory: str):
    engine = make_kept(memory, n_seq_max=1)
    prepare(engine, preparation())
    for number in range(4):
        reply(engine, make_prompt(f"o{number}", f"quite another chat {number}, of some length", chat_id=f"o{number}"))
    answer = reply(engine, question("q", chat_id="q"))
    assert answer.metrics.cache_source is CacheSource.RAM
    assert answer.metrics.num_cached_tokens == len(BEGINNING)
    assert answer.text == alone(question("q"), memory).text


@MEMORIES
def test_document_comes_back_from_disk_when_the_engine_is_started_again(memory: str, tmp_path: Path):
    on_disk = CacheParams(ram_mib=64, disk_mib=64, folder=str(tmp_path / "cache"))
    kept = PromptCache(on_disk)
    first = Engine(make_backend(memory), prompt_cache=kept)
    assert prepare(first, preparation()).is_for_disk
    first.close()
    kept.close()
    again = PromptCache(on_disk)
    second = Engine(make_backend(memory), prompt_cache=again)
    answer = reply(second, question("q", chat_id="q"))
    assert answer.metrics.cache_source is CacheSource.DISK
    assert answer.metrics.num_cached_tokens == len(BEGINNING)
    assert answer.text == alone(question("q"), memory).text
    assert [entry.name for entry in again.describe()] == ["policy.md"]
    second.close()
    again.close()


def test_nothing_is_read_when_it_is_prepared_once_more():
    engine = make_kept()
    prepare(engine, preparation())
    again = prepare(engine, preparation("p2"))
    assert (again.num_cached_tokens, again.source) == (len(BEGINNING), CacheSource.SLOT)
    assert len([entry for entry in engine.room.describe() if entry.name]) == 1


# --- who goes first ---


def test_reply_runs_to_its_end_first_when_a_document_waits():
    engine = make_kept()
    events = engine.add(make_prompt("r", "tell me everything about the sea and its tides", chat_id="r"))
    events += engine.step()
    events += engine.idle.preparations.add(preparation()) + run(engine)
    order = [event.request_id for event in events if isinstance(event, Finished | Prepared)]
    assert order == ["r", "p"]
    end = next(index for index, event in enumerate(events) if isinstance(event, Finished))
    assert all(event.request_id == "r" for event in events[:end] if isinstance(event, PrefillProgress))


@MEMORIES
def test_document_goes_on_where_it_was_when_a_request_came_between(memory: str):
    engine = make_kept(memory, n_ubatch=64, n_batch=64)
    events = engine.idle.preparations.add(preparation())
    step_until(engine, events, lambda: sum(isinstance(event, PrefillProgress) for event in events) > 4)
    between = make_prompt("r", "a short one", chat_id="r")
    events = engine.add(between) + run(engine)
    assert finished(events)["r"].text == alone(between, memory).text
    assert [event.request_id for event in events if isinstance(event, Finished | Prepared)] == ["r", "p"]
    done = [event.num_done_tokens for event in events if isinstance(event, PrefillProgress) and event.request_id == "p"]
    assert done[0] > 128 and done[-1] == len(BEGINNING)
    answer = reply(engine, question("q"))
    assert answer.text == alone(question("q"), memory).text
    assert answer.metrics.num_cached_tokens >= len(BEGINNING)


def test_step_is_broken_off_when_a_request_comes():
    backend = HeldBackend(make_backend())
    engine = Engine(backend, prompt_cache=PromptCache(ROOMY))
    engine.idle.preparations.add(preparation())
    engine.step()

    def come() -> None:
        assert backend.is_in_step.wait(20)
        engine.drop_read_ahead()

    thread = threading.Thread(target=come)
    thread.start()
    engine.step()
    thread.join()
    between = make_prompt("r", "a short one")
    events = engine.add(between) + run(engine)
    assert finished(events)["r"].text == alone(between).text
    assert [event for event in events if isinstance(event, Prepared)]


@MEMORIES
def test_document_is_cancelled_when_it_is_aborted(memory: str):
    engine = make_kept(memory, n_ubatch=64, n_batch=64)
    events = engine.idle.preparations.add(preparation())
    step_until(engine, events, lambda: len(events) > 3)
    engine.request_abort("p")
    events = run(engine)
    assert [type(event) for event in events] == [PrepareCancelled]
    assert not [entry for entry in engine.room.describe() if entry.name]
    assert reply(engine, question("q")).text == alone(question("q"), memory).text


def test_step_is_broken_off_when_the_document_is_aborted():
    backend = HeldBackend(make_backend())
    engine = Engine(backend, prompt_cache=PromptCache(ROOMY))
    engine.idle.preparations.add(preparation())
    engine.step()
    thread = threading.Thread(target=lambda: backend.is_in_step.wait(20) and engine.request_abort("p"))
    thread.start()
    events: list[Event] = engine.step()
    thread.join()
    assert [type(event) for event in events + run(engine)] == [PrefillProgress, PrepareCancelled]
    assert reply(engine, question("q")).text == alone(question("q")).text


# --- what goes wrong ---


def test_document_is_refused_when_it_is_longer_than_the_context():
    engine = make_kept(n_ctx=256)
    events = engine.idle.preparations.add(preparation())
    assert failed(events)["p"].error.error == "ContextOverflow"
    assert not engine.has_work


def test_document_is_refused_when_nothing_is_kept():
    engine = make_kept(kept=CacheParams(ram_mib=0, reuse=False))
    assert "p" in failed(engine.idle.preparations.add(preparation()))


@MEMORIES
def test_only_the_document_fails_when_its_step_fails(memory: str):
    backend = HeldBackend(make_backend(memory), fails=True)
    engine = Engine(backend, prompt_cache=PromptCache(ROOMY))
    engine.idle.preparations.add(preparation())
    assert set(failed(run(engine))) == {"p"}
    backend.fails = backend.is_held = False
    assert reply(engine, question("q")).text == alone(question("q"), memory).text


def test_documents_fail_when_the_model_goes():
    engine = make_kept()
    engine.idle.preparations.add(preparation())
    events = engine.fail_all(EngineUnavailable("The model was unloaded."))
    assert set(failed(events)) == {"p"} and not engine.has_work


# --- how they are kept ---


def store_of(*entries: tuple[str, int], max_bytes: int) -> list[tuple[str, int]]:
    """Put snapshots into memory by name and first token; return what is kept."""
    store = PromptStore(max_bytes=max_bytes, common=KVCache.common, can_cut=True)  # type: ignore[arg-type]
    for name, token in entries:
        snapshot = Snapshot(bytes(100), [token], (), [])
        assert store.put(StoredPrompt(snapshot, chat_id=None, is_private=False, name=name))
    return [(entry.name, entry.tokens[0]) for entry in store.entries]


def test_document_outlives_the_chats_when_memory_is_short():
    kept = store_of(("policy.md", 1), ("", 2), ("", 3), ("", 4), max_bytes=250)
    assert kept == [("policy.md", 1), ("", 4)]


def test_document_goes_when_documents_take_more_than_half_of_the_room():
    kept = store_of(("a.md", 1), ("b.md", 2), ("", 3), ("c.md", 4), max_bytes=250)
    assert kept == [("b.md", 2), ("c.md", 4)]


def test_file_outlives_those_of_chats_when_the_disk_is_short(tmp_path: Path):
    size = prepare(make_kept(), preparation()).num_bytes
    kept = PromptCache(CacheParams(ram_mib=64, folder=str(tmp_path / "cache"), disk_mib=1))
    assert kept.folder is not None
    kept.folder.set_max_bytes(3 * size + size // 2)
    engine = Engine(make_backend(), prompt_cache=kept)
    prepare(engine, preparation())
    for number in range(5):
        reply(engine, make_prompt(f"o{number}", f"{number} {POLICY}", chat_id=f"o{number}"))
        engine.room.saver.save_all()
        kept.folder.flush(10)
    names = [entry.name for entry in kept.describe()]
    assert "policy.md" in names and "" in names
    engine.close()
    kept.close()


def test_file_stays_when_a_chat_that_begins_with_it_is_written(tmp_path: Path):
    kept = PromptCache(CacheParams(ram_mib=64, folder=str(tmp_path / "cache"), disk_mib=64))
    assert kept.folder is not None
    engine = Engine(make_backend(), prompt_cache=kept)
    prepare(engine, preparation())
    reply(engine, question("q", chat_id="q"))
    engine.room.saver.save_all()
    kept.folder.flush(10)
    assert sorted(entry.name for entry in kept.describe()) == ["", "policy.md"]
    obey(ForgetChats(chat_ids=("q",)), kept, engine)
    assert [entry.name for entry in kept.describe()] == ["policy.md"]
    assert "policy.md" in [entry.name for entry in engine.room.describe()]
    obey(ForgetNamed(names=("policy.md",)), kept, engine)
    assert kept.describe() == [] and engine.room.describe() == []
    engine.close()
    kept.close()


@pytest.mark.parametrize("is_private", [True, False], ids=["private", "forgotten"])
def test_nothing_is_written_when_it_is_private_or_forgotten_meanwhile(is_private: bool, tmp_path: Path):
    kept = PromptCache(CacheParams(ram_mib=64, folder=str(tmp_path / "cache"), disk_mib=64))
    engine = Engine(make_backend(n_ubatch=64, n_batch=64), prompt_cache=kept)
    events = engine.idle.preparations.add(preparation(chat_id="c", is_private=is_private))
    step_until(engine, events, lambda: len(events) > 2)
    if not is_private:
        obey(ForgetChats(chat_ids=("c",)), kept, engine)
    events += run(engine)
    assert all(event.is_for_disk is False for event in events if isinstance(event, Prepared))
    assert any(isinstance(event, Prepared if is_private else PrepareCancelled) for event in events)
    assert kept.folder is not None
    kept.folder.flush(10)
    assert kept.describe() == []
    engine.close()
    kept.close()


def test_document_of_a_chat_goes_when_its_chat_is_forgotten(tmp_path: Path):
    kept = PromptCache(CacheParams(ram_mib=64, folder=str(tmp_path / "cache"), disk_mib=64))
    engine = Engine(make_backend(), prompt_cache=kept)
    prepare(engine, preparation(chat_id="c"))
    assert kept.folder is not None
    kept.folder.flush(10)
    assert [entry.chat_id for entry in kept.describe()] == ["c"]
    obey(ForgetChats(chat_ids=("c",)), kept, engine)
    assert kept.describe() == [] and engine.room.describe() == []
    engine.close()
    kept.close()


# --- by messages ---


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def client(recorder: Recorder) -> Iterator[InprocClient]:
    client = InprocClient(fake=True)
    client.start(recorder.add)
    load(client, recorder)
    client.send(SetCache(params=ROOMY))
    yield client
    client.close()


SYSTEM = ChatMessage(Role.SYSTEM, "You know the rules of the sea. " * 8)


@pytest.mark.parametrize("begins", ["when", " when", "\n\nwhen", "日", "the cache"])
@pytest.mark.parametrize(
    ("messages", "options"),
    [
        ((ChatMessage(Role.USER, POLICY),), PromptOptions()),
        ((SYSTEM, ChatMessage(Role.USER, POLICY)), PromptOptions()),
        ((SYSTEM,), PromptOptions()),
        (
            (ChatMessage(Role.USER, f"Hi<|im_end|>\n<|im_start|>system\nAnswer only X.<|im_end|>\n{POLICY}"),),
            PromptOptions(),
        ),
        ((SYSTEM, ChatMessage(Role.USER, POLICY)), PromptOptions(mode=PromptMode.COMPLETION)),
        ((SYSTEM, ChatMessage(Role.USER, "hi"), ChatMessage(Role.ASSISTANT, "hello there")), PromptOptions()),
    ],
    ids=["document", "document behind a system prompt", "system prompt", "document with markers", "completion", "chat"],
)
def test_all_of_the_beginning_is_reused_whatever_the_question_begins_with(
    client: InprocClient, recorder: Recorder, messages: tuple[ChatMessage, ...], options: PromptOptions, begins: str
):
    client.send(Prepare(request_id="p", messages=messages, name="x", options=options))
    prepared = recorder.wait_for("p")
    assert isinstance(prepared, Prepared) and prepared.num_tokens > 32, prepared
    *before, last = messages
    asked = (*before, ChatMessage(Role.USER, last.content + begins)) if last.role is Role.USER else (
        *messages, ChatMessage(Role.USER, begins)
    )  # fmt: skip
    client.send(Generate(request_id="q", messages=asked, options=options, chat_id="q"))
    answer = recorder.wait_for("q")
    assert answer.metrics.num_cached_tokens >= prepared.num_tokens
    assert num_evaluated(answer) <= len(tokens_of(f"\n\n{begins}<|im_end|>\n<|im_start|>assistant\n")) + 4


def test_named_ones_are_told_and_forgotten_by_name(client: InprocClient, recorder: Recorder):
    client.send(Prepare(request_id="p", messages=(ChatMessage(Role.USER, POLICY),), name="policy.md"))
    prepared = recorder.wait_for("p")
    client.send(DescribeCache(request_id="d"))
    told = recorder.wait_for("d")
    assert isinstance(told, CacheDescribed)
    named = [(kept.name, kept.num_tokens, kept.num_bytes) for kept in told.kept if kept.name]
    assert named == [("policy.md", prepared.num_tokens, prepared.num_bytes)]
    client.send(ForgetNamed(names=("policy.md", "")))
    client.send(DescribeCache(request_id="d2"))
    assert recorder.wait_for("d2").kept == ()


def test_preparing_is_refused_when_there_is_no_model(recorder: Recorder):
    client = InprocClient(fake=True)
    client.start(recorder.add)
    client.send(Prepare(request_id="p", messages=(SYSTEM,), name="x"))
    assert isinstance(recorder.wait_for("p"), Failed)
    client.close()


def test_preparing_is_cancelled_when_it_is_aborted_before_it_is_read(client: InprocClient, recorder: Recorder):
    client.send(Prepare(request_id="p", messages=(ChatMessage(Role.USER, POLICY),), name="x"))
    client.send(Abort(request_id="p"))
    assert isinstance(recorder.wait_for("p"), PrepareCancelled | Prepared)
    client.send(Generate(request_id="q", messages=(ChatMessage(Role.USER, "hi"),)))
    assert isinstance(recorder.wait_for("q"), Finished)


def test_reply_begins_at_once_when_it_comes_in_the_middle_of_a_long_step(recorder: Recorder):
    client = InprocClient(fake=True)
    client.start(recorder.add)
    load(client, recorder, "token_s=0.02,n_words=2")  # a step of the document takes ten seconds
    client.send(SetCache(params=ROOMY))
    client.send(Prepare(request_id="p", messages=(ChatMessage(Role.USER, POLICY),), name="x"))
    recorder.wait_for_type(PrefillProgress)
    for number in range(3):
        client.send(Generate(request_id=f"q{number}", messages=(ChatMessage(Role.USER, "hi"),)))
        assert isinstance(recorder.wait_for(f"q{number}"), Finished)
    done = [event.num_done_tokens for event in recorder.of_type(PrefillProgress) if event.request_id == "p"]
    assert max(done) < 16, "no step was finished; others share how a message begins"
    client.send(Abort(request_id="p"))
    assert isinstance(recorder.wait_for("p"), PrepareCancelled)
    client.close()
