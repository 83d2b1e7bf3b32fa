"""Kills of a comparison at random moments, and what has to be in its record in the end."""

import itertools
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path(__file__).resolve().parents[2]
_LIMIT_S = 600.0


class Ladder(NamedTuple):
    """What is compared, as arguments of the command.

    Attributes:
        plan_flags: of the beginning alone.
        flags: of the beginning and of going on.
    """

    models: Sequence[str]
    prompts: Sequence[str]
    repeats: int
    plan_flags: Sequence[str] = ()
    flags: Sequence[str] = ()

    @property
    def num_cells(self) -> int:
        """Replies there are to be."""
        return len(self.models) * len(self.prompts) * self.repeats


def run_and_kill(
    ladder: Ladder, folder: Path, *, num_kills: int, seed: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run a ladder to its end through so many kills; return all replies that were told, and the record.

    A kill comes after a drawn number of lines, at a drawn part of the time to the next one.
    """
    drawn = random.Random(seed)
    file = folder / "prompts.txt"
    file.write_text("\n".join(ladder.prompts) + "\n", "utf-8")
    first = [*ladder.models, "--prompts", str(file), "--repeats", str(ladder.repeats), *ladder.plan_flags]
    told: list[dict[str, Any]] = []
    share = max(1, 2 * ladder.num_cells // max(1, num_kills))
    for kill in range(num_kills):
        num_lines = drawn.randrange(share + 1)
        arguments = first if kill == 0 else ["--resume", "last"]
        # Before the plan is on disk there is nothing to go on with.
        told += _killed(ladder, folder, arguments, max(1, num_lines) if kill == 0 else num_lines, drawn.random())
        if told and told[-1]["event"] == "comparison":
            return told, told[-1]["record"]
    done = subprocess.run(
        _command(ladder, folder, ["--resume", "last"]),
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=True,
    )
    told += [json.loads(line) for line in done.stdout.splitlines()]
    return told, told[-1]["record"]


def find_faults(ladder: Ladder, told: Sequence[dict[str, Any]], record: dict[str, Any]) -> list[str]:
    """Return what is lost, doubled or changed, a line each."""
    cells = {_place(cell): cell for cell in record["cells"]}
    columns = [column["id"] for column in record["columns"]]
    prompts = [prompt["id"] for prompt in record["prompts"]]
    wanted = set(itertools.product(columns, prompts, range(ladder.repeats)))
    faults = [f"missing: {place}" for place in sorted(wanted - set(cells))]
    if len(cells) != len(record["cells"]):
        faults.append("a reply is there twice")
    faults += [f"failed: {place}: {cell['error']}" for place, cell in cells.items() if cell["error"]]
    seen = [event for event in told if event["event"] == "cell"]
    for event in seen:
        if {key: event[key] for key in event if key != "event"} != cells.get(_place(event)):
            faults.append(f"told and not kept: {_place(event)}")
    if len({_place(event) for event in seen}) != len(seen):
        faults.append("a reply was made twice")
    return faults


def _place(cell: dict[str, Any]) -> tuple[str, str, int]:
    return cell["column"], cell["prompt"], cell["repeat"]


def _command(ladder: Ladder, folder: Path, arguments: Sequence[str]) -> list[str]:
    shared = ["--json", "--data-dir", str(folder / "data"), *ladder.flags]
    return [sys.executable, "-m", "app", "compare", *arguments, *shared]


def _killed(
    ladder: Ladder, folder: Path, arguments: Sequence[str], num_lines: int, part: float
) -> list[dict[str, Any]]:
    """Run until a number of lines came, and a moment longer; return what was told."""
    told: list[dict[str, Any]] = []
    with subprocess.Popen(
        _command(ladder, folder, arguments), cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        while len(told) < num_lines and (line := program.stdout.readline()):
            told.append(json.loads(line))
        try:
            program.wait(0.2 * part)
        except subprocess.TimeoutExpired:
            program.kill()
        rest = program.stdout.read()
        program.wait()
    # The last line may have been cut off by the kill.
    told += [json.loads(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    return told
