"""A draft model is judged on a text before the first reply, while nothing is asked."""

import pytest

from engine.core import Engine
from engine.speculative.acceptance import AcceptanceMemory
from engine.speculative.agreement import Agreement
from engine.speculative.draft_model import ModelDrafter
from tests.unit.engine.drafting_engine import drafting_engine
from tests.unit.engine.fake_engine import make_backend


def _judged(settings: str) -> AcceptanceMemory:
    """Return what is known of a draft model after all pieces were read."""
    target, memory = make_backend(), AcceptanceMemory()
    model = ModelDrafter(make_backend(settings), vocabulary_size=target.description.n_vocab)
    agreement = Agreement(target, model, memory)
    while agreement.is_due:
        agreement.step(0, lambda rows: None)
        target.seq_rm(0, 0)
    return memory


@pytest.mark.parametrize(
    ("settings", "least", "most"),
    [("", 0.9, 1.0), ("draft_right=0.0", 0.0, 0.15), ("draft_right=0.5", 0.3, 0.7)],
    ids=["the same model", "always wrong", "half right"],
)
def test_draft_model_is_believed_as_often_as_it_agrees(settings: str, least: float, most: float) -> None:
    memory = _judged(settings)

    for temperature in (0.0, 1.0):
        acceptance = memory.of_chat("chat", temperature=temperature)
        assert least <= acceptance.of_draft(1)[0] <= most
        assert acceptance.knows_draft


def test_both_models_are_empty_again_when_the_text_was_read() -> None:
    target = make_backend()
    draft = make_backend()
    agreement = Agreement(target, ModelDrafter(draft, vocabulary_size=target.description.n_vocab), AcceptanceMemory())
    agreement.step(0, lambda rows: None)

    assert draft.seq_len(0) == 0


def test_text_is_read_while_nothing_is_asked_and_leaves_the_cache_empty() -> None:
    engine: Engine = drafting_engine()
    engine.speculator.calibration.want()
    while engine.speculator.calibration.is_due:
        engine.speculator.calibration.step()

    assert engine.backend.seq_len(0) == 0
    assert engine.speculator.calibration.agreement is not None
    assert not engine.speculator.calibration.agreement.is_due
    engine.close()


def test_text_is_left_unread_when_there_is_no_room() -> None:
    engine = drafting_engine(n_ctx=32)
    calibration = engine.speculator.calibration
    for _ in range(20):
        calibration.step()

    assert not calibration.is_due
    engine.close()
