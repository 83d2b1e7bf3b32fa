"""The library: what lies where is found, told apart, shown once, and kept from scan to scan."""

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from models import LibraryEntry, ModelKind, ScanProgress, ScanRoot
from models.library_index import FileRecord, read_record
from tests.support.gguf_files import write_other_kinds
from tests.support.hostile_gguf import FOREIGN_FILES, IMPOSSIBLE_FILES
from tests.support.small_models import library_of, write_small, write_split


def names(entries: tuple[LibraryEntry, ...]) -> list[str]:
    return [entry.name for entry in entries]


def test_everything_that_matters_is_in_an_entry(tmp_path: Path) -> None:
    path = write_small(tmp_path / "ours" / "x.gguf")
    [entry] = library_of(tmp_path).scan().entries
    assert (entry.title, entry.name) == ("Tiny Model Q4_K_M", "tiny-model:q4_k_m")
    assert (entry.path, entry.paths, entry.missing_parts) == (path, (path,), ())
    assert (entry.kind, entry.architecture, entry.type_name, entry.licence) == (
        ModelKind.TEXT,
        "llama",
        "Q4_K_M",
        "mit",
    )
    assert (entry.num_parameters, entry.num_active_parameters, entry.bits_per_weight) == (512, 512, 4.5)
    assert (entry.file_bytes, entry.n_ctx_train) == (path.stat().st_size, 512)
    assert (entry.source, entry.is_ours, entry.is_removable) == ("Fireside", True, True)
    assert (entry.problem, entry.can_chat) == (None, True)


def test_levels_of_one_model_are_one_group_whatever_their_files_are_called(tmp_path: Path) -> None:
    for number, level in enumerate(("F16", "Q8_0", "Q4_K_M")):
        write_small(tmp_path / "ours" / f"{number}" / "file.gguf", level=level)
    write_small(tmp_path / "ours" / "other.gguf", name="Other Model")
    write_small(tmp_path / "ours" / "larger.gguf", rows=4)
    write_small(tmp_path / "ours" / "vocabulary.gguf", num_tokens=5)
    entries = library_of(tmp_path).scan().entries
    tiny = [entry for entry in entries if entry.name.startswith("tiny-model-512:")]
    levels = [entry for entry in tiny if entry.group_key == tiny[0].group_key]
    assert [entry.type_name for entry in levels] == ["F16", "Q8_0", "Q4_K_M"]
    assert len({entry.group_key for entry in entries}) == 4
    assert len(set(names(entries))) == 6


def test_models_without_a_name_are_called_by_their_file(tmp_path: Path) -> None:
    write_small(tmp_path / "ours" / "Big-Thing-Q4_K_M.gguf", name="")
    [entry] = library_of(tmp_path).scan().entries
    assert (entry.group_title, entry.name) == ("Big-Thing", "big-thing:q4_k_m")


def test_every_other_kind_has_its_heading_and_none_can_chat(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    paths = write_other_kinds(tmp_path / "ours")
    entries = library_of(tmp_path).scan().entries
    assert len(entries) == len(paths)
    assert not any(entry.can_chat for entry in entries)
    kinds = {entry.path: entry.kind for entry in entries}
    assert (kinds[paths["projector"]], kinds[paths["adapter"]]) == (ModelKind.PROJECTOR, ModelKind.ADAPTER)
    assert (kinds[paths["vocabulary"]], kinds[paths["embedding"]]) == (ModelKind.VOCABULARY, ModelKind.EMBEDDING)


def test_hostile_files_are_named_and_the_good_one_beside_them_is_listed(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    write_small(ours / "good.gguf")
    hostile = {f"i{n}": data for n, data in enumerate(IMPOSSIBLE_FILES.values())}
    hostile |= {f"f{n}": data for n, (_, data) in enumerate(FOREIGN_FILES.values())}
    for name, data in hostile.items():
        (ours / f"{name}.gguf").write_bytes(data)
    entries = library_of(tmp_path).scan().entries
    assert len(entries) == len(hostile) + 1
    assert [entry.name for entry in entries if entry.can_chat] == ["tiny-model:q4_k_m"]
    for entry in entries:
        if not entry.can_chat:
            assert entry.problem is not None
            assert entry.problem.startswith(entry.path.name)
            assert entry.hint


# --- splits ---


def test_parts_are_one_row_with_their_sum(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "ours", "big", 3)
    [entry] = library_of(tmp_path).scan().entries
    assert entry.paths == tuple(paths)
    assert entry.file_bytes == sum(path.stat().st_size for path in paths)
    assert (entry.num_parameters, entry.can_chat, entry.name) == (1024, True, "split-model:q4_k_m")


@pytest.mark.parametrize("kept", [(0, 2), (1,), (2,), (0,)], ids=str)
def test_missing_parts_are_named_in_one_row(tmp_path: Path, kept: tuple[int, ...]) -> None:
    paths = write_split(tmp_path / "ours", "big", 3)
    for number in {0, 1, 2} - set(kept):
        paths[number].unlink()
    [entry] = library_of(tmp_path).scan().entries
    missing = [path.name for number, path in enumerate(paths) if number not in kept]
    assert list(entry.missing_parts) == missing
    assert not entry.can_chat
    assert all(name in (entry.problem or "") for name in missing)


def test_renamed_first_part_stays_in_its_row_and_its_name_is_told(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "ours", "big", 3)
    paths[0].rename(paths[0].with_name("renamed.gguf"))
    [entry] = library_of(tmp_path).scan().entries
    assert len(entry.paths) == 3
    assert "big-00001-of-00003.gguf" in (entry.problem or "")


def test_two_split_models_in_one_folder_stay_apart(tmp_path: Path) -> None:
    first = write_split(tmp_path / "ours", "a", 2, name="First")
    second = write_split(tmp_path / "ours", "b", 2, name="Second", seed=9)
    entries = library_of(tmp_path).scan().entries
    assert [entry.paths for entry in entries] == [tuple(first), tuple(second)]


def test_lone_parts_of_two_models_are_two_rows(tmp_path: Path) -> None:
    write_split(tmp_path / "ours", "a", 2, name="First")[1].unlink()
    write_split(tmp_path / "ours", "b", 2, name="Second", seed=9)[0].unlink()
    entries = library_of(tmp_path).scan().entries
    assert [entry.missing_parts for entry in entries] == [("b-00001-of-00002.gguf",), ("a-00002-of-00002.gguf",)]


def test_part_of_another_model_under_the_name_of_a_missing_one_is_told(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "ours", "a", 2)
    write_split(tmp_path / "other", "a", 2, extra_tensors=1)[1].replace(paths[1])
    [entry] = library_of(tmp_path).scan().entries
    assert "do not belong together" in (entry.problem or "")


def test_damaged_part_is_the_problem_of_its_set(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "ours", "big", 3)
    paths[1].write_bytes(b"GGUF")
    [entry] = library_of(tmp_path).scan().entries
    assert "big-00002-of-00003.gguf is cut off" in (entry.problem or "")


def test_incomplete_level_is_in_the_group_of_its_model(tmp_path: Path) -> None:
    write_split(tmp_path / "ours" / "a", "big", 2)
    write_split(tmp_path / "ours" / "b", "big", 2, seed=5)[1].unlink()
    entries = library_of(tmp_path).scan().entries
    assert len(entries) == 2
    assert len({entry.group_key for entry in entries}) == 1


# --- the same bytes ---


def _link(kind: str, source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if kind == "copy":
        shutil.copy(source, target)
    elif kind == "hard link":
        target.hardlink_to(source)
    else:
        target.symlink_to(source)


@pytest.mark.parametrize("kind", ["copy", "hard link", "symbolic link"])
def test_same_bytes_are_shown_once_and_ours_first(tmp_path: Path, kind: str) -> None:
    theirs = write_small(tmp_path / "theirs" / "x.gguf")
    _link(kind, theirs, tmp_path / "ours" / "y.gguf")
    library = library_of(tmp_path, ScanRoot(tmp_path / "theirs", "LM Studio"))
    for _ in range(2):
        [entry] = library.scan().entries
        assert (entry.source, entry.other_places) == ("Fireside", (theirs,))
    [entry] = library_of(tmp_path, ScanRoot(tmp_path / "theirs", "LM Studio")).entries()
    assert entry.other_places == (theirs,)


def test_copies_of_a_split_model_are_shown_once(tmp_path: Path) -> None:
    write_split(tmp_path / "ours" / "a", "big", 2)
    shutil.copytree(tmp_path / "ours" / "a", tmp_path / "ours" / "b")
    [entry] = library_of(tmp_path).scan().entries
    assert [path.parent.name for path in entry.other_places] == ["b"]


def test_files_that_differ_only_in_their_weights_are_two(tmp_path: Path) -> None:
    write_small(tmp_path / "ours" / "a.gguf", seed=1)
    write_small(tmp_path / "ours" / "b.gguf", seed=2)
    entries = library_of(tmp_path).scan().entries
    assert names(entries) == ["tiny-model:q4_k_m@a", "tiny-model:q4_k_m@b"]


# --- from scan to scan ---


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def note(path: Path, status: os.stat_result) -> FileRecord:
        found.append(path.name)
        return read_record(path, status)

    monkeypatch.setattr("models.library.read_record", note)
    return found


def test_only_new_and_changed_files_are_read(tmp_path: Path, reads: list[str]) -> None:
    first, second = (write_small(tmp_path / "ours" / name, seed=n) for n, name in enumerate(("a.gguf", "b.gguf")))
    assert library_of(tmp_path).scan().num_read == 2
    reads.clear()
    library = library_of(tmp_path)
    assert len(library.entries()) == 2
    assert (library.scan().num_read, reads) == (0, [])
    write_small(second, seed=7, rows=4)
    write_small(tmp_path / "ours" / "c.gguf", seed=8)
    scan = library.scan()
    assert (sorted(reads), scan.num_files, len(scan.entries)) == (["b.gguf", "c.gguf"], 3, 3)
    first.unlink()
    assert len(library.scan().entries) == 2


def test_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    path = write_small(tmp_path / "ours" / "a.gguf", name="Before")
    before = path.stat()
    library = library_of(tmp_path)
    assert names(library.scan().entries) == ["before:q4_k_m"]
    write_small(path, name="Behind")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert names(library.scan().entries) == ["behind:q4_k_m"]


def test_moved_file_is_not_read_again_and_keeps_its_id(tmp_path: Path, reads: list[str]) -> None:
    path = write_small(tmp_path / "ours" / "a.gguf")
    library = library_of(tmp_path)
    [before] = library.scan().entries
    reads.clear()
    (tmp_path / "ours" / "deep").mkdir()
    moved = path.rename(tmp_path / "ours" / "deep" / "new name.gguf")
    [after] = library.scan().entries
    assert (after.id, after.path, reads) == (before.id, moved, [])


def test_file_in_the_place_of_a_moved_one_has_an_id_of_its_own(tmp_path: Path) -> None:
    path = write_small(tmp_path / "ours" / "a.gguf", name="Old")
    library = library_of(tmp_path)
    [before] = library.scan().entries
    path.rename(path.with_name("b.gguf"))
    library.scan()
    write_small(path, name="New", seed=4)
    ids = {entry.group_title: entry.id for entry in library.scan().entries}
    assert ids["Old"] == before.id != ids["New"]
    assert {entry.group_title: entry.id for entry in library_of(tmp_path).scan().entries} == ids


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b'{"version":1,"records":[{"path":3}]}', b'{"version":99,"records":[]}', b"[" * 100_000],
    ids=["empty", "cut", "list", "types", "version", "deep"],
)
def test_damaged_index_costs_only_time(tmp_path: Path, damage: bytes) -> None:
    write_small(tmp_path / "ours" / "a.gguf")
    library_of(tmp_path).scan()
    (tmp_path / "state" / "library-index.json").write_bytes(damage)
    library = library_of(tmp_path)
    assert library.entries() == ()
    assert library.scan().num_read == 1
    assert len(library_of(tmp_path).entries()) == 1


def test_index_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    write_small(tmp_path / "ours" / "a.gguf")
    (tmp_path / "state").write_text("a file where the folder should be")
    assert len(library_of(tmp_path).scan().entries) == 1


def test_two_libraries_may_scan_at_once(tmp_path: Path) -> None:
    for number in range(20):
        write_small(tmp_path / "ours" / f"{number}.gguf", seed=number)
    libraries = [library_of(tmp_path) for _ in range(4)]
    threads = [threading.Thread(target=library.scan) for library in libraries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(library.entries()) for library in libraries] == [20] * 4
    assert len(library_of(tmp_path).entries()) == 20
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["library-index.json"]


def test_progress_is_told_and_a_cancelled_scan_keeps_what_was_known(tmp_path: Path) -> None:
    for number in range(6):
        write_small(tmp_path / "ours" / f"{number}.gguf", seed=number)
    library = library_of(tmp_path)
    seen: list[ScanProgress] = []
    library.scan(seen.append)
    assert (seen[-1].num_files, seen[-1].num_read) == (6, 6)
    scan = library.scan(is_cancelled=lambda: True)
    assert (scan.is_complete, len(scan.entries)) == (False, 6)
    assert len(library.entries()) == 6


def test_five_hundred_files_are_scanned_again_in_no_time(tmp_path: Path) -> None:
    for number in range(500):
        write_small(tmp_path / "ours" / f"{number // 20}" / f"{number}.gguf", name=f"Model {number // 4}", seed=number)
    library_of(tmp_path).scan()
    library = library_of(tmp_path)
    before = time.thread_time()
    scan = library.scan()
    assert time.thread_time() - before < 5 * 0.3  # five times what is promised
    assert (scan.num_files, scan.num_read, len(scan.entries)) == (500, 0, 500)
