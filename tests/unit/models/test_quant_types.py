"""The tables of ggml's types, checked against ggml itself and against the `gguf` package."""

import ctypes
import importlib.util
from pathlib import Path

import gguf
import pytest

from models.quant_types import BLOCK_SIZES, FILE_TYPE_NAMES, TensorType

# Newer than the package.
BEYOND_PACKAGE = {TensorType.Q2_0}
FILE_TYPES_BEYOND_PACKAGE = {41: "Q2_0"}


@pytest.fixture(scope="module")
def ggml() -> ctypes.CDLL:
    """Return ggml's base library, as llama-cpp-python brings it along; the binding itself is not imported."""
    spec = importlib.util.find_spec("llama_cpp")
    assert spec is not None
    assert spec.origin is not None
    library = next((Path(spec.origin).parent / "lib").glob("*ggml-base*"))
    loaded = ctypes.CDLL(str(library))
    loaded.ggml_blck_size.restype = ctypes.c_int64
    loaded.ggml_type_size.restype = ctypes.c_size_t
    return loaded


def test_sizes_are_those_of_ggml(ggml: ctypes.CDLL) -> None:
    theirs = {
        number: (ggml.ggml_blck_size(number), ggml.ggml_type_size(number)) for number in range(max(TensorType) + 1)
    }
    ours = {int(known): (block.num_elements, block.num_bytes) for known, block in BLOCK_SIZES.items()}
    assert {number: sizes for number, sizes in theirs.items() if sizes[0]} == ours


def test_every_tensor_type_has_a_size() -> None:
    assert set(BLOCK_SIZES) == set(TensorType)


@pytest.mark.parametrize("known", sorted(set(TensorType) - BEYOND_PACKAGE), ids=lambda known: known.name)
def test_name_is_that_of_the_package(known: TensorType) -> None:
    assert gguf.GGMLQuantizationType(int(known)).name == known.name


def test_no_type_of_the_package_is_missing() -> None:
    assert {int(theirs) for theirs in gguf.GGMLQuantizationType} <= {int(ours) for ours in TensorType}


def test_file_types_are_those_of_the_package() -> None:
    theirs = {
        int(file_type): file_type.name.removeprefix("MOSTLY_").removeprefix("ALL_")
        for file_type in gguf.LlamaFileType
        if file_type is not gguf.LlamaFileType.GUESSED
    }
    assert theirs | FILE_TYPES_BEYOND_PACKAGE == FILE_TYPE_NAMES
