"""Which model is meant, and that a wrong one is named before anything is loaded."""

from pathlib import Path

import pytest

import app.model_choice
from app.errors import AppError, ModelFileMissing, ModelFileUnreadable, StarterMissing
from app.model_choice import choose_model
from app.settings import Settings
from models import (
    STARTER_INSTALL,
    STARTER_LABEL,
    CorruptGGUF,
    NotAChatModel,
    NotGGUF,
    fingerprint,
    read_gguf_info,
    template_hash,
)
from tests.support.gguf_files import write_other_kinds, write_tiny_model
from tests.support.hostile_gguf import FOREIGN_FILES, IMPOSSIBLE_FILES


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    folder = tmp_path / "dir ä日 #?%20&'\""
    folder.mkdir()
    return write_tiny_model(folder / "a b.gguf")


def test_starter_by_name(starter_path: Path) -> None:
    choice = choose_model("starter", Settings())
    assert (choice.path, choice.label, choice.last_model) == (starter_path, STARTER_LABEL, "starter")
    assert choice.info.architecture == "llama"


def test_path_is_made_absolute_and_labelled(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny.parent)
    choice = choose_model("a b.gguf", Settings())
    assert (choice.path, choice.label, choice.last_model) == (tiny, "a b", str(tiny))


def test_last_model_is_taken_when_none_is_named(tiny: Path, starter_path: Path) -> None:
    assert choose_model(None, Settings(last_model=str(tiny))).path == tiny
    assert choose_model(None, Settings(last_model="starter")).path == starter_path


@pytest.mark.parametrize("last_model", [None, "", "/gone/x.gguf", "nul\0", "lone \udcff"])
def test_starter_is_taken_when_the_last_model_is_gone(starter_path: Path, last_model: str | None) -> None:
    assert choose_model(None, Settings(last_model=last_model)).path == starter_path


def test_missing_starter_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.model_choice, "find_starter", lambda: None)
    with pytest.raises(StarterMissing) as caught:
        choose_model(None, Settings())
    assert STARTER_INSTALL in caught.value.hint


@pytest.mark.parametrize(
    ("name", "error", "word"),
    [
        ("none.gguf", ModelFileMissing, "no file"),
        (".", ModelFileMissing, "folder"),
        ("", ModelFileMissing, "no name"),
        ("nul\0.gguf", ModelFileUnreadable, "no text"),
        ("lone\udcff.gguf", ModelFileUnreadable, "no text"),
        ("x" * 300 + ".gguf", ModelFileUnreadable, "cannot be read"),
    ],
    ids=["missing", "folder", "empty", "NUL", "surrogate", "too long"],
)
def test_path_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: type[AppError], word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=word) as caught:
        choose_model(name, Settings())
    assert caught.value.hint


def test_permission_is_the_reason_when_the_system_says_so(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(app.model_choice, "read_gguf_info", refuse)
    with pytest.raises(ModelFileUnreadable, match="may not open"):
        choose_model(str(tiny), Settings())


def test_file_that_is_no_chat_model_is_refused(tmp_path: Path) -> None:
    for path in write_other_kinds(tmp_path).values():
        with pytest.raises(NotAChatModel):
            choose_model(str(path), Settings())


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(FOREIGN_FILES["lfs"][1])
    with pytest.raises(NotGGUF, match="pointer"):
        choose_model(str(path), Settings())
    path.write_bytes(IMPOSSIBLE_FILES["key count -5"])
    with pytest.raises(CorruptGGUF):
        choose_model(str(path), Settings())


def test_choice_tells_model_and_template(tiny: Path) -> None:
    choice = choose_model(str(tiny), Settings())
    info = read_gguf_info(tiny)
    assert (choice.fingerprint, choice.template_hash) == (fingerprint(info), template_hash(info))


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone"), OSError(5, "Input/output error")], ids=repr)
def test_file_that_goes_while_it_is_looked_at_is_told(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(info: object) -> str:
        raise error

    monkeypatch.setattr(app.model_choice, "fingerprint", refuse)
    with pytest.raises((ModelFileMissing, ModelFileUnreadable)):
        choose_model(str(tiny), Settings())
