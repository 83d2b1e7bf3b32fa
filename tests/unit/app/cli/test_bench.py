"""`fireside bench` on the engine without a model."""

import argparse
import json
import sqlite3
import statistics
from pathlib import Path
from typing import Any

import pytest

from app.bench.measures import DRAFT_MEASURES, MEASURES
from app.cli.bench import run
from app.cli.outcome import ExitCode
from app.errors import UsageError
from app.paths import Paths, find_paths
from app.settings import SettingsStore
from app.store import ChatStore
from engine import DecodeFailed, InprocClient
from tests.support.refused_drafts import write_refused
from tests.support.template_thread import render_templates_here

BESIDE_BARE = {"cold_ttft", "prefill_short", "prefill_long", "decode_short", "decode_long"}
BESIDE_BARE |= {"parallel_2", "parallel_4", "parallel_8"}


@pytest.fixture(autouse=True)
def _quick_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.chat_saver._IDLE_S", 0.01)
    render_templates_here(monkeypatch)


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    """Return a data folder that is there."""
    found = find_paths(str(data_dir))
    found.create()
    return found


def bench(paths: Paths, **flags: Any) -> ExitCode:
    """Run the command with some flags."""
    usual: dict[str, Any] = {
        "draft": [],
        "draft_gpu_layers": None,
        "name": None,
        "model": None,
        "repeats": None,
        "prompt_tokens": None,
        "busy": False,
        "growth": False,
    }
    usual |= {"replay": None, "against": None, "json": False, "fake_engine": True, "debug": False}
    return run(argparse.Namespace(**(usual | flags)), paths, lambda fake: InprocClient(fake=True))


def events(output: str) -> list[dict[str, Any]]:
    """Return what `--json` printed."""
    return [json.loads(line) for line in output.splitlines()]


def recorded(paths: Paths, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return a file with the output of a run."""
    bench(paths, repeats=2, prompt_tokens=64, json=True)
    file = paths.data_dir / "run.jsonl"
    file.write_text(capsys.readouterr().out, "utf-8")
    return file


def test_every_measure_is_a_line_and_the_record_comes_last(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(paths, repeats=2, prompt_tokens=64, json=True) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert err == ""
    *lines, last = events(out)
    assert [line["name"] for line in lines] == list(MEASURES)
    assert {line["event"] for line in lines} == {"line"}
    for line in lines:
        assert {"name", "unit", "median", "min", "max", "repeats"} <= set(line)
        assert ("bare_ratio" in line) == (line["name"] in BESIDE_BARE)
        if line["name"] == "bandwidth_share":  # the engine without a model reads no weights
            assert (line["median"], line["repeats"]) == (None, 0)
        elif line["name"] not in ("write_gap", "quiet_gap"):  # its replies come in one piece, its files at once
            assert 0 <= line["min"] <= line["median"] <= line["max"]
            assert line["repeats"] == 2
    assert last["event"] == "run"
    assert last["record"]["plan"]["prompt_tokens"] == 64
    assert len(last["record"]["measures"][0]["values"]) == 2


def test_run_is_kept_with_the_chats(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    bench(paths, repeats=1, prompt_tokens=16, json=True)
    record = events(capsys.readouterr().out)[-1]["record"]
    store, _ = ChatStore.open(paths.database_file)
    try:
        (kept,) = store.list_runs("bench")
    finally:
        store.close()
    assert kept.id == record["id"]
    assert kept.record == record


def test_figures_of_the_engine_without_a_model_are_not_taken_for_the_machine(paths: Paths) -> None:
    bench(paths, repeats=1, prompt_tokens=16)
    assert SettingsStore(paths.settings_file).load()[0].read_bandwidth == {}


def test_run_that_cannot_be_kept_is_shown_all_the_same(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = ChatStore.open(paths.database_file)
    store.close()
    connection = sqlite3.connect(paths.database_file)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert bench(paths, repeats=1, prompt_tokens=16) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert "decode, short context" in out
    assert "The run was not kept" in err


def test_person_gets_a_table_and_progress_beside_it(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    bench(paths, repeats=1, prompt_tokens=16)
    out, err = capsys.readouterr()
    assert "memory bandwidth" in out
    assert "Each was measured once" in out
    assert "repeat 1 of 1" in err
    assert "repeat" not in out.partition("--repeats")[0]


def test_replay_does_the_same_and_compares(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(paths, capsys)
    assert bench(paths, replay=file, json=True) == ExitCode.DONE
    *lines, last = events(capsys.readouterr().out)
    before = events(file.read_text("utf-8"))[-1]["record"]
    assert last["record"]["plan"] == before["plan"]
    assert last["record"]["params"] == before["params"]
    assert last["record"]["id"] != before["id"]
    old = {measure["name"]: measure["values"] for measure in before["measures"]}
    for line in lines:
        if old[line["name"]]:
            assert line["against_median"] == pytest.approx(statistics.median(old[line["name"]]))


def test_other_run_is_shown_beside(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(paths, capsys)
    bench(paths, repeats=2, prompt_tokens=32, against=file)
    out = capsys.readouterr().out
    assert "Beside the run of" in out
    assert "The other run had a prompt of another length." in out
    assert "before" in out


@pytest.mark.parametrize(
    "flag",
    [
        {"repeats": 3},
        {"prompt_tokens": 99},
        {"busy": True},
        {"growth": True},
        {"draft": ["ngram"]},
        {"draft_gpu_layers": 0},
    ],
    ids=lambda flag: str(flag),
)
def test_replay_takes_no_numbers_of_its_own(
    paths: Paths, capsys: pytest.CaptureFixture[str], flag: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="takes its numbers from the file"):
        bench(paths, replay=recorded(paths, capsys), **flag)


def test_drafting_is_measured_when_asked_for(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(paths, repeats=2, prompt_tokens=16, draft=["ngram"], json=True) == ExitCode.DONE
    *lines, last = events(capsys.readouterr().out)
    found = {line["name"]: line for line in lines}
    assert list(found) == [*MEASURES, *DRAFT_MEASURES]
    assert all(found[f"{kind}_{name}"]["repeats"] == 2 for kind in ("story", "copy") for name in ("plain", "drafted"))
    assert last["record"]["plan"]["draft_mode"] == "ngram"


def test_draft_model_that_is_not_there_is_refused_before_anything_is_loaded(paths: Paths) -> None:
    with pytest.raises(UsageError, match="no draft model"):
        bench(paths, draft=["/no/such.gguf"])


def test_replay_refuses_another_model(paths: Paths, capsys: pytest.CaptureFixture[str], starter_path: Path) -> None:
    with pytest.raises(UsageError, match="not the model of that run"):
        bench(paths, replay=recorded(paths, capsys), name=str(starter_path), fake_engine=False)


def test_engine_that_fails_ends_the_run_with_its_error(paths: Paths) -> None:
    with pytest.raises(DecodeFailed):
        bench(paths, name="fake:fail=1", repeats=1, prompt_tokens=16)


def test_draft_model_that_cannot_draft_is_refused_before_anything_is_loaded(paths: Paths, tmp_path: Path) -> None:
    target, draft = write_refused(tmp_path, "embedding model")
    with pytest.raises(UsageError, match="embedding model") as caught:
        bench(paths, fake_engine=False, name=str(target), draft=[str(draft)])
    assert caught.value.hint
