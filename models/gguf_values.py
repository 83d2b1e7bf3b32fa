"""The types that values in a GGUF header have, and how an array is kept."""

import dataclasses
import enum
import struct


class ValueType(enum.IntEnum):
    """Id of a value type in a GGUF header."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


# How a single value of each type lies in the file.
SCALARS: dict[ValueType, struct.Struct] = {
    ValueType.UINT8: struct.Struct("<B"),
    ValueType.INT8: struct.Struct("<b"),
    ValueType.UINT16: struct.Struct("<H"),
    ValueType.INT16: struct.Struct("<h"),
    ValueType.UINT32: struct.Struct("<I"),
    ValueType.INT32: struct.Struct("<i"),
    ValueType.FLOAT32: struct.Struct("<f"),
    ValueType.BOOL: struct.Struct("<?"),
    ValueType.UINT64: struct.Struct("<Q"),
    ValueType.INT64: struct.Struct("<q"),
    ValueType.FLOAT64: struct.Struct("<d"),
}


@dataclasses.dataclass(frozen=True)
class ArrayValue:
    """An array in the header.

    Attributes:
        payload: its bytes where it is numeric and short, else None.
        position: where in the file its elements begin.
        num_bytes: what all elements take, their lengths included.
    """

    element_type: ValueType
    num_elements: int
    payload: bytes | None
    position: int = dataclasses.field(default=0, compare=False)
    num_bytes: int = dataclasses.field(default=0, compare=False)

    def numbers(self) -> tuple[float | int | bool, ...] | None:
        """Return the elements, or None where they were not kept."""
        if self.payload is None:
            return None
        return tuple(item[0] for item in SCALARS[self.element_type].iter_unpack(self.payload))


Value = str | float | int | bool | ArrayValue
