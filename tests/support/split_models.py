"""Models in parts, as llama.cpp's own splitter makes them."""

import math
from pathlib import Path
from typing import Any

import gguf

_SKIPPED = ("general.architecture",)  # the writer puts it in itself


def split_model(source: Path, folder: Path, prefix: str, count: int) -> list[Path]:
    """Write the model of a file in `count` parts, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    reader: Any = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    largest = math.ceil(len(reader.tensors) / count)
    writer: Any = gguf.GGUFWriter(folder / f"{prefix}.gguf", arch, split_max_tensors=largest)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in _SKIPPED:
            continue
        is_array = field.types[0] == gguf.GGUFValueType.ARRAY
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=field.types[-1] if is_array else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    paths = sorted(folder.glob(f"{prefix}-*-of-{count:05d}.gguf"))
    assert len(paths) == count
    return paths
