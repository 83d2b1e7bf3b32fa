"""One tensor as a GGUF header lists it: name, shape, type, and where its data lie."""

from typing import NamedTuple

from models.quant_types import BLOCK_SIZES, TensorType


class TensorEntry(NamedTuple):
    """A tensor in the list of a header.

    Attributes:
        name: raw, as the file has it.
        shape: elements along each dimension, the row first.
        offset: where its data begin, in bytes from the first tensor's.
    """

    name: bytes
    shape: tuple[int, ...]
    tensor_type: TensorType
    offset: int
    num_elements: int

    @property
    def num_bytes(self) -> int:
        """Bytes of its data."""
        block = BLOCK_SIZES[self.tensor_type]
        return self.num_elements // block.num_elements * block.num_bytes

    @property
    def is_expert(self) -> bool:
        """Whether it holds the weights of experts, of which a token uses only some; shared ones are used always."""
        return b"_exps" in self.name or b"_chexps" in self.name
