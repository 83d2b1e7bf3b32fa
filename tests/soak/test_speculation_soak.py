"""Drafting never loses: the full matrix of prompts, temperatures, targets and drafters, beside plain replies."""

import json
from pathlib import Path

import pytest

from benchmarks.speculation import TEMPERATURES, main
from benchmarks.speculation_cells import CONTROL, load_prompts
from benchmarks.speculation_summary import never_loses

pytestmark = pytest.mark.soak
_TARGETS, _MODES = 3, 2


def test_worst_cell_is_no_worse_than_plain_replies_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = main(["--json", str(tmp_path / "run.json")])
    table = capsys.readouterr().out
    drafted = [cell for cell in cells if cell.key.mode != CONTROL]
    assert len(drafted) == len(load_prompts()) * len(TEMPERATURES) * _TARGETS * _MODES
    assert never_loses(drafted, [cell for cell in cells if cell.key.mode == CONTROL]), table
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["step_s"]
