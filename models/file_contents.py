"""All that a GGUF file's header says, for a person who looks into it: metadata as text, and the table of tensors."""

import dataclasses
import struct
from collections import defaultdict
from pathlib import Path
from typing import BinaryIO

from models.gguf_header import MAX_KEPT_STRING_BYTES
from models.gguf_info import GGUFInfo, printable, read_header
from models.gguf_values import SCALARS, ArrayValue, Value, ValueType
from models.tensor_entry import TensorEntry

_SHOWN_ELEMENTS = 8
_SHOWN_CHARACTERS = 60
_MAX_TEMPLATE_BYTES = 4 * 2**20


@dataclasses.dataclass(frozen=True)
class MetadataRow:
    """One key of a header.

    Attributes:
        type_name: such as "uint32" or "array of string".
        text: the value; of a long array or text only the beginning. Nothing in it steers a terminal.
        num_elements: of an array; 1 for a single value.
        is_cut: whether there is more than `text` shows.
    """

    key: str
    type_name: str
    text: str
    num_elements: int
    is_cut: bool


@dataclasses.dataclass(frozen=True)
class TensorRow:
    """One tensor of a file.

    Attributes:
        shape: elements along each dimension, the row first.
        num_bytes: of its data.
        position: where in the file they begin.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    num_parameters: int
    num_bytes: int
    position: int


@dataclasses.dataclass(frozen=True)
class TypeTotal:
    """What the tensors of one type take together."""

    type_name: str
    num_tensors: int
    num_parameters: int
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class FileContents:
    """What a file holds.

    Attributes:
        tensors: in the order of the file.
        types: the type that takes most first.
        chat_template: at most 4 MiB of it; empty where there is none.
    """

    info: GGUFInfo
    metadata: tuple[MetadataRow, ...]
    tensors: tuple[TensorRow, ...]
    types: tuple[TypeTotal, ...]
    chat_template: str


def read_contents(path: Path) -> FileContents:
    """Return all that the header of a file says.

    Raises:
        GGUFError: it is no sound GGUF file.
        OSError: it cannot be read.
    """
    entries: list[TensorEntry] = []
    info, header = read_header(path, entries.append)
    with path.open("rb") as file:
        metadata = tuple(_metadata_row(key, value, file) for key, value in header.values.items())
        template = _read_text(file, header.template_span)
    tensors = tuple(_tensor_row(entry, header.data_start) for entry in entries)
    return FileContents(info, metadata, tensors, _totals(tensors), template)


def _tensor_row(entry: TensorEntry, data_start: int) -> TensorRow:
    return TensorRow(
        name=printable(entry.name.decode("utf-8", "replace")),
        shape=entry.shape,
        type_name=entry.tensor_type.name,
        num_parameters=entry.num_elements,
        num_bytes=entry.num_bytes,
        position=data_start + entry.offset,
    )


def _totals(tensors: tuple[TensorRow, ...]) -> tuple[TypeTotal, ...]:
    by_type: dict[str, list[TensorRow]] = defaultdict(list)
    for tensor in tensors:
        by_type[tensor.type_name].append(tensor)
    totals = [
        TypeTotal(name, len(rows), sum(row.num_parameters for row in rows), sum(row.num_bytes for row in rows))
        for name, rows in by_type.items()
    ]
    return tuple(sorted(totals, key=lambda total: (-total.num_bytes, total.type_name)))


def _metadata_row(key: str, value: Value, file: BinaryIO) -> MetadataRow:
    key = printable(key)
    if isinstance(value, ArrayValue):
        shown = _first_elements(value, file)
        is_cut = len(shown) < value.num_elements
        text = ", ".join(shown) + (", …" if is_cut and shown else "")
        return MetadataRow(key, f"array of {value.element_type.name.lower()}", text, value.num_elements, is_cut)
    if isinstance(value, str):
        is_cut = len(value.encode()) >= MAX_KEPT_STRING_BYTES
        return MetadataRow(key, "string", printable(value) + ("…" if is_cut else ""), 1, is_cut)
    kind = "bool" if isinstance(value, bool) else "integer" if isinstance(value, int) else "float"
    return MetadataRow(key, kind, str(value).lower() if isinstance(value, bool) else f"{value}", 1, False)


def _first_elements(array: ArrayValue, file: BinaryIO) -> list[str]:
    count = min(array.num_elements, _SHOWN_ELEMENTS)
    file.seek(array.position)
    if array.element_type is not ValueType.STRING:
        layout = SCALARS[array.element_type]
        return [f"{layout.unpack(data)[0]}" for _ in range(count) if len(data := file.read(layout.size)) == layout.size]
    shown = []
    for _ in range(count):
        head = file.read(8)
        if len(head) < 8:  # the file has become shorter meanwhile
            break
        (length,) = struct.unpack("<Q", head)
        text = file.read(min(length, 4 * _SHOWN_CHARACTERS)).decode("utf-8", "replace")
        shown.append(repr(printable(text[:_SHOWN_CHARACTERS])))
        file.seek(max(length - 4 * _SHOWN_CHARACTERS, 0), 1)
    return shown


def _read_text(file: BinaryIO, span: tuple[int, int] | None) -> str:
    if span is None:
        return ""
    file.seek(span[0])
    return file.read(min(span[1], _MAX_TEMPLATE_BYTES)).decode("utf-8", "replace")
