"""Folders of the library: those of the user, those that cannot be read, and those of other programs."""

import json
import os
from pathlib import Path

import pytest

from models import Library, LibraryError, RootLayout, ScanRoot
from models.gguf_info import read_gguf_info
from models.library_index import FileRecord, read_record
from tests.support.small_models import library_of, own_roots, write_small

# --- folders ---


def test_loops_and_links_to_nothing_are_harmless(tmp_path: Path) -> None:
    deep = tmp_path / "ours" / "a" / "b"
    write_small(deep / "x.gguf")
    (deep / "up").symlink_to(tmp_path / "ours")
    (deep / "self").symlink_to(deep / "self")
    (deep / "gone.gguf").symlink_to(tmp_path / "nothing")
    (deep / "folder.gguf").mkdir()
    scan = library_of(tmp_path).scan()
    assert (len(scan.entries), scan.problems) == (1, ())


def test_folders_of_a_user_are_found_at_any_depth_and_remembered(tmp_path: Path) -> None:
    folder = tmp_path / "dir ä日 #?%20&'\" \n"
    path = write_small(folder / "/".join("abcdefghijklmnop") / "a b.gguf")
    library_of(tmp_path).add_root(folder)
    library_of(tmp_path).add_root(folder)
    library = library_of(tmp_path)
    assert library.user_folders() == (folder,)
    [entry] = library.scan().entries
    assert (entry.path, entry.source, entry.is_removable) == (path, str(folder), False)
    library.remove_root(folder)
    assert library.scan().entries == ()
    assert path.exists()


def test_folder_that_went_is_told(tmp_path: Path) -> None:
    library, folder = library_of(tmp_path), tmp_path / "disk"
    folder.mkdir()
    library.add_root(folder)
    folder.rmdir()
    [problem] = library.scan().problems
    assert "is not there" in problem.message


@pytest.mark.parametrize("damage", [b"", b"{", b"[3]", b"[" * 9999, b'[""]', b'["a"]', rb'["/a\u0000b"]'])
def test_damaged_list_of_folders_is_told_and_set_aside(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "state").mkdir()
    listed = tmp_path / "state" / "library-folders.json"
    listed.write_bytes(damage)
    library = library_of(tmp_path)
    [problem] = library.scan().problems
    assert "is damaged" in problem.message
    library.add_root(tmp_path / "ours")
    assert library.user_folders() == (tmp_path / "ours",)
    assert library.scan().problems == ()
    assert listed.with_name("library-folders.json.damaged").read_bytes() == damage


def test_list_of_folders_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    with pytest.raises(LibraryError, match="cannot be kept"):
        library_of(tmp_path).add_root(tmp_path / "ours")


@pytest.mark.parametrize("name", ["nothing", "file", "nul\0", ""], ids=repr)
def test_what_is_no_folder_is_not_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    library = library_of(tmp_path)
    if name:
        with pytest.raises(LibraryError):
            library.add_root(Path(name))
    with pytest.raises(LibraryError):
        library.remove_root(tmp_path / "never added")
    assert library.user_folders() == ()


def test_unreadable_folder_and_file_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_small(tmp_path / "ours" / "locked" / "x.gguf")
    write_small(tmp_path / "ours" / "y.gguf")
    list_folder = os.scandir

    def refuse_folder(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return list_folder(path)

    def refuse_file(path: Path) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse_folder)
    monkeypatch.setattr("models.library_index.read_gguf_info", refuse_file)
    library = library_of(tmp_path)
    scan = library.scan()
    assert "may not open it" in scan.problems[0].message
    assert "permission denied" in (scan.entries[0].problem or "")
    monkeypatch.setattr("models.library_index.read_gguf_info", read_gguf_info)
    assert library.scan().entries[0].can_chat  # without a change of the file


def test_file_that_goes_between_list_and_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_small(tmp_path / "ours" / "x.gguf")

    def take_away(found: Path, status: os.stat_result) -> FileRecord:
        found.unlink()
        return read_record(found, status)

    monkeypatch.setattr("models.library.read_record", take_away)
    library = library_of(tmp_path)
    [entry] = library.scan().entries
    assert (entry.path, entry.can_chat) == (path, False)
    assert library.scan().entries == ()


@pytest.mark.skipif(os.name == "nt", reason="names on this system are always text")
def test_name_that_is_no_text_is_told_and_never_loaded(tmp_path: Path) -> None:
    path = write_small(tmp_path / "ours" / "x.gguf")
    path.rename(os.fsdecode(os.fsencode(path.parent) + b"/bad\xff.gguf"))
    for _ in range(2):
        [entry] = library_of(tmp_path).scan().entries
        assert "no text" in (entry.problem or "")
        json.dumps(entry.title).encode()


# --- other programs ---


def test_hugging_face_snapshots_are_shown_once_by_their_links(tmp_path: Path) -> None:
    repo = tmp_path / "hub" / "models--owner--repo"
    blob = write_small(repo / "blobs" / ("ab" * 32))
    for revision in ("0000", "1111"):
        (repo / "snapshots" / revision).mkdir(parents=True)
        (repo / "snapshots" / revision / "m.gguf").symlink_to(Path("../../blobs") / blob.name)
    [entry] = library_of(tmp_path, ScanRoot(tmp_path / "hub", "Hugging Face", RootLayout.HUGGING_FACE)).scan().entries
    assert (entry.path.name, entry.source, len(entry.other_places)) == ("m.gguf", "Hugging Face", 1)


def _write_manifest(root: Path, place: str, digest: str, media: str = "application/vnd.ollama.image.model") -> None:
    path = root / "manifests" / "registry.ollama.ai" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "9" * 64, "size": 1}]
    path.write_text(json.dumps({"layers": [*layers, {"mediaType": media, "digest": digest, "size": 1}]}))


def test_ollama_blobs_are_found_by_their_manifests_and_called_as_it_calls_them(tmp_path: Path) -> None:
    root = tmp_path / "ollama"
    for number, letter in enumerate("abc"):
        write_small(root / "blobs" / f"sha256-{letter * 64}", name=f"Model {letter}", seed=number)
    (root / "blobs" / f"sha256-{'d' * 64}").write_text("{}")
    (root / "blobs" / f"sha256-{'e' * 64}-partial").write_bytes(b"GGUF")
    _write_manifest(root, "library/llama3.2/3b", "sha256:" + "a" * 64)
    _write_manifest(root, "owner/thing/latest", "sha256:" + "b" * 64)
    _write_manifest(root, "library/evil/latest", "sha256:../../../etc/passwd")
    _write_manifest(root, "library/gone/latest", "sha256:" + "f" * 64)
    (root / "manifests" / "registry.ollama.ai" / "library" / "broken").write_bytes(b"\xff{")
    entries = library_of(tmp_path, ScanRoot(root, "Ollama", RootLayout.OLLAMA)).scan().entries
    assert [(entry.group_title, entry.alias) for entry in entries] == [
        ("Model a", "llama3.2:3b"),
        ("Model b", "owner/thing:latest"),
        ("Model c", ""),
    ]


def test_starter_is_in_the_library_under_its_own_name(tmp_path: Path, starter_path: Path) -> None:
    library = Library(models_dir=tmp_path, state_dir=tmp_path, roots=own_roots(tmp_path))
    [entry] = library.scan().entries
    assert (entry.path, entry.alias, entry.is_ours) == (starter_path, "starter", False)
    assert (entry.group_title, entry.name) == ("SmolLM2-135M-Instruct", "smollm2-135m-instruct:q4_1")
    library.add_root(starter_path.parent)
    assert library.scan().num_files == 1


def test_file_that_no_program_would_call_a_model_is_passed_over(tmp_path: Path) -> None:
    for name in ("x.gguf.part", "x.bin", "._x.gguf", "gguf", "README.md"):
        write_small(tmp_path / "ours" / name)
    assert library_of(tmp_path).scan().num_files == 0
