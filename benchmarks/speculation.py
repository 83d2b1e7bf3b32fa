"""Drafting on and off beside each other: `python -m benchmarks.speculation`.

Whole replies, in turns: plain, drafted, plain, drafted otherwise. Each drafted reply is held against the plain one
beside it, and the two plain ones against each other: that is the control, which says what the machine alone does.
Targets are the starter, the same as F16, and a synthetic deep model (`benchmarks.deep_target`), which is labelled so;
the draft model is the starter as Q4_0.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import psutil

from benchmarks.deep_target import write_deep
from benchmarks.engine import _processor
from benchmarks.model_files import MOSTLY_Q4_0, write_level
from benchmarks.peer_http import has_server
from benchmarks.speculation_cells import (
    BOTH,
    NGRAM,
    OFF,
    CellFigures,
    Key,
    Pair,
    Prompt,
    StepCosts,
    Whole,
    cell_figures,
    cell_rows,
    load_prompts,
    never_loses,
    worst,
)
from benchmarks.speculation_engine import DraftingEngine, DraftingServer
from benchmarks.step_costs import step_costs
from engine import ProcessClient
from engine.backend_llama.library import library
from models import find_starter

Q4_1, F16, DEEP = "Q4_1", "F16", "deep F16 (synthetic)"
CONTROL = "control"
TEMPERATURES = (0.0, 0.8)
_QUICK_PROMPTS = ("tense", "essay")  # two of 20: with all else, 24 cells
_SERVER_DRAFTS = (2, 3, 5)


class Asked(Protocol):
    """Something that gives whole replies."""

    def ask(self, prompt: Prompt, temperature: float, mode: str, seed: int) -> Whole:
        """Return a whole reply."""


Pairs = dict[Key, list[Pair]]


def measure(
    engines: Mapping[str, Asked], prompts: Sequence[Prompt], target: str, repeats: int, pairs: Pairs
) -> Iterator[str]:
    """Ask everything of one target, adding to `pairs`; yields what comes next.

    Args:
        engines: by mode, `off` among them; the order of the modes turns with each repeat.
    """
    modes = [mode for mode in engines if mode != OFF]
    for number in range(repeats):
        for temperature in TEMPERATURES:
            for prompt in prompts:
                yield f"{target}, repeat {number + 1} of {repeats}, temperature {temperature:g}: {prompt.name}"
                order = modes[number % len(modes) :] + modes[: number % len(modes)]
                plain = []
                for mode in order:
                    both = (OFF, mode) if number % 2 == 0 else (mode, OFF)
                    replies = {each: engines[each].ask(prompt, temperature, each, number) for each in both}
                    plain.append(replies[OFF])
                    key = Key(prompt.name, prompt.kind, temperature, target, mode)
                    pairs.setdefault(key, []).append(Pair(replies[OFF], replies[mode]))
                if len(plain) == 1:
                    plain.append(engines[OFF].ask(prompt, temperature, OFF, number))
                key = Key(prompt.name, prompt.kind, temperature, target, CONTROL)
                pairs.setdefault(key, []).append(Pair(plain[0], plain[1]))


def summary(cells: Sequence[CellFigures]) -> list[str]:
    """Return the sentences below the table: the worst cell, the control, and what is won."""
    drafted = [cell for cell in cells if cell.key.mode != CONTROL]
    control = [cell for cell in cells if cell.key.mode == CONTROL]
    lines = []
    for label, group in (("Worst cell", worst(drafted)), ("Worst of the control (plain beside plain)", worst(control))):
        if group is not None:
            key = group.key
            place = f"{key.prompt}, temperature {key.temperature:g}, {key.target}, {key.mode}"
            lines.append(f"{label}: {group.speedup:.2f}, {place}.")
    outcome = never_loses(drafted, control)
    if outcome is not None:
        lines.append(f"Never loses, within 0.02 of the control: {'yes' if outcome else 'no'}.")
    wins = {
        f"n-gram, texts told again with a change, {F16}": (F16, NGRAM, ("copy",)),
        f"draft model or n-gram, code and such texts, {DEEP}": (DEEP, BOTH, ("copy", "code")),
    }
    for label, (target, mode, kinds) in wins.items():
        found = [
            cell
            for cell in drafted
            if (cell.key.target, cell.key.mode) == (target, mode) and cell.key.kind in kinds and not cell.is_loop
        ]
        if found:
            lines.append(f"{label}, loops left out: {_range(found)}.")
    return lines


def _range(cells: Sequence[CellFigures]) -> str:
    parts = []
    for label, values in (
        ("speed-up", sorted(cell.speedup for cell in cells if cell.speedup is not None)),
        ("of the ideal", sorted(cell.share for cell in cells if cell.share is not None)),
    ):
        if values:
            middle = values[len(values) // 2]
            parts.append(f"{label} {middle:.2f} ({values[0]:.2f} to {values[-1]:.2f})")
    return ", ".join(parts) or "nothing was measured"


class Files(NamedTuple):
    """The models of a run."""

    targets: dict[str, Path]
    draft: Path


@contextlib.contextmanager
def _files(starter: Path, wanted: Sequence[str]) -> Iterator[Files]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draft = write_level(starter, folder / "draft-Q4_0.gguf", MOSTLY_Q4_0)
        targets = {Q4_1: starter}
        if F16 in wanted or DEEP in wanted:
            targets[F16] = write_level(starter, folder / "F16.gguf")
        if DEEP in wanted:
            targets[DEEP] = write_deep(targets[F16], folder / "deep-F16.gguf")
        yield Files({target: targets[target] for target in wanted}, draft)


def _own(files: Files, prompts: Sequence[Prompt], repeats: int, pairs: Pairs) -> list[str]:
    notes = []
    for target, path in files.targets.items():
        engine = DraftingEngine(ProcessClient(), path, files.draft)
        try:
            modes = (OFF, NGRAM, BOTH) if not engine.refusal else (OFF, NGRAM)
            if engine.refusal:
                notes.append(f"{target}: no draft model ({engine.refusal})")
            for text in measure(dict.fromkeys(modes, engine), prompts, target, repeats, pairs):
                _say(text)
        finally:
            engine.close()
    return notes


def _server(files: Files, prompts: Sequence[Prompt], repeats: int, n_threads: int, pairs: Pairs) -> None:
    options: dict[str, tuple[str, ...]] = {OFF: (), "server n-gram": ("--ngram",)}
    options |= {
        f"server draft {most}": ("--draft", str(files.draft), "--draft-max", str(most)) for most in _SERVER_DRAFTS
    }
    for target, path in files.targets.items():
        with contextlib.ExitStack() as stack:
            servers = {}
            for mode, flags in options.items():
                servers[mode] = DraftingServer(path, n_threads, flags)
                stack.callback(servers[mode].close)
            for text in measure(servers, prompts, f"{target}, llama.cpp server", repeats, pairs):
                _say(text)


def _costs(files: Files, n_threads: int) -> dict[str, StepCosts]:
    draft = step_costs(library(), files.draft, n_threads=n_threads, counts=(1,))[1]
    return {
        target: StepCosts(step_costs(library(), path, n_threads=n_threads), draft)
        for target, path in files.targets.items()
    }


def _plain(pairs: Pairs, costs: Mapping[str, StepCosts]) -> dict[str, Any]:
    """Return everything as it is written."""
    return {
        "pairs": [
            {"cell": key._asdict(), "pairs": [[reply._asdict() for reply in pair] for pair in each]}
            for key, each in pairs.items()
        ],
        "step_s": {target: {"target": dict(each.target_s), "draft": each.draft_s} for target, each in costs.items()},
    }


def main(words: Sequence[str] | None = None) -> list[CellFigures]:
    """Measure, print the table, and return the cells of our own engine, the control among them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; default: the starter model")
    parser.add_argument("--quick", action="store_true", help="24 cells: two prompts")
    parser.add_argument("--prompts", default=None, help="names of prompts, with commas between them")
    parser.add_argument("--targets", default=None, help="q4_1, f16, deep, with commas between them")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    parser.add_argument("--server", action="store_true", help="llama.cpp's server as well, with the same draft model")
    parser.add_argument("--only-server", action="store_true", help="and nothing else")
    parser.add_argument("--json", type=Path, default=Path("build/speculation.json"), help="where all is written")
    arguments = parser.parse_args(words)
    starter = arguments.model or find_starter()
    if starter is None:
        sys.exit("The starter model is not installed: run `make run` once.")
    prompts = load_prompts()
    if arguments.prompts or arguments.quick:
        names = arguments.prompts.split(",") if arguments.prompts else _QUICK_PROMPTS
        prompts = [prompt for prompt in prompts if prompt.name in names]
    short = {"q4_1": Q4_1, "f16": F16, "deep": DEEP}
    wanted = [short[name] for name in (arguments.targets or ",".join(short)).split(",") if name in short]
    if not prompts or not wanted:
        parser.error("there is no such prompt or target")
    machine = (
        f"{_processor()}, {psutil.cpu_count()} processors, {platform.system()}; {starter.stem}; "
        f"{datetime.date.today().isoformat()}; load average {os.getloadavg()[0]:.1f}"
    )
    pairs: Pairs = {}
    notes: list[str] = []
    with _files(starter, wanted) as files:
        costs = _costs(files, arguments.threads)
        if not arguments.only_server:
            notes += _own(files, prompts, arguments.repeats, pairs)
        if (arguments.server or arguments.only_server) and has_server():
            _server(files, prompts, arguments.repeats, arguments.threads, pairs)
    cells = [cell_figures(key, each, costs.get(key.target)) for key, each in pairs.items()]
    ours = [cell for cell in cells if cell.key.target in costs]
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine, "notes": notes, **_plain(pairs, costs)}
    arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join([machine, "", *cell_rows(cells), "", *summary(ours), *notes]))
    return ours


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
