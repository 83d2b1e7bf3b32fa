"""The header reader: sound files are read like the oracle reads them, all others refused in little time and memory."""

import io
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import CorruptGGUF, GGUFError, TruncatedGGUF, UnsupportedGGUF
from models.gguf_header import MAX_ARRAY_STRINGS, MAX_KEYS, MAX_TENSORS, Header, HeaderReader
from models.gguf_values import ArrayValue, ValueType
from tests.support.gguf_files import write_tiny_model
from tests.support.hostile_gguf import (
    ARRAY,
    STRING,
    U32,
    header_bytes,
    key_bytes,
    tensor_bytes,
    text_bytes,
)

_MAX_PEAK_BYTES = 50 * 2**20


def read(data: bytes) -> Header:
    return HeaderReader(io.BytesIO(data), len(data), "x.gguf").read()


def test_values_of_every_type_are_read() -> None:
    layouts = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
    keys = [key_bytes(f"k{number}", number, struct.pack("<" + layout, 7)) for number, layout in layouts.items()]
    keys += [key_bytes("flag", 7, b"\x01"), key_bytes("text", STRING, text_bytes("é日👍"))]
    header = read(header_bytes(keys))
    assert [header.values[f"k{number}"] for number in layouts] == [7] * len(layouts)
    assert header.values["flag"] is True
    assert header.values["text"] == "é日👍"


def test_short_numeric_array_is_kept_and_a_long_one_stepped_over() -> None:
    short = key_bytes("short", ARRAY, struct.pack("<IQ3i", 5, 3, 1, -2, 3))
    long = key_bytes("long", ARRAY, struct.pack("<IQ", 5, 600) + b"\0" * 2400)
    header = read(header_bytes([short, long, key_bytes("last", U32, struct.pack("<I", 9))]))
    kept, stepped_over = header.values["short"], header.values["long"]
    assert isinstance(kept, ArrayValue)
    assert isinstance(stepped_over, ArrayValue)
    assert kept.numbers() == (1, -2, 3)
    assert (stepped_over.num_elements, stepped_over.numbers()) == (600, None)
    assert header.values["last"] == 9


def test_strings_that_cross_the_buffer_are_stepped_over() -> None:
    # Three times the buffer, with texts of many lengths, one of them longer than the buffer itself.
    texts = [b"x" * (n * 37 % 4000) for n in range(1500)] + [b"y" * (3 << 20)]
    array = struct.pack("<IQ", STRING, len(texts)) + b"".join(map(text_bytes, texts))
    header = read(header_bytes([key_bytes("a", ARRAY, array), key_bytes("last", U32, struct.pack("<I", 9))]))
    assert header.values["a"] == ArrayValue(ValueType.STRING, len(texts), None)
    assert header.values["last"] == 9


def test_tensors_are_added_up() -> None:
    tensors = [tensor_bytes("a", (32, 2), 8, 0), tensor_bytes("b", (3,), 0, 96)]
    header = read(header_bytes([], tensors, data=b"\0" * (96 + 12)))
    assert (header.num_tensors, header.num_parameters, header.tensor_bytes) == (2, 67, 2 * 34 + 12)


def test_header_agrees_with_the_oracle(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", vocab="spm")
    header = read(path.read_bytes())
    oracle = gguf.GGUFReader(path)
    theirs: dict[str, Any] = {
        name: field.contents() for name, field in oracle.fields.items() if not name.startswith("GGUF.")
    }
    assert set(header.values) == set(theirs)
    scalars = {name: value for name, value in header.values.items() if not isinstance(value, ArrayValue)}
    assert {name: theirs[name] for name in scalars} == pytest.approx(scalars)
    assert header.num_tensors == len(oracle.tensors)
    assert header.tensor_bytes == sum(tensor.n_bytes for tensor in oracle.tensors)


@pytest.mark.parametrize("removed", [1, 20, 31])
def test_file_without_its_last_bytes_is_cut_off(tmp_path: Path, removed: int) -> None:
    data = write_tiny_model(tmp_path / "tiny.gguf").read_bytes()
    with pytest.raises(TruncatedGGUF, match=f"ends at byte {len(data) - removed:,}"):
        read(data[:-removed])


def test_file_cut_anywhere_in_its_header_is_refused(tmp_path: Path) -> None:
    data = write_tiny_model(tmp_path / "tiny.gguf").read_bytes()
    for end in range(24, 9000, 61):
        with pytest.raises(GGUFError):
            read(data[:end])


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (header_bytes(num_keys=MAX_KEYS + 1), CorruptGGUF),
        (header_bytes(num_tensors=MAX_TENSORS + 1), CorruptGGUF),
        (header_bytes([key_bytes("a" * 65_536, U32, b"\0" * 4)]), CorruptGGUF),
        (header_bytes([], [tensor_bytes(tensor_type=36)], data=b"\0" * 64), UnsupportedGGUF),
        (header_bytes([], [tensor_bytes(tensor_type=200)], data=b"\0" * 64), UnsupportedGGUF),
        (header_bytes([], [tensor_bytes(tensor_type=2**31)], data=b"\0" * 64), CorruptGGUF),
        (header_bytes([], [tensor_bytes("a"), tensor_bytes("b", offset=16)], data=b"\0" * 64), CorruptGGUF),
        (header_bytes([key_bytes("general.alignment", 6, struct.pack("<f", 32))]), CorruptGGUF),
    ],
    ids=["keys", "tensors", "key of 64 KiB", "removed type", "new type", "no type", "gap", "float alignment"],
)
def test_limits_are_kept(data: bytes, error: type[GGUFError]) -> None:
    with pytest.raises(error, match=r"x\.gguf"):
        read(data)


def test_message_names_the_tensor_and_is_harmless_on_a_terminal() -> None:
    with pytest.raises(CorruptGGUF) as caught:
        read(header_bytes([], [tensor_bytes("a\x1b[31m", (0,))], data=b"\0" * 64))
    assert "\x1b" not in caught.value.message
    assert "a\\x1b" in caught.value.message


def _peak_of(data: bytes) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(GGUFError):
            read(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_stays_small_with_many_long_keys() -> None:
    keys = [key_bytes(f"{n:05d}" + "k" * 60_000, U32, b"\0" * 4) for n in range(1200)]
    assert _peak_of(header_bytes(keys)) < _MAX_PEAK_BYTES


def test_memory_stays_small_with_many_arrays() -> None:
    payload = struct.pack("<IQ", 10, 512) + b"\xff" * 4096
    keys = [key_bytes(f"k{n}", ARRAY, payload) for n in range(6000)]
    assert _peak_of(header_bytes(keys)) < _MAX_PEAK_BYTES


def test_number_of_texts_is_limited() -> None:
    count = MAX_ARRAY_STRINGS + 1
    array = struct.pack("<IQ", STRING, count) + bytes(8 * count)
    with pytest.raises(CorruptGGUF, match="more than any vocabulary"):
        read(header_bytes([key_bytes("a", ARRAY, array)]))


@pytest.fixture(scope="module")
def tiny_header(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_tiny_model(tmp_path_factory.mktemp("gguf") / "tiny.gguf", n_layer=1).read_bytes()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_header_raises_nothing_but_its_own_errors(tiny_header: bytes, data: st.DataObject) -> None:
    mutated = bytearray(tiny_header)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(4, 12_000))
        replacement = data.draw(
            st.one_of(
                st.binary(min_size=1, max_size=12),
                st.sampled_from([b"\xff" * 8, b"\0" * 8, struct.pack("<Q", 2**62), struct.pack("<Q", 2**31)]),
            )
        )
        mutated[position : position + len(replacement)] = replacement
    del mutated[data.draw(st.integers(24, len(mutated))) if data.draw(st.booleans()) else len(mutated) :]
    try:
        read(bytes(mutated))
    except GGUFError as error:
        assert error.message.startswith("x.gguf ")
        assert error.message.endswith(".")
        assert error.hint


@settings(max_examples=200)
@given(body=st.binary(max_size=400))
def test_noise_behind_the_magic_raises_nothing_but_its_own_errors(body: bytes) -> None:
    data = b"GGUF\x03\0\0\0" + body.ljust(16, b"\0")
    try:
        read(data)
    except GGUFError as error:
        assert error.message
