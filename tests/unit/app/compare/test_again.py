"""A comparison is run again from its record: the same plan, with the files as they are now."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from app.compare.again import plan_again
from app.compare.plan import column_of, failed_column, fair_sampling, new_comparison
from app.compare.report import write_report
from app.compare.results import Column, Comparison, Mode, comparison_to_json
from app.compare.run_folder import read_record
from app.errors import ModelFileMissing, RunError, UsageError
from app.model_choice import choose_model
from app.settings import Settings
from engine import Adapter, ChatMessage, ModelParams, Role
from tests.support.adapters import write_adapter
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.compare.runs import begin, column, finish, paths_in, plan, prompts, resume

PARAMS = ModelParams(n_ctx=2048, type_k="q8_0", type_v="q8_0", n_threads=1)
SAMPLING = fair_sampling(8)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return three models, the second the largest."""
    layers = {"one": 1, "two": 3, "three": 2}
    return [write_tiny_model(tmp_path / f"{name}.gguf", n_layer=count) for name, count in layers.items()]


def real(path: Path, adapters: tuple[Adapter, ...] = ()) -> Column:
    """Return the column of a model file."""
    return column_of(choose_model(str(path), Settings()), params=PARAMS, sampling=SAMPLING, adapters=adapters)


def again(record: Comparison, folder: Path) -> Comparison:
    """Return the plan of the same once more."""
    return plan_again(record, Settings(), paths_in(folder))


def test_plan_is_the_same_and_nothing_of_it_is_done(files: list[Path], tmp_path: Path) -> None:
    record = new_comparison([real(path) for path in files], prompts(3), repeats=2, prompts_name="mine", reference=2)
    plan = again(record, tmp_path)
    same = ("columns", "prompts", "repeats", "mode", "prompts_name", "reference")
    assert [getattr(plan, name) for name in same] == [getattr(record, name) for name in same]
    assert plan.reference == "c3"
    assert plan.id != record.id
    assert plan.cells == ()
    assert plan.engine is None
    assert "was run again with the same plan" in plan.notes[0]


def test_what_came_of_a_run_is_not_taken_along(tmp_path: Path) -> None:
    done = finish(begin(plan(column("fake:n_words=3"), column("fake:n_words=5"), repeats=2), tmp_path))
    broken = msgspec.structs.replace(done.columns[1], error="It died.", hint="Wait.", notices=("It was slow.",))
    record = msgspec.structs.replace(done, columns=(done.columns[0], broken), notes=("A note.",))
    once_more = plan_again(record, Settings(), paths_in(tmp_path), is_fake=True)
    assert [(column.error, column.hint, column.notices) for column in once_more.columns] == [("", "", ())] * 2
    assert "A note." not in once_more.notes
    result = finish(begin(once_more, tmp_path))
    assert [(cell.column, cell.prompt, cell.repeat, cell.text) for cell in result.cells] == [
        (cell.column, cell.prompt, cell.repeat, cell.text) for cell in done.cells
    ]


def test_next_messages_are_asked_again(tmp_path: Path) -> None:
    run = begin(plan(column(), num_prompts=1), tmp_path)
    assert run.run()
    run.add_turn("p1", "Go on.")
    record = finish(run)
    result = finish(begin(plan_again(record, Settings(), paths_in(tmp_path), is_fake=True), tmp_path))
    assert [(cell.prompt, cell.text) for cell in result.cells] == [(cell.prompt, cell.text) for cell in record.cells]


def test_file_that_is_gone_or_another_one_is_said_and_the_others_go_on(files: list[Path], tmp_path: Path) -> None:
    record = new_comparison([real(path) for path in (*files, files[2])], prompts(1), reference=1)
    files[0].unlink()
    write_tiny_model(files[1], n_layer=3, seed=7)
    plan = again(record, tmp_path)
    gone, changed, kept, twice = plan.columns
    assert gone.error == f"The file of one is gone: there is no {files[0]}."
    assert changed.error.startswith("The file of two is another one now: it has the same size")
    assert (kept.error, twice.error) == ("", "")
    assert plan.reference == "c3"
    assert "two cannot be used: replies are held against those of three instead." in plan.notes


def test_file_of_another_size_is_told_by_both_sizes(files: list[Path], tmp_path: Path) -> None:
    record = new_comparison([real(files[0])], prompts(1))
    write_tiny_model(files[0], n_layer=6)
    (changed,) = again(record, tmp_path).columns
    assert "MiB, and had" in changed.error


def test_file_that_is_damaged_meanwhile_is_said(files: list[Path], tmp_path: Path) -> None:
    record = new_comparison([real(path) for path in files[:2]], prompts(1))
    files[0].write_bytes(b"no model")
    assert [bool(column.error) for column in again(record, tmp_path).columns] == [True, False]


def test_file_that_was_moved_is_found_where_the_library_knows_it(files: list[Path], tmp_path: Path) -> None:
    from app.model_library import open_library

    record = new_comparison([real(files[0])], prompts(1))
    paths = paths_in(tmp_path)
    paths.models_dir.mkdir(parents=True, exist_ok=True)
    moved = paths.models_dir / "renamed.gguf"
    shutil.move(files[0], moved)
    open_library(paths).scan()
    plan = again(record, tmp_path)
    assert (plan.columns[0].error, plan.columns[0].path, plan.columns[0].label) == ("", str(moved), "one")
    assert "The file of one lies in another folder now; it is the same." in plan.notes


def test_model_that_was_missing_is_used_where_it_is_there_now(tmp_path: Path) -> None:
    path = tmp_path / "late.gguf"
    missing = failed_column(str(path), ModelFileMissing("There is none.", ""), params=PARAMS, sampling=SAMPLING)
    record = new_comparison([missing], prompts(1))
    write_tiny_model(path)
    (found,) = again(record, tmp_path).columns
    assert found.error == ""
    assert found.fingerprint


@pytest.mark.parametrize("change", ["same", "gone", "another"])
def test_adapter_is_looked_at_too(files: list[Path], tmp_path: Path, change: str) -> None:
    adapter = write_adapter(tmp_path / "style.gguf")
    record = new_comparison([real(files[2], (Adapter(path=str(adapter), scale=0.5),))], prompts(1))
    assert len(record.columns[0].adapter_fingerprints) == 1
    if change == "gone":
        adapter.unlink()
    elif change == "another":
        write_adapter(adapter, seed=5)
    (made,) = again(record, tmp_path).columns
    said = {"same": "", "gone": "There is no adapter file", "another": "The adapter of three is another one now."}
    assert made.error.startswith(said[change])
    assert bool(made.error) == (change != "same")
    assert made.adapters == record.columns[0].adapters


def test_record_is_read_from_every_form_it_has(tmp_path: Path) -> None:
    record = finish(begin(plan(column(), repeats=2), tmp_path))
    paths = paths_in(tmp_path)
    page, text, folder = tmp_path / "out.html", tmp_path / "out.json", paths.runs_dir / record.id
    write_report(record, page)
    text.write_bytes(comparison_to_json(record))
    names = (str(page), str(text), str(folder), str(folder / "journal.jsonl"), record.id, record.id[:8], "last")
    assert [read_record(name, paths).cells for name in names] == [record.cells] * len(names)


def test_run_that_was_interrupted_can_be_run_again_from_its_beginning(tmp_path: Path) -> None:
    run = begin(plan(column(), repeats=3), tmp_path)
    run.close()
    read = read_record("last", paths_in(tmp_path))
    assert read.id == run.id
    once_more = begin(plan_again(read, Settings(), paths_in(tmp_path), is_fake=True), tmp_path)
    assert len(finish(once_more).cells) == 6
    assert len(finish(resume(run.id, tmp_path)).cells) == 6


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("last", "There is no comparison yet"),
        ("feedfeed", "There is no comparison 'feedfeed'"),
        ("nowhere.html", "cannot be read"),
        ("some/where", "cannot be read"),
        ("~nobody-of-this-name/x", "cannot be read"),
        ("a\0b.html", "cannot be read"),
        ("x" * 5000, "There is no comparison"),
        ("", "No comparison is in"),
    ],
    ids=["last", "id", "file", "path", "user", "nul", "long", "empty"],
)
def test_name_of_no_comparison_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_record(name, paths_in(tmp_path))


@pytest.mark.parametrize("content", [b"", b"{}", b"\0" * 100, b"not json"], ids=["empty", "object", "nul", "text"])
@pytest.mark.parametrize("file_name", ["journal.jsonl", "out.html"])
def test_damaged_record_is_refused(tmp_path: Path, content: bytes, file_name: str) -> None:
    path = tmp_path / file_name
    path.write_bytes(content)
    with pytest.raises((UsageError, RunError)):
        read_record(str(path), paths_in(tmp_path))


def test_record_of_samples_goes_again_in_one_batch(tmp_path: Path) -> None:
    record = finish(begin(plan(column(), num_prompts=1, repeats=3, mode=Mode.SAMPLES), tmp_path))
    result = finish(begin(plan_again(record, Settings(), paths_in(tmp_path), is_fake=True), tmp_path))
    assert result.mode is Mode.SAMPLES
    assert len(result.cells) == 3


def test_prompt_with_a_past_stays_whole(tmp_path: Path) -> None:
    said = tuple(ChatMessage(role, "Text") for role in (Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.USER))
    made = plan(column())
    record = msgspec.structs.replace(made, prompts=(msgspec.structs.replace(made.prompts[0], messages=said),))
    assert plan_again(record, Settings(), paths_in(tmp_path), is_fake=True).prompts == record.prompts


@pytest.mark.parametrize("kind", ["pipe", "folder", "nul", "long", "surrogate"])
def test_path_that_is_no_file_is_said(files: list[Path], tmp_path: Path, kind: str) -> None:
    if kind == "pipe" and os.name == "posix":
        os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "folder").mkdir()
    names = {"nul": "a\0b", "long": "x" * 5000, "surrogate": "\udc80.gguf"}
    path = str(tmp_path / names.get(kind, f"{kind}.gguf" if kind == "pipe" else kind))
    record = new_comparison([msgspec.structs.replace(real(files[0]), path=path), real(files[1])], prompts(1))
    strange, other = again(record, tmp_path).columns
    assert strange.error
    assert other.error == ""
