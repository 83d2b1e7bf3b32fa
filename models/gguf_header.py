"""The layout of a GGUF header: reads keys, values and tensor entries of an untrusted file, never tensor data.

Every number in the file is checked against the file's size before it is used, array payloads are stepped over, and
what is kept has a fixed budget, so that time and memory stay small whatever the file claims.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import dataclasses
import struct
from collections.abc import Callable
from typing import BinaryIO, NoReturn

from models.errors import CorruptGGUF, TruncatedGGUF, UnsupportedGGUF
from models.gguf_values import SCALARS, ArrayValue, Value, ValueType
from models.quant_types import BLOCK_SIZES, TensorType
from models.tensor_entry import TensorEntry

MAGIC = b"GGUF"
MAX_KEYS = 65_536
MAX_TENSORS = 100_000
MAX_KEY_BYTES = 65_535  # by the format
MAX_NAME_BYTES = 63  # ggml holds 64 with the final NUL
MAX_DIMENSIONS = 4
MAX_ARRAY_STRINGS = 4_000_000  # five times the largest vocabulary with its merges
MAX_KEPT_BYTES = 16 * 2**20
MAX_KEPT_STRING_BYTES = 1024
CHAT_TEMPLATE_KEY = "tokenizer.chat_template"
MAX_KEPT_ARRAY_ELEMENTS = 512  # per-layer values; llama.cpp has no more layers
DEFAULT_ALIGNMENT = 32

_CHUNK_BYTES = 1 << 20
_ENTRY_OVERHEAD_BYTES = 128  # what Python holds beside the bytes of a key or a name
_MIN_KEY_ENTRY_BYTES = 8 + 1 + 4 + 1
_MIN_TENSOR_ENTRY_BYTES = 8 + 1 + 4 + 4 + 8
_REMOVED_TYPES = frozenset({4, 5, 31, 32, 33, 36, 37, 38})
_KNOWN_TYPES = {int(known): known for known in TensorType}
# What follows the number of dimensions: sizes, type, offset.
_TENSOR_LAYOUTS = tuple(struct.Struct(f"<{count}qIQ") for count in range(MAX_DIMENSIONS + 1))
_U64 = struct.Struct("<Q")


@dataclasses.dataclass(frozen=True)
class Header:
    """What a header holds; strings are cut to MAX_KEPT_STRING_BYTES.

    Attributes:
        num_expert_parameters: those of the parameters that belong to experts.
        bytes_of_type: how many bytes of tensors there are of each type.
        header_bytes: where the last tensor entry ends.
        template_span: where the chat template begins and how many bytes it has; None where there is none.
        data_start: where the first tensor's data begin.
    """

    version: int
    values: dict[str, Value]
    num_tensors: int
    num_parameters: int
    num_expert_parameters: int
    bytes_of_type: dict[TensorType, int]
    header_bytes: int
    template_span: tuple[int, int] | None
    data_start: int

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(self.bytes_of_type.values())


class HeaderReader:
    """Reads one header, front to back.

    Args:
        file: positioned at its start.
        file_bytes: its size.
        name: how messages call the file.
        on_tensor: gets every tensor in its order; what follows may still be refused.
    """

    def __init__(
        self,
        file: BinaryIO,
        file_bytes: int,
        name: str,
        *,
        on_tensor: Callable[[TensorEntry], None] | None = None,
    ) -> None:
        self._file = file
        self._file_bytes = file_bytes
        self._name = name
        self._on_tensor = on_tensor
        self._buffer = b""
        self._base = 0  # where the buffer begins in the file
        self._at = 0  # next byte, as an index into the buffer
        self._kept_bytes = 0
        self._num_array_strings = 0
        self._template_span: tuple[int, int] | None = None

    def read(self) -> Header:
        """Return the header of a file whose magic was found right.

        Raises:
            GGUFError: the header, or the tensor data it promises, is not sound.
        """
        version = self._version()
        num_tensors = self._count("tensors", MAX_TENSORS, 0)
        num_keys = self._count("keys", MAX_KEYS, 0)
        needed = num_keys * _MIN_KEY_ENTRY_BYTES + num_tensors * _MIN_TENSOR_ENTRY_BYTES
        if needed > self._remaining():
            self._truncated(f"it lists {num_keys:,} keys and {num_tensors:,} tensors")
        values: dict[str, Value] = {}
        for index in range(num_keys):
            self._read_key(index, values)
        alignment = self._alignment(values)
        num_parameters, num_expert_parameters, bytes_of_type = self._read_tensors(num_tensors, alignment)
        return Header(
            version=version,
            values=values,
            num_tensors=num_tensors,
            num_parameters=num_parameters,
            num_expert_parameters=num_expert_parameters,
            bytes_of_type=bytes_of_type,
            header_bytes=self._position(),
            template_span=self._template_span,
            data_start=_aligned(self._position(), alignment),
        )

    # --- faults ---

    def _corrupt(self, what: str) -> NoReturn:
        raise CorruptGGUF(f"{self._name} is damaged: {what}.", "Download or copy the file again.")

    def _truncated(self, what: str) -> NoReturn:
        raise TruncatedGGUF(
            f"{self._name} is cut off: {what}, but the file ends at byte {self._file_bytes:,}.",
            "Download or copy the file again, and let it finish.",
        )

    def _unsupported(self, what: str, hint: str) -> NoReturn:
        raise UnsupportedGGUF(f"{self._name} {what}.", hint)

    # --- bytes ---

    def _position(self) -> int:
        return self._base + self._at

    def _remaining(self) -> int:
        return self._file_bytes - self._position()

    def _take(self, num_bytes: int, what: str) -> bytes:
        if num_bytes > self._remaining():
            self._truncated(f"{what} at byte {self._position():,} needs {num_bytes:,} bytes")
        if self._at + num_bytes > len(self._buffer):
            self._refill(num_bytes, what)
        taken = self._buffer[self._at : self._at + num_bytes]
        self._at += num_bytes
        return taken

    def _refill(self, num_bytes: int, what: str) -> None:
        position = self._position()
        self._file.seek(position)
        self._buffer = self._file.read(max(_CHUNK_BYTES, num_bytes))
        self._base, self._at = position, 0
        if len(self._buffer) < num_bytes:  # the file has become shorter since its size was asked
            self._truncated(f"{what} at byte {position:,} needs {num_bytes:,} bytes")

    def _skip(self, num_bytes: int, what: str) -> None:
        if num_bytes > self._remaining():
            self._truncated(f"{what} at byte {self._position():,} needs {num_bytes:,} bytes")
        self._at += num_bytes
        if self._at > len(self._buffer):
            self._base, self._at, self._buffer = self._position(), 0, b""

    def _number(self, value_type: ValueType, what: str) -> float | int | bool:
        layout = SCALARS[value_type]
        number: float | int | bool = layout.unpack(self._take(layout.size, what))[0]
        return number

    def _whole(self, value_type: ValueType, what: str) -> int:
        return int(self._number(value_type, what))

    def _length(self, limit: int, what: str) -> int:
        length = self._whole(ValueType.UINT64, f"the length of {what}")
        if length > limit:
            self._corrupt(f"{what} at byte {self._position() - 8:,} claims to be {length:,} bytes long")
        return length

    def _keep(self, num_bytes: int) -> None:
        self._kept_bytes += num_bytes + _ENTRY_OVERHEAD_BYTES
        if self._kept_bytes > MAX_KEPT_BYTES:
            self._corrupt("its header holds more text than that of any model")

    # --- header ---

    def _version(self) -> int:
        self._take(len(MAGIC), "the first word")
        version = self._whole(ValueType.UINT32, "the version")
        if version and version & 0xFFFF == 0:
            self._unsupported(
                "is written in the byte order of another kind of machine (big-endian)",
                "Get a little-endian file of the same model.",
            )
        if version in (0, 1):
            self._unsupported(
                f"is of GGUF version {version}, which is too old to be read", "Get a newer file of the same model."
            )
        if version > 3:
            self._unsupported(
                f"is of GGUF version {version}, newer than this program knows (3)", "Update Fireside and try again."
            )
        return version

    def _count(self, what: str, limit: int, minimum: int) -> int:
        count = self._whole(ValueType.INT64, f"the number of {what}")
        if not minimum <= count <= limit:
            self._corrupt(f"it claims to hold {count:,} {what}, which is impossible")
        return count

    def _read_key(self, index: int, values: dict[str, Value]) -> None:
        what = f"key {index + 1}"
        length = self._length(MAX_KEY_BYTES, what)
        if length == 0:
            self._corrupt(f"{what} is empty")
        raw = self._take(length, what)
        self._keep(length)
        key = raw.decode("utf-8", errors="backslashreplace")
        if key in values:
            self._corrupt(f"the key {_shown(key)} is there twice")
        values[key] = self._value(self._value_type(key), key)

    def _value_type(self, key: str) -> ValueType:
        number = self._whole(ValueType.UINT32, f"the type of {_shown(key)}")
        try:
            return ValueType(number)
        except ValueError:
            self._corrupt(f"the key {_shown(key)} has the value type {number}, which does not exist")

    def _value(self, value_type: ValueType, key: str) -> Value:
        if value_type is ValueType.STRING:
            return self._string(key)
        if value_type is ValueType.ARRAY:
            return self._array(key)
        return self._number(value_type, f"the value of {_shown(key)}")

    def _string(self, key: str) -> str:
        what = f"the value of {_shown(key)}"
        length = self._length(max(self._file_bytes, 2**31), what)
        if key == CHAT_TEMPLATE_KEY:
            self._template_span = (self._position(), length)
        kept = self._take(min(length, MAX_KEPT_STRING_BYTES), what)
        self._skip(length - len(kept), what)
        self._keep(len(kept))
        return kept.decode("utf-8", errors="replace")

    def _array(self, key: str) -> ArrayValue:
        what = f"the array {_shown(key)}"
        element_type = self._value_type(key)
        if element_type is ValueType.ARRAY:
            self._corrupt(f"{what} is an array of arrays")
        count = self._whole(ValueType.UINT64, f"the length of {what}")
        element_bytes = 8 if element_type is ValueType.STRING else SCALARS[element_type].size
        if count * element_bytes > self._remaining():
            if count > 2**32:
                self._corrupt(f"{what} claims to have {count:,} elements")
            self._truncated(f"{what} has {count:,} elements")
        position = self._position()
        payload = None
        if element_type is ValueType.STRING:
            self._skip_strings(count, what)
        elif count > MAX_KEPT_ARRAY_ELEMENTS:
            self._skip(count * element_bytes, what)
        else:
            payload = self._take(count * element_bytes, what)
            self._keep(len(payload))
        return ArrayValue(element_type, count, payload, position, self._position() - position)

    def _skip_strings(self, count: int, what: str) -> None:
        self._num_array_strings += count
        if self._num_array_strings > MAX_ARRAY_STRINGS:
            self._corrupt(f"{what} claims to have {count:,} texts, more than any vocabulary")
        left = count
        while left:
            if self._at + 8 > len(self._buffer):
                # Asking for eight bytes reads a whole chunk where there is one.
                self._take(8, what)
                self._at -= 8
            at, left = _step_over(self._buffer, self._at, left)
            self._skip(at - self._at, what)

    def _alignment(self, values: dict[str, Value]) -> int:
        alignment = values.get("general.alignment", DEFAULT_ALIGNMENT)
        is_whole = isinstance(alignment, int) and not isinstance(alignment, bool)
        if not is_whole or alignment <= 0 or alignment & (alignment - 1) or alignment > 2**31:  # type: ignore[operator]
            self._corrupt(f"its alignment is {alignment!r}, which is no power of two")
        return int(alignment)  # type: ignore[arg-type]

    # --- tensors ---

    def _read_tensors(self, count: int, alignment: int) -> tuple[int, int, dict[TensorType, int]]:
        names: set[bytes] = set()
        bytes_of_type: dict[TensorType, int] = {}
        num_parameters = num_expert_parameters = end = expected_offset = 0
        for index in range(count):
            tensor = self._read_tensor(index, names)
            if tensor.offset != expected_offset:
                what = _shown_tensor(tensor.name)
                self._corrupt(f"{what} begins at offset {tensor.offset:,} instead of {expected_offset:,}")
            num_bytes = tensor.num_bytes
            end = tensor.offset + num_bytes
            expected_offset = _aligned(end, alignment)
            num_parameters += tensor.num_elements
            num_expert_parameters += tensor.num_elements if tensor.is_expert else 0
            bytes_of_type[tensor.tensor_type] = bytes_of_type.get(tensor.tensor_type, 0) + num_bytes
            if self._on_tensor is not None:
                self._on_tensor(tensor)
        if count:
            data_end = _aligned(self._position(), alignment) + end
            if data_end > self._file_bytes:
                self._truncated(f"{_shown_tensor(tensor.name)} ends at byte {data_end:,}")
        return num_parameters, num_expert_parameters, bytes_of_type

    def _read_tensor(self, index: int, names: set[bytes]) -> TensorEntry:
        what = f"the name of tensor {index + 1}"
        raw = self._take(self._length(MAX_NAME_BYTES, what), what)
        if raw in names:
            self._corrupt(f"{_shown_tensor(raw)} is there twice")
        names.add(raw)
        self._keep(len(raw))
        num_dimensions = self._whole(ValueType.UINT32, what)
        if num_dimensions > MAX_DIMENSIONS:
            self._corrupt(f"{_shown_tensor(raw)} has {num_dimensions:,} dimensions, {MAX_DIMENSIONS} is the most")
        layout = _TENSOR_LAYOUTS[num_dimensions]
        *sizes, type_number, offset = layout.unpack(self._take(layout.size, what))
        shape = tuple(sizes) or (1,)
        num_elements = 1
        for size in shape:
            num_elements *= size
            if size <= 0 or num_elements >= 2**63:
                self._corrupt(f"{_shown_tensor(raw)} has the impossible shape {list(shape)}")
        if type_number not in _KNOWN_TYPES:
            self._refuse_type(type_number, _shown_tensor(raw))
        tensor_type = _KNOWN_TYPES[type_number]
        block = BLOCK_SIZES[tensor_type]
        if shape[0] % block.num_elements:
            self._corrupt(f"{_shown_tensor(raw)} has rows of {shape[0]:,}, no multiple of {block.num_elements}")
        return TensorEntry(raw, shape, tensor_type, offset, num_elements)

    def _refuse_type(self, number: int, what: str) -> NoReturn:
        if number > 255:
            self._corrupt(f"{what} has the type {number:,}, which does not exist")
        if number in _REMOVED_TYPES:
            self._unsupported(
                f"is quantised in a way that was removed from the format ({what} has type {number})",
                "Get a newer file of the same model.",
            )
        self._unsupported(
            f"holds a kind of numbers this program does not know ({what} has type {number})", "Update Fireside."
        )


def _aligned(position: int, alignment: int) -> int:
    return (position + alignment - 1) // alignment * alignment


def _step_over(buffer: bytes, at: int, left: int) -> tuple[int, int]:
    """Step over texts whose lengths lie in a buffer; returns where the next one begins, and how many are left."""
    unpack, start = _U64.unpack_from, at
    try:  # most of the time of reading a file is spent here
        while left > 3:
            start = at
            at += 8 + unpack(buffer, at)[0]
            at += 8 + unpack(buffer, at)[0]
            at += 8 + unpack(buffer, at)[0]
            at += 8 + unpack(buffer, at)[0]
            left -= 4
    except (struct.error, OverflowError):  # beyond the buffer: the last steps are done again, one by one
        at = start
    while left and at <= len(buffer) - 8:
        at += 8 + unpack(buffer, at)[0]
        left -= 1
    return at, left


def _shown_tensor(name: bytes) -> str:
    return f"tensor {_shown(name.decode('utf-8', errors='backslashreplace'))}"


def _shown(text: str) -> str:
    """Return text from the file in a form that is short and harmless on a terminal."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
