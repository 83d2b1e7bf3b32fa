"""The log: one file, and silence about its own troubles."""

import faulthandler
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.log import start_fault_log, start_log, stop_log
from app.paths import find_paths


@pytest.fixture(autouse=True)
def root_level() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


def test_lines_land_in_the_file(tmp_path: Path) -> None:
    paths = find_paths(str(tmp_path / "data"))
    handler = start_log(paths)
    logging.getLogger("some.part").info("é日👍 %s", "\udcff")
    logging.getLogger("some.part").debug("not this")
    stop_log(handler)
    text = paths.log_file.read_text("utf-8")
    assert "INFO some.part: é日👍 \\udcff" in text
    assert "not this" not in text


def test_debug_lines_land_only_when_asked_for(tmp_path: Path) -> None:
    paths = find_paths(str(tmp_path))
    handler = start_log(paths, debug=True)
    logging.getLogger("some.part").debug("this too")
    stop_log(handler)
    assert "DEBUG some.part: this too" in paths.log_file.read_text("utf-8")


def test_folder_that_cannot_be_made_stops_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    paths = find_paths(str(tmp_path / "file"))
    handler = start_log(paths)
    assert handler is None
    assert start_fault_log(paths) is None
    logging.getLogger("some.part").info("lost")
    stop_log(handler)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_full_disk_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    handler = start_log(find_paths(str(tmp_path)))
    assert isinstance(handler, logging.FileHandler)
    assert handler.stream is not None
    handler.stream.close()
    handler.stream = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - the handler closes it
    logging.getLogger("some.part").info("lost")
    stop_log(handler)
    assert capfd.readouterr() == ("", "")


def test_crash_stacks_have_a_file_of_their_own(tmp_path: Path) -> None:
    was_enabled = faulthandler.is_enabled()
    paths = find_paths(str(tmp_path))
    handler = start_log(paths)
    file = start_fault_log(paths)
    assert file is not None
    assert faulthandler.is_enabled()
    faulthandler.disable()
    file.close()
    stop_log(handler)
    if was_enabled:
        faulthandler.enable()
