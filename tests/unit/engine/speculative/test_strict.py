"""The longest step of the same bits is found, whatever the backend, and nothing is left behind."""

from typing import Any

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.errors import DecodeFailed
from engine.speculative.strict import strict_max
from tests.unit.engine.fake_engine import make_backend


@pytest.mark.parametrize("same_to", [1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32])
def test_longest_step_is_the_one_after_which_the_kernels_change(same_to: int):
    assert strict_max(make_backend(f"same_to={same_to}"), seq_id=0, n_threads=1) == same_to


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 33),
        ({"n_batch": 8}, 8),
        ({"n_ubatch": 6}, 6),
        ({"n_seq_max": 1}, 33),
        ({"n_ctx": 20}, 6),
        ({"n_ctx": 4}, 1),
    ],
    ids=str,
)
def test_longest_step_is_the_one_that_fits_when_all_are_the_same(params: dict[str, Any], expected: int):
    assert strict_max(make_backend(**params), seq_id=0, n_threads=1) == expected


def test_no_step_is_the_same_when_nothing_can_be_taken_back():
    assert strict_max(make_backend("can_trim=0"), seq_id=0, n_threads=1) == 1


def test_no_step_is_the_same_when_the_model_fails():
    backend = make_backend("fail=1")
    assert strict_max(backend, seq_id=0, n_threads=3) == 1
    assert backend.n_threads == (3, 3)
    with pytest.raises(DecodeFailed):
        backend.decode([BatchPart(0, 0, [1], wants_logits=True)])


@pytest.mark.parametrize("same_to", [2, 33])
def test_threads_are_set_and_memory_is_empty_afterwards(same_to: int):
    backend = make_backend(f"same_to={same_to}")
    strict_max(backend, seq_id=0, n_threads=3)
    assert backend.n_threads == (3, 3)
    assert backend.seq_len(0) == 0
    assert backend.decode([BatchPart(0, 0, [1], wants_logits=True)]) is DecodeStatus.DONE


def test_search_ends_with_what_is_known_when_it_takes_long():
    now = [0.0]

    def clock() -> float:
        now[0] += 0.2
        return now[0]

    assert strict_max(make_backend("same_to=6"), seq_id=0, n_threads=1, clock=clock) in range(1, 6)
