"""Writes a synthetic target for drafting: `python -m benchmarks.deep_target OUT.gguf [--model FILE] [--copies N]`.

A model's blocks, followed by more copies of each whose `attn_output` and `ffn_down` are zero. Those add nothing to what
flows past them, so the file is the same function as the model it was made from, and costs as much as one with so many
blocks. It stands in for a large model whose draft agrees with it; its name says that it is synthetic.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from benchmarks.model_files import write_level
from models import find_starter

COPIES = 3  # behind each block: four times the cost
_BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
_ADDED = re.compile(r"(attn_output|ffn_down)\.(weight|bias)")  # what a block adds to the stream goes through these
_MADE_BY_WRITER = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture")
_NAME = "general.name"


def write_deep(source: Path, target: Path, copies: int = COPIES) -> Path:
    """Write the deep form of a model, and return its path.

    Args:
        source: one file, whose every block adds to the stream by `attn_output` and `ffn_down` alone.
        copies: of each block.

    Raises:
        ValueError: its blocks have no such parts.
    """
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    num_blocks = int(reader.fields[f"{arch}.block_count"].contents())
    num_added = sum(bool(_ADDED.fullmatch(part)) for _, part in map(_place, reader.tensors) if part)
    if num_added < 2 * num_blocks:
        raise ValueError(f"{source.name}: its blocks add to the stream in other ways")
    writer: Any = gguf.GGUFWriter(target, arch)
    _copy_keys(reader, writer, arch, num_blocks, copies)
    for tensor in reader.tensors:
        _add(writer, tensor.name, tensor, tensor.data)
    for copy in range(1, copies + 1):
        for tensor in reader.tensors:
            block, part = _place(tensor)
            if part:
                data = np.zeros_like(tensor.data) if _ADDED.fullmatch(part) else tensor.data
                _add(writer, f"blk.{copy * num_blocks + block}.{part}", tensor, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _place(tensor: Any) -> tuple[int, str]:
    """Return a tensor's block and its name there; an empty name outside of the blocks."""
    found = _BLOCK.fullmatch(tensor.name)
    return (int(found[1]), found[2]) if found else (-1, "")


def _copy_keys(reader: Any, writer: Any, arch: str, num_blocks: int, copies: int) -> None:
    name = reader.fields[_NAME].contents() if _NAME in reader.fields else arch
    writer.add_string(_NAME, f"{name} (synthetic: {copies + 1} times as deep, the same function)")
    for field in reader.fields.values():
        if field.name in (*_MADE_BY_WRITER, _NAME):
            continue
        value, kind = field.contents(), field.types[0]
        if field.name == f"{arch}.block_count":
            value = num_blocks * (copies + 1)
        elif kind is gguf.GGUFValueType.ARRAY and field.name.startswith(f"{arch}.") and len(value) == num_blocks:
            value = value * (copies + 1)  # one value a block
        writer.add_key_value(field.name, value, kind, field.types[-1] if len(field.types) > 1 else None)


def _add(writer: Any, name: str, tensor: Any, data: Any) -> None:
    writer.add_tensor(name, data, raw_dtype=tensor.tensor_type)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; default: the starter model, as F16")
    parser.add_argument("--copies", type=int, default=COPIES)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = arguments.model
        if source is None:
            starter = find_starter()
            if starter is None:
                sys.exit("The starter model is not installed: run `make run` once.")
            source = write_level(starter, Path(folder) / "f16.gguf")
        write_deep(source, arguments.output, arguments.copies)
    print(f"{arguments.output}: {arguments.output.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
