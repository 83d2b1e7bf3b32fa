"""Which models of a comparison have no room, told before anything is loaded."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from app.compare import room_check
from app.compare.results import Column
from app.compare.room_check import RoomCheck
from models import Room, fingerprint, read_gguf_info
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.compare.runs import EchoClient, column, paths_in

PLENTY = Room(1 << 40)


def of_file(path: Path, number: int) -> Column:
    """Return a column of a real file."""
    mark = fingerprint(read_gguf_info(path))
    return msgspec.structs.replace(column(str(path), fingerprint=mark), id=f"c{number}", label=path.stem)


@pytest.fixture
def needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Column], int]:
    """Return two columns of one file, and what each needs."""
    monkeypatch.setattr(room_check, "room_of", lambda *_, **__: PLENTY)
    path = write_tiny_model(tmp_path / "tiny.gguf")
    found = RoomCheck(paths_in(tmp_path), EchoClient)._fit(of_file(path, 1), 0)
    assert found is not None
    return [of_file(path, 1), of_file(path, 2)], found.needed_bytes


@pytest.mark.parametrize(
    ("share", "lacking"), [(0.5, {"c1", "c2"}), (1.5, {"c2"}), (3.0, set())], ids=["no room", "for one", "for both"]
)
def test_models_that_are_loaded_together_share_the_room(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    needed: tuple[list[Column], int],
    share: float,
    lacking: set[str],
) -> None:
    columns, size = needed
    room = dataclasses.replace(PLENTY, free_bytes=int(share * size))
    monkeypatch.setattr(room_check, "room_of", lambda *_, **__: room)
    found = RoomCheck(paths_in(tmp_path), EchoClient)(columns)
    assert set(found) == lacking
    assert all(" needs " in fault.message and "are free" in fault.message for fault in found.values())


def test_what_cannot_be_reckoned_is_left_to_the_engine(tmp_path: Path) -> None:
    gone = of_file(write_tiny_model(tmp_path / "tiny.gguf"), 1)
    Path(gone.path).unlink()
    assert RoomCheck(paths_in(tmp_path), EchoClient)([gone, column()]) == {}
