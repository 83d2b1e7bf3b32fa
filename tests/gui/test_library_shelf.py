"""The shelf of the Models page over a real library: what its rows say, and what is done to real files."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.desktop.bridge.model_jobs import Job
from app.desktop.itemmodels.model_rows import (
    FileRow,
    Fit,
    FitFigures,
    MakeProgress,
    Matrix,
    ModelRow,
    QuantiseOrder,
    ScanCount,
    Section,
)
from app.desktop.library_shelf import LibraryShelf, MeasureFit
from app.errors import ModelFileUnreadable
from models import Library, LibraryError, ScanRoot, read_gguf_info
from tests.support.gguf_files import write_other_kinds, write_tiny_model
from tests.support.small_models import library_of, write_small, write_split


class Shelf(LibraryShelf):
    """A shelf, what it reported, and the folders it is over."""

    def __init__(
        self, tmp_path: Path, library: Library, *, look_at_memory: Callable[[], MeasureFit] | None = None
    ) -> None:
        super().__init__(
            library,
            models_dir=tmp_path / "ours",
            look_at_memory=look_at_memory,
            used_at=lambda: {str(tmp_path / "ours" / "tiny.gguf"): 7.0},
        )
        self.ours = tmp_path / "ours"
        self.theirs = tmp_path / "theirs"
        self.reported: list[object] = []
        self.job = Job(self.reported.append)

    def rows(self) -> dict[str, FileRow]:
        """Look for models, and return the files by name."""
        models = self.scan(self.job).models
        return {Path(file.path).name: file for model in models for file in model.files}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    theirs = ScanRoot(tmp_path / "theirs", "LM Studio")
    shelf = Shelf(tmp_path, library_of(tmp_path, theirs))
    shelf.theirs.mkdir()
    return shelf


def test_levels_of_one_model_are_one_group(shelf: Shelf) -> None:
    for level in ("Q4_K_M", "Q8_0"):
        write_small(shelf.ours / f"{level}.gguf", level=level)
    (model,) = shelf.scan(shelf.job).models
    assert isinstance(model, ModelRow)
    assert model.name == "Tiny Model"
    assert {file.label for file in model.files} == {"Q4_K_M", "Q8_0"}
    assert isinstance(shelf.reported[0], ScanCount)
    assert shelf.known() == (model,)


def test_own_files_can_be_removed_and_come_back_and_those_of_others_cannot(shelf: Shelf) -> None:
    mine = write_small(shelf.ours / "mine.gguf")
    other = write_small(shelf.theirs / "other.gguf", name="Other", seed=1)
    rows = shelf.rows()
    assert (rows["mine.gguf"].is_ours, rows["other.gguf"].is_ours) == (True, False)
    assert rows["other.gguf"].owner == "LM Studio"
    removed = shelf.remove(str(mine))
    assert not mine.exists()
    shelf.undo(removed)
    assert "mine.gguf" in shelf.rows()
    with pytest.raises(LibraryError, match="LM Studio"):
        shelf.remove(str(other))
    assert other.exists()


def test_missing_part_is_named(shelf: Shelf) -> None:
    write_split(shelf.ours, "big", 3)[1].unlink()
    (row,) = shelf.rows().values()
    assert row.missing == ("big-00002-of-00003.gguf",)
    assert "big-00002-of-00003.gguf" in row.problem
    assert row.num_parts == 3
    assert not row.can_chat


def test_files_of_other_kinds_stand_apart_and_say_what_they_are(shelf: Shelf) -> None:
    shelf.ours.mkdir(exist_ok=True)
    write_other_kinds(shelf.ours)
    (shelf.ours / "page.gguf").write_text("<!DOCTYPE html><html></html>")
    found = {
        Path(file.path).name: (model.section, file) for model in shelf.scan(shelf.job).models for file in model.files
    }
    assert not any(file.can_chat or file.can_quantise for _, file in found.values())
    assert found["mmproj-x.gguf"][0] is Section.OTHER
    assert found["mmproj-x.gguf"][1].kind == "projector"
    assert found["page.gguf"][0] is Section.UNUSABLE
    assert "web page" in found["page.gguf"][1].problem


def test_same_bytes_are_shown_once_with_both_places(shelf: Shelf) -> None:
    write_small(shelf.ours / "one.gguf")
    (shelf.theirs / "copy.gguf").write_bytes((shelf.ours / "one.gguf").read_bytes())
    (row,) = shelf.rows().values()
    assert len(row.also_in) == 1


def test_figures_of_the_memory_are_shown_and_kept_for_the_next_look(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    path = write_tiny_model(tmp_path / "ours" / "tiny.gguf")
    figures = FitFigures(Fit.TIGHT, 300, 400, 512, 9.5)
    shelf = Shelf(tmp_path, library_of(tmp_path), look_at_memory=lambda: lambda infos: figures)
    assert shelf.rows()["tiny.gguf"].fit is Fit.UNKNOWN
    (model,) = shelf.fits(shelf.job)
    row = model.files[0]
    assert (row.path, row.used_at) == (str(path), 7.0)
    assert (row.fit, row.needed_bytes, row.free_bytes, row.max_ctx, row.tokens_per_s) == figures
    assert shelf.rows()["tiny.gguf"].fit is Fit.TIGHT


def test_folders_are_those_that_are_there(shelf: Shelf, tmp_path: Path) -> None:
    odd = tmp_path / "dir ä日 #?%20&'"
    write_small(odd / "a b.gguf")
    shelf.add_folder(str(odd))
    shelf.rows()
    rows = {row.path: row for row in shelf.folders()}
    assert (rows[str(odd)].is_added, rows[str(odd)].num_files) == (True, 1)
    assert not rows[str(shelf.theirs)].is_added
    shelf.remove_folder(str(odd))
    assert shelf.rows() == {}
    assert (odd / "a b.gguf").exists()


def test_inspection_has_metadata_tensors_and_template(shelf: Shelf) -> None:
    path = write_small(shelf.ours / "a.gguf")
    shelf.rows()
    found = shelf.inspect(str(path))
    assert ("general.architecture", "llama") in found.metadata
    assert [tensor.name for tensor in found.tensors] == ["t.weight"]
    assert found.template == "{{ messages }}"
    assert found.licence == "mit"
    assert dict(found.facts)["Architecture"] == "llama"


def test_sound_file_is_found_sound_and_a_damaged_one_is_named(shelf: Shelf) -> None:
    path = write_tiny_model(shelf.ours / "a.gguf")
    shelf.rows()
    assert shelf.verify(str(path), shelf.job) == read_gguf_info(path).num_tensors
    data = path.read_bytes()
    path.write_bytes(data[:-64] + b"\xff" * 64)
    with pytest.raises(ModelFileUnreadable, match=r"a\.gguf is damaged"):
        shelf.verify(str(path), shelf.job)


def test_file_that_has_gone_is_a_sentence(shelf: Shelf) -> None:
    with pytest.raises(ModelFileUnreadable, match="no longer in the list"):
        shelf.verify("/nowhere.gguf", shelf.job)


def test_levels_are_offered_with_their_size_and_made(shelf: Shelf) -> None:
    source = write_tiny_model(shelf.ours / "tiny-F16.gguf", n_embd=256, n_layer=1)
    shelf.rows()
    offer = shelf.offer(str(source), shelf.job)
    levels = {level.type_name: level for level in offer.levels}
    assert levels["Q4_0"].num_bytes < levels["Q8_0"].num_bytes
    assert levels["IQ1_S"].needs_matrix
    assert offer.matrices == (Matrix.NONE, Matrix.FILE)
    made = shelf.quantise(QuantiseOrder(str(source), ("Q8_0", "Q4_0")), shelf.job)
    assert [(level.type_name, level.error) for level in made] == [("Q8_0", ""), ("Q4_0", "")]
    for level in made:
        assert Path(level.path).stat().st_size == levels[level.type_name].num_bytes
    assert any(isinstance(report, MakeProgress) for report in shelf.reported)
    assert {"tiny.Q8_0.gguf", "tiny.Q4_0.gguf"} <= set(shelf.rows())
    again = shelf.quantise(QuantiseOrder(str(source), ("Q8_0",)), shelf.job)
    assert "is there already" in again[0].error


def test_making_that_is_given_up_leaves_nothing(shelf: Shelf) -> None:
    source = write_tiny_model(shelf.ours / "tiny-F16.gguf", n_embd=256, n_layer=1)
    shelf.rows()
    before = set(shelf.ours.iterdir())
    shelf.job.cancel()
    started = time.monotonic()
    assert shelf.quantise(QuantiseOrder(str(source), ("Q8_0", "Q4_0")), shelf.job) == []
    assert time.monotonic() - started < 30
    assert set(shelf.ours.iterdir()) == before
