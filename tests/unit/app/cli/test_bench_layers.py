"""`fireside bench --draft-gpu-layers`: the draft model is measured in the place that was asked for, and again there."""

from pathlib import Path

import pytest

from app.bench import BenchPlan
from app.bench.draft_round import DraftRound
from app.bench.prompts import Prompts
from app.cli.arguments import ArgumentParser, add_shared_flags
from app.cli.bench import _target, add_arguments
from app.errors import UsageError
from app.paths import Paths, find_paths
from engine import DraftMode, ModelParams
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.bench.test_draft_round import PARAMS, Scripted


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    return find_paths(str(data_dir))


def plan_of(paths: Paths, draft: Path, *flags: str) -> BenchPlan:
    """Return what a run with these flags would do."""
    parser = ArgumentParser(prog="fireside bench")
    add_arguments(parser)
    add_shared_flags(parser)
    return _target(parser.parse_args(["--fake-engine", "--draft", str(draft), *flags]), paths, None).plan


@pytest.mark.parametrize(
    ("flags", "layers"), [((), None), (("--draft-gpu-layers", "0"), 0), (("--draft-gpu-layers", "7"), 7)]
)
def test_layers_of_the_draft_model_are_part_of_the_plan(
    flags: tuple[str, ...], layers: int | None, paths: Paths, tmp_path: Path
) -> None:
    assert plan_of(paths, write_tiny_model(tmp_path / "small.gguf"), *flags).draft_gpu_layers == layers


def test_a_number_out_of_range_is_refused_before_anything_is_loaded(paths: Paths, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--draft-gpu-layers"):
        plan_of(paths, write_tiny_model(tmp_path / "small.gguf"), "--draft-gpu-layers", "10001")


@pytest.mark.parametrize("layers", [None, 0, 7])
def test_a_round_has_the_draft_model_where_the_plan_says(layers: int | None) -> None:
    seen: list[ModelParams] = []

    class Placing(Scripted):
        def set_draft(self, path: str, params: ModelParams) -> None:
            seen.append(params)

    plan = BenchPlan(draft_mode=DraftMode.BOTH, draft_path="small.gguf", draft_gpu_layers=layers)
    prompts = Prompts(lambda messages: sum(len(message.content) for message in messages))
    with Placing() as driver:
        DraftRound(driver, prompts, plan, lambda name, value: None, number=3).run("fake:", PARAMS)
    assert [params.n_gpu_layers for params in seen] == [layers]
