"""Drafting where something comes in between: what is counted, kept and forgotten then."""

from collections.abc import Sequence
from typing import Any

import pytest

from engine.aborts import Aborts
from engine.backend import AdapterKey, BatchPart, DecodeStatus
from engine.backend_fake import FakeBackend
from engine.backend_fake_settings import settings_of
from engine.core import Engine
from engine.messages import Adapter
from engine.params import DraftMode, ModelParams
from engine.speculative.draft_model import ModelDrafter
from engine.speculative.referee import Choice, Referee
from engine.threads import StepThreads
from tests.support.eager_referee import EagerReferee, FullReferee
from tests.unit.engine.drafting_engine import drafted, drafting_engine
from tests.unit.engine.fake_engine import alone, ask, failed, finished, make_backend, make_prompt, reply, run, step_until


class NotingReferee(EagerReferee):
    """Notes what it is told of each step."""

    noted: list[tuple[Choice, int]] = []

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
