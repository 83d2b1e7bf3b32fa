"""The journal of a run: what is written stays, whatever ends the program."""

import errno
import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.compare import journal as journal_module
from app.compare.journal import (
    CellEntry,
    ColumnEntry,
    Entry,
    NoteEntry,
    PromptEntry,
    begin_journal,
    open_journal,
    read_journal,
)
from app.compare.results import Cell
from app.errors import RunError, RunInUse
from tests.unit.app.compare.runs import column, plan, prompts

PLAN = plan(column(), column())
ENTRIES: list[Entry] = [
    NoteEntry("\u2028 a line\nand another"),
    CellEntry(Cell(column="c1", prompt="p1", text='quotes "}\n', token_ids=(1, 2), values={"ttft_s": 0.5})),
    ColumnEntry(column(id="c2", error="It failed.")),
    PromptEntry(prompts(3)[2]),
]


def written(folder: Path) -> Path:
    """Write a journal and return its file."""
    journal, fault = begin_journal(folder, PLAN)
    assert fault is None
    for entry in ENTRIES:
        assert journal.append(entry) is None
    journal.close()
    return journal.folder / "journal.jsonl"


def test_all_that_is_written_is_read(tmp_path: Path) -> None:
    found = read_journal(written(tmp_path).parent)
    assert found.header == PLAN
    assert list(found.entries) == ENTRIES
    assert found.num_lost == 0


@given(cut=st.integers(min_value=0))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_line_that_was_cut_off_counts_as_never_written_and_what_follows_is_whole(tmp_path: Path, cut: int) -> None:
    folder = tmp_path / f"{cut}"
    if folder.exists():
        return
    file = written(folder)
    data = file.read_bytes()
    first = data.index(b"\n") + 1
    cut = first + cut % (len(data) - first)
    file.write_bytes(data[:cut])
    num_whole = data[first:cut].count(b"\n")
    journal, found = open_journal(file.parent)
    assert list(found.entries) == ENTRIES[:num_whole]
    assert journal.append(NoteEntry("more")) is None
    journal.close()
    assert list(read_journal(file.parent).entries) == [*ENTRIES[:num_whole], NoteEntry("more")]


def test_damaged_line_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.write_bytes(file.read_bytes().replace(b'"ttft_s":0.5', b'"ttft_s":0.6'))
    found = read_journal(file.parent)
    assert found.num_lost == 1
    assert list(found.entries) == [ENTRIES[0], *ENTRIES[2:]]


@pytest.mark.parametrize(
    "data", [b"", b"{}\n", b"\0\xff\n" * 9, b'{"crc":"00000000","entry":{}}\n'], ids=["empty", "json", "bytes", "sum"]
)
def test_journal_without_its_plan_is_refused_in_one_sentence(tmp_path: Path, data: bytes) -> None:
    file = written(tmp_path)
    file.write_bytes(data)
    with pytest.raises(RunError, match="cannot be gone on with"):
        open_journal(file.parent)
    file.unlink()
    with pytest.raises(RunError, match="cannot be gone on with"):
        read_journal(file.parent)


def test_second_program_cannot_go_on_with_the_same_run(tmp_path: Path) -> None:
    folder = written(tmp_path).parent
    first, _ = open_journal(folder)
    with pytest.raises(RunInUse):
        open_journal(folder)
    first.close()
    open_journal(folder)[0].close()


class FullDisk:
    """Stands in for fsync: the disk is full for some of the calls, and holds half of what was written."""

    def __init__(self, full: set[int]) -> None:
        self._full = full
        self._calls = itertools.count()

    def __call__(self, descriptor: int) -> None:
        """Fail in its turn."""
        if next(self._calls) in self._full:
            os.ftruncate(descriptor, max(0, os.fstat(descriptor).st_size - 9))
            raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_loses_nothing_once_there_is_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, _ = begin_journal(tmp_path, PLAN)
    monkeypatch.setattr(os, "fsync", FullDisk({0, 1, 2}))
    faults = [journal.append(entry) for entry in ENTRIES]
    assert [fault is not None and "No space left" in fault for fault in faults] == [True, True, True, False]
    assert journal.is_saved
    journal.close()
    assert list(read_journal(journal.folder).entries) == ENTRIES


def test_full_disk_at_the_beginning_is_told_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", FullDisk({0}))
    journal, fault = begin_journal(tmp_path, PLAN)
    assert fault is not None and "goes on in memory" in fault
    assert [file.name for file in journal.folder.iterdir()] == ["lock"]
    assert journal.append(ENTRIES[0]) is None
    journal.close()
    assert read_journal(journal.folder).header == PLAN


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    journal, fault = begin_journal(tmp_path / "file", PLAN)
    assert fault is not None
    assert not journal.is_saved
    journal.close()


def test_line_of_another_version_is_passed_over(tmp_path: Path, monkeypatch: Any) -> None:
    file = written(tmp_path)
    line = journal_module._line(b'{"type":"something new","x":1}')
    file.write_bytes(file.read_bytes() + line)
    assert read_journal(file.parent).num_lost == 1
