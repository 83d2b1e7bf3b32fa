"""Importance matrices read from files: both formats, and those that are damaged or of another model."""

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from models import QuantizePlan, QuantizeRefused, QuantizeRun, plan_quantize
from models.imatrix_file import ImatrixFault, TensorPlace, check_matrix, read_matrix
from models.quantize_messages import PlannedTensor
from tests.support.gguf_files import write_tiny_model

NAME = "blk.0.attn_q.weight"


class NoHead:
    """Stands in for the reader of GGUF heads."""

    def places(self, path: str) -> Sequence[TensorPlace]:
        """Read nothing."""
        raise RuntimeError("damaged")


def legacy(entries: Mapping[str, Sequence[float]], num_calls: int = 2) -> bytes:
    """Return a file of the format before GGUF."""
    data = struct.pack("<i", len(entries))
    for name, values in entries.items():
        data += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", num_calls, len(values))
        data += struct.pack(f"<{len(values)}f", *values)
    return data + struct.pack("<i", num_calls)


def planned(name: str = NAME) -> PlannedTensor:
    """Return a tensor of four columns."""
    return PlannedTensor(name=name, source_type="F16", type_name="IQ2_XS", num_elements=8, num_bytes=4)


def test_legacy_file_is_read_as_mean_squares(tmp_path: Path) -> None:
    path = tmp_path / "imatrix.dat"
    path.write_bytes(legacy({NAME: [2, 4, 6, 8]}))
    assert read_matrix(path, NoHead())[NAME].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<!DOCTYPE html>",
        b"GGUF broken",
        legacy({NAME: [1, 2]})[:30],
        struct.pack("<i", 2**31 - 1),
        struct.pack("<ii", 1, 2**30),
        legacy({NAME: [float("nan"), 1]}),
        legacy({NAME: [-1, 1]}),
    ],
    ids=["empty", "page", "damaged gguf", "cut", "many entries", "long name", "no numbers", "negative"],
)
def test_file_that_is_none_is_a_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.dat"
    path.write_bytes(data)
    with pytest.raises(ImatrixFault, match=r"^x\.dat is .*\.$"):
        read_matrix(path, NoHead())


def test_matrix_of_another_model_is_refused() -> None:
    shapes = {NAME: (4, 2, 1, 1)}
    ones = np.ones(4, np.float32)
    check_matrix({NAME: ones}, [planned()], {NAME}, shapes)
    for values, words in (
        ({"blk.0.other": ones}, "none of its tensors"),
        ({NAME: np.ones(5, np.float32)}, "4 columns"),
        ({"b": ones}, "nothing for"),
    ):
        tensors = [planned(), planned("b")]
        with pytest.raises(ImatrixFault, match=words):
            check_matrix(values, tensors, {NAME}, {**shapes, "b": (4, 2, 1, 1)})


def test_matrix_is_used_and_checked_by_the_real_library(tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "tiny.gguf", n_embd=256)
    plan = plan_quantize(source, "Q2_K_S", tmp_path / "x.gguf", builds_imatrix=True)
    names = {tensor.name: 512 if "ffn_down" in tensor.name else 256 for tensor in plan.tensors if "blk." in tensor.name}
    good, bad = tmp_path / "good.dat", tmp_path / "bad.dat"
    good.write_bytes(legacy({name: [1.0] * columns for name, columns in names.items()}))
    bad.write_bytes(legacy({name: [1.0] * 7 for name in names}))
    with pytest.raises(QuantizeRefused, match="of another model"):
        plan_quantize(source, "Q2_K_S", tmp_path / "x.gguf", imatrix=bad)
    with pytest.raises(QuantizeRefused, match="is no importance matrix"):
        plan_quantize(source, "Q2_K_S", tmp_path / "x.gguf", imatrix=source)
    ready = plan_quantize(source, "Q2_K_S", tmp_path / "x.gguf", imatrix=good)
    assert isinstance(ready, QuantizePlan)
    assert ready.needs_imatrix
    run = QuantizeRun([ready], n_threads=1)
    run.start()
    results = run.wait(60)
    assert results is not None
    assert results[0].error is None
    assert ready.output.stat().st_size == ready.output_bytes


def test_device_is_no_matrix() -> None:
    """It says that it has no bytes, and never ends."""
    with pytest.raises(ImatrixFault):
        read_matrix(Path(os.devnull), NoHead())
    if (endless := Path("/dev/zero")).exists():
        with pytest.raises(ImatrixFault):
            read_matrix(endless, NoHead())
