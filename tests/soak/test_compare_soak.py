"""A ladder that is killed again and again: every reply is made once, and none is lost."""

from pathlib import Path

import pytest

from tests.support.compare_kills import Ladder, find_faults, run_and_kill
from tests.support.compare_window_kills import compare_and_kill
from tests.support.gguf_files import write_tiny_model

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
NUM_KILLS = 20
PROMPTS = ["Say hello.", "Name a colour.", "Count to five.", "What is a lighthouse?", "Name a ship."]


def test_ladder_survives_twenty_kills(tmp_path: Path) -> None:
    levels = [f"fake:step_s=0.005,n_words={count}" for count in (4, 5, 6, 7, 8, 9)]
    ladder = Ladder(levels, PROMPTS, 3, flags=("--fake-engine",))
    told, record = run_and_kill(ladder, tmp_path, num_kills=NUM_KILLS, seed=1)
    assert find_faults(ladder, told, record) == []


def test_ladder_of_real_models_survives_twenty_kills(tmp_path: Path, starter_path: Path) -> None:
    tiny = [str(write_tiny_model(tmp_path / f"tiny{count}.gguf", n_layer=count)) for count in (1, 2, 3, 4, 5)]
    ladder = Ladder([str(starter_path), *tiny], PROMPTS, 3, plan_flags=("--max-tokens", "16"))
    told, record = run_and_kill(ladder, tmp_path, num_kills=NUM_KILLS, seed=2)
    assert find_faults(ladder, told, record) == []


def test_ladder_in_the_window_survives_twenty_kills(tmp_path: Path) -> None:
    models = [str(write_tiny_model(tmp_path / f"tiny{count}.gguf", n_layer=count)) for count in (1, 2, 3, 4, 5, 6)]
    ladder = Ladder(models, PROMPTS, 3)
    run = compare_and_kill(ladder, tmp_path, num_kills=NUM_KILLS, seed=3)
    assert run.faults == []
    assert run.num_kills > NUM_KILLS // 2
    assert len(run.rows) in (0, len(models))
