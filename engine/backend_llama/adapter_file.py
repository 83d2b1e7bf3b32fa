"""What is checked of a LoRA adapter's file before llama.cpp opens it.

Much of what llama.cpp takes on trust there ends the process: keys of another type, weights it cannot multiply by, a
third dimension. Weights that are not numbers would spoil the cache for other chats.
"""

import math
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.errors import AdapterMismatch

_MAX_KEYS = _MAX_TENSORS = 1 << 16
_MAX_ARRAY_TEXTS = 1 << 20
_MAX_NAME_BYTES, _MAX_VALUE_BYTES = 1 << 16, 1 << 16
_MAX_ALPHA = 1e6
_MAX_WEIGHT = 1e4  # trained ones are below 10
_MAX_ALIGNMENT = 1 << 16
_READ_BYTES = 34 << 17  # whole blocks of every type
_U32, _F32, _STRING, _ARRAY = 4, 6, 8, 9
_VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, _U32: 4, 5: 4, _F32: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_CHOOSE = "Choose a LoRA adapter in GGUF format that was trained on this model."
_AGAIN = "Download or convert it again."


class AdapterFile(NamedTuple):
    """A file that is there.

    Attributes:
        identity: tells it from any other file, and from what stands at its path later.
    """

    path: Path
    num_bytes: int
    identity: str

    @property
    def name(self) -> str:
        """How a person is told of it."""
        return printable(self.path.name[:80])


class _Tensor(NamedTuple):
    name: str
    shape: tuple[int, ...]
    tensor_type: int
    offset: int

    def num_bytes(self, block: "_Block") -> int:
        return math.prod(self.shape) // block.num_elements * block.num_bytes


class _Block(NamedTuple):
    """How a tensor type is stored, and how to read the numbers that tell how large its values get."""

    num_elements: int
    num_bytes: int
    numbers: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.floating]]


def _numbers_bf16(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _numbers_q8_0(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return data.reshape(-1, 34)[:, :2].copy().view("<f2").astype(np.float32) * 127


# By llama.cpp's number of the type; these are what adapters are converted to.
_BLOCKS = {
    0: _Block(1, 4, lambda data: data.view("<f4")),
    1: _Block(1, 2, lambda data: data.view("<f2")),
    8: _Block(32, 34, _numbers_q8_0),
    30: _Block(1, 2, _numbers_bf16),
}


class _Damaged(Exception):
    """The file breaks its own format; the text says how."""


def printable(text: str) -> str:
    """Return text from a file or a path as a sentence can hold it."""
    return "".join(character if character.isprintable() else "?" for character in text)


def find_adapter(path: str) -> AdapterFile:
    """Return what stands at a path now.

    Raises:
        AdapterMismatch: there is no file.
    """
    try:
        resolved = Path(path).resolve()
        found = resolved.stat()
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL; RuntimeError: links in a circle
        raise AdapterMismatch(f"There is no adapter file {printable(path)}.", "Check the path.", str(error)) from error
    if not stat.S_ISREG(found.st_mode):
        raise AdapterMismatch(f"{printable(path)} is not a file.", _CHOOSE)
    return AdapterFile(resolved, found.st_size, f"{resolved}:{found.st_size}:{found.st_mtime_ns}")


def check_adapter(file: AdapterFile, architecture: str, num_experts: int) -> None:
    """Read all of an adapter's file and make sure that llama.cpp can open it.

    Args:
        architecture, num_experts: of the model, 0 where it has none.

    Raises:
        AdapterMismatch: it cannot be read, is no adapter, or not one for this model.
    """
    try:
        with file.path.open("rb") as stream:
            reader = _Reader(stream, file.num_bytes)
            num_tensors, keys = _read_head(file, reader)
            _check_keys(file, keys, architecture)
            tensors = [_read_tensor(reader) for _ in range(num_tensors)]
            if not tensors:
                raise AdapterMismatch(f"{file.name} changes nothing: it holds no weights.", _CHOOSE)
            for tensor in tensors:
                _check_tensor(file, tensor, num_experts)
            _check_data(reader, tensors, _alignment(keys))
    except OSError as error:
        raise AdapterMismatch(
            f"{file.name} cannot be read ({error.strerror}).", "Check the file and its disk.", str(error)
        ) from error
    except _Damaged as error:
        raise AdapterMismatch(f"The adapter {file.name} is damaged: {error}.", _AGAIN) from error


class _Reader:
    """Reads a file from its beginning; whatever would lie past its end is damage."""

    def __init__(self, stream: BinaryIO, num_bytes: int) -> None:
        self._stream = stream
        self._num_bytes = num_bytes

    def check_room(self, end: int) -> None:
        """Make sure that the file reaches up to `end`."""
        if end > self._num_bytes:
            raise _Damaged("it ends too early")

    def tell(self) -> int:
        """Return how far it is read."""
        return self._stream.tell()

    def seek(self, position: int) -> None:
        """Go on from another place."""
        self._stream.seek(position)

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        self.check_room(self._stream.tell() + count)
        data = self._stream.read(count)
        if len(data) != count:  # it became shorter
            raise _Damaged("it ends too early")
        return data

    def skip(self, count: int) -> None:
        """Pass over the next bytes."""
        self.check_room(self._stream.tell() + count)
        self._stream.seek(count, os.SEEK_CUR)

    def number(self, form: str) -> int:
        """Return a whole number, in the letters of `struct`."""
        return int(struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0])

    def text(self, limit: int) -> str:
        """Return a text."""
        length = self.number("Q")
        if length > limit:
            raise _Damaged("a text in it is too long")
        return self.take(length).decode("utf-8", "replace")


# The type of a value, and the value itself where it is a short text or a number that is needed.
_Keys = dict[str, tuple[int, str | int | float | None]]


def _read_head(file: AdapterFile, reader: _Reader) -> tuple[int, _Keys]:
    if file.num_bytes < 4 or reader.take(4) != b"GGUF":
        raise AdapterMismatch(f"{file.name} is not a GGUF file.", _CHOOSE)
    version, num_tensors, num_keys = reader.number("I"), reader.number("Q"), reader.number("Q")
    if version not in (2, 3):
        raise AdapterMismatch(f"{file.name} is in a version of GGUF that is not known here.", _AGAIN)
    if num_tensors > _MAX_TENSORS or num_keys > _MAX_KEYS:
        raise _Damaged("its counts are absurd")
    keys: _Keys = {}
    for _ in range(num_keys):
        name = reader.text(_MAX_NAME_BYTES)
        if not name or name in keys:
            raise _Damaged("a key is empty or there twice")
        value_type = reader.number("I")
        keys[name] = value_type, _read_value(reader, value_type)
    return num_tensors, keys


def _read_value(reader: _Reader, value_type: int) -> str | int | float | None:
    if value_type == _STRING:
        length = reader.number("Q")
        if length <= _MAX_VALUE_BYTES:
            return reader.take(length).decode("utf-8", "replace")
        reader.skip(length)
    elif value_type == _ARRAY:
        _skip_array(reader)
    elif value_type == _U32:
        return reader.number("I")
    elif value_type == _F32:
        return float(struct.unpack("<f", reader.take(4))[0])
    elif value_type in _VALUE_BYTES:
        reader.skip(_VALUE_BYTES[value_type])
    else:
        raise _Damaged("a value is of no known type")
    return None


def _skip_array(reader: _Reader) -> None:
    element_type, count = reader.number("I"), reader.number("Q")
    if element_type in _VALUE_BYTES:
        reader.skip(count * _VALUE_BYTES[element_type])
    elif element_type == _STRING and count <= _MAX_ARRAY_TEXTS:
        for _ in range(count):
            reader.skip(reader.number("Q"))
    else:
        raise _Damaged("a list in it is of no known type")


def _check_keys(file: AdapterFile, keys: _Keys, architecture: str) -> None:
    if keys.get("general.type") != (_STRING, "adapter"):
        raise AdapterMismatch(f"{file.name} is not an adapter.", _CHOOSE)
    if keys.get("adapter.type") != (_STRING, "lora"):
        raise AdapterMismatch(f"{file.name} is an adapter of another kind than LoRA.", _CHOOSE)
    if "adapter.alora.invocation_tokens" in keys:
        raise AdapterMismatch(
            f"{file.name} is an activated LoRA (aLoRA), which this version cannot use.", "Choose a plain LoRA adapter."
        )
    value_type, found = keys.get("general.architecture", (_STRING, ""))
    if value_type != _STRING or not isinstance(found, str):
        raise _Damaged("it does not name an architecture")
    if found != architecture:
        raise AdapterMismatch(
            f"{file.name} is for the architecture `{printable(found[:40])}`; the model is `{architecture}`.", _CHOOSE
        )
    value_type, alpha = keys.get("adapter.lora.alpha", (_F32, 0.0))
    # Written so that it also refuses what is not a number.
    if value_type != _F32 or not isinstance(alpha, float) or not abs(alpha) <= _MAX_ALPHA:
        raise _Damaged("its alpha is absurd")


def _alignment(keys: _Keys) -> int:
    value_type, alignment = keys.get("general.alignment", (_U32, 32))
    if value_type != _U32 or not isinstance(alignment, int):
        raise _Damaged("its alignment is not a number")
    if not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
        raise _Damaged("its alignment is absurd")
    return alignment


def _read_tensor(reader: _Reader) -> _Tensor:
    name = reader.text(_MAX_NAME_BYTES)
    num_dimensions = reader.number("I")
    if not 1 <= num_dimensions <= 4:
        raise _Damaged("a weight has too many dimensions")
    shape = tuple(reader.number("Q") for _ in range(num_dimensions))
    if not all(0 < size < 1 << 31 for size in shape):
        raise _Damaged("a weight has an absurd size")
    return _Tensor(name, shape, reader.number("I"), reader.number("Q"))


def _check_tensor(file: AdapterFile, tensor: _Tensor, num_experts: int) -> None:
    name = printable(tensor.name[:80])
    base = tensor.name.removesuffix(".lora_a").removesuffix(".lora_b")
    if base == tensor.name:
        if not tensor.name.endswith("_norm.weight"):  # these are passed over
            raise AdapterMismatch(f"{file.name} is not a LoRA adapter: it holds the weight `{name}`.", _CHOOSE)
    elif ".lora_" in base:
        raise _Damaged("a weight has an absurd name")
    elif base.endswith("token_embd.weight"):  # it would end the process where the model's output uses the same weight
        raise AdapterMismatch(
            f"{file.name} changes the token embedding, which this version cannot do.",
            "Choose an adapter of attention and feed-forward weights only.",
        )
    block = _BLOCKS.get(tensor.tensor_type)
    if block is None or tensor.shape[0] % block.num_elements:
        raise AdapterMismatch(
            f"{file.name} holds `{name}` in a type that adapters cannot have.", "Convert it to F32, F16, BF16 or Q8_0."
        )
    further = num_experts if base.endswith("exps.weight") else 1
    if (*tensor.shape, 1, 1)[2:4] != (further, 1) and base != tensor.name:
        raise AdapterMismatch(f"{file.name} does not fit this model: `{name}` has a shape of its own.", _CHOOSE)


def _check_data(reader: _Reader, tensors: list[_Tensor], alignment: int) -> None:
    begin, expected = _aligned(reader.tell(), alignment), 0
    for tensor in tensors:
        left = tensor.num_bytes(block := _BLOCKS[tensor.tensor_type])
        if tensor.offset != expected:
            raise _Damaged("its weights do not follow one another")
        expected = _aligned(expected + left, alignment)
        reader.check_room(begin + tensor.offset + left)
        reader.seek(begin + tensor.offset)
        while left:
            data = reader.take(min(left, _READ_BYTES))
            left -= len(data)
            largest = np.abs(block.numbers(np.frombuffer(data, np.uint8))).max()
            if not largest <= _MAX_WEIGHT:  # so that it also refuses what is not a number
                raise _Damaged("its weights are not all numbers, or absurdly large")


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment
