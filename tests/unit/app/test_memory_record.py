"""What is learned from loads: one is enough, an odd one changes little, and a broken file costs nothing."""

import itertools
import json
from pathlib import Path

import msgspec
import pytest

from app.memory_record import MemoryRecord, reckoned_peak
from app.paths import find_paths
from engine import ModelDescription, RequestMetrics
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.cli.scripted_client import description

MIB = 1 << 20
_loads = itertools.count(1)  # no two take the same time


@pytest.fixture
def record(data_dir: Path) -> MemoryRecord:
    return MemoryRecord.in_paths(find_paths(str(data_dir)))


@pytest.fixture
def file(data_dir: Path) -> Path:
    return data_dir / "memory-record.json"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny ä日.gguf")


def loaded(path: Path, **changes: object) -> ModelDescription:
    return msgspec.structs.replace(description(str(path)), **{"load_s": float(next(_loads)), **changes})


def reply(peak: int | None, *, num_prompt_tokens: int = 600, num_cached_tokens: int = 0) -> RequestMetrics:
    return RequestMetrics(
        num_prompt_tokens=num_prompt_tokens,
        num_cached_tokens=num_cached_tokens,
        num_generated_tokens=3,
        peak_memory_bytes=peak,
    )


def reckoned(model: ModelDescription, *, num_read: int | None = None, num_tokens: int | None = None) -> int:
    found = reckoned_peak(model, num_read=num_read, num_tokens=num_tokens)
    assert found is not None
    return found


def test_nothing_is_added_before_anything_was_measured(record: MemoryRecord, file: Path) -> None:
    assert record.offset_bytes() == 0
    assert not file.exists()


def test_one_load_is_enough_to_learn_from(record: MemoryRecord, tiny: Path) -> None:
    model = loaded(tiny)
    record.note(model, reply(reckoned(model) + 7 * MIB))
    assert record.offset_bytes() == 7 * MIB


def test_single_odd_load_changes_little(record: MemoryRecord, tiny: Path) -> None:
    for number, offset in enumerate((5, 6, 25, 7, 6)):
        model = loaded(tiny, n_ctx=512 + 256 * number)
        record.note(model, reply(reckoned(model, num_read=600, num_tokens=603) + offset * MIB))
    assert record.offset_bytes() == 6 * MIB


def test_load_that_is_far_off_is_not_learned_from(record: MemoryRecord, tiny: Path, file: Path) -> None:
    model = loaded(tiny)
    record.note(model, reply(10 * reckoned(model)))
    record.note(model, reply(1))
    assert not file.exists()


@pytest.mark.parametrize(
    ("changes", "metrics"),
    [
        pytest.param({"n_gpu_layers": 1}, {}, id="on graphics"),
        pytest.param({"path": "/gone.gguf"}, {}, id="file that is gone"),
        pytest.param({"path": "a\0b"}, {}, id="path that cannot be"),
    ],
)
def test_reply_that_does_not_tell_is_passed_over(
    record: MemoryRecord, tiny: Path, file: Path, changes: dict[str, object], metrics: dict[str, int]
) -> None:
    model = loaded(tiny)
    record.note(msgspec.structs.replace(model, **changes), reply(reckoned(model) + MIB, **metrics))
    assert not file.exists()


def test_reply_without_a_peak_is_passed_over(record: MemoryRecord, tiny: Path, file: Path) -> None:
    record.note(loaded(tiny), reply(None))
    assert not file.exists()


def test_buffers_that_a_short_chat_does_not_use_are_not_missed(record: MemoryRecord, tiny: Path) -> None:
    model = loaded(tiny, n_ctx=2048)
    part = reckoned(model, num_read=40, num_tokens=103)
    assert part < reckoned(model)
    record.note(model, reply(part + 7 * MIB, num_prompt_tokens=100, num_cached_tokens=60))
    assert record.offset_bytes() == 7 * MIB


def test_what_an_earlier_reply_of_the_load_has_used_stays_used(record: MemoryRecord, tiny: Path) -> None:
    model = loaded(tiny, n_ctx=2048)
    record.note(model, reply(reckoned(model, num_read=600, num_tokens=603) + 7 * MIB))
    peak = reckoned(model, num_read=600, num_tokens=1503) + 7 * MIB
    record.note(model, reply(peak, num_prompt_tokens=1500, num_cached_tokens=1490))
    assert record.offset_bytes() == 7 * MIB
    again = msgspec.structs.replace(model, load_s=0.2)  # another load of it begins anew
    record.note(again, reply(reckoned(model, num_read=10, num_tokens=13) + 5 * MIB, num_prompt_tokens=10))
    assert record.offset_bytes() == 5 * MIB


def test_reply_that_tells_nothing_new_is_not_looked_at(record: MemoryRecord, tiny: Path) -> None:
    model = loaded(tiny)
    assert record.can_learn(model, reply(1))
    record.note(model, reply(reckoned(model) + MIB))
    assert not record.can_learn(model, reply(1))
    assert record.can_learn(model, reply(1, num_prompt_tokens=601))
    assert not record.can_learn(model, reply(None, num_prompt_tokens=9000))


def test_only_the_last_loads_are_kept(record: MemoryRecord, tiny: Path, file: Path) -> None:
    for number in range(40):
        model = loaded(tiny, n_ctx=256 * (number + 1))
        offset = (20 if number < 20 else 3) * MIB
        record.note(model, reply(reckoned(model, num_read=600, num_tokens=603) + offset))
    assert len(json.loads(file.read_text("utf-8"))["loads"]) == 32
    assert record.offset_bytes() == 3 * MIB


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"loads": 3}',
        '{"loads": [3]}',
        '{"loads": [{"key": "a", "reckoned_bytes": -1, "peak_bytes": 5}]}',
        '{"loads": [{"key": "a", "reckoned_bytes": 1e400, "peak_bytes": 5}]}',
        '{"loads": [{"key": "a", "reckoned_bytes": true, "peak_bytes": 5}]}',
        '{"loads": [{"key": "a", "reckoned_bytes": 99999999999999999999999, "peak_bytes": 5}]}',
        "x" * (1 << 19),
        "\udcff",
    ],
    ids=lambda text: text[:30],
)
@pytest.mark.allow_log(r"WARNING app\.memory_record: the record of loads is damaged")
def test_damaged_file_is_set_aside_and_a_new_one_begun(record: MemoryRecord, file: Path, tiny: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert record.offset_bytes() == 0
    assert not file.exists()
    assert (file.parent / "memory-record.json.damaged").exists()
    model = loaded(tiny)
    record.note(model, reply(reckoned(model) + MIB))
    assert record.offset_bytes() == MIB


def test_full_disk_costs_nothing_but_the_lesson(
    record: MemoryRecord, file: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    model = loaded(tiny)
    record.note(model, reply(reckoned(model) + MIB))
    assert record.offset_bytes() == 0
    assert list(file.parent.iterdir()) == []
