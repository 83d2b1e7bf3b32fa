"""What the weights of a model take, summed by layer and by use while its header is read; never a list of tensors."""

import dataclasses
import re
from collections.abc import Iterable

from models.quant_types import TensorType
from models.tensor_entry import TensorEntry

_LAYER_NAME = re.compile(rb"blk\.(\d{1,4})\.(.*)", re.DOTALL)
_EXPERT_NAME = re.compile(rb"ffn_(up|down|gate_up|gate)_(ch|)exps")
_INPUT_NAME, _OUTPUT_NAME = b"token_embd.weight", b"output.weight"
_MAX_LAYERS = 512  # of llama.cpp


@dataclasses.dataclass(frozen=True)
class WeightSums:
    """Bytes of the tensors of a file, or of all files of a split model.

    Attributes:
        layer_bytes: of each layer that has tensors, up to the last; empty where none has.
        expert_bytes: the part of them that is experts, of which a token uses some.
        input_bytes: of the table of the vocabulary.
        other_bytes: of all that is in no layer, without that table.
        has_output: whether there is an output beside the table; without, the table is the output too.
        matrix_bytes: of matrices that tokens are multiplied with, by tensor type.
    """

    layer_bytes: tuple[int, ...] = ()
    expert_bytes: tuple[int, ...] = ()
    input_bytes: int = 0
    other_bytes: int = 0
    has_output: bool = False
    matrix_bytes: tuple[tuple[TensorType, int], ...] = ()

    @property
    def total_bytes(self) -> int:
        """All tensors."""
        return sum(self.layer_bytes) + self.input_bytes + self.other_bytes

    @property
    def all_expert_bytes(self) -> int:
        """All experts."""
        return sum(self.expert_bytes)

    def active_bytes(self, expert_share: float) -> int:
        """Return what one token of decode reads.

        Of a table that is not the output too it reads a row, of experts a share.
        """
        experts = self.all_expert_bytes
        read = sum(self.layer_bytes) - experts + round(experts * expert_share) + self.other_bytes
        return read + (0 if self.has_output else self.input_bytes)


class WeightCounter:
    """Adds up tensors as they are read."""

    def __init__(self) -> None:
        self._layers: list[int] = []
        self._experts: list[int] = []
        self._input_bytes = self._other_bytes = 0
        self._has_output = False
        self._matrices: dict[TensorType, int] = {}

    def add(self, tensor: TensorEntry) -> None:
        """Count one tensor."""
        name, num_bytes = tensor.name, tensor.num_bytes
        match = _LAYER_NAME.match(name)
        if match is not None and int(match[1]) < _MAX_LAYERS:
            layer = int(match[1])
            missing = layer + 1 - len(self._layers)
            self._layers += [0] * missing
            self._experts += [0] * missing
            self._layers[layer] += num_bytes
            self._experts[layer] += num_bytes if _EXPERT_NAME.match(match[2]) else 0
        elif name == _INPUT_NAME:
            self._input_bytes += num_bytes
            return
        else:
            self._other_bytes += num_bytes
            self._has_output = self._has_output or name == _OUTPUT_NAME
        if len(tensor.shape) > 1:
            self._matrices[tensor.tensor_type] = self._matrices.get(tensor.tensor_type, 0) + num_bytes

    def sums(self) -> WeightSums:
        """Return what was counted."""
        return WeightSums(
            tuple(self._layers),
            tuple(self._experts),
            self._input_bytes,
            self._other_bytes,
            self._has_output,
            tuple(sorted(self._matrices.items())),
        )


def joined(parts: Iterable[WeightSums]) -> WeightSums:
    """Return the sums of all files of a split model."""
    all_parts = list(parts)
    count = max((len(part.layer_bytes) for part in all_parts), default=0)
    layers, experts = [0] * count, [0] * count
    matrices: dict[TensorType, int] = {}
    for part in all_parts:
        for layer, (size, expert) in enumerate(zip(part.layer_bytes, part.expert_bytes, strict=True)):
            layers[layer] += size
            experts[layer] += expert
        for tensor_type, size in part.matrix_bytes:
            matrices[tensor_type] = matrices.get(tensor_type, 0) + size
    return WeightSums(
        tuple(layers),
        tuple(experts),
        sum(part.input_bytes for part in all_parts),
        sum(part.other_bytes for part in all_parts),
        any(part.has_output for part in all_parts),
        tuple(sorted(matrices.items())),
    )
