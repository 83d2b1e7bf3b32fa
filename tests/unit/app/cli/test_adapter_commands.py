"""`/lora` lists adapters and sets their strength; `--lora` takes a name as well as a path."""

from pathlib import Path

import pytest

from app.adapter_files import AdapterFiles
from app.cli.adapter_commands import obey_lora, with_named_adapters
from app.cli.chat_options import adapter_of
from app.cli.chat_plan import ChatPlan
from app.errors import AppError, UsageError
from engine import Adapter, ModelParams, SamplingParams
from models import ModelsError
from tests.support.adapters import STARTER, write_adapter, write_tiny_pair


@pytest.fixture
def files(tmp_path: Path) -> AdapterFiles:
    (tmp_path / "models").mkdir()
    return AdapterFiles(tmp_path / "models")


@pytest.fixture
def plan(tmp_path: Path) -> ChatPlan:
    (tmp_path / "m").mkdir()
    model, _ = write_tiny_pair(tmp_path / "m")
    return ChatPlan(str(model), "tiny", None, ModelParams(), SamplingParams(), None)


def path_of(plan: ChatPlan) -> str:
    return str(Path(plan.path).with_name("tiny-lora.gguf"))


def obey(argument: str, plan: ChatPlan, files: AdapterFiles) -> list[tuple[str, float]]:
    return [(adapter.path, adapter.scale) for adapter in obey_lora(argument, plan, files).adapters]


@pytest.mark.parametrize(
    ("argument", "scale"),
    [("tiny-lora", 1.0), ("tiny-lora=0.5", 0.5), ("TINY-LORA.gguf=2", 2.0), ("'tiny-lora'", 1.0)],
)
def test_adapter_is_used_by_name(plan: ChatPlan, files: AdapterFiles, argument: str, scale: float) -> None:
    assert obey(argument, plan, files) == [(path_of(plan), scale)]


def test_adapter_is_used_by_path_with_anything_in_it(plan: ChatPlan, files: AdapterFiles, tmp_path: Path) -> None:
    folder = tmp_path / "dir=1 ä #?%20"
    folder.mkdir()
    path = write_adapter(folder / "a b.gguf")
    assert obey(f"{path}=0.25", plan, files) == [(str(path), 0.25)]


@pytest.mark.parametrize("off", ["=0", "=off", "=none"])
def test_adapter_is_left_out_again_and_another_strength_takes_the_place(
    plan: ChatPlan, files: AdapterFiles, off: str
) -> None:
    plan = obey_lora("tiny-lora", plan, files)
    plan = obey_lora("tiny-lora=0.5", plan, files)
    assert [adapter.scale for adapter in plan.adapters] == [0.5]
    assert obey(f"tiny-lora{off}", plan, files) == []


def test_adapter_whose_file_is_gone_can_be_left_out(plan: ChatPlan, files: AdapterFiles) -> None:
    plan = obey_lora("tiny-lora", plan, files)
    Path(path_of(plan)).unlink()
    assert obey("tiny-lora=0", plan, files) == []


def test_list_says_what_is_in_use_and_what_does_not_fit(
    plan: ChatPlan, files: AdapterFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_adapter(tmp_path / "models" / "alien\x1b.gguf", STARTER)
    obey_lora("", plan, files)
    assert "   –  tiny-lora\n" in capsys.readouterr().out
    plan = obey_lora("tiny-lora=0.5", plan, files)
    assert obey_lora("", plan, files) == plan
    out = capsys.readouterr().out
    assert " 0.5  tiny-lora\n" in out
    assert "alien␛  It " in out


def test_empty_list_says_where_adapters_are_looked_for(
    plan: ChatPlan, files: AdapterFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(path_of(plan)).unlink()
    obey_lora("", plan, files)
    assert "There are no adapters" in capsys.readouterr().out


@pytest.mark.parametrize("argument", ["nobody", "tiny-lora=much", "=2", "/none.gguf", "alien", "tiny"])
def test_what_cannot_be_used_is_told_in_a_sentence(
    plan: ChatPlan, files: AdapterFiles, tmp_path: Path, argument: str
) -> None:
    write_adapter(tmp_path / "models" / "alien.gguf", STARTER)
    try:
        obey_lora(argument, plan, files)
    except (AppError, ModelsError) as error:
        assert error.message.endswith(".") and error.hint
    else:
        pytest.fail("it was taken")


def test_option_takes_a_name_and_leaves_a_path_alone(plan: ChatPlan, files: AdapterFiles, tmp_path: Path) -> None:
    given = tuple(map(adapter_of, ["tiny-lora=0.5", str(tmp_path / "none.gguf"), "nobody"]))
    plan = ChatPlan(plan.path, "tiny", None, ModelParams(), SamplingParams(), None, adapters=given)
    assert with_named_adapters(plan, files).adapters == (
        Adapter(path=path_of(plan), scale=0.5),
        Adapter(path=str(tmp_path / "none.gguf")),
        Adapter(path="nobody"),
    )
    with pytest.raises(UsageError):
        write_adapter(tmp_path / "models" / "tiny-lora.gguf")
        with_named_adapters(plan, files)
