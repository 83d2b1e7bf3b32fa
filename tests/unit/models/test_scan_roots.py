"""Where each program keeps its models."""

import json
from pathlib import Path

import pytest

from models import RootLayout, find_roots


def places(home: Path, platform: str = "linux", **environment: str) -> dict[str, list[Path]]:
    names = {"HOME": str(home), "USERPROFILE": str(home), **environment}
    found: dict[str, list[Path]] = {}
    for root in find_roots(home / "models", names, platform):
        found.setdefault(root.label, []).append(root.path)
    return found


@pytest.mark.parametrize(
    ("platform", "label", "place"),
    [
        ("linux", "Hugging Face", ".cache/huggingface/hub"),
        ("linux", "LM Studio", ".lmstudio/models"),
        ("linux", "Ollama", ".ollama/models"),
        ("linux", "Jan", ".local/share/Jan/data/llamacpp/models"),
        ("linux", "GPT4All", ".local/share/nomic.ai/GPT4All"),
        ("linux", "llama.cpp", ".cache/llama.cpp"),
        ("darwin", "Hugging Face", ".cache/huggingface/hub"),
        ("darwin", "Jan", "Library/Application Support/Jan/data/llamacpp/models"),
        ("darwin", "GPT4All", "Library/Application Support/nomic.ai/GPT4All"),
        ("darwin", "llama.cpp", "Library/Caches/llama.cpp"),
        ("win32", "Jan", "AppData/Roaming/Jan/data/llamacpp/models"),
        ("win32", "GPT4All", "AppData/Local/nomic.ai/GPT4All"),
        ("win32", "llama.cpp", "AppData/Local/llama.cpp"),
    ],
)
def test_usual_place_is_known(tmp_path: Path, platform: str, label: str, place: str) -> None:
    assert tmp_path / place in places(tmp_path, platform)[label]


@pytest.mark.parametrize(
    ("variable", "label", "below"),
    [
        ("HF_HUB_CACHE", "Hugging Face", ""),
        ("HF_HOME", "Hugging Face", "hub"),
        ("OLLAMA_MODELS", "Ollama", ""),
        ("LLAMA_CACHE", "llama.cpp", ""),
        ("XDG_DATA_HOME", "GPT4All", "nomic.ai/GPT4All"),
        ("XDG_CACHE_HOME", "llama.cpp", "llama.cpp"),
    ],
)
def test_variable_moves_a_place(tmp_path: Path, variable: str, label: str, below: str) -> None:
    assert tmp_path / "moved" / below in places(tmp_path, **{variable: str(tmp_path / "moved")})[label]


def test_folder_that_lm_studio_was_moved_to_is_found(tmp_path: Path) -> None:
    (tmp_path / ".lmstudio").mkdir()
    (tmp_path / ".lmstudio" / "settings.json").write_text(json.dumps({"downloadsFolder": str(tmp_path / "big")}))
    (tmp_path / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'home'}\n")
    found = places(tmp_path)["LM Studio"]
    assert {tmp_path / "big", tmp_path / "home" / "models"} <= set(found)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"downloadsFolder": 3}', "[" * 100_000, "\udcff"], ids=repr)
def test_settings_of_others_may_be_anything(tmp_path: Path, text: str) -> None:
    (tmp_path / ".lmstudio").mkdir()
    (tmp_path / ".lmstudio" / "settings.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert tmp_path / ".lmstudio" / "models" in places(tmp_path)["LM Studio"]


def test_only_our_folder_is_ours_and_comes_first(tmp_path: Path, starter_path: Path) -> None:
    roots = find_roots(tmp_path / "models", {"HOME": str(tmp_path)})
    assert [root.path for root in roots if root.is_ours] == [tmp_path / "models"] == [roots[0].path]
    assert roots[1].path == starter_path
    assert {root.layout for root in roots if root.label == "Ollama"} == {RootLayout.OLLAMA}


def test_odd_variables_are_harmless(tmp_path: Path) -> None:
    assert places(tmp_path, HF_HOME="  ", OLLAMA_MODELS="", LLAMA_CACHE="~/x")["llama.cpp"] == [tmp_path / "x"]
