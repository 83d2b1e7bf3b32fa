"""LoRA adapters for tests: random ones that fit a model, and ones that must be refused."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy

from tests.support.gguf_files import write_tiny_model


class Target(NamedTuple):
    """A tensor that an adapter changes.

    Attributes:
        name: of the model's tensor.
        num_in, num_out: the model's rows and columns, as GGUF counts them: `(num_in, num_out)`.
    """

    name: str
    num_in: int
    num_out: int


def attention_targets(n_layer: int, n_embd: int, n_embd_kv: int) -> list[Target]:
    """Return the query and value weights of every layer."""
    widths = {"attn_q": n_embd, "attn_v": n_embd_kv}
    return [
        Target(f"blk.{layer}.{name}.weight", n_embd, width)
        for layer in range(n_layer)
        for name, width in widths.items()
    ]


STARTER = attention_targets(30, 576, 192)
TINY = attention_targets(2, 64, 32)


def write_adapter(
    path: Path,
    targets: Sequence[Target] = tuple(TINY),
    *,
    arch: str = "llama",
    rank: int = 4,
    alpha: float | None = None,
    strength: float = 0.1,
    seed: int = 0,
    dtype: Any = numpy.float32,
    keys: Mapping[str, Any] | None = None,
    extra: Mapping[str, numpy.ndarray] | None = None,
) -> Path:
    """Write a random adapter and return its path.

    Args:
        alpha: None leaves the key out, which makes the scale the strength.
        strength: how far it moves the outputs of a weight, about, for inputs of length 1.
        keys: text or float keys, over the usual ones; None leaves one out.
        extra: further tensors, in numpy's order of dimensions.
    """
    usual: dict[str, Any] = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": alpha}
    writer = gguf.GGUFWriter(path, arch)
    for key, value in (usual | dict(keys or {})).items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif value is not None:
            writer.add_float32(key, value)
    random = numpy.random.default_rng(seed)
    size = (strength / rank**0.5) ** 0.5
    for name, num_in, num_out in targets:
        writer.add_tensor(f"{name}.lora_a", random.normal(0.0, size, (rank, num_in)).astype(dtype))
        writer.add_tensor(f"{name}.lora_b", random.normal(0.0, size, (num_out, rank)).astype(dtype))
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_tiny_pair(folder: Path) -> tuple[Path, Path]:
    """Write a tiny model and an adapter that fits it, and return their paths."""
    return write_tiny_model(folder / "tiny.gguf"), write_adapter(folder / "tiny-lora.gguf")
