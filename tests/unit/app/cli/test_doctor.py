"""`fireside doctor` with a scripted engine."""

import argparse
import json
from pathlib import Path

import pytest

import app.cli.doctor
from app.cli.doctor import run
from app.cli.outcome import ExitCode
from app.paths import find_paths
from engine import EngineStartFailed, ProcessClient
from tests.unit.app.cli.scripted_client import ScriptedClient


def examine(data_dir: Path, *, as_json: bool) -> ExitCode:
    options = argparse.Namespace(json=as_json, fake_engine=True, debug=False)
    return run(options, find_paths(str(data_dir)))


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.cli.doctor, "ProcessClient", lambda *, fake: ScriptedClient())


def test_everything_is_one_event(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(data_dir, as_json=True) == ExitCode.DONE
    [line] = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["event"] == "doctor"
    assert found["versions"]["llama.cpp"] == "0.5"
    assert found["versions"]["python"].startswith("3.")
    assert found["devices"][0]["name"] == "CPU"
    assert found["processor"]["usable_cores"] >= 1
    assert found["memory"]["total_bytes"] > found["memory"]["available_bytes"] > 0
    assert {place["name"]: place["writable"] for place in found["paths"]}["data"] is True
    assert found["speed"]["read_bandwidth"] == 2.5e10
    assert found["starter"]["licence"] == "Apache-2.0"
    assert not data_dir.exists()


def test_text_names_what_matters(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(data_dir, as_json=False) == ExitCode.DONE
    out = capsys.readouterr().out
    assert all(word in out for word in ("llama.cpp", str(data_dir), "Apache-2.0", "a processor", "GiB", "Window"))
    assert "25.0 GB/s read by 2 threads" in out


@pytest.mark.allow_log(r"ERROR app\.cli\.session: ")
def test_engine_that_does_not_start_is_reported_with_the_rest(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object) -> None:
        raise EngineStartFailed("The engine did not start.", "Install it again.")

    monkeypatch.setattr("app.cli.doctor.ChatSession.describe_engine", fail)
    assert examine(data_dir, as_json=True) == ExitCode.ENGINE_DIED
    out, err = capsys.readouterr()
    assert json.loads(out)["error"] == "The engine did not start."
    assert "Install it again." in err


def test_named_model_is_loaded_and_its_cache_types_are_measured(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.cli.doctor, "ProcessClient", lambda *, fake: ProcessClient(fake=True))
    options = argparse.Namespace(json=True, fake_engine=True, debug=False, model="fake:")
    assert run(options, find_paths(str(data_dir))) == ExitCode.DONE
    model = json.loads(capsys.readouterr().out)["model"]
    [row] = model["cache_types"]
    assert (row["type_k"], row["type_v"], row["decode_rate"]) == ("f16", "f16", 100.0)
    options.json = False
    assert run(options, find_paths(str(data_dir))) == ExitCode.DONE
    assert "prefill/s" in capsys.readouterr().out


@pytest.mark.allow_log(r"ERROR app\.cli\.session: ")
def test_model_that_cannot_be_loaded_is_reported_with_the_rest(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.cli.doctor, "ProcessClient", lambda *, fake: ProcessClient(fake=True))
    options = argparse.Namespace(json=True, fake_engine=True, debug=False, model="missing")
    assert run(options, find_paths(str(data_dir))) == ExitCode.MODEL
    found = json.loads(capsys.readouterr().out)
    assert found["model"] is None
    assert "missing" in found["error"]
