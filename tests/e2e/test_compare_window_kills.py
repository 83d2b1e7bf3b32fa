"""The window is killed while it compares: it offers to go on, and nothing is lost or measured twice."""

from pathlib import Path

from tests.support.compare_kills import Ladder
from tests.support.compare_window_kills import compare_and_kill
from tests.support.gguf_files import write_tiny_model

NUM_KILLS = 1


def test_comparison_is_gone_on_with_when_the_window_is_killed(tmp_path: Path) -> None:
    models = [str(write_tiny_model(tmp_path / f"level{count}.gguf", n_layer=count)) for count in (1, 2)]
    ladder = Ladder(models, ["Say hello."], 2)
    # Half of the replies are left then, and a model is to be loaded for them: that takes longer.
    run = compare_and_kill(ladder, tmp_path, num_kills=NUM_KILLS, seed=1, longest_wait_s=0.2)
    assert run.faults == []
    assert run.num_kills == NUM_KILLS
    assert [row[0].split()[0] for row in run.rows] == ["level1", "level2"]
