"""The table of types, and how a name finds its row."""

import pytest

from models import QUANTIZE_TYPES, QuantizeRefused, find_quantize_type
from models.quant_types import FILE_TYPE_NAMES

NOT_MADE_BY_THE_LIBRARY = {"NVFP4"}


def test_table_has_every_type_the_library_makes() -> None:
    assert set(QUANTIZE_TYPES) == set(FILE_TYPE_NAMES.values()) - NOT_MADE_BY_THE_LIBRARY


def test_numbers_are_those_of_files() -> None:
    assert {name: FILE_TYPE_NAMES[kind.file_type] for name, kind in QUANTIZE_TYPES.items()} == {
        name: name for name in QUANTIZE_TYPES
    }


def test_every_type_is_explained() -> None:
    assert [kind.name for kind in QUANTIZE_TYPES.values() if not kind.help.endswith(".") or not kind.label] == []


@pytest.mark.parametrize("name", ["Q4_K_M", "q4_k_m", " q4-k-m "])
def test_name_is_found_however_it_is_written(name: str) -> None:
    assert find_quantize_type(name).name == "Q4_K_M"


@pytest.mark.parametrize(
    ("name", "near"), [("Q4_KM", "Q4_K_M"), ("q5k", "Q5_K"), ("IQ3XXS", "IQ3_XXS"), ("fp16", "F16")]
)
def test_hint_has_near_names_when_a_name_is_unknown(name: str, near: str) -> None:
    with pytest.raises(QuantizeRefused) as caught:
        find_quantize_type(name)
    assert near in caught.value.hint


@pytest.mark.parametrize("name", ["", "\x1b[31m", "banana" * 100, "NVFP4"])
def test_unknown_name_is_a_sentence(name: str) -> None:
    with pytest.raises(QuantizeRefused) as caught:
        find_quantize_type(name)
    assert caught.value.message.endswith(".")
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 200
