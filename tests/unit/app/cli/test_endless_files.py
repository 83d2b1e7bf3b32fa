"""Files without an end in sight, as devices are, cost one sentence and no more memory than a text may have."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.bench import record
from app.cli import streams
from app.errors import UsageError

_ZEROS = Path("/dev/zero")


def _read_text(path: Path) -> object:
    return streams.read_text_file(str(path))


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MAX_TEXT_BYTES", 1 << 20)
    monkeypatch.setattr(record, "_MAX_FILE_BYTES", 1 << 20)


@pytest.mark.parametrize("read", [_read_text, record.read_record], ids=["text", "record"])
def test_file_is_refused_when_it_is_larger_than_any(read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(UsageError, match=r"larger than|too large"):
        read(path)
    if _ZEROS.exists():
        with pytest.raises(UsageError, match=r"larger than|too large"):
            read(_ZEROS)


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_text_is_whole_when_it_is_as_long_as_one_may_be(size: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * size)
    assert streams.read_text_file(str(tmp_path / "a")) == "x" * size
