"""Damaged model files in their full number: 20,000 through the scan, 2,000 through the process that tries a file."""

import concurrent.futures
import itertools
import shutil
from pathlib import Path

import pytest

from tests.support.mutated_headers import accepted, scan_mutated, try_mutated, write_bases, write_runnable

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]
NUM_SCANNED = 20_000
NUM_PROBED = 2_000
_AT_ONCE = 500
_NUM_CHILDREN = 2


def test_damaged_headers_never_end_a_scan(tmp_path: Path) -> None:
    bases = write_bases(tmp_path / "bases")
    for seed in range(NUM_SCANNED // _AT_ONCE):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        scan_mutated(folder, bases, seed, _AT_ONCE)
        shutil.rmtree(folder)


def test_damaged_files_always_have_an_outcome_in_the_process_that_tries_them(tmp_path: Path) -> None:
    bases = write_runnable(tmp_path)

    def try_many(seed: int) -> None:
        path = tmp_path / f"m{seed}.gguf"
        for _ in itertools.islice(accepted(bases, path, seed), NUM_PROBED // _NUM_CHILDREN):
            try_mutated(path)

    with concurrent.futures.ThreadPoolExecutor(_NUM_CHILDREN) as pool:
        list(pool.map(try_many, range(_NUM_CHILDREN)))
