"""Kills of the window while it compares, and what has to be in the record of the run in the end."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from app.compare.journal import CellEntry, read_journal
from app.compare.results import comparison_to_json
from app.compare.run_folder import LAST, list_runs, read_record
from app.paths import Paths, find_paths
from tests.support.compare_kills import Ladder, find_faults
from tests.support.compare_window_driver import BEGIN, GO_ON
from tests.support.one_core import ON_ONE_CORE

_ROOT = Path(__file__).resolve().parents[2]
_DRIVER = "tests.support.compare_window_driver"
_LIMIT_S = 240.0
_POLL_S = 0.01
_LONGEST_WAIT_S = 1.0
_WORKERS_LEAVE_S = 30.0


class WindowRun(NamedTuple):
    """What came of a ladder in a window that was killed again and again.

    Attributes:
        faults: what is lost, doubled or changed, a line each.
        num_kills: that came before all was done.
        rows: of the table that was shown in the end; none where the last kill came just before.
    """

    faults: list[str]
    num_kills: int
    rows: list[list[str]]


def compare_and_kill(
    ladder: Ladder, folder: Path, *, num_kills: int, seed: int, longest_wait_s: float = _LONGEST_WAIT_S
) -> WindowRun:
    """Compare in the window through so many kills, each at a drawn moment, until all is done.

    Args:
        longest_wait_s: how long after the reply that was drawn a kill comes at the latest.
    """
    drawn = random.Random(seed)
    paths = find_paths(str(folder / "data"))
    prompts = folder / "prompts.txt"
    prompts.write_text("\n".join(ladder.prompts) + "\n", "utf-8")
    told: list[dict[str, Any]] = []
    faults: list[str] = []
    killed = 0
    share = min(ladder.num_cells // max(1, num_kills), ladder.num_cells // 2)
    while not any(event["event"] == "shown" for event in told):
        runs = list_runs(paths)
        how = GO_ON if runs and not runs[0].is_ended else BEGIN
        if runs and how == BEGIN:
            break  # the last kill came when all was done, and before it was shown
        arguments = [how, str(prompts), str(ladder.repeats), *ladder.models]
        log = folder / f"told-{len(list(folder.glob('told-*')))}.jsonl"
        is_last = killed >= num_kills
        num_cells = ladder.num_cells if is_last else drawn.randrange(share + 1)
        wait_s = _LIMIT_S if is_last else drawn.uniform(0, longest_wait_s)
        was_killed, left = _run(paths, log, arguments, num_cells, wait_s)
        killed += was_killed
        told += _events(log)
        faults += [f"left behind: {name}" for name in left]
        faults += [f"not begun: {event['text']}" for event in told if event["event"] == "failed"]
        if faults:
            return WindowRun(faults, killed, [])
    record = json.loads(comparison_to_json(read_record(LAST, paths)))
    journal = read_journal(paths.runs_dir / record["id"])
    cells = [entry.cell for entry in journal.entries if isinstance(entry, CellEntry)]
    places = Counter((cell.column, cell.prompt, cell.repeat) for cell in cells)
    faults += [f"written {count} times: {place}" for place, count in places.items() if count > 1]
    faults += [f"damaged lines: {journal.num_lost}"] if journal.num_lost else []
    faults += [f"there are {len(list_runs(paths))} runs"] if len(list_runs(paths)) > 1 else []
    faults += find_faults(ladder, told, record)
    return WindowRun(faults, killed, next((event["rows"] for event in told if event["event"] == "shown"), []))


def _run(paths: Paths, log: Path, arguments: list[str], num_cells: int, wait_s: float) -> tuple[bool, list[str]]:
    """Run the window until some replies were told and a moment longer, or to its end.

    Returns:
        Whether it was killed, and the names of its processes that did not leave.
    """
    with subprocess.Popen(
        [sys.executable, "-m", _DRIVER, str(paths.data_dir), str(log), *arguments],
        cwd=_ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **ON_ONE_CORE,
    ) as program:
        deadline = time.monotonic() + _LIMIT_S
        while program.poll() is None and not _is_so_far(log, num_cells):
            if time.monotonic() > deadline:
                program.kill()
                raise RuntimeError(f"the window came to nothing: {program.communicate()[0]}\n{_events(log)}")
            time.sleep(_POLL_S)
        try:
            program.wait(wait_s)
        except subprocess.TimeoutExpired:
            children = psutil.Process(program.pid).children(recursive=True)
            program.kill()
            program.wait()
            _, left = psutil.wait_procs(children, timeout=_WORKERS_LEAVE_S)
            return True, [" ".join(child.cmdline()[:4]) for child in left if child.is_running()]
        if program.returncode:
            raise RuntimeError(f"the window ended with {program.returncode}: {program.communicate()[0]}")
    return False, []


def _is_so_far(log: Path, num_cells: int) -> bool:
    names = [event["event"] for event in _events(log)]
    return "pressed" in names and names.count("cell") >= num_cells


def _events(log: Path) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]
