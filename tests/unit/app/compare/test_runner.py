"""A run on the engine without a model: order, failures, going on, and what is kept."""

import errno
import itertools
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from app.compare.events import (
    CellDone,
    CellStarted,
    CellText,
    ColumnFailed,
    ColumnLoaded,
    ColumnLoading,
    Notice,
    Paused,
    Progress,
    RunEvent,
)
from app.compare.results import Column, Mode
from app.compare.run_folder import list_runs
from app.compare.runner import MAX_DEATHS, CompareRun
from app.compare.watched_file import FileFault
from app.errors import UsageError
from app.settings import Settings
from engine import OutOfMemory, SamplingParams
from models import fingerprint, read_gguf_info
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.cli.scripted_client import DEATH, ScriptedClient
from tests.unit.app.compare.runs import (
    EchoClient,
    Told,
    all_places,
    begin,
    column,
    fake_clients,
    finish,
    paths_in,
    places,
    plan,
    resume,
)

deaths = pytest.mark.allow_log("ERROR engine.worker", "WARNING app.compare.runner")


def test_every_prompt_goes_to_every_column_in_every_repeat(tmp_path: Path) -> None:
    told = Told()
    done = finish(begin(plan(column(), column("fake:n_words=6"), num_prompts=2, repeats=2), tmp_path, told))
    assert [place[0] for place in places(done)] == ["c1", "c1", "c2", "c2", "c2", "c2", "c1", "c1"]
    assert set(places(done)) == all_places(("c1", "c2"), 2, 2)
    assert [cell.number for cell in done.cells] == list(range(8))
    assert [event.column for event in told.of(ColumnLoading)] == ["c1", "c2", "c1"]
    assert {cell.error for cell in done.cells} == {""}
    assert done.engine is not None and done.engine.library == "0.5"


def test_reply_has_its_measures_text_and_tokens(tmp_path: Path) -> None:
    told = Told()
    settings = Settings(power_watts=20.0, electricity_price=0.3)
    run = begin(plan(column(), num_prompts=1), tmp_path, told, settings=settings, clients=fake_clients())
    done = finish(run)
    (cell,) = done.cells
    known = {"ttft_s", "prefill_rate", "decode_rate", "tpot_s", "num_prompt_tokens", "num_generated_tokens", "load_s"}
    assert known | {"joules_per_token", "cost_per_million_tokens", "peak_memory_bytes"} <= set(cell.values)
    assert len(cell.token_ids) == cell.values["num_generated_tokens"]
    assert cell.text.count(" ") == 4
    assert "".join(event.text for event in told.of(CellText)) == cell.text
    assert [type(event) for event in told.events if not isinstance(event, CellText)] == [
        *(Progress, ColumnLoading, ColumnLoaded, CellStarted, CellDone, Progress)
    ]


def test_load_is_told_by_the_first_reply_after_it(tmp_path: Path) -> None:
    done = finish(begin(plan(column(), column("fake:n_words=5"), num_prompts=3, repeats=2), tmp_path))
    loads = [(cell.column, cell.prompt, cell.repeat) for cell in done.cells if "load_s" in cell.values]
    assert loads == [("c1", "p1", 0), ("c2", "p1", 0), ("c2", "p1", 1), ("c1", "p1", 1)]


def test_columns_of_one_file_with_the_same_settings_share_a_load(tmp_path: Path) -> None:
    told = Told()
    other = column(sampling=SamplingParams(temperature=0.5, seed=1, max_tokens=9, reproducible=True))
    done = finish(begin(plan(column(), other, num_prompts=1), tmp_path, told))
    assert len(told.of(ColumnLoading)) == 1
    assert [cell.values["load_s"] for cell in done.cells] == [told.of(ColumnLoaded)[0].description.load_s] * 2


def test_progress_counts_to_the_end(tmp_path: Path) -> None:
    told = Told()
    finish(begin(plan(column(), column("fake:n_words=5"), num_prompts=2), tmp_path, told))
    progress = told.of(Progress)
    assert [(event.num_done, event.num_total) for event in progress] == [(done, 4) for done in range(5)]
    assert progress[0].left_s is None
    assert progress[1].left_s > 0
    assert progress[-1].left_s == 0


@pytest.mark.parametrize("mode", [Mode.FAIR, Mode.RACE, Mode.SAMPLES], ids=lambda mode: mode.value)
def test_texts_do_not_depend_on_how_they_were_asked_for(tmp_path: Path, mode: Mode) -> None:
    alone = finish(begin(plan(column(), num_prompts=2), tmp_path / "alone", clients=fake_clients()))
    columns = [column()] if mode is Mode.SAMPLES else [column(), column()]
    done = finish(begin(plan(*columns, num_prompts=2, repeats=2, mode=mode), tmp_path, clients=fake_clients()))
    expected = {cell.prompt: cell.text for cell in alone.cells}
    assert {cell.prompt: cell.text for cell in done.cells} == expected
    assert len({(cell.prompt, cell.text) for cell in done.cells}) == 2
    assert len(done.cells) == 4 * len(columns)


def test_same_file_left_and_right_raced_again_and_again_mixes_nothing(tmp_path: Path) -> None:
    race = plan(column(), column(), column("fake:n_words=9"), num_prompts=4, repeats=4, mode=Mode.RACE)
    done = finish(begin(race, tmp_path, clients=fake_clients()))
    for name in ("c1", "c3"):
        alone = column(race.columns[0].path if name == "c1" else race.columns[2].path)
        alone_run = begin(plan(alone, num_prompts=4), tmp_path / name, clients=fake_clients())
        solo = {cell.prompt: cell.text for cell in finish(alone_run).cells}
        assert all(cell.text == solo[cell.prompt] for cell in done.cells_of(name))
    assert [cell.text for cell in done.cells_of("c1")] == [cell.text for cell in done.cells_of("c2")]


@pytest.mark.allow_log("WARNING app.compare.runner")
def test_model_that_does_not_load_leaves_a_column_that_says_why_and_the_rest_go_on(tmp_path: Path) -> None:
    told = Told()
    full = ScriptedClient(load=OutOfMemory("It needs 9 GB; 4 GB are free.", "Close other programs."))
    run = begin(
        plan(column("a"), column("b"), repeats=2),
        tmp_path,
        told,
        clients=itertools.chain([full], iter(EchoClient, None)),
    )
    done = finish(run)
    assert (done.columns[0].error, done.columns[0].hint) == ("It needs 9 GB; 4 GB are free.", "Close other programs.")
    assert {cell.column for cell in done.cells} == {"c2"}
    assert told.of(ColumnFailed) == [ColumnFailed("c1", done.columns[0].error, done.columns[0].hint)]
    assert told.of(Progress)[-1][:2] == (4, 4)
    assert full.is_closed


@deaths
def test_engine_that_dies_in_every_reply_is_given_up_with_its_reason(tmp_path: Path) -> None:
    told = Told()
    dying = [ScriptedClient(["warm", DEATH]) for _ in range(MAX_DEATHS)]
    clients = [EchoClient(), *dying, EchoClient()]  # the first one measures the machine
    run = begin(plan(column("a"), column("b"), num_prompts=9), tmp_path, told, clients=clients)
    done = finish(run)
    assert "ended 3 times in a row" in done.columns[0].error
    assert "SIGKILL" in done.columns[0].error
    assert [cell.error for cell in done.cells_of("c1")] == [DEATH.message] * MAX_DEATHS
    assert [cell.error for cell in done.cells_of("c2")] == [""] * 9


@deaths
def test_engine_that_dies_once_is_started_again(tmp_path: Path) -> None:
    clients = [EchoClient(), ScriptedClient(["warm", DEATH]), ScriptedClient(["warm", "one", "two"])]
    done = finish(begin(plan(column("a"), num_prompts=3), tmp_path, clients=clients))
    assert [cell.error or cell.text for cell in done.cells] == [DEATH.message, "one", "two"]
    assert done.columns[0].error == ""


@pytest.mark.allow_log("WARNING app.compare.runner")
def test_prompt_that_is_too_long_fails_alone(tmp_path: Path) -> None:
    told = Told()
    made = plan(column(params=msgspec.structs.replace(column().params, n_ctx=128)), num_prompts=2)
    long = msgspec.structs.replace(made.prompts[0].messages[0], content="word " * 400)
    made = msgspec.structs.replace(
        made, prompts=(msgspec.structs.replace(made.prompts[0], messages=(long,)), made.prompts[1])
    )
    done = finish(begin(made, tmp_path, told, clients=fake_clients()))
    assert "the context holds 128" in done.cells[0].error
    assert done.cells[1].error == ""
    assert told.of(ColumnFailed) == []


def test_next_message_to_all_columns_goes_on_behind_their_replies(tmp_path: Path) -> None:
    run = begin(plan(column(), column("fake:n_words=7"), num_prompts=1), tmp_path)
    assert run.run()
    turn = run.add_turn("p1", "And then?")
    assert run.run()
    with pytest.raises(UsageError):
        run.add_turn("p1", "  ")
    run.close()
    done = run.comparison()
    assert [prompt.follows for prompt in done.prompts] == ["", "p1"]
    assert set(places(done)) == {(name, prompt, 0) for name in ("c1", "c2") for prompt in ("p1", turn.id)}
    read = {cell.prompt: cell.values["num_prompt_tokens"] for cell in done.cells_of("c1")}
    assert read[turn.id] > read["p1"]
    assert resume(run.id, tmp_path).comparison() == done


def test_pause_waits_before_the_next_reply_and_goes_on(tmp_path: Path) -> None:
    run: CompareRun

    def act(event: RunEvent) -> None:
        if isinstance(event, CellStarted) and event.place.prompt == "p2":
            run.pause()
        if isinstance(event, Paused):
            threading.Timer(0, run.go_on).start()

    told = Told(act)
    run = begin(plan(column(), num_prompts=3), tmp_path, told)
    done = finish(run)
    assert len(done.cells) == 3
    kinds = [type(event) for event in told.events if isinstance(event, CellDone | Paused)]
    assert kinds == [CellDone, CellDone, Paused, CellDone]


def test_pause_can_be_cancelled(tmp_path: Path) -> None:
    run: CompareRun
    told = Told(lambda event: run.cancel() if isinstance(event, Paused) else None)
    run = begin(plan(column(), num_prompts=3), tmp_path, told)
    run.pause()
    assert not run.run()
    run.close()
    assert run.comparison().cells == ()


@pytest.mark.parametrize("at", range(1, 8))
def test_run_that_was_cancelled_goes_on_where_it_was(tmp_path: Path, at: int) -> None:
    run: CompareRun
    seen = itertools.count(1)
    told = Told(lambda event: run.cancel() if isinstance(event, CellStarted) and next(seen) == at else None)
    made = plan(column(), column("fake:n_words=5"), num_prompts=2, repeats=2)
    run = begin(made, tmp_path, told)
    assert not run.run()
    run.close()
    assert len(run.comparison().cells) == at - 1
    assert [(summary.num_done, summary.num_total, summary.is_ended) for summary in list_runs(paths_in(tmp_path))] == [
        (at - 1, 8, False)
    ]
    done = finish(resume("last", tmp_path))
    assert sorted(places(done)) == sorted(all_places(("c1", "c2"), 2, 2))
    whole = {(cell.column, cell.prompt): cell.text for cell in finish(begin(made, tmp_path / "whole")).cells}
    assert {(cell.column, cell.prompt): cell.text for cell in done.cells} == whole


def test_cancel_in_the_middle_of_a_reply_ends_at_once(tmp_path: Path) -> None:
    run: CompareRun
    told = Told(lambda event: run.cancel() if isinstance(event, CellText) else None)
    long = column("fake:n_words=2000,step_s=0.01", sampling=SamplingParams(temperature=0))
    run = begin(plan(long), tmp_path, told, clients=fake_clients())
    assert not run.run()
    run.close()
    assert told.of(CellDone) == []


@pytest.mark.allow_log("WARNING app.compare.runner")
def test_column_that_failed_is_tried_again_when_the_run_goes_on(tmp_path: Path) -> None:
    run: CompareRun
    told = Told(lambda event: run.cancel() if isinstance(event, CellDone) else None)
    full = ScriptedClient(load=OutOfMemory("It needs 9 GB; 4 GB are free."))
    run = begin(plan(column("a"), column("b")), tmp_path, told, clients=itertools.chain([full], iter(EchoClient, None)))
    assert not run.run()
    run.close()
    done = finish(resume(run.id[:8], tmp_path))
    assert [each.error for each in done.columns] == ["", ""]
    assert set(places(done)) == all_places(("c1", "c2"), 2, 1)
    assert resume(run.id, tmp_path).comparison() == done


def test_model_that_could_not_be_used_from_the_beginning_stays_out(tmp_path: Path) -> None:
    run = begin(plan(column("gone", error="There is no file gone."), column()), tmp_path)
    done = finish(run)
    assert {cell.column for cell in done.cells} == {"c2"}
    assert done.columns[0].error == "There is no file gone."


def _watched(path: Path) -> Column:
    return column(str(path), fingerprint=fingerprint(read_gguf_info(path)), label=path.stem)


@pytest.mark.allow_log("WARNING app.compare.runner")
@pytest.mark.parametrize("change", ["removed", "replaced", "no model"])
def test_file_that_changes_during_the_run_is_named_and_the_rest_go_on(tmp_path: Path, change: str) -> None:
    one, other = write_tiny_model(tmp_path / "one.gguf"), write_tiny_model(tmp_path / "other.gguf", n_layer=1)

    def act(event: RunEvent) -> None:
        if not (isinstance(event, CellDone) and event.cell.prompt == "p1" and event.cell.column == "c1"):
            return
        one.unlink()
        if change == "replaced":
            shutil.copyfile(other, one)
        elif change == "no model":
            one.write_bytes(b"no model any more")

    done = finish(begin(plan(_watched(one), _watched(other), num_prompts=3), tmp_path, Told(act)))
    word = "removed" if change == "removed" else "replaced"
    assert f"The file of one was {word} during the run" in done.columns[0].error
    assert places(done) == [("c1", "p1", 0), *(("c2", f"p{number}", 0) for number in (1, 2, 3))]


def test_file_that_was_only_touched_is_still_the_same(tmp_path: Path) -> None:
    one = write_tiny_model(tmp_path / "one.gguf")
    done = finish(
        begin(plan(_watched(one)), tmp_path, Told(lambda event: one.touch() if isinstance(event, CellDone) else None))
    )
    assert len(done.cells) == 2


def test_disk_that_is_full_keeps_the_results_in_memory_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    run = begin(plan(column(), num_prompts=3), tmp_path, told)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = finish(run)
    assert len(done.cells) == 3
    assert [event.text for event in told.of(Notice)] == [
        "The comparison cannot be saved as it goes: No space left on device. It goes on in memory."
    ]
    assert not run.is_saved


@pytest.mark.allow_log("WARNING app.compare.runner")
@pytest.mark.parametrize("mode", [Mode.FAIR, Mode.RACE], ids=lambda mode: mode.value)
def test_model_without_room_is_told_before_anything_is_loaded(tmp_path: Path, mode: Mode) -> None:
    told = Told()
    asked: list[list[str]] = []

    def find_lack(columns: Sequence[Column]) -> dict[str, FileFault]:
        asked.append([each.id for each in columns])
        return {each.id: FileFault("It needs 9 GB.", "Take a smaller one.") for each in columns if each.path == "b"}

    made = plan(column("a"), column("b"), num_prompts=1, mode=mode)
    done = finish(begin(made, tmp_path, told, find_lack=find_lack))
    assert asked == ([["c1"], ["c2"]] if mode is Mode.FAIR else [["c1", "c2"]])
    assert done.columns[1].error == "It needs 9 GB."
    assert [event.column for event in told.of(ColumnLoading)] == ["c1"]
    kinds = [type(event) for event in told.events]
    assert kinds.index(ColumnFailed) < kinds.index(ColumnLoading)


def test_power_and_load_stand_beside_every_reply(tmp_path: Path) -> None:
    slow = column("fake:n_words=4,step_s=0.01")
    done = finish(begin(plan(slow, num_prompts=1), tmp_path, clients=fake_clients()))
    assert done.cells[0].machine.load is not None
    assert done.cells[0].machine.load >= 0
