"""Which files need no trial: the same file, unchanged, with the same settings."""

import os
from pathlib import Path

import pytest

from app.known_models import KnownModels
from app.paths import find_paths
from engine import ModelParams


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dir ä日 #?%20&'🙂" / "a b.gguf"
    path.parent.mkdir()
    path.write_bytes(b"GGUF1234")
    return path


@pytest.fixture
def known(data_dir: Path) -> KnownModels:
    return KnownModels.in_paths(find_paths(str(data_dir)))


def test_file_is_known_after_it_was_loaded_and_in_the_next_run(known: KnownModels, model: Path) -> None:
    assert not known.has(str(model), ModelParams())
    known.add(str(model), ModelParams())
    known.add(str(model), ModelParams())
    assert KnownModels(known.path).has(str(model), ModelParams(n_threads=3))
    assert known.path.read_text().count('"') == 2


def test_link_is_the_file_it_leads_to(known: KnownModels, model: Path, tmp_path: Path) -> None:
    known.add(str(model), ModelParams())
    (tmp_path / "link.gguf").symlink_to(model)
    assert known.has(str(tmp_path / "link.gguf"), ModelParams())


def test_forgotten_file_is_new_and_others_are_not(known: KnownModels, model: Path) -> None:
    for params in (ModelParams(), ModelParams(n_ctx=512)):
        known.add(str(model), params)
    known.forget(str(model), ModelParams())
    known.forget(str(model), ModelParams(n_ctx=1024))
    assert not known.has(str(model), ModelParams())
    assert known.has(str(model), ModelParams(n_ctx=512))


def test_other_settings_are_new(known: KnownModels, model: Path) -> None:
    known.add(str(model), ModelParams())
    assert not known.has(str(model), ModelParams(n_ctx=512))


def test_file_is_new_for_another_version_of_the_engine(
    known: KnownModels, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.add(str(model), ModelParams())
    monkeypatch.setattr("importlib.metadata.version", lambda package: "99.0")
    assert not known.has(str(model), ModelParams())


def test_changed_file_is_new(known: KnownModels, model: Path) -> None:
    known.add(str(model), ModelParams())
    status = model.stat()
    model.write_bytes(b"GGUF12345")
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not known.has(str(model), ModelParams())
    model.write_bytes(b"GGUF1234")
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert not known.has(str(model), ModelParams())


@pytest.mark.parametrize("text", ["", "{", "[1, null]", '{"a": 1}', "[" * 100_000, "\udcff"], ids=range(6))
def test_damaged_record_knows_nothing_and_is_replaced(known: KnownModels, model: Path, text: str) -> None:
    known.path.parent.mkdir(parents=True)
    known.path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert not known.has(str(model), ModelParams())
    known.add(str(model), ModelParams())
    assert known.has(str(model), ModelParams())


def test_record_stays_small(known: KnownModels, model: Path) -> None:
    for n_ctx in range(256, 256 + 210):
        known.add(str(model), ModelParams(n_ctx=n_ctx))
    assert known.path.stat().st_size < 20_000
    assert not known.has(str(model), ModelParams(n_ctx=256))
    assert known.has(str(model), ModelParams(n_ctx=465))


def test_missing_file_and_unwritable_folder_cost_nothing(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    known = KnownModels(tmp_path / "file" / "known.json")
    known.add(str(tmp_path / "none.gguf"), ModelParams())
    known.add(str(model), ModelParams())
    assert not known.has(str(model), ModelParams())
    assert not known.has("a\0b", ModelParams())
