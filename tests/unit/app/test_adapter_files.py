"""Adapters are found where they may lie, each once, with what is known of them; nothing there stops the search."""

import os
import time
from pathlib import Path

import pytest

from app.adapter_files import AdapterFiles, open_adapter_files
from app.errors import AdapterUnreadable, AppError, UsageError
from app.model_library import open_library
from app.paths import find_paths
from models import GGUFError, ModelsError, NotAnAdapter
from tests.support.adapters import STARTER, write_adapter, write_tiny_pair
from tests.support.gguf_files import write_other_kinds

_MAX_CPU_S = 1.0


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Return a model with an adapter beside it that fits, and one that does not."""
    (tmp_path / "m").mkdir()
    path, _ = write_tiny_pair(tmp_path / "m")
    write_adapter(tmp_path / "m" / "Alien.gguf", STARTER)
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> AdapterFiles:
    (tmp_path / "models").mkdir()
    return AdapterFiles(tmp_path / "models")


def labels(files: AdapterFiles, model: str | None, *also: str) -> list[str]:
    return [adapter.label for adapter in files.find(model, also)]


def test_usable_adapters_come_first_and_the_others_have_a_reason(files: AdapterFiles, model: str) -> None:
    first, second = files.find(model)
    assert (first.label, first.misfit, first.rank) == ("tiny-lora", "", 4)
    assert first.path == str(Path(model).with_name("tiny-lora.gguf"))
    assert first.file_bytes == Path(first.path).stat().st_size
    assert second.label == "Alien"
    assert "of another size" in second.misfit or "does not have" in second.misfit


def test_the_folder_of_models_is_looked_through_at_any_depth(files: AdapterFiles, model: str, tmp_path: Path) -> None:
    deep = tmp_path / "models" / "ä #?%20" / "b" / "c"
    deep.mkdir(parents=True)
    write_adapter(deep / "deep.GGUF")
    write_adapter(deep / "not.bin")
    write_other_kinds(tmp_path / "models")
    (tmp_path / "models" / "text.gguf").write_text("adapter, but only in words")
    (tmp_path / "models" / "cut.gguf").write_bytes(write_adapter(deep / "x.tmp").read_bytes()[:300])
    os.mkfifo(tmp_path / "models" / "pipe.gguf")
    (tmp_path / "models" / "loop").symlink_to(tmp_path / "models")
    (tmp_path / "models" / "gone.gguf").symlink_to(tmp_path / "nowhere")
    assert labels(files, model) == ["deep", "tiny-lora", "Alien", "lora"]


def test_a_file_is_listed_once_by_the_name_the_user_gave(files: AdapterFiles, model: str, tmp_path: Path) -> None:
    real = write_adapter(tmp_path / "models" / "one.gguf")
    link = tmp_path / "link.gguf"
    link.symlink_to(real)
    assert [adapter.path for adapter in files.find(model, [str(link)]) if not adapter.misfit] == [
        str(link),
        str(Path(model).with_name("tiny-lora.gguf")),
    ]


def test_library_tells_of_further_files(model: str, tmp_path: Path) -> None:
    known = write_adapter(tmp_path / "known.gguf")
    hashed = write_adapter(tmp_path / "sha256-0123", keys={"general.name": "Named"})
    files = AdapterFiles(None, lambda: [known, hashed, tmp_path / "gone.gguf"])
    assert labels(files, model) == ["known", "Named", "tiny-lora", "Alien"]


def test_adapters_of_the_library_are_found_after_its_scan(model: str, tmp_path: Path, data_dir: Path) -> None:
    paths = find_paths(str(data_dir))
    paths.create()
    (tmp_path / "elsewhere").mkdir()
    write_adapter(tmp_path / "elsewhere" / "far.gguf", seed=7)
    write_adapter(paths.models_dir / "near.gguf")
    library = open_library(paths)
    library.add_root(tmp_path / "elsewhere")
    assert labels(open_adapter_files(paths), model) == ["near", "tiny-lora", "Alien"]
    library.scan()
    assert labels(open_adapter_files(paths), model) == ["far", "near", "tiny-lora", "Alien"]
    [entry] = [entry for entry in library.entries() if entry.path.name == "near.gguf"]
    library.remove(entry)  # into the trash, which lies in the folder of models
    assert labels(open_adapter_files(paths), model) == ["far", "tiny-lora", "Alien"]


def test_files_in_use_are_listed_whatever_they_have_become(files: AdapterFiles, model: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    gone = str(tmp_path / "gone.gguf")
    found = {adapter.path: adapter for adapter in files.find(model, [gone, str(broken), model, "\0", str(tmp_path)])}
    assert found[gone].is_missing
    assert found[gone].misfit == "The file is not there any more."
    assert "cut off" in found[str(broken)].misfit
    assert "not an adapter" in found[model].misfit
    assert found["\0"].misfit and found[str(tmp_path)].misfit


def test_without_a_model_none_is_told_to_fit_or_not_to(files: AdapterFiles, tmp_path: Path) -> None:
    write_adapter(tmp_path / "models" / "a.gguf", STARTER)
    write_adapter(tmp_path / "models" / "b.gguf", keys={"adapter.type": "cvec"})
    assert [(adapter.label, bool(adapter.misfit)) for adapter in files.find(None)] == [("a", False), ("b", True)]
    assert labels(files, str(tmp_path / "gone.gguf")) == ["a", "b"]


def test_starter_is_a_model_too(files: AdapterFiles, starter_path: Path, tmp_path: Path) -> None:
    write_adapter(tmp_path / "models" / "fits.gguf", STARTER)
    write_adapter(tmp_path / "models" / "tiny.gguf")
    assert [(adapter.label, not adapter.misfit) for adapter in files.find("starter")] == [
        ("fits", True),
        ("tiny", False),
    ]


def test_replaced_file_is_looked_at_again(files: AdapterFiles, model: str, tmp_path: Path) -> None:
    path = write_adapter(tmp_path / "models" / "a.gguf")
    [before] = files.check([str(path)], model)
    write_adapter(tmp_path / "new.tmp", STARTER).replace(path)
    [after] = files.check([str(path)], model)
    assert before.stamp != after.stamp
    assert not before.misfit and after.misfit


def test_looking_at_one_file_says_what_is_wrong(files: AdapterFiles, model: str, tmp_path: Path) -> None:
    assert files.look_at(str(Path(model).with_name("tiny-lora.gguf")), model).misfit == ""
    (tmp_path / "bad.gguf").write_bytes(b"no")
    wrong: list[tuple[str, type[AppError | ModelsError]]] = [
        (str(tmp_path / "none.gguf"), AdapterUnreadable),
        (str(tmp_path), AdapterUnreadable),
        ("a\0b", AdapterUnreadable),
        ("a\ud800b", AdapterUnreadable),
        (str(tmp_path / "bad.gguf"), GGUFError),
        (model, NotAnAdapter),
    ]
    for text, kind in wrong:
        with pytest.raises(kind) as caught:
            files.look_at(text, model)
        assert getattr(caught.value, "message", "") and getattr(caught.value, "hint", "")


def test_name_means_the_one_that_fits(files: AdapterFiles, model: str, tmp_path: Path) -> None:
    for name in ("tiny-lora", "Tiny-LoRA.gguf"):
        found = files.named(name, model)
        assert found is not None
        assert found.path == str(Path(model).with_name("tiny-lora.gguf"))
    assert files.named("nobody", model) is None
    write_adapter(tmp_path / "models" / "tiny-lora.gguf", STARTER)  # does not fit
    assert files.named("tiny-lora", model) == found
    write_adapter(tmp_path / "models" / "TINY-LORA.gguf")
    with pytest.raises(UsageError, match="2 adapters are called tiny-lora") as caught:
        files.named("tiny-lora", model)
    assert str(tmp_path / "models" / "TINY-LORA.gguf") in caught.value.hint


def test_hundreds_of_files_are_found_again_at_once(files: AdapterFiles, model: str, tmp_path: Path) -> None:
    data = write_adapter(tmp_path / "a.tmp").read_bytes()
    for number in range(300):
        (tmp_path / "models" / f"{number:03}.gguf").write_bytes(data)
    assert len(files.find(model)) == 302
    before = time.thread_time()
    assert len(files.find(model)) == 302
    assert time.thread_time() - before < _MAX_CPU_S
