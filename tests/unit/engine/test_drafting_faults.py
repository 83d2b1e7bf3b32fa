"""Drafting where something comes in between: what is counted, kept and forgotten then."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from engine.backend import AdapterKey, BatchPart, DecodeStatus
from engine.backend_fake import FakeBackend
from engine.backend_fake_settings import settings_of
from engine.core import Engine
from engine.messages import Adapter
from engine.params import DraftMode, ModelParams
from engine.sequence import Sequence as EngineSequence
from engine.speculative.draft_model import ModelDrafter
from engine.speculative.referee import Choice
from engine.speculative.step_times import StepTimes
from engine.speculative.strict import NUM_CELLS
from engine.thread_governor import StepKind
from engine.threads import StepThreads
from tests.support.eager_referee import EagerReferee, FullReferee
from tests.unit.engine.drafting_engine import drafted, drafting_engine
from tests.unit.engine.fake_engine import (
    alone,
    ask,
    failed,
    finished,
    make_backend,
    make_prompt,
    reply,
    run,
    step_until,
)


class NotingReferee(EagerReferee):
    """Notes what it is told of each step."""

    noted: ClassVar[list[tuple[Choice, int]]] = []

    def note(self, choice: Choice, tokens: Sequence[int], **measured: Any) -> None:
        """See Referee."""
        self.noted.append((choice, len(tokens)))
        super().note(choice, tokens, **measured)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Choice, int]]:
    """Return what NotingReferee notes in a test."""
    monkeypatch.setattr(NotingReferee, "noted", [])
    return NotingReferee.noted


def test_each_token_is_counted_once_when_replies_with_other_adapters_take_turns(noted):
    first = drafted(make_prompt("a", "hello"))
    engine = drafting_engine(draft="draft_right=1", referee=NotingReferee, n_seq_max=2)
    other = make_prompt("b", "there", max_tokens=5)._replace(adapters=(Adapter(path="lora.gguf"),))
    replies = ask(engine, first, other)
    assert sum(number for _, number in noted) <= len(replies["a"].token_ids)


def test_a_step_without_drafts_is_told_as_plain_when_the_memory_had_no_room_before(noted):
    engine = drafting_engine(draft="draft_right=1", referee=NotingReferee)
    events = engine.add(drafted(make_prompt("a", "hello")))
    step_until(engine, events, lambda: len(noted) > 2)
    engine.speculator.rest()
    before = len(noted)
    step_until(engine, events, lambda: len(noted) > before + 2)
    assert [(choice.num_tokens, number) for choice, number in noted[before : before + 2]] == [(0, 1), (0, 1)]
    run(engine)


def test_a_running_reply_drafts_no_more_when_its_draft_model_is_another():
    prompt = make_prompt("a", "hello")
    engine = drafting_engine(draft="draft_right=1")
    events = engine.add(drafted(prompt, DraftMode.MODEL))
    step_until(engine, events, lambda: len(engine._scheduler.running[0].generated) > 5)
    drafting = engine._scheduler.running[0].drafting
    engine.speculator.set_model(ModelDrafter(make_backend(), vocabulary_size=engine.backend.description.n_vocab))
    assert drafting is not None
    assert drafting.sampler is None  # it would look at logits of the model that is gone
    events += run(engine)
    assert finished(events)["a"].token_ids == alone(prompt).token_ids
    after = reply(engine, drafted(make_prompt("b", "hello"), DraftMode.MODEL))
    assert after.speculative.num_drafted_tokens > 0


def test_strict_drafts_as_ever_when_an_abort_came_too_late_before():
    engine = drafting_engine(draft="draft_right=1", referee=FullReferee)
    engine.backend.raise_abort()  # of a request whose step has just ended
    got = reply(engine, drafted(make_prompt("a", "hello"), strict=True))
    assert got.speculative.num_accepted_tokens > 0


def test_strict_drafts_as_ever_when_chats_filled_the_context_before():
    engine = drafting_engine(draft="draft_right=1", referee=FullReferee, n_ctx=205, n_seq_max=4)
    for name in "abc":
        reply(engine, make_prompt(name, name * 30, max_tokens=20))
    assert engine._cache.n_ctx - engine._cache.num_used_cells < NUM_CELLS
    got = reply(engine, drafted(make_prompt("d", "hello", max_tokens=40), strict=True))
    assert got.speculative.num_accepted_tokens > 0


def test_a_strict_reply_takes_one_thread_for_single_tokens_when_the_steps_before_did():
    backend = make_backend("tells_threads=1")
    backend.description = msgspec.structs.replace(backend.description, n_threads=2)
    threads = StepThreads(backend.set_threads, count=2)
    threads.begin([BatchPart(0, 0, [1], wants_logits=True)], is_strict=True)
    engine = Engine(backend, threads=threads)
    engine.speculator.prepare(EngineSequence(drafted(make_prompt("a", "hello"), strict=True), backend.vocabulary))
    threads.begin([BatchPart(0, 0, [1], wants_logits=True)], is_strict=True)
    assert backend.n_threads[0] == 1


class AdapterBackend(FakeBackend):
    """Computes several tokens otherwise where an adapter is in effect."""

    def __init__(self, settings: str = "", **params: Any) -> None:
        path = f"fake:{settings}"
        super().__init__(path, ModelParams(**params), settings_of(path))
        self.key: AdapterKey = ()

    def use_adapters(self, key: AdapterKey) -> None:
        """See Backend."""
        self.key = key
        super().use_adapters(key)

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        """See Backend."""
        status = super().decode(parts)
        if self.key:
            self._row_shapes = [b"several" if len(parts[0].tokens) > 1 else b"" for _ in self._row_shapes]
        return status


def test_strict_checks_what_is_the_same_with_its_adapters_when_these_compute_otherwise():
    engine = drafting_engine(backend=AdapterBackend(), draft="draft_right=1", referee=FullReferee)
    strict = drafted(make_prompt("a", "hello"), strict=True)
    assert reply(engine, strict).speculative.num_drafted_tokens > 0
    adapted = drafted(make_prompt("b", "hello"), strict=True)._replace(adapters=(Adapter(path="lora.gguf"),))
    assert reply(engine, adapted).speculative.num_drafted_tokens == 0


def test_nothing_of_a_chat_is_kept_when_it_is_forgotten_while_it_is_written():
    engine = drafting_engine()
    events = engine.add(drafted(make_prompt("a", "hello", chat_id="c")))
    step_until(engine, events, lambda: len(engine._scheduler.running[0].generated) > 5)
    engine.forget(["c"])
    run(engine)
    assert not engine.speculator._indexes


@pytest.mark.parametrize("chat_ids", [["c"], None], ids=["one", "all"])
def test_the_draft_model_holds_no_more_than_the_slots_when_chats_are_forgotten(chat_ids: list[str] | None):
    engine = drafting_engine(n_seq_max=2)
    reply(engine, drafted(make_prompt("a", "hello", chat_id="c")))
    kept = reply(engine, drafted(make_prompt("b", "and now something else", chat_id="d")))
    engine.forget(chat_ids)
    model = engine.speculator._model
    assert model is not None
    for slot in engine._cache.slots:
        assert model.backend.seq_len(slot.seq_id) <= len(slot.tokens)
    assert any(model.backend.seq_len(slot.seq_id) for slot in engine._cache.slots) is (chat_ids is not None)
    again = drafted(make_prompt("b2", "and now something else", chat_id="d"))
    assert reply(engine, again).token_ids == kept.token_ids


def test_a_draft_is_right_again_when_another_request_had_the_sequence_while_it_was_paused():
    engine = drafting_engine(n_seq_max=2)
    begun: list[int] = []
    assert engine.speculator._model is not None
    engine.speculator._model.begin = begun.append
    events = engine.add(drafted(make_prompt("a", "hello")))
    step_until(engine, events, lambda: len(engine._scheduler.running[0].generated) > 5)
    engine._pause(engine._scheduler.running[0])
    engine._is_admission_due = True
    events += run(engine)
    assert len(begun) == 2
    assert not failed(events)


class FullBackend(FakeBackend):
    """Has no room for more than a token where the cache counts free cells."""

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        """See Backend."""
        if any(part.num_drafted for part in parts):
            return DecodeStatus.NO_ROOM
        return super().decode(parts)


def test_measuring_ends_when_the_memory_has_no_room_for_it():
    engine = drafting_engine(backend=FullBackend("fake:", ModelParams(), settings_of("fake:")))
    engine.speculator.calibration.want()
    run(engine)
    assert not engine.speculator.calibration.is_due


def test_one_count_of_threads_is_told_when_steps_with_and_without_drafts_take_others():
    threads = StepThreads(lambda n_decode, n_prefill: None, count=2, is_fixed=False, count_allowed=lambda: 2)
    assert threads._governor is not None
    threads._governor._lanes[StepKind.VERIFY].settled = 1
    told = []
    for number in range(10):
        threads.begin([BatchPart(0, 9, [1, 2, 3], True, 2) if number % 2 else BatchPart(0, 9, [1], wants_logits=True)])
        told.append(threads.end(0.01))
    assert told == [None] * 10


class InterruptedBackend(FakeBackend):
    """Something comes during each of its steps."""

    def __init__(self) -> None:
        super().__init__("fake:", ModelParams(), settings_of("fake:"))
        self.on_step: Callable[[], None] = lambda: None
        self.num_steps = 0

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        """See Backend."""
        self.num_steps += 1
        self.on_step()
        return super().decode(parts)


def test_measuring_makes_way_when_something_comes():
    backend = InterruptedBackend()
    engine = Engine(backend)
    calibration = engine.speculator.calibration
    backend.on_step = calibration.break_off
    calibration.want()
    calibration.run(10.0)
    assert backend.num_steps == 1
    assert calibration.is_due


def test_times_of_strict_steps_are_compared_with_each_other_when_they_take_other_threads(
    monkeypatch: pytest.MonkeyPatch,
):
    seen: list[tuple[int, int]] = []

    def observe(self: StepTimes, num_rows: int, seconds: float, *, num_threads: int = 1, **_: Any) -> None:
        seen.append((num_rows, num_threads))

    backend = make_backend()
    engine = Engine(backend, threads=StepThreads(backend.set_threads, count=2))
    engine.speculator.referee = FullReferee
    engine.speculator.set_model(ModelDrafter(make_backend(), vocabulary_size=backend.description.n_vocab))
    monkeypatch.setattr(StepTimes, "observe", observe)
    events = engine.add(drafted(make_prompt("a", "hello", max_tokens=18), strict=True, draft_max=3))
    step_until(engine, events, lambda: bool(finished(events)))
    assert {num_rows for num_rows, _ in seen} == {1, 4}
    assert len({num_threads for _, num_threads in seen}) == 1


def test_a_draft_model_that_reads_for_measuring_makes_way_when_something_comes():
    target, draft = InterruptedBackend(), InterruptedBackend()
    engine = Engine(target)
    engine.speculator.set_model(ModelDrafter(draft, vocabulary_size=target.description.n_vocab))
    calibration = engine.speculator.calibration
    draft.on_step, draft.num_steps = calibration.break_off, 0
    calibration.want()
    for _ in range(100):
        calibration.step()
        if draft.num_steps:
            break
    assert 0 < draft.num_steps <= 2
    assert calibration.is_due
