"""Removing models: only ours, only into the trash, and back."""

import os
from pathlib import Path

import pytest

from models import EntryInUse, LibraryError, NotRemovable, ScanRoot
from tests.support.small_models import library_of, write_small, write_split


def test_removed_model_goes_to_the_trash_and_comes_back_as_it_was(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "ours" / "sub", "big", 3)
    contents = [path.read_bytes() for path in paths]
    library = library_of(tmp_path)
    [entry] = library.scan().entries
    removed = library.remove(entry)
    assert not any(path.exists() for path in paths)
    assert library.entries() == () == library.scan().entries
    assert (removed.title, removed.paths, removed.file_bytes) == (entry.title, tuple(paths), entry.file_bytes)
    other = library_of(tmp_path)
    assert other.removed() == (removed,)
    other.undo(removed)
    assert [path.read_bytes() for path in paths] == contents
    assert other.scan().entries[0].paths == tuple(paths)
    assert other.removed() == ()


def test_trash_is_emptied_for_good_and_tells_the_bytes(tmp_path: Path) -> None:
    library = library_of(tmp_path)
    removals = []
    for number in range(2):
        write_small(tmp_path / "ours" / f"{number}.gguf", seed=number)
        removals.append(library.remove(library.scan().entries[0]))
    assert [removed.id for removed in library.removed()] == [removals[1].id, removals[0].id]
    assert library.empty_trash(before=removals[1].removed_at) == removals[0].file_bytes
    assert library.removed() == (removals[1],)
    assert library.empty_trash() == removals[1].file_bytes
    assert list((tmp_path / "ours").iterdir()) == []
    with pytest.raises(LibraryError, match="no longer in the trash"):
        library.undo(removals[0])


def test_models_of_other_programs_are_never_touched_and_their_owner_is_named(tmp_path: Path) -> None:
    path = write_small(tmp_path / "theirs" / "x.gguf")
    library = library_of(tmp_path, ScanRoot(tmp_path / "theirs", "LM Studio"))
    [entry] = library.scan().entries
    assert not entry.is_removable
    with pytest.raises(NotRemovable, match="kept by LM Studio") as caught:
        library.remove(entry)
    assert str(path) in caught.value.hint
    assert path.exists()


def test_models_in_a_folder_of_the_user_are_only_read(tmp_path: Path) -> None:
    path = write_small(tmp_path / "mine" / "x.gguf")
    library = library_of(tmp_path)
    library.add_root(tmp_path / "mine")
    [entry] = library.scan().entries
    with pytest.raises(NotRemovable, match="only reads"):
        library.remove(entry)
    assert path.exists()


def test_link_into_another_programs_folder_goes_alone(tmp_path: Path) -> None:
    theirs = write_small(tmp_path / "theirs" / "x.gguf")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "link.gguf").symlink_to(theirs)
    (tmp_path / "ours" / "folder").symlink_to(tmp_path / "theirs")
    library = library_of(tmp_path)
    [entry] = library.scan().entries
    if entry.path.name == "x.gguf":  # reached through the linked folder: it is not ours
        with pytest.raises(NotRemovable):
            library.remove(entry)
    else:
        library.undo(library.remove(entry))
    assert theirs.exists()
    assert (tmp_path / "ours" / "link.gguf").exists()


def test_nothing_moves_when_one_part_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_split(tmp_path / "ours", "big", 3)
    library = library_of(tmp_path)
    [entry] = library.scan().entries
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self == paths[2]:
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(EntryInUse if os.name == "nt" else LibraryError, match="big-00003-of-00003"):
        library.remove(entry)
    assert all(path.exists() for path in paths)
    assert library.removed() == ()


def test_file_in_its_place_is_not_written_over(tmp_path: Path) -> None:
    path = write_small(tmp_path / "ours" / "x.gguf")
    library = library_of(tmp_path)
    removed = library.remove(library.scan().entries[0])
    path.write_text("another")
    with pytest.raises(LibraryError, match="is there again"):
        library.undo(removed)
    assert path.read_text() == "another"
    assert library.removed() == (removed,)


@pytest.mark.parametrize("note", [b"", b"{", b'{"title":3}', b'{"x":' * 9999, None])
def test_damaged_note_is_passed_over(tmp_path: Path, note: bytes | None) -> None:
    write_small(tmp_path / "ours" / "x.gguf")
    library = library_of(tmp_path)
    removed = library.remove(library.scan().entries[0])
    path = tmp_path / "ours" / ".trash" / removed.id / "removed.json"
    path.unlink() if note is None else path.write_bytes(note)
    assert library.removed() == ()
    with pytest.raises(LibraryError):
        library.undo(removed)
    assert library.scan().entries == ()


def test_note_that_points_elsewhere_is_refused(tmp_path: Path) -> None:
    write_small(tmp_path / "ours" / "x.gguf")
    library = library_of(tmp_path)
    removed = library.remove(library.scan().entries[0])
    note = tmp_path / "ours" / ".trash" / removed.id / "removed.json"
    note.write_text(note.read_text().replace(str(tmp_path / "ours"), str(tmp_path / "elsewhere")))
    with pytest.raises(LibraryError, match="changed"):
        library.undo(library.removed()[0])
    assert not (tmp_path / "elsewhere").exists()


def test_full_disk_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_small(tmp_path / "ours" / "x.gguf")
    library = library_of(tmp_path)
    [entry] = library.scan().entries

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("models.removal.write_whole", refuse)
    with pytest.raises(LibraryError, match="no space left"):
        library.remove(entry)
    assert path.exists()
    assert list((tmp_path / "ours" / ".trash").iterdir()) == []
