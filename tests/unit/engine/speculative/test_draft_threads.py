"""The threads of a draft model: as many as its target's, or fewer of its own, and never more than this engine's share
of the processor."""

from collections.abc import Sequence

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.backend_fake import FakeBackend
from engine.core import Engine
from engine.params import DraftMode
from engine.speculative.draft_model import ModelDrafter
from engine.threads import StepThreads
from tests.support.eager_referee import FullReferee
from tests.unit.engine.drafting_engine import drafted
from tests.unit.engine.fake_engine import ask, make_backend, make_prompt


class Counted:
    """A draft model that notes with how many threads it computes each step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, own: int = 0) -> None:
        self.backend: FakeBackend = make_backend("draft_right=1", n_ctx=512)
        self.now: int | None = None
        self.steps: list[int | None] = []
        decode = self.backend.decode

        def counted(parts: Sequence[BatchPart]) -> DecodeStatus:
            self.steps.append(self.now)
            return decode(parts)

        monkeypatch.setattr(self.backend, "set_threads", lambda decode, prefill: setattr(self, "now", decode))
        monkeypatch.setattr(self.backend, "decode", counted)
        self.drafter = ModelDrafter(self.backend, vocabulary_size=256, n_threads=own)


def engine_of(draft: Counted, *, most: int, is_fixed: bool = True, is_idle: bool = True) -> Engine:
    """Return an engine of four threads with a share of `most` (0: all), and a draft model."""
    target = make_backend(n_ctx=512)
    threads = StepThreads(target.set_threads, count=4, is_fixed=is_fixed, count_allowed=lambda: 4)
    threads.set_most(most)
    engine = Engine(target, threads=threads)
    engine.speculator.referee = FullReferee
    engine.speculator.set_model(draft.drafter, is_idle=is_idle)
    return engine


@pytest.mark.parametrize(
    ("own", "most", "expected"),
    [(0, 0, 4), (2, 0, 2), (0, 2, 2), (4, 2, 2), (2, 3, 2)],
    ids=["targets", "own", "share", "share below own", "own below share"],
)
@pytest.mark.parametrize("strict", [False, True], ids=["free", "strict"])
def test_drafts_keep_to_the_share_when_another_engine_computes(
    own: int, most: int, expected: int, strict: bool, monkeypatch: pytest.MonkeyPatch
):
    draft = Counted(monkeypatch, own=own)
    engine = engine_of(draft, most=most, is_idle=False)
    ask(engine, drafted(make_prompt("a", "say it", max_tokens=20), DraftMode.MODEL, strict=strict))
    assert draft.steps
    assert set(draft.steps) == {expected}


@pytest.mark.parametrize(("most", "expected"), [(0, 4), (1, 1)], ids=["all", "share"])
def test_measuring_keeps_to_the_share_when_a_draft_model_is_new(
    most: int, expected: int, monkeypatch: pytest.MonkeyPatch
):
    draft = Counted(monkeypatch)
    engine_of(draft, most=most)
    assert set(draft.steps) == {expected}


def test_reading_to_compare_keeps_to_the_share_when_that_has_changed_since(monkeypatch: pytest.MonkeyPatch):
    draft = Counted(monkeypatch)
    engine = engine_of(draft, most=0)
    engine.threads.set_most(1)
    draft.steps.clear()
    assert engine.speculator.calibration.agreement is not None
    while engine.speculator.calibration.is_due:
        engine.speculator.calibration.step()
    assert draft.steps
    assert set(draft.steps) == {1}
