"""Names of the library as MODEL, and parts of split models."""

from pathlib import Path

import pytest

from app.errors import AppError, ModelFileMissing, ModelNameAmbiguous
from app.model_choice import choose_model, model_path
from app.model_library import open_library
from app.paths import Paths, find_paths
from app.settings import Settings
from models import MissingParts, NotAChatModel
from tests.support.gguf_files import edit_gguf, write_tiny_model
from tests.support.small_models import own_roots, write_small, write_split


@pytest.fixture
def paths(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setattr("app.model_library.find_roots", own_roots)
    found = find_paths(str(data_dir))
    found.create()
    return found


def test_library_name_is_a_model(paths: Paths) -> None:
    path = write_tiny_model(paths.models_dir / "some file.gguf")
    choice = choose_model("tiny-llama", Settings(), paths)
    assert (choice.path, choice.label, choice.last_model) == (path, "tiny llama F32", str(path))
    assert choose_model(choice.last_model, Settings(), paths).path == path
    assert choose_model("TINY llama:f32", Settings(), paths).path == path


def test_new_file_is_found_without_a_scan_before(paths: Paths) -> None:
    open_library(paths).scan()
    path = write_tiny_model(paths.models_dir / "later.gguf")
    assert choose_model("tiny-llama", Settings(), paths).path == path


def test_name_that_several_have_names_them(paths: Paths) -> None:
    for level in ("F16", "Q8_0"):
        write_small(paths.models_dir / f"{level}.gguf", level=level)
    with pytest.raises(ModelNameAmbiguous, match=r"tiny-model:f16, tiny-model:q8_0\.") as caught:
        choose_model("tiny-model", Settings(), paths)
    assert caught.value.hint
    assert choose_model("tiny-model:q8_0", Settings(), paths).path.name == "Q8_0.gguf"


def test_name_of_nothing_tells_both_ways(paths: Paths) -> None:
    with pytest.raises(ModelFileMissing, match="no model of that name") as caught:
        choose_model("nothing", Settings(), paths)
    assert "models list" in caught.value.hint


def test_file_in_this_folder_comes_before_a_name(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny_model(paths.models_dir / "x.gguf")
    monkeypatch.chdir(tmp_path)
    here = write_tiny_model(tmp_path / "tiny-llama", seed=3)
    assert choose_model("tiny-llama", Settings(), paths).path == here


def test_folder_of_the_same_name_does_not_hide_a_model(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiny_model(paths.models_dir / "x.gguf")
    open_library(paths).scan()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny-llama").mkdir()
    (tmp_path / "other").mkdir()
    assert choose_model("tiny-llama", Settings(), paths).path == path
    with pytest.raises(ModelFileMissing, match="is a folder"):
        choose_model("other", Settings(), paths)


@pytest.mark.parametrize("text", ["none.gguf", "/gone/x.gguf", "", ".", "nul\0", "lone \udcff"], ids=repr)
def test_what_cannot_be_a_name_is_a_path(paths: Paths, text: str) -> None:
    with pytest.raises(AppError):
        choose_model(text, Settings(), paths)


def test_model_of_another_kind_is_found_by_name_and_refused_for_chat(paths: Paths) -> None:
    path = write_small(paths.models_dir / "eye.gguf", name="Some Eye", arch="clip")
    assert model_path("some-eye", paths) == path
    with pytest.raises(NotAChatModel, match="projector"):
        choose_model("some-eye", Settings(), paths)


def _parts(folder: Path) -> list[Path]:
    tiny = write_tiny_model(folder / "tiny.gguf")
    names = [folder / f"big-0000{number + 1}-of-00003.gguf" for number in range(3)]
    return [edit_gguf(tiny, path, set={"split.no": n, "split.count": 3}) for n, path in enumerate(names)]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_part_means_the_model_from_its_first(tmp_path: Path, number: int) -> None:
    paths = _parts(tmp_path)
    choice = choose_model(str(paths[number]), Settings())
    assert (choice.path, choice.info.split_no) == (paths[0], 0)


def test_part_of_an_incomplete_model_names_what_is_missing(tmp_path: Path) -> None:
    paths = _parts(tmp_path)
    paths[1].unlink()
    with pytest.raises(MissingParts, match="00002"):
        choose_model(str(paths[2]), Settings())


def test_split_model_is_chosen_by_its_name(paths: Paths) -> None:
    parts = write_split(paths.models_dir, "big", 2)
    assert choose_model("split-model", Settings(), paths).path == parts[0]
