"""A file is written whole, with its rights, whatever its name and its folder are like."""

import os
import stat
import sys
from pathlib import Path

import pytest

from app.atomic_file import write_atomically


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such rights")
@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o600), (0o666, 0o644)], ids=["private", "to be handed on"])
def test_new_file_has_its_rights_less_the_mask_of_the_user(tmp_path: Path, mode: int, expected: int) -> None:
    before = os.umask(0o022)
    try:
        write_atomically(tmp_path / "a", b"new", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == expected


def test_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    write_atomically(path, b"old")
    write_atomically(path, b"\r\n new")
    assert path.read_bytes() == b"\r\n new"
    assert list(tmp_path.iterdir()) == [path]


def test_folder_that_cannot_be_synced_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(22, f"no such thing on {sys.platform}", str(folder))

    monkeypatch.setattr("app.atomic_file.sync_folder", refuse)
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
