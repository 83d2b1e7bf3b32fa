"""The file of a snapshot: it comes back as it was, or it is refused with the kind of its fault."""

import io
from pathlib import Path
from typing import Any

import pytest

from engine import snapshot_file
from engine.snapshot_file import (
    FileFault,
    SnapshotFileError,
    SnapshotHeader,
    read_header,
    read_snapshot,
    tokens_to_bytes,
    write_snapshot,
)

CHUNK = 64


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_file, "_CHUNK_BYTES", CHUNK)


def header_of(state: bytes, checkpoints: dict[int, bytes], **changes) -> SnapshotHeader:
    fields: dict[str, Any] = {
        "model": "model",
        "settings": "{}",
        "model_name": "A model",
        "adapters": (("a:1:2", 0.5),),
        "chat_id": "chat",
        "tokens": tokens_to_bytes([1, 2, 300_000]),
        "num_state_bytes": len(state),
        "checkpoints": tuple((count, len(data)) for count, data in checkpoints.items()),
        "prefill_s_per_token": 0.25,
        "written_at": 1.0,
    }
    return SnapshotHeader(**(fields | changes))


def file_of(state: bytes, checkpoints: dict[int, bytes] | None = None, **changes) -> bytes:
    checkpoints = checkpoints or {}
    file = io.BytesIO()
    assert write_snapshot(file, header_of(state, checkpoints, **changes), [state, *checkpoints.values()])
    return file.getvalue()


def fault_of(path: Path, data: bytes) -> FileFault:
    path.write_bytes(data)
    with pytest.raises(SnapshotFileError) as caught:
        read_snapshot(path)
    return caught.value.fault


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 3])
@pytest.mark.parametrize("checkpoints", [{}, {2: b"early"}, {1: b"", 3: bytes(range(200))}], ids=["none", "one", "two"])
def test_snapshot_comes_back_when_it_was_written(size: int, checkpoints: dict[int, bytes], tmp_path: Path):
    state = bytes(number * 7 % 251 for number in range(size))
    path = tmp_path / "a"
    path.write_bytes(file_of(state, checkpoints))
    content = read_snapshot(path)
    assert (content.state, list(content.checkpoint_states)) == (state, list(checkpoints.values()))
    assert content.header == read_header(path) == header_of(state, checkpoints)
    assert list(content.header.token_ids()) == [1, 2, 300_000]


def test_file_is_refused_when_any_byte_of_it_is_another(tmp_path: Path):
    whole = file_of(bytes(range(150)), {2: b"checkpoint"})
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        assert fault_of(tmp_path / "a", bytes(data)) is not FileFault.GONE, place


def test_file_is_refused_when_it_ends_early_or_late(tmp_path: Path):
    whole = file_of(bytes(range(150)), {2: b"checkpoint"})
    for length in range(len(whole)):
        assert fault_of(tmp_path / "a", whole[:length]) is FileFault.TORN
    assert fault_of(tmp_path / "a", whole + b"x") is FileFault.TORN


def test_file_is_refused_when_two_chunks_have_changed_places(tmp_path: Path):
    whole = file_of(bytes(3 * CHUNK))
    parts = CHUNK + 4
    start = len(whole) - 3 * parts
    swapped = whole[:start] + whole[start + parts : start + 2 * parts] + whole[start : start + parts]
    assert fault_of(tmp_path / "a", swapped + whole[start + 2 * parts :]) is FileFault.DAMAGED


def test_file_is_refused_when_a_chunk_is_that_of_an_older_file(tmp_path: Path):
    new, old = file_of(bytes(2 * CHUNK)), file_of(bytes(2 * CHUNK), written_at=0.5)
    assert len(new) == len(old)
    assert fault_of(tmp_path / "a", new[: -CHUNK - 4] + old[-CHUNK - 4 :]) is FileFault.DAMAGED


@pytest.mark.parametrize(
    ("data", "fault"),
    [(b"", FileFault.TORN), (b"GGUF" + bytes(100), FileFault.FOREIGN), (b"A text.\n" * 40, FileFault.FOREIGN)],
    ids=["empty", "model", "text"],
)
def test_file_is_refused_when_it_is_something_else(data: bytes, fault: FileFault, tmp_path: Path):
    assert fault_of(tmp_path / "a", data) is fault


def test_file_is_refused_when_its_header_is_no_header(tmp_path: Path):
    whole = file_of(b"state", chat_id="x" * 40)
    assert fault_of(tmp_path / "a", whole.replace(b"\x01\x00\x00\x00", b"\x02\x00\x00\x00", 1)) is FileFault.FOREIGN


def test_file_is_gone_when_it_cannot_be_opened(tmp_path: Path):
    with pytest.raises(SnapshotFileError) as caught:
        read_snapshot(tmp_path / "nothing")
    assert caught.value.fault is FileFault.GONE


@pytest.mark.parametrize("num_chunks", [0, 1, 2])
def test_file_is_torn_when_writing_was_given_up(num_chunks: int, tmp_path: Path):
    asked: list[int] = []

    def may_go_on() -> bool:
        asked.append(0)
        return len(asked) <= num_chunks

    file = io.BytesIO()
    state = bytes(3 * CHUNK)
    assert not write_snapshot(file, header_of(state, {}), [state], may_go_on)
    assert fault_of(tmp_path / "a", file.getvalue()) is FileFault.TORN
