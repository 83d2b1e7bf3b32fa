"""Predicted and measured memory of the starter at several levels, contexts and cache types: `python -m benchmarks.fit`.

Each line is a load in a worker of its own and one reply to a prompt that fills what is computed at a time. Measured is
the high-water resident memory of the worker since the load began. "After one load" is the worst error of a line when
the record has seen any single other one of the lines.
"""

import argparse
import datetime
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import psutil

from app.cli.session import Answer, ChatSession
from app.memory_record import reckoned_peak
from benchmarks.engine import _processor
from engine import ChatMessage, ModelParams, ProcessClient, RequestMetrics, Role, SamplingParams
from engine.backend_llama.library import library
from models import find_starter

_MIB = 1 << 20
LEVELS = {"F16": 1, "Q8_0": 7, "Q6_K": 18, "Q4_K_M": 15, "Q4_0": 2, "Q3_K_M": 12, "Q2_K": 10}  # llama_ftype
CONTEXTS = (1024, 4096, 8192)
CACHE_TYPES = ("f16", "q8_0")
_LINE = "On day {} the ferry left the harbour before dawn and came back with {} letters for the keeper. "


class Line(NamedTuple):
    """One load.

    Attributes:
        predicted: bytes, without any correction.
        measured: bytes.
    """

    level: str
    n_ctx: int
    cache_type: str
    predicted: int
    measured: int

    def error(self, offset: int = 0) -> float:
        """Return the error of the prediction, as a share of what was measured."""
        return (self.predicted + offset - self.measured) / self.measured


def write_level(source: Path, target: Path, level: str) -> None:
    """Write a file at another level."""
    llama = library()
    params = llama.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize = LEVELS[level], True
    if llama.llama_model_quantize(str(source).encode(), str(target).encode(), params):
        raise RuntimeError(f"{level} could not be written")


def measure(path: Path, level: str, n_ctx: int, cache_type: str) -> Line:
    """Load a file and have one reply."""
    # One thread takes the same memory, and waits for no other program.
    params = ModelParams(n_ctx=n_ctx, n_threads=1, type_k=cache_type, type_v=cache_type)
    prompt = "".join(_LINE.format(day, day * 7) for day in range(24))  # over 512 tokens
    with ChatSession(ProcessClient()) as session:
        features = session.describe_engine().features
        for _ in session.load(str(path), params):
            pass
        metrics = None
        for item in session.ask((ChatMessage(role=Role.USER, content=prompt),), SamplingParams(max_tokens=4)):
            if isinstance(item, Answer):
                metrics = item.finished.metrics
        assert isinstance(metrics, RequestMetrics)
        assert session.model is not None
        reckoned = reckoned_peak(session.model, features=features)
    assert metrics.peak_memory_bytes is not None
    assert reckoned is not None
    return Line(level, n_ctx, cache_type, reckoned, metrics.peak_memory_bytes)


def table(lines: list[Line]) -> list[str]:
    """Return the lines of the table."""
    rows = [
        "| level | context | cache | predicted | measured | error before | error after one load |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for line in lines:
        after = max((line.error(o.measured - o.predicted) for o in lines if o is not line), key=abs, default=0.0)
        rows.append(
            f"| {line.level} | {line.n_ctx:,} | {line.cache_type} | {line.predicted / _MIB:,.0f} MiB "
            f"| {line.measured / _MIB:,.0f} MiB | {line.error():+.1%} | {after:+.1%} |"
        )
    return rows


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", nargs="*", default=list(LEVELS), choices=list(LEVELS))
    parser.add_argument("--contexts", nargs="*", type=int, default=list(CONTEXTS))
    parser.add_argument("--json", type=Path, default=Path("build/fit.json"), help="where all values are written")
    arguments = parser.parse_args()
    source = find_starter()
    if source is None:
        sys.exit("The starter model is not installed: run `make run` once.")
    memory = psutil.virtual_memory().total / (1 << 30)
    machine = f"{_processor()}, {memory:.0f} GiB, {platform.system()}; {datetime.date.today().isoformat()}"
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        f16 = Path(folder) / "F16.gguf"
        write_level(source, f16, "F16")
        for level in arguments.levels:
            path = Path(folder) / f"{level}.gguf"
            if path != f16:
                write_level(f16, path, level)
            for n_ctx in arguments.contexts:
                for cache_type in CACHE_TYPES:
                    lines.append(measure(path, level, n_ctx, cache_type))
                    print(lines[-1], file=sys.stderr, flush=True)
            path.unlink() if path != f16 else None
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps([line._asdict() for line in lines], indent=1) + "\n", encoding="utf-8")
    print("\n".join([machine, "", *table(lines)]))


if __name__ == "__main__":
    main()
