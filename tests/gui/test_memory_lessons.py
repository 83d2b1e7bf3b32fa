"""The window learns from replies what its models take."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from app.desktop.session.memory_lessons import MemoryLessons
from app.memory_record import MemoryRecord, reckoned_peak
from engine import DescribeEngine, EngineDescribed, EngineDescription
from tests.gui.scripted_engine import Desk, describe
from tests.support.gguf_files import write_tiny_model

MIB = 1 << 20
ENGINE = EngineDescription(binding="1", library="2", features="CPU : AVX2 = 1 | ", devices=(), default_threads=2)


def has_learned(record: MemoryRecord) -> bool:
    return record.offset_bytes() == 7 * MIB


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()


@pytest.fixture
def record(desk: Desk, data_dir: Path) -> MemoryRecord:
    record = MemoryRecord(data_dir / "memory-record.json")
    MemoryLessons(desk.parts.bridge, desk.parts.model, desk.parts.background, record)
    return record


def reply(desk: Desk, path: Path) -> None:
    """Have a model loaded, and a reply whose peak is 7 MiB above what is reckoned."""
    model = describe(path=str(path), n_ubatch=512, n_batch=2048)
    desk.load(path=str(path), n_ubatch=512, n_batch=2048)
    request = desk.client.last(DescribeEngine)
    desk.client.emit(EngineDescribed(request_id=request.request_id, description=ENGINE))
    peak = reckoned_peak(model, features=ENGINE.features, num_read=20, num_tokens=41)
    request_id = desk.say("Hello")
    desk.finish(request_id, "Hi", peak_memory_bytes=7 * MIB + (peak or 0))


def test_window_learns_from_a_reply(desk: Desk, record: MemoryRecord, tmp_path: Path) -> None:
    reply(desk, write_tiny_model(tmp_path / "tiny.gguf"))
    desk.qtbot.waitUntil(lambda: has_learned(record))


def test_window_learns_nothing_of_a_file_that_is_gone(desk: Desk, record: MemoryRecord, tmp_path: Path) -> None:
    reply(desk, tmp_path / "gone.gguf")
    desk.qtbot.wait(20)
    assert record.offset_bytes() == 0


def test_record_that_fails_harms_no_reply(
    desk: Desk,
    record: MemoryRecord,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    allow_log: Callable[[str], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise RuntimeError("broken")

    allow_log("WARNING app.desktop.session.memory_lessons: what the model has taken is not noted")
    monkeypatch.setattr(record, "note", fail)
    with caplog.at_level(logging.WARNING):
        reply(desk, write_tiny_model(tmp_path / "tiny.gguf"))
        desk.qtbot.waitUntil(lambda: "is not noted" in caplog.text)
