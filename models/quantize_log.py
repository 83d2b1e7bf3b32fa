"""What llama.cpp's log says of quantising: which tensor it is at, and in a dry run the type it chose for each."""

import math
import re
from typing import NamedTuple

from models.quant_types import BLOCK_SIZES, TensorType
from models.quantize_messages import PlannedTensor

ALIGNMENT = 32  # llama.cpp pads the tensors that it writes to this, whatever the source says

_BEGIN = re.compile(
    r"\[ *(?P<number>\d+)/ *(?P<total>\d+)\] (?P<name>.*?) *- \[(?P<shape>[\d, ]+)\], type = *(?P<type>\S+), $", re.S
)
_NEW_TYPE = re.compile(r"size = .* MiB -> .* MiB \((\S+)\)")
_FALLBACK = "falling back to"

# Tensor types that are noise without an importance matrix: tensor_requires_imatrix() of llama-quant.cpp.
_NEED_IMATRIX = frozenset({"IQ3_XXS", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_M", "IQ1_S"})
_FREE_OF_IMATRIX = ("token_embd.weight", "per_layer_token_embd.weight", "output.weight")
_Q2_K_S = 21


class BegunTensor(NamedTuple):
    """A tensor whose turn it is.

    Attributes:
        number: counts from 1.
        shape: columns first.
    """

    number: int
    num_tensors: int
    name: str
    shape: tuple[int, ...]
    type_name: str


def begun(text: str) -> BegunTensor | None:
    """Return the tensor that a piece of the log begins with, None where it does not."""
    match = _BEGIN.match(text)
    if match is None:
        return None
    shape = tuple(int(size) for size in match["shape"].split(","))
    return BegunTensor(int(match["number"]), int(match["total"]), match["name"], shape, match["type"].upper())


class DryRunLog:
    """Collects what a dry run chose."""

    def __init__(self) -> None:
        self.tensors: list[PlannedTensor] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.num_fallback = 0
        self._begun: BegunTensor | None = None

    def hear(self, text: str) -> None:
        """Take a piece of the log.

        Raises:
            KeyError: it names a type that is not known.
        """
        tensor = begun(text)
        if tensor is not None:
            self._begun = tensor
        elif _FALLBACK in text:
            self.num_fallback += 1
        elif self._begun is not None and text.startswith("size = "):
            changed = _NEW_TYPE.match(text)
            self._add(self._begun, changed[1].upper() if changed else self._begun.type_name)
            self._begun = None

    def _add(self, tensor: BegunTensor, type_name: str) -> None:
        num_elements = math.prod(tensor.shape)
        block = BLOCK_SIZES[TensorType[type_name]]
        self.shapes[tensor.name] = tensor.shape
        self.tensors.append(
            PlannedTensor(
                name=tensor.name,
                source_type=tensor.type_name,
                type_name=type_name,
                num_elements=num_elements,
                num_bytes=num_elements // block.num_elements * block.num_bytes,
            )
        )


def needs_imatrix(tensor: PlannedTensor, file_type: int) -> bool:
    """Return whether llama.cpp refuses to make a tensor without an importance matrix."""
    if tensor.name in _FREE_OF_IMATRIX:
        return False
    return tensor.type_name in _NEED_IMATRIX or (tensor.type_name == "Q2_K" and file_type == _Q2_K_S)


def padded(num_bytes: int) -> int:
    """Return what a tensor takes in a file."""
    return (num_bytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
