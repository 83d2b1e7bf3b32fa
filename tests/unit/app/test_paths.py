"""Where data is kept."""

import os
from pathlib import Path

import pytest

from app.errors import DataFolderError
from app.paths import DATA_DIR_VARIABLE, find_paths


def test_one_folder_holds_everything_when_it_is_named(tmp_path: Path) -> None:
    paths = find_paths(str(tmp_path / "data"))
    assert paths.settings_file == tmp_path / "data" / "settings.toml"
    assert paths.database_file == tmp_path / "data" / "chats.sqlite3"
    assert paths.models_dir == tmp_path / "data" / "models"
    assert paths.prompt_cache_dir == tmp_path / "data" / "prompt-cache"
    assert paths.logs_dir == tmp_path / "data" / "logs"
    assert paths.log_file.parent == paths.logs_dir
    assert paths.terminal_history_file.parent == tmp_path / "data"


def test_flag_goes_before_the_variable(tmp_path: Path) -> None:
    environment = {DATA_DIR_VARIABLE: str(tmp_path / "variable")}
    assert find_paths(None, environment).data_dir == tmp_path / "variable"
    assert find_paths(str(tmp_path / "flag"), environment).data_dir == tmp_path / "flag"


def test_relative_folder_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_paths("here").data_dir == tmp_path / "here"


def test_platform_folders_carry_the_name_of_the_program() -> None:
    paths = find_paths(None, {})
    folders = (paths.data_dir, paths.settings_file.parent, paths.prompt_cache_dir.parent)
    assert all("fireside" in folder.parts for folder in folders)


def test_finding_makes_nothing(tmp_path: Path) -> None:
    find_paths(str(tmp_path / "data"))
    assert list(tmp_path.iterdir()) == []


def test_folders_are_made_for_this_user_only(tmp_path: Path) -> None:
    paths = find_paths(str(tmp_path / "ä b" / "data"))
    paths.create()
    paths.create()
    assert paths.models_dir.is_dir()
    if os.name == "posix":
        assert paths.data_dir.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["file/data", "nul\0/data"])
def test_folder_that_cannot_be_made_is_an_error_with_a_hint(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderError, match="cannot be made") as caught:
        find_paths(str(tmp_path / name)).create()
    assert "--data-dir" in caught.value.hint
