"""Which model a file holds: the same wherever it lies, another for any other, and quick whatever its size."""

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from models import NotGGUF, fingerprint, read_gguf_info, template_hash
from tests.support.gguf_files import edit_gguf, write_tiny_model

TEMPLATE = "tokenizer.chat_template"
SAMPLE = 16 * 1024
GIB = 2**30


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny.gguf")


def of(path: Path) -> str:
    return fingerprint(read_gguf_info(path))


def test_name_place_and_time_do_not_matter(tiny: Path) -> None:
    folder = tiny.parent / "elsewhere"
    folder.mkdir()
    copy = folder / "other name.gguf"
    copy.write_bytes(tiny.read_bytes())
    os.utime(copy, (0, 0))
    assert of(copy) == of(tiny)
    assert len(of(tiny)) == 64
    assert set(of(tiny)) <= set("0123456789abcdef")


def with_byte_changed(path: Path, position: int) -> Path:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    changed = path.with_name("changed.gguf")
    changed.write_bytes(data)
    return changed


@pytest.mark.parametrize(
    "change",
    [
        lambda tiny: edit_gguf(tiny, tiny.with_name("x.gguf"), set={"general.name": "x"}),
        lambda tiny: edit_gguf(tiny, tiny.with_name("x.gguf"), set={TEMPLATE: "{{ messages }}"}),
        lambda tiny: with_byte_changed(tiny, read_gguf_info(tiny).header_bytes + 64),
        lambda tiny: with_byte_changed(tiny, tiny.stat().st_size - 1),
        lambda tiny: append(tiny, b"\0"),
    ],
    ids=["metadata", "template", "first tensor", "last byte", "length"],
)
def test_other_content_gives_another_fingerprint(tiny: Path, change: Callable[[Path], Path]) -> None:
    before = of(tiny)
    assert of(change(tiny)) != before


def append(path: Path, data: bytes) -> Path:
    with path.open("ab") as file:
        file.write(data)
    return path


def test_samples_lie_where_they_are_said_to(tiny: Path) -> None:
    info = read_gguf_info(tiny)
    large = tiny.with_name("large.gguf")
    head = tiny.read_bytes()[: info.header_bytes]
    rest = bytes(range(256)) * 8192  # 2 MiB
    large.write_bytes(head + rest)
    expected = hashlib.sha256((len(head) + len(rest)).to_bytes(8, "little") + len(head).to_bytes(8, "little") + head)
    for number in range(16):
        at = (len(rest) - SAMPLE) * number // 15
        expected.update(rest[at : at + SAMPLE])
    assert fingerprint(dataclasses.replace(info, path=large)) == expected.hexdigest()


def test_short_file_is_hashed_whole(tiny: Path) -> None:
    info = read_gguf_info(tiny)
    data = tiny.read_bytes()[: info.header_bytes] + b"tensors" * (16 * SAMPLE // 7)
    short = tiny.with_name("short.gguf")
    short.write_bytes(data)
    sizes = len(data).to_bytes(8, "little") + info.header_bytes.to_bytes(8, "little")
    assert fingerprint(dataclasses.replace(info, path=short)) == hashlib.sha256(sizes + data).hexdigest()


def test_file_of_many_gigabytes_takes_no_time(tiny: Path) -> None:
    info = read_gguf_info(tiny)
    large = tiny.with_name("large.gguf")
    large.write_bytes(tiny.read_bytes())
    with large.open("ab") as file:
        file.truncate(40 * GIB)  # takes no room
    began = time.thread_time()
    fingerprint(dataclasses.replace(info, path=large))
    assert time.thread_time() - began < 0.25  # the aim is 0.05


def split_model(tiny: Path) -> list[Path]:
    return [
        edit_gguf(tiny, tiny.with_name(f"m-0000{number + 1}-of-00002.gguf"), set={"split.no": number, "split.count": 2})
        for number in range(2)
    ]


def test_every_part_of_a_split_model_counts(tiny: Path) -> None:
    first, second = split_model(tiny)
    before = of(first)
    data = bytearray(second.read_bytes())
    data[-1] ^= 1
    second.write_bytes(data)
    assert of(first) != before


def test_part_that_is_gone_is_told(tiny: Path) -> None:
    first, second = split_model(tiny)
    info = read_gguf_info(first)
    second.unlink()
    with pytest.raises(FileNotFoundError):
        fingerprint(info)
    second.mkdir()
    with pytest.raises(NotGGUF, match="m-00002-of-00002"):
        fingerprint(info)


@pytest.mark.parametrize("num_bytes", [0, 1, 100, 100_000], ids=str)
def test_file_that_became_shorter_meanwhile_has_another_fingerprint(tiny: Path, num_bytes: int) -> None:
    info = read_gguf_info(tiny)
    before = fingerprint(info)
    os.truncate(tiny, num_bytes)
    assert fingerprint(info) != before
    template_hash(info)


def test_template_is_hashed_as_its_text(tiny: Path) -> None:
    text = "{# grüße 日本 #}" + "{{ messages }}" * 2000
    path = edit_gguf(tiny, tiny.with_name("x.gguf"), set={TEMPLATE: text})
    assert template_hash(read_gguf_info(path)) == hashlib.sha256(text.encode()).hexdigest()


def test_template_hash_does_not_depend_on_the_rest(tiny: Path) -> None:
    path = edit_gguf(tiny, tiny.with_name("x.gguf"), set={"general.name": "another name"})
    assert template_hash(read_gguf_info(path)) == template_hash(read_gguf_info(tiny)) != ""
    assert of(path) != of(tiny)


def test_file_without_template_has_no_template_hash(tiny: Path) -> None:
    without = edit_gguf(tiny, tiny.with_name("x.gguf"), remove={TEMPLATE})
    empty = edit_gguf(tiny, tiny.with_name("y.gguf"), set={TEMPLATE: ""})
    assert [template_hash(read_gguf_info(path)) for path in (without, empty)] == ["", ""]
