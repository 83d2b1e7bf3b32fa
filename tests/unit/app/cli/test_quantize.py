"""`fireside quantize` as a script and a person use it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from app.cli.program import run_program
from models import read_gguf_info
from tests.support.gguf_files import write_other_kinds, write_tiny_model

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model whose rows every type divides, in a folder with a difficult name."""
    folder = tmp_path_factory.mktemp("models") / "dir ä日 #?%20&'\""
    folder.mkdir()
    return write_tiny_model(folder / "tiny m-F32.gguf", n_embd=256)


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return what was printed."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def quantize(data_dir: Path, *arguments: object) -> int:
    """Run the command."""
    return run_program(["quantize", *map(str, arguments), "--data-dir", str(data_dir)])


def test_file_is_made_in_the_folder_of_models(source: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quantize(data_dir, source, "q8_0", "--json") == 0
    told = events(capsys)
    assert [event["event"] for event in told if event["event"] != "progress"] == ["plan", "finished"]
    [made] = (data_dir / "models").iterdir()
    assert made.name == "tiny m.Q8_0.gguf"
    assert made.stat().st_size == told[0]["output_bytes"] == told[-1]["output_bytes"]
    assert told[-1]["path"] == str(made)
    assert quantize(data_dir, made.name, "Q4_0", "--dry-run", "--json") == 0
    assert events(capsys)[0]["source"] == str(made)


def test_ladder_goes_on_after_one_that_fails(
    source: Path, data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny m.Q6_K.gguf").write_bytes(b"mine")
    assert quantize(data_dir, source, "F16,Q6_K,Q4_0", "--output", tmp_path, "--json") == 2
    told = events(capsys)
    assert [event["type"] for event in told if event["event"] == "finished"] == ["F16", "Q4_0"]
    assert [(event["type"], event["error"]) for event in told if event["event"] == "failed"] == [
        ("Q6_K", "QuantizeRefused")
    ]
    assert (tmp_path / "tiny m.Q6_K.gguf").read_bytes() == b"mine"


def test_dry_run_tells_sizes_and_writes_nothing(
    source: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quantize(data_dir, source, "Q4_K_M,IQ2_XXS", "--dry-run") == 0
    out = capsys.readouterr().out
    assert out.startswith("Q4_K_M: ")
    assert "bytes" in out
    assert list((data_dir / "models").iterdir()) == []


def test_importance_matrix_is_computed_for_a_type_that_needs_one(
    source: Path, data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "own.txt"
    text.write_bytes(("Ein Text für sich, und noch einer dazu. " * 60).encode("utf-16"))
    assert quantize(data_dir, source, "Q2_K_S", "--imatrix-text", text, "--json") == 0
    told = events(capsys)
    assert told[0]["has_imatrix"] is True
    assert any(event["event"] == "importance" for event in told)
    assert told[-1]["event"] == "finished"
    [made] = (data_dir / "models").iterdir()
    assert read_gguf_info(made).type_name == "Q2_K_S"


def test_refusals_are_sentences_with_exit_code_2(
    source: Path, data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = source.read_bytes()
    for arguments, words in (
        ((source, "Q8_0", "--output", source), "would be destroyed"),
        ((source, "Q9"), "no type 'Q9'"),
        ((source, ","), "no type to quantise to"),
        ((source, "Q8_0,Q4_0", "--output", tmp_path / "x.gguf"), "is no folder"),
        ((source, "Q8_0", "--imatrix", tmp_path / "none"), "There is no file"),
        ((source, "Q8_0", "--imatrix", source, "--imatrix-text", source), "exclude each other"),
        ((source, "Q8_0", "--imatrix", source), "importance matrix"),
        ((source,), "required"),
    ):
        assert quantize(data_dir, *arguments) == 2, words
        assert words in capsys.readouterr().err
    assert source.read_bytes() == before
    assert list(tmp_path.iterdir()) == []


def test_sources_that_are_no_models_have_exit_code_3(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    projector = write_other_kinds(tmp_path)["projector"]
    for path, words in ((tmp_path / "no.gguf", "no file"), (tmp_path, "folder"), (projector, "projector")):
        assert quantize(data_dir, path, "Q8_0") == 3
        assert words in capsys.readouterr().err


def test_ctrl_c_and_sudden_death_leave_nothing(tmp_path: Path, starter_path: Path) -> None:
    for end in (signal.SIGINT, signal.SIGKILL):
        command = [sys.executable, "-m", "app", "quantize", "starter", "IQ4_NL", "--json", "--data-dir", str(tmp_path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if json.loads(line)["event"] == "progress":
                    break
            os.kill(child.pid, end)
            child.communicate(timeout=30)
        assert child.returncode == (130 if end is signal.SIGINT else -signal.SIGKILL)
        wait_until_empty(tmp_path / "models")


def wait_until_empty(folder: Path) -> None:
    """Wait until nothing is in a folder: who quantises there takes a moment to see that nobody waits for it."""
    deadline = time.monotonic() + 10
    while left := list(folder.iterdir()):
        assert time.monotonic() < deadline, left
