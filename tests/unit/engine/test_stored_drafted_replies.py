"""Stored replies and drafting: a draft model that may draw with chance makes another request, and else none."""

import pytest

from engine.messages import DraftSet, Generate, SetDraft
from engine.params import DraftMode, ModelParams, SamplingParams, SpeculativeParams
from tests.unit.engine.recorder import chat
from tests.unit.engine.test_response_cache import GREEDY, Desk, desk, is_stored, make_desk

__all__ = ["desk", "make_desk"]

SEEDED = SamplingParams(temperature=0.8, seed=7, max_tokens=12)
BOTH = SpeculativeParams(mode=DraftMode.BOTH)
DRAFTS = ("fake:draft_right=0.7", "fake:draft_right=0.4", None)


def set_draft(desk: Desk, path: str | None) -> None:
    desk.number += 1
    request_id = f"draft{desk.number}"
    desk.client.send(SetDraft(request_id=request_id, path=path, params=ModelParams()))
    desk.recorder.wait(
        lambda events: any(isinstance(event, DraftSet) and event.request_id == request_id for event in events)
    )


@pytest.mark.parametrize(
    ("sampling", "params", "expected"),
    [
        (SEEDED, BOTH, [False, False, False]),
        (SEEDED, SpeculativeParams(mode=DraftMode.NGRAM), [False, True, True]),
        (SEEDED, SpeculativeParams(), [False, True, True]),
        (GREEDY, BOTH, [False, True, True]),
        (SamplingParams(seed=7, max_tokens=12, reproducible=True), BOTH, [False, True, True]),
    ],
    ids=["drawn", "from the chat", "not drafted", "greedy", "reproducible"],
)
def test_reply_is_computed_when_another_draft_model_may_draw(
    desk: Desk, sampling: SamplingParams, params: SpeculativeParams, expected: list[bool]
) -> None:
    stored = []
    for path in DRAFTS:
        set_draft(desk, path)
        stored.append(is_stored(desk.ask(sampling=sampling, speculative=params)))
        assert is_stored(desk.ask(sampling=sampling, speculative=params)), "the same again"
    assert stored == expected
    set_draft(desk, DRAFTS[0])
    assert is_stored(desk.ask(sampling=sampling, speculative=params)), "the first one is still there"


def test_reply_is_computed_when_strict_is_asked_for(desk: Desk) -> None:
    desk.ask(speculative=BOTH)
    assert not is_stored(desk.ask(speculative=SpeculativeParams(mode=DraftMode.BOTH, strict=True)))


@pytest.mark.parametrize("path", [None, DRAFTS[0]], ids=["none", "another"])
def test_reply_is_not_stored_when_another_draft_model_came_meanwhile(desk: Desk, path: str | None) -> None:
    desk.load(path="fake:step_s=0.02")
    desk.client.send(Generate(request_id="r", messages=chat("hello"), sampling=SEEDED, chat_id="a", speculative=BOTH))
    desk.recorder.wait_for_text("r")
    set_draft(desk, path)
    desk.recorder.wait_for("r")
    assert desk.describe().num_replies == 0
