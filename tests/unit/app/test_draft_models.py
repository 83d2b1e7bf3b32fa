"""All files as drafts for a model: listed once, usable or with a reason, with their memory, and one suggested."""

import dataclasses
import os
import re
import time
from pathlib import Path

import pytest

from app.draft_models import (
    DraftCandidate,
    DraftFiles,
    FoundDrafts,
    check_draft,
    find_drafts,
    open_draft_files,
    share_text,
    suggestion_text,
)
from app.errors import AppError, ModelFileMissing
from app.model_library import open_library
from app.paths import find_paths
from app.room import room_of, wish_of
from engine import ModelParams
from models import Kinship, LibraryEntry, NotAChatModel, Room, Verdict, fit, read_gguf_info
from models.gguf_header import HeaderReader
from tests.support.gguf_files import edit_gguf, write_other_kinds, write_tiny_mamba, write_tiny_model
from tests.support.small_models import library_of, write_small
from tests.support.split_models import split_model

_PLENTY = Room(1 << 50)
_FREE_STEPS = (1.0,) * 8  # a machine on which verifying costs nothing
_MAX_CPU_S = 1.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of a library with a model, smaller ones, and files that cannot draft."""
    folder = tmp_path / "ours"
    folder.mkdir()
    write_tiny_model(folder / "target.gguf", n_layer=8, n_embd=128)
    write_tiny_model(folder / "small.gguf", n_layer=1, n_embd=32)
    write_tiny_model(folder / "middle.gguf", n_layer=2, n_embd=64)
    write_tiny_model(folder / "larger.gguf", n_layer=9, n_embd=128)
    write_tiny_model(folder / "other.gguf", vocab="spm")
    write_tiny_mamba(folder / "state.gguf")
    write_other_kinds(folder)
    (folder / "cut.gguf").write_bytes((folder / "small.gguf").read_bytes()[:3000])
    return folder


def entries_of(folder: Path) -> tuple[LibraryEntry, ...]:
    return library_of(folder.parent).scan().entries


def find(folder: Path, target: str = "target.gguf", room: Room = _PLENTY) -> FoundDrafts:
    return find_drafts(folder / target, entries_of(folder), room=room, step_costs=_FREE_STEPS)


def called(found: FoundDrafts, name: str) -> DraftCandidate:
    [candidate] = [candidate for candidate in found.candidates if candidate.path.name == name]
    return candidate


def test_usable_files_come_first_and_all_others_have_one_reason(folder: Path) -> None:
    found = find(folder)
    names = [candidate.path.name for candidate in found.candidates if candidate.check.is_usable]
    assert names == ["small.gguf", "middle.gguf", "larger.gguf", "target.gguf"]  # the model itself comes last
    others = found.candidates[len(names) :]
    assert len(others) == len(list(folder.iterdir())) - len(names)
    for candidate in others:
        assert candidate.check.reason.endswith(".")
        assert candidate.check.hint
        assert (candidate.check.memory_bytes, candidate.check.fit, candidate.check.gain) == (0, None, None)
    assert "cannot draft: its memory cannot be rewound" in called(found, "state.gguf").check.reason
    assert "cut.gguf is cut off" in called(found, "cut.gguf").check.reason
    assert "has another vocabulary" in called(found, "other.gguf").check.reason
    assert (found.reason, found.hint, found.notes) == ("", "", ())
    assert found.target.path == folder / "target.gguf"


def test_suggestion_is_the_smaller_model_that_may_gain_most(folder: Path) -> None:
    suggested = find(folder).suggestion
    assert suggested is not None
    assert suggested.path.name == "small.gguf"
    assert suggested.check.kinship is Kinship.FAMILY
    assert 0 < suggested.check.cost_ratio < 0.1
    text = suggestion_text(suggested)
    assert "tiny llama" in text
    assert f"may pay: it reads {share_text(suggested.check.cost_ratio)} of the model's bytes" in text


def test_nothing_is_suggested_where_verifying_costs_too_much(folder: Path) -> None:
    found = find_drafts(folder / "target.gguf", entries_of(folder), room=_PLENTY, step_costs=(1.0, 2.3, 3.3, 4.0))
    assert found.suggestion is None
    assert [candidate.check.is_usable for candidate in found.candidates[:4]] == [True] * 4


def test_larger_model_and_the_model_itself_are_never_suggested(folder: Path) -> None:
    for name in ("small.gguf", "middle.gguf"):
        (folder / name).unlink()
    found = find(folder)
    assert [candidate.path.name for candidate in found.candidates[:2]] == ["larger.gguf", "target.gguf"]
    assert "slower than the model itself" in found.candidates[0].check.notes[0]
    assert found.suggestion is None


def test_lower_level_of_the_same_model_is_suggested_where_it_reads_little_enough(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    target = write_small(ours / "f16.gguf", level="F16", rows=64)
    for level in ("Q8_0", "Q4_K_M"):
        write_small(ours / f"{level}.gguf", level=level, rows=64)
    assert find_drafts(target, entries_of(ours), room=_PLENTY).suggestion is None
    write_small(ours / "Q2_K.gguf", level="Q2_K", rows=64)
    found = find_drafts(target, entries_of(ours), room=_PLENTY)
    assert {candidate.check.kinship for candidate in found.candidates[:3]} == {Kinship.LEVEL}
    assert found.suggestion is not None
    assert suggestion_text(found.suggestion).startswith("Tiny Model Q2_K may pay: it reads 1/6 of the model's bytes")
    check = found.suggestion.check
    assert check.gain is not None
    assert dataclasses.replace(check, gain=check.gain._replace(speed_up=1.11)).may_pay
    assert not dataclasses.replace(check, gain=check.gain._replace(speed_up=1.1)).may_pay
    assert not dataclasses.replace(check, kinship=Kinship.OTHER).may_pay


def test_target_that_cannot_be_rewound_has_its_reason_and_no_suggestion(folder: Path) -> None:
    found = find(folder, "state.gguf")
    assert found.reason.startswith("Nothing can be drafted for state.gguf")
    assert found.hint
    assert found.suggestion is None
    assert called(found, "small.gguf").check.is_usable  # their own reasons are told all the same
    check = check_draft(folder / "state.gguf", folder / "small.gguf", room=_PLENTY)
    assert (check.reason, check.hint) == (found.reason, found.hint)


def test_memory_of_a_draft_is_part_of_the_fit_of_both(folder: Path) -> None:
    params = ModelParams(n_ctx=512, n_seq_max=2)
    check = check_draft(folder / "target.gguf", folder / "small.gguf", params=params, room=_PLENTY)
    assert check.fit is not None
    assert check.info is not None
    alone = fit(read_gguf_info(folder / "target.gguf"), wish_of(params), _PLENTY)
    assert check.memory_bytes == check.fit.draft_bytes > check.info.weight_bytes
    assert check.fit.needed_bytes == alone.needed_bytes + check.memory_bytes
    longer = check_draft(
        folder / "target.gguf", folder / "small.gguf", params=ModelParams(n_ctx=4096, n_seq_max=2), room=_PLENTY
    )
    assert longer.memory_bytes > check.memory_bytes


def test_draft_without_room_beside_the_model_is_noted_and_not_suggested(folder: Path) -> None:
    params = ModelParams(n_ctx=512)
    plain = fit(read_gguf_info(folder / "target.gguf"), wish_of(params), _PLENTY)
    room = Room(plain.needed_bytes + 1)
    found = find_drafts(folder / "target.gguf", entries_of(folder), params=params, room=room, step_costs=_FREE_STEPS)
    small = called(found, "small.gguf").check
    assert small.is_usable
    assert small.fit is not None
    assert small.fit.verdict is Verdict.DOES_NOT_FIT
    assert "Model and draft together need" in small.notes[-1]
    assert found.suggestion is None


def test_memory_is_asked_for_where_no_room_is_given(folder: Path) -> None:
    check = check_draft(folder / "target.gguf", folder / "small.gguf")
    assert check.fit is not None
    assert 0 < check.fit.free_bytes <= 2 * room_of(None, read_bandwidth={}).free_bytes


def test_files_beside_the_model_are_listed_too_and_each_once(folder: Path, tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    apart.mkdir()
    target = write_tiny_model(apart / "target.gguf", seed=2, n_layer=8, n_embd=128)
    write_tiny_model(apart / "beside.GGUF", n_layer=1, n_embd=32, seed=5)
    split_model(folder / "middle.gguf", apart, "parts", 3)
    (apart / "copy.gguf").symlink_to(folder / "small.gguf")
    (apart / "gone.gguf").symlink_to(tmp_path / "nowhere")
    (apart / "note.txt").write_text("no model")
    (apart / "bad.gguf").write_text("no model either")
    os.mkfifo(apart / "pipe.gguf")
    found = find_drafts(target, entries_of(folder), room=_PLENTY)
    beside = [candidate.path.name for candidate in found.candidates if candidate.path.parent == apart]
    assert sorted(beside) == ["bad.gguf", "beside.GGUF", "parts-00001-of-00003.gguf", "target.gguf"]
    assert called(found, "beside.GGUF").name == str(apart / "beside.GGUF")
    assert called(found, "parts-00001-of-00003.gguf").file_bytes > (folder / "middle.gguf").stat().st_size
    assert "bad.gguf is " in called(found, "bad.gguf").check.reason


@pytest.mark.parametrize("name", ["none.gguf", "", "a\0b.gguf", "a\ud800b.gguf"])
def test_draft_that_cannot_be_read_is_a_reason(folder: Path, name: str) -> None:
    check = check_draft(folder / "target.gguf", folder / name, room=_PLENTY)
    assert check.reason
    assert check.hint


def test_target_that_cannot_be_used_is_a_reason_or_an_error(folder: Path) -> None:
    for name in ("none.gguf", "lora.gguf", "cut.gguf"):
        check = check_draft(folder / name, folder / "small.gguf", room=_PLENTY)
        assert check.reason
        assert check.hint
    with pytest.raises(ModelFileMissing):
        find(folder, "none.gguf")
    with pytest.raises(NotAChatModel):
        find(folder, "lora.gguf")
    with pytest.raises(AppError):
        DraftFiles().find(Path("a\0b"))


def test_hundreds_of_files_are_listed_again_without_reading_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (folder / "small.gguf").read_bytes()
    for number in range(150):
        (folder / f"n{number:03}.gguf").write_bytes(data + bytes(32 * number))
    entries = entries_of(folder)
    files = DraftFiles(lambda: entries)
    first = files.find(folder / "target.gguf", room=_PLENTY)
    assert len(first.candidates) > 150

    def refuse(self: HeaderReader) -> None:
        raise AssertionError("a header was read")

    monkeypatch.setattr(HeaderReader, "read", refuse)
    before = time.thread_time()
    assert files.find(folder / "target.gguf", room=_PLENTY) == first
    assert time.thread_time() - before < _MAX_CPU_S


def test_replaced_file_is_looked_at_again(folder: Path) -> None:
    files = DraftFiles()
    target, draft = folder / "target.gguf", folder / "small.gguf"
    assert files.check(target, draft, room=_PLENTY).is_usable
    write_tiny_model(folder / "new.tmp", vocab="spm").replace(draft)
    assert "another vocabulary" in files.check(target, draft, room=_PLENTY).reason


def test_library_of_the_user_is_listed_as_its_last_scan_found_it(data_dir: Path) -> None:
    paths = find_paths(str(data_dir))
    paths.create()
    target = write_tiny_model(paths.models_dir / "target.gguf", n_layer=8)
    write_tiny_model(paths.models_dir / "small.gguf", n_layer=1)
    open_library(paths).scan()
    found = open_draft_files(paths).find(target, room=_PLENTY)
    assert called(found, "small.gguf").check.is_usable
    assert called(found, "small.gguf").name.startswith("tiny-llama")


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.1, "1/10"), (0.24, "1/4"), (0.4, "1/2"), (0.41, "41 %"), (1.0, "100 %"), (0.0, "0 %")]
)
def test_share_is_told_as_a_person_would(ratio: float, text: str) -> None:
    assert share_text(ratio) == text


def test_other_name_of_the_level_key_is_the_same_level(folder: Path) -> None:
    level = edit_gguf(folder / "target.gguf", folder / "level.gguf", set={"general.file_type": 7})
    check = check_draft(folder / "target.gguf", level, room=_PLENTY)
    assert check.kinship is Kinship.LEVEL
    assert not check.may_pay  # it reads as many bytes


def test_small_size_is_told_in_a_unit_that_shows_it(folder: Path) -> None:
    suggested = find(folder).suggestion
    assert suggested is not None
    assert re.search(r"takes [1-9]\d* MiB of memory", suggestion_text(suggested))
