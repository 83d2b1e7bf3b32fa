"""Every block of every tensor: what is no number is found, wherever it lies in a block."""

import struct
from pathlib import Path

import gguf
import numpy
import pytest

from models import GGUFError, TruncatedGGUF, read_contents, verify_file
from models.quant_types import BLOCK_SIZES, TensorType
from models.verifying import _SCALES
from tests.support.gguf_files import write_tiny_model
from tests.support.hostile_gguf import header_bytes, tensor_bytes
from tests.support.small_models import text_key

_NOT_FINITE = {
    "f2": struct.pack("<H", 0x7C00),
    "b2": struct.pack("<H", 0xFF81),
    "f4": struct.pack("<f", float("nan")),
    "f8": struct.pack("<d", float("-inf")),
    "e1": b"\xff",
    "m2": struct.pack("<4H", 0, 0, 0xC000, 0x7000),
}


def _file(path: Path, tensor_type: TensorType, data: bytes) -> Path:
    block = BLOCK_SIZES[tensor_type]
    entry = tensor_bytes("t.weight", (len(data) // block.num_bytes * block.num_elements,), int(tensor_type))
    path.write_bytes(
        header_bytes([text_key("general.architecture", "clip")], [entry], data=data + b"\0" * (-len(data) % 32))
    )
    return path


def test_sound_file_is_sound_and_every_block_was_looked_at(starter_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    check = verify_file(starter_path, on_progress=lambda done, total: seen.append((done, total)))
    contents = read_contents(starter_path)
    assert check.is_sound
    assert check.num_tensors == len(contents.tensors)
    assert check.num_blocks == sum(
        tensor.num_bytes // BLOCK_SIZES[TensorType[tensor.type_name]].num_bytes for tensor in contents.tensors
    )
    assert seen[-1] == (contents.info.weight_bytes, contents.info.weight_bytes)


@pytest.mark.parametrize("tensor_type", _SCALES, ids=lambda kind: kind.name)
def test_scale_that_is_no_number_is_found_in_every_type(tmp_path: Path, tensor_type: TensorType) -> None:
    size = BLOCK_SIZES[tensor_type].num_bytes
    sound = bytes([0x11]) * size * 5
    assert verify_file(_file(tmp_path / "sound.gguf", tensor_type, sound)).is_sound
    for at, kind in _SCALES[tensor_type]:
        data = bytearray(sound)
        bad = _NOT_FINITE[kind]
        data[3 * size + at : 3 * size + at + len(bad)] = bad
        path = _file(tmp_path / "bad.gguf", tensor_type, bytes(data))
        check = verify_file(path)
        assert not check.is_sound
        [found] = check.bad_tensors
        assert (found.name, found.num_bad_blocks, found.num_blocks) == ("t.weight", 1, 5)
        [tensor] = read_contents(path).tensors
        assert found.first_position == tensor.position + 3 * size


def test_scales_lie_where_the_oracle_reads_them(tmp_path: Path) -> None:
    # Random blocks: what dequantises to something that is no number has a scale that is none, and the other way round.
    random = numpy.random.default_rng(3)
    for tensor_type in _SCALES:
        kind = gguf.GGMLQuantizationType(int(tensor_type))
        blocks = random.integers(0, 256, (400, BLOCK_SIZES[tensor_type].num_bytes), numpy.uint8)
        if tensor_type in (TensorType.F64, TensorType.Q8_1, TensorType.Q8_K, TensorType.MXFP4):
            continue  # the oracle does not read them, or gives what is no number a value
        with numpy.errstate(all="ignore"):
            values = gguf.quants.dequantize(blocks, kind)
        expected = ~numpy.isfinite(values.reshape(400, -1)).all(axis=1)
        check = verify_file(_file(tmp_path / "x.gguf", tensor_type, blocks.tobytes()))
        found = sum(bad.num_bad_blocks for bad in check.bad_tensors)
        assert (tensor_type.name, found) == (tensor_type.name, int(expected.sum()))


def test_matrix_of_zeros_is_told(tmp_path: Path) -> None:
    path = _file(tmp_path / "x.gguf", TensorType.F32, b"\0" * (1 << 17))
    check = verify_file(path)
    assert (check.zero_tensors, check.is_sound) == (("t.weight",), False)


def test_check_ends_when_it_is_cancelled(starter_path: Path) -> None:
    check = verify_file(starter_path, is_cancelled=lambda: True)
    assert (check.is_complete, check.is_sound, check.num_tensors) == (False, False, 0)


def test_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "x.gguf")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TruncatedGGUF):
        verify_file(path)


def test_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_text("hello")
    with pytest.raises(GGUFError):
        verify_file(tmp_path / "x.gguf")
