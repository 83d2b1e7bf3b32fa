"""The threads of a draft model: its own where it has some, else as many as the model it drafts for."""

import pytest

from engine.speculative.draft_model import ModelDrafter
from tests.unit.engine.fake_engine import make_backend


@pytest.mark.parametrize(("own", "expected"), [(0, 4), (2, 2)], ids=["targets", "own"])
def test_a_step_has_the_threads_that_were_chosen(own: int, expected: int, monkeypatch: pytest.MonkeyPatch):
    backend, counts = make_backend(), []
    monkeypatch.setattr(backend, "set_threads", lambda *both: counts.append(both))
    ModelDrafter(backend, vocabulary_size=256, n_threads=own).set_threads(4)
    assert counts == [(expected, expected)]
