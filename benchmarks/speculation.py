"""Drafting on and off beside each other: `python -m benchmarks.speculation`.

Whole replies, in turns: plain, drafted, plain, drafted otherwise. Each drafted reply is held against the plain one
beside it, and the two plain ones against each other: that is the control, which says what the machine alone does.
Targets are the starter, the same as F16, and a synthetic deep model (`benchmarks.deep_target`), which is labelled so;
the draft model is the starter as Q4_0.
"""

import argparse
import contextlib
import datetime
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import psutil

from benchmarks.deep_target import write_deep
from benchmarks.engine import _processor
from benchmarks.model_files import MOSTLY_Q4_0, write_level
from benchmarks.peer_http import has_server
from benchmarks.speculation_cells import (
    BOTH,
    CONTROL,
    NGRAM,
    OFF,
    CellFigures,
    Key,
    Pair,
    Pairs,
    Prompt,
    StepCosts,
    Whole,
    cell_figures,
    cell_rows,
    load_prompts,
)
from benchmarks.speculation_engine import DraftingEngine, DraftingServer
from benchmarks.speculation_record import Record
from benchmarks.speculation_summary import DEEP, F16, OF_SERVER, Q4_1, server_rows, summary
from benchmarks.step_costs import step_costs
from engine import ProcessClient
from engine.backend_llama.library import library
from models import find_starter

TEMPERATURES = (0.0, 0.8)
_QUICK_PROMPTS = ("rename", "average", "essay")  # a copy, code and prose: with all else, 36 cells
_SERVER_DRAFTS = (2, 3, 5)


class Asked(Protocol):
    """Something that gives whole replies."""

    def ask(self, prompt: Prompt, temperature: float, mode: str, seed: int) -> Whole:
        """Return a whole reply."""


def measure(
    engines: Mapping[str, Asked], prompts: Sequence[Prompt], target: str, repeats: int, pairs: Pairs
) -> Iterator[str]:
    """Ask everything of one target, adding to `pairs`; yields what comes next, cell by cell.

    What `pairs` has already in full is left out.

    Args:
        engines: by mode, `off` among them; the order of the modes turns with each repeat.
    """
    modes = [mode for mode in engines if mode != OFF]
    for prompt in prompts:
        for temperature in TEMPERATURES:
            keys = {mode: Key(prompt.name, prompt.kind, temperature, target, mode) for mode in (*modes, CONTROL)}
            if all(len(pairs.get(key, ())) >= repeats for key in keys.values()):
                continue
            yield f"{target}, {prompt.name}, temperature {temperature:g}"
            found: dict[str, list[Pair]] = {mode: [] for mode in keys}
            for number in range(repeats):
                for mode, pair in _in_turns(engines, modes, prompt, temperature, number):
                    found[mode].append(pair)
            pairs.update({keys[mode]: each for mode, each in found.items()})


def _in_turns(
    engines: Mapping[str, Asked], modes: Sequence[str], prompt: Prompt, temperature: float, number: int
) -> Iterator[tuple[str, Pair]]:
    """Yield a pair for each mode, with a plain reply of its own, and the control: the first two plain ones."""
    start = number % len(modes)
    plain = []
    for mode in (*modes[start:], *modes[:start]):
        both = (OFF, mode) if number % 2 == 0 else (mode, OFF)
        replies = {each: engines[each].ask(prompt, temperature, each, number) for each in both}
        plain.append(replies[OFF])
        yield mode, Pair(replies[OFF], replies[mode])
    if len(plain) == 1:
        plain.append(engines[OFF].ask(prompt, temperature, OFF, number))
    yield CONTROL, Pair(plain[0], plain[1])


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


def _own(files: Files, prompts: Sequence[Prompt], repeats: int, record: Record) -> None:
    for target, path in files.targets.items():
        engine = DraftingEngine(ProcessClient(), path, files.draft)
        try:
            modes = (OFF, NGRAM, BOTH) if not engine.refusal else (OFF, NGRAM)
            if engine.refusal:
                record.notes.append(f"{target}: no draft model ({engine.refusal})")
            _follow(measure(dict.fromkeys(modes, engine), prompts, target, repeats, record.pairs), record)
        finally:
            engine.close()


def _server(files: Files, prompts: Sequence[Prompt], repeats: int, n_threads: int, record: Record) -> None:
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
            _follow(measure(servers, prompts, f"{target}{OF_SERVER}", repeats, record.pairs), record)


def _follow(cells: Iterator[str], record: Record) -> None:
    for text in cells:
        record.write()
        print(f"{datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)
    record.write()


def _costs(files: Files, n_threads: int, known: dict[str, StepCosts]) -> None:
    """Measure the steps of the targets whose costs are not known yet."""
    missing = {target: path for target, path in files.targets.items() if target not in known}
    draft = step_costs(library(), files.draft, n_threads=n_threads, counts=(1,))[1] if missing else None
    for target, path in missing.items():
        known[target] = StepCosts(step_costs(library(), path, n_threads=n_threads), draft)


def main(words: Sequence[str] | None = None) -> list[CellFigures]:
    """Measure, print the table, and return the cells of our own engine, the control among them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; default: the starter model")
    parser.add_argument("--quick", action="store_true", help="36 cells: three prompts")
    parser.add_argument("--prompts", default=None, help="names of prompts, with commas between them")
    parser.add_argument("--targets", default=None, help="q4_1, f16, deep, with commas between them")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    parser.add_argument("--server", action="store_true", help="llama.cpp's server as well, with the same draft model")
    parser.add_argument("--only-server", action="store_true", help="and nothing else")
    parser.add_argument("--json", type=Path, default=Path("build/speculation.json"), help="where all is written")
    parser.add_argument("--resume", action="store_true", help="go on with what that file has")
    parser.add_argument("--show", action="store_true", help="only print what that file has")
    arguments = parser.parse_args(words)
    if arguments.show:
        record = Record(arguments.json, "")
        record.read()
        return _told(record)
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
    record = Record(arguments.json, machine)
    if arguments.resume:
        record.read()
    with _files(starter, wanted) as files:
        _costs(files, arguments.threads, record.costs)
        if not arguments.only_server:
            _own(files, prompts, arguments.repeats, record)
        if (arguments.server or arguments.only_server) and has_server():
            _server(files, prompts, arguments.repeats, arguments.threads, record)
    return _told(record)


def _told(record: Record) -> list[CellFigures]:
    """Print what a record says, and return the cells of our own engine."""
    cells = [cell_figures(key, each, record.costs.get(key.target)) for key, each in record.pairs.items()]
    ours = [cell for cell in cells if cell.key.target in record.costs]
    print(
        "\n".join(
            [record.machine, "", *cell_rows(cells), "", *summary(ours), *server_rows(record.pairs), *record.notes]
        )
    )
    return ours


if __name__ == "__main__":
    main()
