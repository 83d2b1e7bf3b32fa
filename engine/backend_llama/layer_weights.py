"""What the weights of each layer take, read from the headers of a model's files, to share them among devices."""

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.backend_llama import library as native

_LAYER_NAME = re.compile(r"blk\.(\d+)\.(.*)")
_EXPERT_NAME = re.compile(r"ffn_(up|down|gate_up|gate)_(ch|)exps")
_INPUT_NAME, _OUTPUT_NAME = "token_embd.weight", "output.weight"


class LayerWeights(NamedTuple):
    """Bytes of each layer, the output last.

    Attributes:
        layer_bytes: of all weights.
        expert_bytes: the part of them that is experts.
    """

    layer_bytes: tuple[int, ...]
    expert_bytes: tuple[int, ...]


class _Settings(ctypes.Structure):
    """How a header is read; the binding does not declare it."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("context", ctypes.c_void_p))


def layer_weights(path: str, n_layer: int) -> LayerWeights:
    """Return what the layers of a model take; a malformed file may end the process."""
    return sum_layers((tensor for part in model_parts(Path(path)) for tensor in _tensors(part)), n_layer)


def sum_layers(tensors: Iterator[tuple[str, int]], n_layer: int) -> LayerWeights:
    """Return what the layers take of tensors with their names and bytes.

    The input stays on the processor; where it is the output too, the devices get a copy of it.
    """
    layers, experts = [0] * (n_layer + 1), [0] * (n_layer + 1)
    input_bytes, has_output = 0, False
    for name, num_bytes in tensors:
        match = _LAYER_NAME.match(name)
        if match is not None:
            layer = min(int(match[1]), n_layer)
            layers[layer] += num_bytes
            experts[layer] += num_bytes if _EXPERT_NAME.match(match[2]) else 0
        elif name == _INPUT_NAME:
            input_bytes = num_bytes
        else:
            layers[n_layer] += num_bytes
            has_output = has_output or name == _OUTPUT_NAME
    layers[n_layer] += 0 if has_output else input_bytes
    return LayerWeights(tuple(layers), tuple(experts))


def active_weight_bytes(path: str, experts_in_use: float) -> int:
    """Return the bytes of a model's weights that one token of decode reads; a malformed file may end the process."""
    return sum_active((tensor for part in model_parts(Path(path)) for tensor in _tensors(part)), experts_in_use)


def sum_active(tensors: Iterator[tuple[str, int]], experts_in_use: float) -> int:
    """Return what one token reads of tensors with their names and bytes.

    Of an input table that is not the output too it reads a row, of experts a share.
    """
    total, input_bytes, has_output = 0, 0, False
    for name, num_bytes in tensors:
        match = _LAYER_NAME.match(name)
        is_expert = match is not None and _EXPERT_NAME.match(match[2]) is not None
        total += round(num_bytes * experts_in_use) if is_expert else num_bytes
        input_bytes = num_bytes if name == _INPUT_NAME else input_bytes
        has_output = has_output or name == _OUTPUT_NAME
    return total - (input_bytes if has_output else 0)


def model_parts(path: Path) -> list[Path]:
    """Return the files of a split model, or just `path`."""
    match = re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.gguf", path.name)
    if match is None:
        return [path]
    names = (f"{match[1]}-{number:05}-of-{match[2]}.gguf" for number in range(1, int(match[2]) + 1))
    return [part for name in names if (part := path.with_name(name)).is_file()] or [path]


def _tensors(path: Path) -> Iterator[tuple[str, int]]:
    pointer = ctypes.c_void_p
    header = native.native_function("gguf_init_from_file", pointer, ctypes.c_char_p, _Settings)(
        os.fsencode(path), _Settings(True, None)
    )
    if not header:
        return
    try:
        count = native.native_function("gguf_get_n_tensors", ctypes.c_int64, pointer)(header)
        name_of = native.native_function("gguf_get_tensor_name", ctypes.c_char_p, pointer, ctypes.c_int64)
        size_of = native.native_function("gguf_get_tensor_size", ctypes.c_size_t, pointer, ctypes.c_int64)
        for number in range(count):
            yield name_of(header, number).decode("utf-8", "replace"), size_of(header, number)
    finally:
        native.native_function("gguf_free", None, pointer)(header)
