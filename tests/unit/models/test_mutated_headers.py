"""A sample of the damaged headers of the long runs."""

from pathlib import Path

from tests.support.mutated_headers import scan_mutated, write_bases


def test_damaged_headers_never_end_a_scan_and_have_one_sentence_each(tmp_path: Path) -> None:
    scan_mutated(tmp_path, write_bases(tmp_path / "bases"), seed=1, count=200)
