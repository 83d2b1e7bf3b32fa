"""`fireside models drafts`: the list for a person, the events, and what is said of bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.program import run_program
from app.paths import find_paths
from tests.support.gguf_files import write_other_kinds, write_tiny_mamba, write_tiny_model


@pytest.fixture
def models_dir(data_dir: Path) -> Path:
    """Return the folder of models, with a model, a draft, and files that cannot draft."""
    paths = find_paths(str(data_dir))
    paths.create()
    write_tiny_model(paths.models_dir / "target.gguf", n_layer=8, n_embd=128)
    write_tiny_model(paths.models_dir / "small.gguf", n_layer=1, n_embd=32)
    write_tiny_model(paths.models_dir / "other.gguf", vocab="spm")
    write_tiny_mamba(paths.models_dir / "state.gguf")
    write_other_kinds(paths.models_dir)
    (paths.models_dir / "broken.gguf").write_bytes(b"GGUF\x03\0\0\0")
    return paths.models_dir


def run(capsys: pytest.CaptureFixture[str], data_dir: Path, *arguments: str) -> tuple[int, str, str]:
    code = run_program(["models", "drafts", *arguments, "--data-dir", str(data_dir)])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def events(capsys: pytest.CaptureFixture[str], data_dir: Path, *arguments: str) -> list[dict[str, Any]]:
    code, out, _ = run(capsys, data_dir, *arguments, "--json")
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_every_file_is_an_event_and_the_last_one_sums_up(
    capsys: pytest.CaptureFixture[str], data_dir: Path, models_dir: Path
) -> None:
    *drafts, last = events(capsys, data_dir, str(models_dir / "target.gguf"), "--ctx", "512", "--slots", "1")
    assert {event["event"] for event in drafts} == {"draft"}
    paths = [event["path"] for event in drafts if event["path"].startswith(str(models_dir))]
    assert len(paths) == len(list(models_dir.glob("*.gguf"))) == len(set(paths))
    usable = [event for event in drafts if event["is_usable"]]
    assert [Path(event["path"]).name for event in usable] == ["small.gguf", "target.gguf"]
    small = usable[0]
    assert (small["kinship"], small["reason"], small["verdict"]) == ("family", "", "fits")
    assert small["needed_bytes"] > small["memory_bytes"] > small["file_bytes"] // 2
    assert 0 < small["cost_ratio"] < 0.1
    for event in drafts:
        assert event["is_usable"] != bool(event["reason"])
    assert last["event"] == "drafts"
    assert (last["model"], last["num_usable"], last["num_files"]) == (str(models_dir / "target.gguf"), 2, len(drafts))
    assert (last["reason"], last["hint"], last["notes"]) == ("", "", [])
    assert last["suggestion"] is None or last["suggestion"]["path"] == small["path"]


def test_longer_context_and_more_slots_take_more_memory(
    capsys: pytest.CaptureFixture[str], data_dir: Path, models_dir: Path
) -> None:
    target = str(models_dir / "target.gguf")
    sizes = [
        events(capsys, data_dir, target, *flags)[0]["memory_bytes"]
        for flags in (("--ctx", "512"), ("--ctx", "4096"), ("--ctx", "4096", "--slots", "16"))
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_list_can_be_read(capsys: pytest.CaptureFixture[str], data_dir: Path, models_dir: Path) -> None:
    code, out, err = run(capsys, data_dir, str(models_dir / "target.gguf"))
    words = " ".join(out.split())
    assert (code, err) == (0, "")
    assert words.startswith("Drafts for target Can draft")
    assert "of the model's bytes" in words
    assert "It is the model itself" in words
    for reason in (
        "other.gguf has another vocabulary: it is of the kind “llama”, that of the model “gpt2”.",
        "state.gguf cannot draft: its memory cannot be rewound",
        "bert.gguf is an embedding model, which turns text into numbers for search, so it cannot draft.",
        "lora.gguf is an adapter (LoRA), a small change to a base model, so it cannot draft.",
        "mmproj-x.gguf is a projector, which lets a text model see pictures or hear sound, so it cannot draft.",
        "imatrix.gguf is an importance matrix, which is used to quantise a model, so it cannot draft.",
        "broken.gguf is cut off",
    ):
        assert words.count(reason) == 1, reason


def test_model_that_nothing_can_be_drafted_for_says_so_first(
    capsys: pytest.CaptureFixture[str], data_dir: Path, models_dir: Path
) -> None:
    code, out, _ = run(capsys, data_dir, str(models_dir / "state.gguf"))
    words = " ".join(out.split())
    assert code == 0
    assert "Nothing can be drafted for state.gguf: its memory cannot be rewound" in words
    assert "No model here can draft for it." in words
    assert "may pay" not in words
    last = events(capsys, data_dir, str(models_dir / "state.gguf"))[-1]
    assert (last["num_usable"], last["suggestion"]) == (0, None)
    assert last["reason"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("/no/such.gguf",), 3), (("starter", "--ctx", "-1"), 2), (("starter", "--slots", "x"), 2), (("starter", "x"), 2)],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_command_line_ends_with_the_exit_code_of_its_kind(
    capsys: pytest.CaptureFixture[str], data_dir: Path, arguments: tuple[str, ...], code: int
) -> None:
    found, out, err = run(capsys, data_dir, *arguments, "--json")
    assert found == code
    assert json.loads(out.splitlines()[-1])["event"] == "failed"
    assert err.startswith("fireside: ")


def test_fit_tells_why_its_draft_cannot_draft(
    capsys: pytest.CaptureFixture[str], data_dir: Path, models_dir: Path
) -> None:
    arguments = [
        "models",
        "fit",
        str(models_dir / "target.gguf"),
        "--fake-engine",
        "--data-dir",
        str(data_dir),
        "--json",
    ]
    for name, words in (("other.gguf", "has another vocabulary"), ("target.gguf", "It is the model itself")):
        assert run_program([*arguments, "--draft", str(models_dir / name)]) == 0
        [line] = capsys.readouterr().out.splitlines()
        assert any(words in reason for reason in json.loads(line)["reasons"])
