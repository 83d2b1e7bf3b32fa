"""`fireside compare` on the engine without a model."""

import argparse
import errno
import itertools
import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from app.cli.compare import run
from app.cli.outcome import ExitCode
from app.compare.prompt_sets import short_prompts
from app.compare.run_folder import list_runs
from app.errors import UsageError
from app.paths import Paths, find_paths
from app.store import ChatStore
from engine import Event, Generate, InprocClient
from tests.unit.app.compare.runs import EchoClient

CELL = {
    "event",
    "column",
    "prompt",
    "repeat",
    "number",
    "values",
    "text",
    "token_ids",
    "finish_reason",
    "machine",
    "error",
}


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    """Return a data folder that is there."""
    found = find_paths(str(data_dir))
    found.create()
    return found


def compare(paths: Paths, *names: str, **flags: Any) -> ExitCode:
    """Run the command with some flags."""
    usual: dict[str, Any] = {
        "names": list(names),
        "model": None,
        "prompt": None,
        "prompts": None,
        "repeats": None,
        "max_tokens": None,
    }
    usual |= {"ctx": None, "race": False, "samples": None, "report": None, "resume": None, "json": False}
    usual |= {"column": [], "reference": None, "again": None}
    usual |= {"fake_engine": True, "debug": False, "data_dir": None}
    make_client = flags.pop("make_client", EchoClient)
    return run(argparse.Namespace(**(usual | flags)), paths, lambda fake: make_client())


def events(output: str) -> list[dict[str, Any]]:
    """Return what `--json` printed."""
    return [json.loads(line) for line in output.splitlines()]


def test_every_reply_is_a_line_and_the_comparison_comes_last(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(paths, "fake:n_words=3", "fake:n_words=5", prompt="hi", repeats=2, json=True) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert err == ""
    begin, *middle, last = events(out)
    assert begin["event"] == "begin"
    cells = [event for event in middle if event["event"] == "cell"]
    assert [(cell["column"], cell["repeat"]) for cell in cells] == [("c1", 0), ("c2", 0), ("c2", 1), ("c1", 1)]
    assert all(set(cell) >= CELL for cell in cells)
    assert last["event"] == "comparison"
    assert last["record"]["id"] == begin["id"]
    assert last["record"]["cells"] == [{key: cell[key] for key in cell if key != "event"} for cell in cells]
    assert last["computed"]["columns"]["c1"]["figures"]["decode_rate"]["value"] > 0


def test_comparison_is_kept_with_the_chats(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    compare(paths, "fake:", prompt="hi", json=True)
    record = events(capsys.readouterr().out)[-1]["record"]
    store, _ = ChatStore.open(paths.database_file)
    try:
        (kept,) = store.list_runs("compare")
    finally:
        store.close()
    assert kept.record == record
    assert [summary.is_ended for summary in list_runs(paths)] == [True]


def test_person_gets_a_table_and_the_replies(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(paths, "fake:n_words=3", "fake:n_words=9", prompt="hi", repeats=2) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert "2 models, one prompt, each 2 times, one after the other" in out
    assert "tokens/s" in out
    assert "\n[fake:n_words=9]\nfake:n_words=9 hi" in out
    assert "fake:n_words=3, 0 of 4" in err


def test_usual_prompts_are_our_own_short_set(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    compare(paths, "fake:n_words=2", max_tokens=4, json=True)
    record = events(capsys.readouterr().out)[-1]["record"]
    assert [prompt["id"] for prompt in record["prompts"]] == [prompt.id for prompt in short_prompts().prompts]
    assert record["prompts_name"] == short_prompts().name


def test_prompts_come_from_a_file(paths: Paths, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("one\ntwo\n", "utf-8")
    compare(paths, "fake:n_words=2", prompts=str(file), json=True)
    cells = [event for event in events(capsys.readouterr().out) if event["event"] == "cell"]
    assert len(cells) == 2


def test_samples_of_one_prompt_are_shown_beside_each_other(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(paths, "fake:n_words=3", prompt="hi", samples=3) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "3 samples of one prompt, in one batch" in out
    assert all(f"[fake:n_words=3, {number}]" in out for number in (1, 2, 3))


def test_race_says_that_speeds_cannot_be_compared(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(paths, "fake:n_words=3", "fake:n_words=5", prompt="hi", race=True) == ExitCode.DONE
    assert "speeds cannot be compared" in capsys.readouterr().out


def test_model_that_is_not_there_is_a_column_that_says_why(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(paths, "missing.gguf", prompt="hi", fake_engine=False) == ExitCode.MODEL
    out, err = capsys.readouterr()
    assert "failed" in out
    assert "There is no file" in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"prompt": " "}, "prompt is empty"),
        ({"max_tokens": 0}, "--max-tokens is 0"),
        ({"repeats": 0}, "--repeats is 0"),
        ({"samples": 99}, "--samples is 99"),
        ({"samples": 2, "repeats": 2}, "both given"),
        ({"resume": "last"}, "No comparison was interrupted"),
        ({"resume": "feed"}, "is no comparison 'feed'"),
        ({"resume": "last", "prompt": "hi"}, "has its models and prompts already"),
    ],
    ids=lambda value: str(value),
)
def test_wrong_usage_is_one_sentence(paths: Paths, flags: dict[str, Any], message: str) -> None:
    names = () if "resume" in flags else ("fake:",)
    with pytest.raises(UsageError, match=message):
        compare(paths, *names, **flags)


def test_no_model_at_all_is_refused(paths: Paths) -> None:
    with pytest.raises(UsageError, match="No model is named"):
        compare(paths, prompt="hi", fake_engine=False)


@pytest.mark.allow_log("WARNING app.compare.runner")
def test_replies_that_all_fail_are_no_success(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        compare(paths, "fake:fail=1", prompt="hi", make_client=lambda: InprocClient(fake=True))
        == ExitCode.REQUEST_FAILED
    )
    assert "told to fail" in capsys.readouterr().out


def test_finished_run_is_shown_again(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    compare(paths, "fake:n_words=3", prompt="hi", json=True)
    first = events(capsys.readouterr().out)[-1]
    assert compare(paths, resume=first["record"]["id"], json=True) == ExitCode.DONE
    again = events(capsys.readouterr().out)
    assert [event["event"] for event in again] == ["begin", "comparison"]
    assert again[-1]["record"] == first["record"]


class InterruptingClient(EchoClient):
    """Has Ctrl-C pressed when it is asked the second time; the first is the one that warms it up."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)

    def _answer_generate(self, command: Generate) -> Iterable[Event]:
        if next(self._numbers) == 3:
            signal.raise_signal(signal.SIGINT)
        return super()._answer_generate(command)


@pytest.mark.parametrize("is_full", [False, True], ids=["saved", "full disk"])
def test_ctrl_c_keeps_what_is_done_or_shows_it_where_it_could_not_be_saved(
    paths: Paths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if is_full:
        monkeypatch.setattr(os, "fsync", full)
    handler = signal.getsignal(signal.SIGINT)
    code = compare(paths, "fake:", prompt="hi", repeats=3, make_client=InterruptingClient)
    assert code == ExitCode.INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is handler
    out, err = capsys.readouterr()
    assert ("fireside compare --resume " in err) == (not is_full)
    assert ("[fake:]" in out) == is_full
    if not is_full:
        assert compare(paths, resume="last") == ExitCode.DONE
        assert "each 3 times" in capsys.readouterr().out
