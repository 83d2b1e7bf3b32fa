"""Files in the folder of snapshots that provoke what the format does not: they are faults, not the end of anything."""

import os
import zlib
from pathlib import Path

import msgspec
import pytest

from engine import snapshot_folder
from engine.snapshot_file import (
    _MAGIC,
    _PRELUDE,
    _VERSION,
    FileFault,
    SnapshotContent,
    SnapshotFileError,
    read_header,
)
from engine.snapshot_folder import SnapshotFolder
from tests.unit.engine.snapshot_writers import header_of, state_of


def nested_header(path: Path) -> Path:
    """Write a file whose header is whole, and has more levels than a reader's stack."""
    fields = msgspec.msgpack.encode(header_of([1], num_bytes=0))
    assert fields[0] == 0x80 + 10, "a map of ten"
    data = bytes([0x8B]) + fields[1:] + msgspec.msgpack.encode("more") + b"\x91" * 200_000 + b"\xc0"
    path.write_bytes(_PRELUDE.pack(_MAGIC, _VERSION, len(data), zlib.crc32(data)) + data)
    return path


def test_file_is_foreign_when_its_header_nests_too_deeply(tmp_path: Path):
    with pytest.raises(SnapshotFileError) as caught:
        read_header(nested_header(tmp_path / "a.snapshot"))
    assert caught.value.fault is FileFault.FOREIGN


def test_file_is_foreign_when_it_is_a_pipe(tmp_path: Path):
    os.mkfifo(tmp_path / "a.snapshot")
    with pytest.raises(SnapshotFileError) as caught:
        read_header(tmp_path / "a.snapshot")
    assert caught.value.fault is FileFault.FOREIGN


def test_others_are_found_when_one_file_nests_too_deeply(tmp_path: Path):
    first = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    first.write(header_of([1, 2], num_bytes=8), [state_of([1, 2], 8)], can_cut=True)
    first.close(10)
    hostile = nested_header(tmp_path / "0.snapshot")
    again = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    assert [list(entry.tokens) for entry in again.entries] == [[1, 2]]
    again.close(10)
    assert not hostile.exists()


@pytest.mark.allow_log("a snapshot of")
def test_request_goes_on_when_reading_fails_in_a_way_that_nobody_expects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = SnapshotFolder(tmp_path, max_bytes=1 << 30)
    folder.write(header_of([1, 2], num_bytes=8), [state_of([1, 2], 8)], can_cut=True)
    folder.flush(10)

    def fail(path: Path) -> SnapshotContent:
        raise OSError("stale file handle")

    monkeypatch.setattr(snapshot_folder, "read_snapshot", fail)
    outcome = folder.read(folder.entries[0]).result(10)
    assert (outcome.content, outcome.fault) == (None, FileFault.GONE)
    folder.close(10)
