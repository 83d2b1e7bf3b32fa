"""Random lives on every kind of model memory, with full counts; every seed is fixed."""

import contextlib
from pathlib import Path

import pytest

from tests.support.memory_matrix import Matrix, live_randomly
from tests.support.tiny_models import TINY_MODELS

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

NUM_LIVES = 100
NUM_OPERATIONS = 120


@pytest.mark.parametrize("name", list(TINY_MODELS))
def test_replies_are_those_of_a_cold_context_when_lives_are_random(name: str, tmp_path: Path) -> None:
    with contextlib.closing(Matrix(name, tmp_path)) as matrix:
        for seed in range(NUM_LIVES):
            live_randomly(matrix, seed=1000 + seed, num_operations=NUM_OPERATIONS)


@pytest.mark.parametrize("name", list(TINY_MODELS))
def test_replies_are_those_of_a_cold_context_when_chats_leave_and_come_back(name: str, tmp_path: Path) -> None:
    with contextlib.closing(Matrix(name, tmp_path)) as matrix:
        for seed in range(NUM_LIVES):
            live_randomly(matrix, seed=5000 + seed, num_operations=NUM_OPERATIONS, folder=tmp_path / f"cache{seed % 5}")
