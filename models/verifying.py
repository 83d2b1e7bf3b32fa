"""Checks every block of every tensor of a file: whether its scales are numbers, as llama.cpp's own check does.

A download that went wrong, or a failing disk, often leaves a header that is sound and weights that are not; the model
then answers noise. The positions of scales in a block are those of ggml-common.h.
"""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from models.errors import TruncatedGGUF
from models.gguf_info import printable, read_header
from models.quant_types import BLOCK_SIZES, TensorType
from models.tensor_entry import TensorEntry

if TYPE_CHECKING:
    from numpy import ndarray

_CHUNK_BYTES = 4 * 2**20
_MAX_NAMED = 100
_WHOLE_MATRIX_BYTES = 1 << 16  # smaller tensors may well be zero: biases, norms that start there

# For each type, where in a block its scales lie and how they are written: f2 and f4 are IEEE, b2 is bfloat16, e1 the
# exponent of MXFP4, m2 the scale that IQ1_M spreads over four words.
_HALF = "f2"
_SCALES: dict[TensorType, tuple[tuple[int, str], ...]] = {
    TensorType.F32: ((0, "f4"),),
    TensorType.F64: ((0, "f8"),),
    TensorType.F16: ((0, _HALF),),
    TensorType.BF16: ((0, "b2"),),
    TensorType.Q4_0: ((0, _HALF),),
    TensorType.Q4_1: ((0, _HALF), (2, _HALF)),
    TensorType.Q5_0: ((0, _HALF),),
    TensorType.Q5_1: ((0, _HALF), (2, _HALF)),
    TensorType.Q8_0: ((0, _HALF),),
    TensorType.Q8_1: ((0, _HALF), (2, _HALF)),
    TensorType.Q2_K: ((80, _HALF), (82, _HALF)),
    TensorType.Q3_K: ((108, _HALF),),
    TensorType.Q4_K: ((0, _HALF), (2, _HALF)),
    TensorType.Q5_K: ((0, _HALF), (2, _HALF)),
    TensorType.Q6_K: ((208, _HALF),),
    TensorType.Q8_K: ((0, "f4"),),
    TensorType.TQ1_0: ((52, _HALF),),
    TensorType.TQ2_0: ((64, _HALF),),
    TensorType.IQ1_S: ((0, _HALF),),
    TensorType.IQ1_M: ((48, "m2"),),
    TensorType.IQ2_XXS: ((0, _HALF),),
    TensorType.IQ2_XS: ((0, _HALF),),
    TensorType.IQ2_S: ((0, _HALF),),
    TensorType.IQ3_XXS: ((0, _HALF),),
    TensorType.IQ3_S: ((0, _HALF),),
    TensorType.IQ4_NL: ((0, _HALF),),
    TensorType.IQ4_XS: ((0, _HALF),),
    TensorType.MXFP4: ((0, "e1"),),
}
# Integer type that a scale is read as, and the bits that are all set in infinities and in what is no number.
_PATTERNS = {"f2": ("<u2", 0x7C00), "b2": ("<u2", 0x7F80), "f4": ("<u4", 0x7F80_0000), "f8": ("<u8", 0x7FF << 52)}


@dataclasses.dataclass(frozen=True)
class BadTensor:
    """A tensor with blocks that hold no numbers.

    Attributes:
        first_position: where in the file the first such block begins.
    """

    name: str
    num_bad_blocks: int
    num_blocks: int
    first_position: int


@dataclasses.dataclass(frozen=True)
class FileCheck:
    """What a check of a file found.

    Attributes:
        bad_tensors: at most a hundred of them.
        zero_tensors: names of large tensors in which every byte is zero, as an interrupted download leaves them.
        is_complete: False where the check was cancelled.
    """

    num_tensors: int
    num_blocks: int
    num_bad_tensors: int
    bad_tensors: tuple[BadTensor, ...]
    zero_tensors: tuple[str, ...]
    is_complete: bool

    @property
    def is_sound(self) -> bool:
        """Whether all was looked at and nothing was wrong."""
        return self.is_complete and not self.num_bad_tensors and not self.zero_tensors


def verify_file(
    path: Path,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> FileCheck:
    """Check header and data of one file; of a split model, each part is checked on its own.

    Args:
        on_progress: gets the bytes that were checked, and all bytes of tensors.

    Raises:
        GGUFError: the header is not sound, or the file ends before its data do.
        OSError: it cannot be read.
    """
    tensors: list[TensorEntry] = []
    info, header = read_header(path, tensors.append)
    bad: list[BadTensor] = []
    zero: list[str] = []
    num_checked = num_blocks = num_bytes_done = num_bad = 0
    is_complete = True
    with path.open("rb", buffering=0) as file:
        for tensor in tensors:
            found = _TensorCheck(tensor, header.data_start + tensor.offset)
            for num_bytes in found.run(file, printable(path.name)):
                num_bytes_done += num_bytes
                if on_progress is not None:
                    on_progress(num_bytes_done, info.weight_bytes)
                if is_cancelled is not None and is_cancelled():
                    is_complete = False
                    break
            num_blocks += found.num_blocks
            num_checked += is_complete
            if found.num_bad_blocks:
                num_bad += 1
                bad += [found.result()] if len(bad) < _MAX_NAMED else []
            if is_complete and found.is_zero and tensor.num_bytes >= _WHOLE_MATRIX_BYTES:
                zero += [found.name] if len(zero) < _MAX_NAMED else []
            if not is_complete:
                break
    return FileCheck(num_checked, num_blocks, num_bad, tuple(bad), tuple(zero), is_complete)


class _TensorCheck:
    """Looks at the blocks of one tensor."""

    def __init__(self, tensor: TensorEntry, position: int) -> None:
        self.name = printable(tensor.name.decode("utf-8", "replace"))
        self.num_blocks = 0
        self.num_bad_blocks = 0
        self.is_zero = True
        self._tensor = tensor
        self._position = position
        self._first_position = 0

    def run(self, file: BinaryIO, file_name: str) -> Iterator[int]:
        """Check chunk by chunk; yields the bytes of each."""
        import numpy  # takes long to import, and nothing else here needs it

        block_bytes = BLOCK_SIZES[self._tensor.tensor_type].num_bytes
        left, position = self._tensor.num_bytes, self._position
        chunk_bytes = _CHUNK_BYTES // block_bytes * block_bytes
        file.seek(position)
        while left:
            data = _read_whole(file, min(chunk_bytes, left))
            if len(data) < min(chunk_bytes, left):
                raise TruncatedGGUF(f"{file_name} has become shorter while it was read.", "Try again.")
            blocks = numpy.frombuffer(data, numpy.uint8).reshape(-1, block_bytes)
            is_bad = _are_bad(blocks, self._tensor.tensor_type)
            num_bad = int(is_bad.sum())
            if num_bad and not self.num_bad_blocks:
                self._first_position = position + int(is_bad.argmax()) * block_bytes
            self.num_bad_blocks += num_bad
            self.num_blocks += len(blocks)
            self.is_zero = self.is_zero and not blocks.any()
            left -= len(data)
            position += len(data)
            yield len(data)

    def result(self) -> BadTensor:
        """Return what was found wrong."""
        return BadTensor(self.name, self.num_bad_blocks, self.num_blocks, self._first_position)


def _read_whole(file: BinaryIO, num_bytes: int) -> bytes:
    pieces = []
    while num_bytes > 0 and (data := file.read(num_bytes)):
        pieces.append(data)
        num_bytes -= len(data)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _are_bad(blocks: "ndarray[Any, Any]", tensor_type: TensorType) -> "ndarray[Any, Any]":
    """Return for each block whether one of its scales is infinite or no number."""
    import numpy

    is_bad = numpy.zeros(len(blocks), bool)
    for at, kind in _SCALES.get(tensor_type, ()):
        if kind == "e1":
            is_bad |= blocks[:, at] == 0xFF
        elif kind == "m2":
            words = numpy.ascontiguousarray(blocks[:, at : at + 8]).view("<u2")
            # The upper nibbles of the words make the scale, the last word its highest: five bits of them its exponent.
            is_bad |= ((words[:, 3] >> 12) & 7 == 7) & ((words[:, 2] >> 12) & 0xC == 0xC)
        else:
            layout, bits = _PATTERNS[kind]
            size = int(layout[-1])
            numbers = numpy.ascontiguousarray(blocks[:, at : at + size]).view(layout)[:, 0]
            is_bad |= (numbers & numbers.dtype.type(bits)) == bits
    return is_bad
