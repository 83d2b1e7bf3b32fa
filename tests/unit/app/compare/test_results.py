"""The record of a comparison: there and back, and refused where it is not one."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.compare.report import to_html
from app.compare.results import MEASURES, comparison_from_json, comparison_to_json, read_comparison
from app.errors import UsageError
from tests.support.comparisons import LADDER, sample_comparison

COMPARISON = sample_comparison(LADDER[:2], num_prompts=2, repeats=2)


def changed(**changes: Any) -> bytes:
    """Return the record with some fields changed."""
    return json.dumps(json.loads(comparison_to_json(COMPARISON)) | changes).encode()


def test_record_comes_back_as_it_was() -> None:
    assert comparison_from_json(comparison_to_json(COMPARISON)) == COMPARISON
    assert comparison_from_json(b"\xef\xbb\xbf" + comparison_to_json(COMPARISON)) == COMPARISON


def test_record_comes_back_from_its_report(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(to_html(COMPARISON), "utf-8")
    assert read_comparison(path) == COMPARISON


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert comparison_from_json(changed(something_new={"a": 1})) == COMPARISON


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "holds no comparison"),
        (b"\xff\xfe\x00", "holds no comparison"),
        (b"[1]", "holds no comparison"),
        (b'{"record_version": 1', "holds no comparison"),
        (b'{"a":' * 100_000, "holds no comparison"),
        (b'{"record_version": 99}', "another version"),
        (b'{"record_version": 1}', "damaged"),
        (changed(mode="sideways"), "damaged"),
        (changed(repeats=0), "damaged"),
        (changed(repeats=10**9), "damaged"),
        (changed(columns=[], reference=""), "of no column"),
        (changed(reference="nobody"), "reference is no column"),
        (changed(prompts=[]), "of no column or prompt"),
        (changed(cells=[{"column": "F16", "prompt": "prompt-00"}] * 2), "twice"),
        (changed(cells=[{"column": "F16", "prompt": "prompt-00", "repeat": -1}]), "damaged"),
        (changed(cells=[{"column": "F16", "prompt": "prompt-00", "values": {"load_s": "x"}}]), "damaged"),
        (changed(columns=[{"id": "a", "label": "", "path": "", "sampling": {"temperature": -5}}], cells=[]), "damaged"),
        (changed(columns=[{"id": "a", "label": "", "path": ""}] * 2, cells=[], reference=""), "one name"),
    ],
    ids=[
        *(
            "empty",
            "no text",
            "a list",
            "cut off",
            "deep",
            "newer",
            "nothing in it",
            "mode",
            "no repeats",
            "many repeats",
        ),
        *(
            "no columns",
            "reference",
            "no prompts",
            "twice",
            "negative",
            "text for a number",
            "bad sampling",
            "two of one id",
        ),
    ],
)
def test_what_is_no_record_is_refused_in_a_sentence(data: bytes, part: str) -> None:
    with pytest.raises(UsageError, match=part) as caught:
        comparison_from_json(data, name="file.json")
    assert "file.json" in caught.value.message
    assert caught.value.hint


def test_values_that_are_no_numbers_are_refused() -> None:
    data = comparison_to_json(COMPARISON).replace(b'"load_s":', b'"load_s":1e999,"old":', 1)
    with pytest.raises(UsageError, match="damaged"):
        comparison_from_json(data)


@pytest.mark.parametrize("name", ["missing.json", "", "a\0b"], ids=["missing", "folder", "NUL"])
def test_files_that_cannot_be_read_are_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        read_comparison(tmp_path / name)


def test_every_measure_has_what_a_table_needs() -> None:
    assert all(name == measure.name and measure.label for name, measure in MEASURES.items())
    assert MEASURES["file_bytes"].shown(2**20) == "1.0 MiB"
    assert MEASURES["ttft_s"].shown(0.1234) == "123 ms"
    assert MEASURES["num_prompt_tokens"].number(1234.0) == "1,234"
