"""Both caches hold the replies when requests that draft are stopped at random points, on real models of two kinds."""

import contextlib
from pathlib import Path

import pytest

from tests.support.drafted_lives import DraftedLife
from tests.support.memory_matrix import Matrix


@pytest.mark.parametrize("name", ["llama", "gpt-oss"])
def test_replies_are_those_of_a_cold_context_when_requests_that_draft_are_stopped(name: str, tmp_path: Path) -> None:
    with contextlib.closing(Matrix(name, tmp_path)) as matrix:
        for seed in range(2):
            with contextlib.closing(DraftedLife(matrix, seed)) as life:
                life.live(num_aborts=8)
