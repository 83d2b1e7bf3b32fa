"""`fireside bench` on the starter: a tiny model measures the same things in the tests that always run."""

from pathlib import Path

import pytest

from tests.support.bench_runs import check_model_is_measured

pytestmark = pytest.mark.soak


def test_starter_is_measured_and_its_bandwidth_remembered(tmp_path: Path) -> None:
    check_model_is_measured("starter", tmp_path / "data")
