"""Where a draft model is computed: as its model, unless it has a place of its own."""

from pathlib import Path
from typing import Any

import pytest

from app.cli.arguments import ArgumentParser, add_shared_flags
from app.cli.chat import add_arguments, run
from app.cli.outcome import ExitCode
from app.errors import UsageError
from app.paths import Paths, find_paths
from app.settings import SettingsStore
from app.speculation import DraftChoice, draft_choice, draft_params, kept_choice
from engine import DraftMode, ModelParams, SetDraft
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.cli.scripted_client import ScriptedClient


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    return find_paths(str(data_dir))


def params_sent(paths: Paths, tmp_path: Path, *flags: str) -> ModelParams:
    """Return how a chat with these flags has its draft model loaded."""
    parser = ArgumentParser(prog="fireside chat")
    add_arguments(parser)
    add_shared_flags(parser)
    draft = write_tiny_model(tmp_path / "small.gguf")
    client = ScriptedClient(["ok"])
    options = parser.parse_args(["--fake-engine", "hi", "--draft", str(draft), *flags])
    assert run(options, paths, make_client=lambda is_fake: client) == ExitCode.DONE
    [command] = [command for command in client.commands if isinstance(command, SetDraft)]
    return command.params


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), None),
        (("--gpu-layers", "0"), 0),
        (("--gpu-layers", "20"), None),
        (("--gpu-layers", "20", "--draft-gpu-layers", "0"), 0),
        (("--gpu-layers", "0", "--draft-gpu-layers", "7"), 7),
    ],
    ids=["neither", "model-on-processor", "model-on-both", "own-processor", "own-graphics"],
)
def test_layers_are_the_draft_models_own_or_follow_its_model(
    flags: tuple[str, ...], expected: int | None, paths: Paths, tmp_path: Path
) -> None:
    assert params_sent(paths, tmp_path, *flags).n_gpu_layers == expected


@pytest.mark.parametrize("count", ["-1", "10001"])
def test_a_number_out_of_range_is_refused_before_any_load(count: str, paths: Paths, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--draft-gpu-layers") as caught:
        params_sent(paths, tmp_path, f"--draft-gpu-layers={count}")
    assert caught.value.hint


def test_a_draft_model_can_be_on_graphics_while_its_model_is_on_the_processor() -> None:
    assert draft_params(ModelParams(device="CPU"), 7) == ModelParams(device="", n_gpu_layers=7)
    assert draft_params(ModelParams(device="CPU"), 0) == ModelParams(device="CPU", n_gpu_layers=0)
    assert draft_params(ModelParams(device="GPU1"), 7) == ModelParams(device="GPU1", n_gpu_layers=7)


@pytest.mark.parametrize("layers", [None, 0, 12])
def test_the_place_is_kept_with_the_choice_for_a_model(layers: int | None, paths: Paths) -> None:
    store = SettingsStore(paths.settings_file)
    choice = DraftChoice(mode=DraftMode.BOTH, path="small.gguf", n_gpu_layers=layers)
    store.update(drafting={"big": kept_choice(store.load()[0], choice)})
    assert draft_choice(store.load()[0], "big") == choice


@pytest.mark.parametrize("kept", [-1, 10**9, "7", True, 1.5], ids=repr)
def test_a_kept_place_that_makes_no_sense_is_left_out(kept: Any, paths: Paths) -> None:
    store = SettingsStore(paths.settings_file)
    store.update(drafting={"big": {"gpu_layers": kept}})
    assert draft_choice(store.load()[0], "big").n_gpu_layers is None
