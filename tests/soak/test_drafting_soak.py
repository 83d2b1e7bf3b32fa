"""Drafting with full counts: stopped requests on real models, random schedules; every seed is fixed."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.drafted_lives import DraftedLife
from tests.support.memory_matrix import Matrix
from tests.unit.engine.schedules import ACTIONS, SHAPES, check_schedule

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

NUM_LIVES, NUM_ABORTS = 10, 32  # on each of four models, with room and without: 2,560
_RIGHT = st.sampled_from([0.0, 0.5, 0.9, 1.0])


@pytest.mark.parametrize("n_ctx", [512, 256], ids=["room", "crowded"])
@pytest.mark.parametrize("name", ["llama", "deepseek2", "gemma3", "gpt-oss"])
def test_both_caches_are_right_after_aborts_at_random_points(name: str, n_ctx: int, tmp_path: Path) -> None:
    with contextlib.closing(Matrix(name, tmp_path)) as matrix:
        for seed in range(NUM_LIVES):
            with contextlib.closing(DraftedLife(matrix, 100 + seed, n_ctx=n_ctx)) as life:
                life.live(NUM_ABORTS)


@settings(max_examples=1000)
@given(
    st.lists(ACTIONS, max_size=40), SHAPES, st.sampled_from(["", "window=40"]), st.sampled_from([0.0, 0.5, 0.9, 1.0])
)
def test_each_request_ends_once_with_the_text_of_a_lone_engine_when_schedules_draft(actions, shape, memory, right):
    check_schedule(actions, shape, {}, memory, draft=f"draft_right={right}")
