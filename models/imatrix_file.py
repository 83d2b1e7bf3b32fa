"""An importance matrix read from a file, and checked against the model it is to be used for. Runs where it may fail."""

import struct
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from models.quantize_messages import PlannedTensor

MatrixValues = dict[str, npt.NDArray[np.float32]]
"""For each tensor, the mean square of what each of its columns is multiplied with."""

_MAX_NAME_BYTES = 4096
_MAX_ENTRIES = 1_000_000
_MAX_LEGACY_BYTES = 4 * 2**30
_EMBEDDINGS = ("token_embd.weight", "per_layer_token_embd.weight")


class ImatrixFault(Exception):
    """An importance matrix cannot be used; the text is a sentence."""


class TensorPlace(NamedTuple):
    """Where a tensor of float32 lies in a file; `is_float` is False for any other type."""

    name: str
    is_float: bool
    offset: int
    num_bytes: int


class HeadReader(Protocol):
    """Reads the head of a GGUF file."""

    def places(self, path: str) -> Sequence[TensorPlace]:
        """Return where the tensors of a file are.

        Raises:
            RuntimeError: it cannot be read.
        """


def read_matrix(path: Path, reader: HeadReader) -> MatrixValues:
    """Return what a file holds, in the present format (GGUF) or the one before.

    Raises:
        ImatrixFault: it is no importance matrix.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        is_gguf = file.read(4) == b"GGUF"
    values = _read_gguf(path, reader) if is_gguf else _read_legacy(path)
    if not values:
        raise ImatrixFault(f"{path.name} is no importance matrix.")
    for name, row in values.items():
        if not np.isfinite(row).all() or (row < 0).any():
            raise ImatrixFault(f"{path.name} is damaged: what it has for {name[:80]!r} are no mean squares.")
    return values


def check_matrix(
    values: MatrixValues,
    tensors: Sequence[PlannedTensor],
    needing: Collection[str],
    shapes: Mapping[str, Sequence[int]],
) -> None:
    """Raise unless an importance matrix belongs to a model.

    Args:
        needing: tensors that cannot be made without.
        shapes: of all tensors, columns first.

    Raises:
        ImatrixFault: it is of another model, or lacks what is needed.
    """
    shared = [tensor.name for tensor in tensors if tensor.name in values]
    if not shared:
        raise ImatrixFault("The importance matrix is of another model: it knows none of its tensors.")
    for name in shared:
        shape = shapes[name]
        wanted = shape[0] * shape[2]
        if name not in _EMBEDDINGS and len(values[name]) != wanted:
            raise ImatrixFault(
                f"The importance matrix is of another model: it has {len(values[name]):,} values for {name!r}, "
                f"which has {wanted:,} columns."
            )
    lacking = next((name for name in needing if name not in values), None)
    if lacking is not None:
        raise ImatrixFault(f"The importance matrix has nothing for {lacking!r}, which this type cannot do without.")


def _read_gguf(path: Path, reader: HeadReader) -> MatrixValues:
    sums: dict[str, npt.NDArray[np.float32]] = {}
    counts: dict[str, npt.NDArray[np.float32]] = {}
    try:
        places = reader.places(str(path))
    except RuntimeError as error:
        raise ImatrixFault(f"{path.name} is damaged: llama.cpp cannot read it.") from error
    with path.open("rb") as file:
        for place in places:
            name, _, kind = place.name.rpartition(".")
            target = {"in_sum2": sums, "counts": counts}.get(kind)
            if target is None or not place.is_float:
                continue
            file.seek(place.offset)
            target[name] = np.frombuffer(file.read(place.num_bytes), "<f4")
    values: MatrixValues = {}
    for name, total in sums.items():
        count = counts.get(name)
        if count is None or not len(count) or len(total) % len(count):
            raise ImatrixFault(f"{path.name} is damaged: what it has for {name[:80]!r} does not fit together.")
        spread = np.repeat(count, len(total) // len(count))
        # An expert that the text never needed is no less important than it is known to be.
        values[name] = np.where(spread > 0, total / np.where(spread > 0, spread, 1), 1).astype(np.float32)
    return values


def _read_legacy(path: Path) -> MatrixValues:
    if path.stat().st_size > _MAX_LEGACY_BYTES or not path.is_file():  # a device has no end
        return {}
    data = path.read_bytes()
    values: MatrixValues = {}
    try:
        (num_entries,) = struct.unpack_from("<i", data)
        position = 4
        if not 0 < num_entries <= _MAX_ENTRIES:
            return {}
        for _ in range(num_entries):
            (length,) = struct.unpack_from("<i", data, position)
            if not 0 < length <= _MAX_NAME_BYTES:
                return {}
            name = data[position + 4 : position + 4 + length].decode("utf-8", "replace")
            position += 4 + length
            num_calls, count = struct.unpack_from("<ii", data, position)
            position += 8
            if count <= 0 or position + 4 * count > len(data):
                return {}
            row = np.frombuffer(data, "<f4", count, position)
            values[name] = (row / num_calls if num_calls > 0 else row).astype(np.float32)
            position += 4 * count
    except struct.error:
        return {}
    return values
