"""A sample of the damaged files that the long runs give to the process that tries a file before it is loaded."""

import itertools
from pathlib import Path

from tests.support.mutated_headers import accepted, try_mutated, write_runnable


def test_damaged_file_always_has_an_outcome(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for _ in itertools.islice(accepted(write_runnable(tmp_path), path, 5), 4):
        try_mutated(path)
