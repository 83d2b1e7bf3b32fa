"""The window beside its targets, each measured in a process of its own: `python -m benchmarks.window [--quick]`.

What is judged is the CPU time of the window's thread wherever that says what a person waits for, since it is nearly the
same on a busy machine; the time by the wall stands beside it and is not. Ratios are to a plain QTextBrowser in the same
run: one that is given the whole reply in each frame, and one that holds the whole chat.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.window_cases import CASES

_START_RUNS = 5
_CASE_TIMEOUT_S = 1800


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        value: is judged, None where it could not be measured.
        beside: other figures of the same measurement, and the ratio to the reference.
    """

    label: str
    value: float | None
    unit: str
    target: float | None = None
    beside: str = ""

    @property
    def verdict(self) -> str:
        """Say whether the target is met."""
        if self.value is None:
            return "failed to run"
        if self.target is None:
            return ""
        return "met" if self.value <= self.target else "MISSED"

    def cells(self) -> tuple[str, ...]:
        """Return what is printed."""
        digits = 2 if self.unit == "s" else 1
        value = "-" if self.value is None else f"{self.value:.{digits}f} {self.unit}"
        target = "" if self.target is None else f"<= {self.target:g} {self.unit}"
        return self.label, value, target, self.verdict, self.beside


class Run:
    """The outcomes of the cases by name; an empty one for a case that was not run or has failed."""

    def __init__(self, names: list[str], *, is_quick: bool) -> None:
        self.outcomes = {name: self._run(name, is_quick) for name in names}

    def of(self, name: str, key: str) -> float | None:
        """Return one figure."""
        return self.outcomes.get(name, {}).get(key)

    def text(self, name: str, template: str, *keys: str) -> str:
        """Return figures in a sentence, empty where they are missing."""
        values = [self.of(name, key) for key in keys]
        return "" if None in values else template.format(*values)

    def ratio(self, ours: tuple[str, str], theirs: tuple[str, str], what: str) -> str:
        """Return how many times the reference's figure ours is."""
        mine, reference = self.of(*ours), self.of(*theirs)
        return "" if mine is None or not reference else f"; {mine / reference:.2f} x {what} ({reference:.1f} ms)"

    def _run(self, name: str, is_quick: bool) -> dict[str, Any]:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "benchmarks.window_cases", name, *(["--quick"] if is_quick else [])]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=_environment(), timeout=_CASE_TIMEOUT_S
        )
        if done.returncode != 0 or not done.stdout.strip():
            print(done.stderr, file=sys.stderr)
            return {}
        outcome: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return outcome


def rows_of(run: Run, start_s: list[tuple[float, float]]) -> list[Row]:
    """Return the table."""
    p50, p99 = ("stream", "p50_cpu"), ("stream", "p99_cpu")
    whole = "setMarkdown of the whole reply"
    document = "one document of the whole chat"
    return [
        Row(
            "CPU per frame at 300 tokens/s into 8,000 tokens below 400 messages, p99",
            run.of(*p99),
            "ms",
            8,
            run.text("stream", "p50 {:.1f}, longest {:.1f}, {:.0f} updates/s", "p50_cpu", "max_cpu", "updates_per_s")
            + run.ratio(p50, ("stream_whole", "p50_cpu"), f"the p50 of {whole}")
            + run.ratio(p99, ("stream_whole", "p99_cpu"), "its p99"),
        ),
        Row("longest stall meanwhile, by the wall", run.of("stream", "stall"), "ms", 50, "heartbeat of 5 ms"),
        Row(
            "a chat of 400 messages opens, median CPU",
            run.of("opening", "p50_cpu"),
            "ms",
            100,
            run.text(
                "opening",
                "by the wall {:.0f}; the first one {:.0f} CPU; work after the paint {:.0f} CPU",
                *("p50", "first_cpu", "later_cpu"),
            )
            + run.ratio(("opening", "p50_cpu"), ("one_document", "p50_cpu"), document),
        ),
        Row(
            "wheel step through 2,000 messages, CPU p99",
            run.of("moving", "wheel_p99_cpu"),
            "ms",
            16,
            run.text(
                "moving",
                "{} steps, p50 {:.1f}, longest {:.1f}; by the wall p99 {:.1f}; work between steps at most {:.1f}",
                *("wheel_steps", "wheel_p50_cpu", "wheel_max_cpu", "wheel_p99", "idle_max"),
            ),
        ),
        Row(
            "jump to a far place in it, longest CPU",
            run.of("moving", "jump_max_cpu"),
            "ms",
            None,
            run.text("moving", "median {:.1f}; by the wall {:.1f}", "jump_p50_cpu", "jump_p50"),
        ),
        Row(
            "resize step with it, median CPU",
            run.of("moving", "resize_p50_cpu"),
            "ms",
            16,
            run.text("moving", "longest {:.1f}; by the wall {:.1f}", "resize_max_cpu", "resize_p50")
            + run.ratio(("moving", "resize_p50_cpu"), ("one_document", "resize_p50_cpu"), "one document of 400"),
        ),
        Row(
            "memory of the window's process with that chat, looked through",
            run.of("memory", "looked_through"),
            "MB",
            160,
            run.text("memory", "without a chat {:.0f}, opened {:.0f}; loaded too early: {}", *_MEMORY_KEYS),
        ),
        Row(
            "window usable after process start, median",
            statistics.median(wall for wall, _ in start_s) if start_s else None,
            "s",
            0.7,
            _start_text(start_s),
        ),
        Row(
            "key in a draft of 100,000 characters, CPU p99",
            run.of("typing", "p99_cpu"),
            "ms",
            8,
            run.text("typing", "p50 {:.1f}, longest {:.1f}; by the wall p99 {:.1f}", "p50_cpu", "max_cpu", "p99"),
        ),
        Row(
            "search in 10,000 chats, slowest of 8 by the wall",
            run.of("search", "max"),
            "ms",
            50,
            run.text("search", "median {:.1f}; slowest: {!r}", "p50", "slowest"),
        ),
    ]


_MEMORY_KEYS = ("empty", "opened", "loaded")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps, and search in 1,000 chats only")
    parser.add_argument("--only", choices=[*CASES, "start"], nargs="+", help="these measurements only")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    arguments = parser.parse_args()
    names = arguments.only or [*CASES, "start"]
    start_s = start_times(2 if arguments.quick else _START_RUNS) if "start" in names else []
    run = Run([name for name in CASES if name in names], is_quick=arguments.quick)
    rows = [row.cells() for row in rows_of(run, start_s) if not arguments.only or row.value is not None]
    machine = (
        f"{_processor()}, {os.cpu_count()} processors, {platform.system()}, "
        f"{_environment()['QT_QPA_PLATFORM']}{', quick' if arguments.quick else ''}; "
        f"{datetime.date.today().isoformat()}; load average {_load_average()}"
    )
    if arguments.json:
        print(json.dumps({"machine": machine, "rows": rows, "figures": run.outcomes}))
        return
    print(machine + "\n\n| measure | value | target | verdict | beside |\n|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    if failed := [name for name, outcome in run.outcomes.items() if not outcome]:
        sys.exit(f"failed to run: {', '.join(failed)}")


def _start_text(start_s: list[tuple[float, float]]) -> str:
    if not start_s:
        return ""
    wall, cpu = zip(*start_s, strict=True)
    return f"{min(wall):.2f} to {max(wall):.2f}, by the wall; CPU {statistics.median(cpu):.2f}"


def start_times(repeats: int) -> list[tuple[float, float]]:
    """Return seconds from process start until the window has painted and its event loop is idle: wall and CPU."""
    print("running start ...", file=sys.stderr, flush=True)
    environment = _environment()
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode
    runs = []
    for _ in range(repeats + 1):
        command = [sys.executable, "-m", "benchmarks.window_start", str(time.time())]
        output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        wall, cpu = output.split()[-2:]
        runs.append((float(wall), float(cpu)))
    return runs[1:]  # the first one writes the bytecode


def _environment() -> dict[str, str]:
    return {**os.environ, "QT_QPA_PLATFORM": os.environ.get("QT_QPA_PLATFORM", "offscreen")}


def _load_average() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
