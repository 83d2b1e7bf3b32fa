"""`fireside quantize`: make smaller files of a model, one type or several; nothing is left of one that fails."""

import argparse
import queue
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.cli.outcome import ExitCode, ShownError, exit_code_of, print_event, print_failed, show_error
from app.cli.session import ChatSession
from app.cli.streams import is_terminal, read_text_file
from app.cli.terminal_text import one_line, safe_text
from app.errors import UsageError
from app.known_models import KnownModels
from app.model_choice import model_path, told_as_file_errors
from app.paths import Paths
from engine import ImportanceBuilt, ModelParams, ProcessClient
from models import (
    QUANTIZE_TYPES,
    QuantizeEnd,
    QuantizeError,
    QuantizePlan,
    QuantizeProgress,
    QuantizeResult,
    QuantizeRun,
    default_output,
    find_quantize_type,
    plan_ladder,
)

_POLL_S = 0.1
_PROGRESS_INTERVAL_S = 0.1
_IMPORTANCE_CTX = 512  # the matrix is computed in a context of its own; this one is not used
_BUNDLED = "bundled"
_MIB = 2**20

_News = QuantizeProgress | QuantizeResult | None  # None is the end


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    rows = (f"  {kind.name:<10}{kind.bits_per_weight:>6.4g}  {kind.help}" for kind in QUANTIZE_TYPES.values())
    parser.epilog = "types, with bits a weight:\n" + "\n".join(rows)
    parser.add_argument("source", metavar="SRC", help="path of a .gguf file, or `starter`; F16 or BF16 is best")
    parser.add_argument("types", metavar="TYPE", help="see below; several, as in `Q8_0,Q4_K_M`, are made one by one")
    parser.add_argument("--output", metavar="FILE", help="file to make, or a folder; default: in the folder of models")
    parser.add_argument("--imatrix", metavar="FILE", help="importance matrix of this model to use")
    parser.add_argument(
        "--imatrix-text",
        metavar="FILE",
        help=f"compute the importance matrix on this text; `{_BUNDLED}` is the one that comes with Fireside, which is "
        "taken by itself for types that need one",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there already")
    parser.add_argument("--dry-run", action="store_true", help="tell what would be made, and its exact size")
    parser.add_argument("--json", action="store_true", help="print JSON Lines")


def run(options: argparse.Namespace, paths: Paths) -> ExitCode:
    """Plan all files, then make those that can be made.

    Raises:
        AppError, ModelsError, EngineError: nothing can be made.
        KeyboardInterrupt: it was given up; nothing is left of what was being made.
    """
    if options.imatrix and options.imatrix_text:
        raise UsageError("--imatrix and --imatrix-text exclude each other.", "Give the one or the other.")
    source = model_path(options.source, paths)
    outputs = _outputs(options, source, paths)
    text = _text(options)
    imatrix = Path(options.imatrix).expanduser().absolute() if options.imatrix else None
    if imatrix is not None and not imatrix.is_file():
        raise UsageError(f"There is no file {imatrix}.", "Give the file of an importance matrix.")
    builds = imatrix is None and (text is not None or any(find_quantize_type(name).needs_imatrix for name in outputs))
    overwrite = options.dry_run or options.overwrite or _may_replace(outputs, options)
    with told_as_file_errors(source):
        planned = plan_ladder(source, outputs, imatrix=imatrix, builds_imatrix=builds, overwrite=overwrite)
    report = _Report(options)
    plans = [plan for plan in map(report.planned, outputs, planned) if plan is not None]
    if options.dry_run or not plans:
        return report.exit_code
    plans = list(report.with_room(plans))
    if not plans:
        return report.exit_code
    if not builds:
        return _make(plans, report, None)
    with tempfile.TemporaryDirectory(prefix="fireside-") as folder:
        matrix = Path(folder) / "importance"
        _build_importance(plans[0].source, matrix, text or "", options, paths)
        return _make(plans, report, matrix)


def _outputs(options: argparse.Namespace, source: Path, paths: Paths) -> dict[str, Path]:
    names = [name for name in options.types.split(",") if name.strip()]
    kinds = list(dict.fromkeys(find_quantize_type(name).name for name in names))
    if not kinds:
        raise UsageError("There is no type to quantise to.", "Give one, as in `fireside quantize starter Q4_K_M`.")
    if options.output is None:
        folder, chosen = paths.models_dir, None
    else:
        chosen = Path(options.output).expanduser().absolute()
        folder = chosen
    if chosen is not None and not (chosen.is_dir() or options.output.endswith(("/", "\\"))):
        if len(kinds) > 1:
            raise UsageError(f"--output is no folder, and {len(kinds)} files are to be made.", "Give a folder.")
        return {kinds[0]: chosen}
    return {kind: default_output(source, kind, folder) for kind in kinds}


def _text(options: argparse.Namespace) -> str | None:
    """Return the text for the importance matrix: "" is the one that comes with the program, None is not asked for."""
    if options.imatrix_text is None:
        return None
    return "" if options.imatrix_text == _BUNDLED else read_text_file(options.imatrix_text)


def _may_replace(outputs: dict[str, Path], options: argparse.Namespace) -> bool:
    there = [path for path in outputs.values() if path.exists()]
    if not there or options.json or not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return False
    names = ", ".join(safe_text(path.name) for path in there)
    question = f"{names} {'is' if len(there) == 1 else 'are'} there already. Replace? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class _Report:
    """Prints what happens, for a person or a program, and remembers how it went."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._as_json = options.json
        self._debug = options.debug
        self._is_terminal = is_terminal(sys.stderr) and not options.json
        self._shown_at = 0.0
        self.exit_code = ExitCode.DONE

    def planned(self, name: str, plan: QuantizePlan | QuantizeError) -> QuantizePlan | None:
        """Tell of a plan, and return it where there is one."""
        if isinstance(plan, QuantizeError):
            self.failed(name, plan)
            return None
        if self._as_json:
            print_event("plan", **_plan_fields(plan))
            return plan
        counts = ", ".join(f"{count} {kind}" for kind, count in plan.type_counts.items())
        size = f"{plan.output_bytes:,} bytes ({_size(plan.output_bytes)}, {plan.bits_per_weight:.2f} bits a weight)"
        print(f"{plan.type.name}: {size}, from {_size(plan.source_bytes)}; tensors: {counts}")
        for warning in plan.warnings:
            print(f"fireside: {safe_text(warning)}", file=sys.stderr)
        return plan

    def with_room(self, plans: list[QuantizePlan]) -> Iterator[QuantizePlan]:
        """Yield the plans whose files fit on the disk beside those before them; the others fail."""
        reserved = 0
        for plan in plans:
            try:
                plan.check_room(reserved)
            except QuantizeError as error:
                self.failed(plan.type.name, error)
                continue
            reserved += plan.output_bytes
            yield plan

    def failed(self, name: str, error: ShownError) -> None:
        """Tell of a file that will not be."""
        self.exit_code = self.exit_code or exit_code_of(error)
        show_error(error, debug=self._debug)
        if self._as_json:
            print_failed(error, type=name)

    def progressed(self, progress: QuantizeProgress) -> None:
        """Tell how far it is, not too often."""
        plan, now = progress.plan, time.monotonic()
        if now - self._shown_at < _PROGRESS_INTERVAL_S and progress.share < 1:
            return
        self._shown_at = now
        if self._as_json:
            fields = {"num_tensors_done": progress.num_tensors_done, "num_tensors": len(plan.tensors)}
            rest = {"share": progress.share, "elapsed_s": progress.elapsed_s, "remaining_s": progress.remaining_s}
            print_event("progress", type=plan.type.name, **fields, **rest)
        elif self._is_terminal:
            left = "" if progress.remaining_s is None else f", {_time(progress.remaining_s)} left"
            place = f" ({progress.index + 1} of {progress.num_plans})" if progress.num_plans > 1 else ""
            tensors = f"{progress.num_tensors_done} of {len(plan.tensors)} tensors"
            self._line(f"{progress.share:4.0%}  {plan.type.name}{place}: {tensors}{left}")

    def importance(self, num_done: int, num_chunks: int) -> None:
        """Tell how far the importance matrix is."""
        if self._as_json:
            print_event("importance", num_chunks_done=num_done, num_chunks=num_chunks)
        elif self._is_terminal:
            self._line(f"{num_done / max(1, num_chunks):4.0%}  reading a text for the importance matrix")

    def ended(self, result: QuantizeResult) -> None:
        """Tell what became of one file."""
        self.clear_line()
        plan = result.plan
        if result.end is QuantizeEnd.FAILED and result.error is not None:
            self.failed(plan.type.name, result.error)
        elif result.end is QuantizeEnd.CANCELLED:
            if self._as_json:
                print_event("cancelled", type=plan.type.name)
        elif self._as_json:
            print_event("finished", **_plan_fields(plan), seconds=result.seconds)
        else:
            size, seconds = _size(plan.output_bytes), _time(result.seconds)
            print(f"{plan.type.name}: {size} in {seconds}, {safe_text(str(plan.output))}")

    def clear_line(self) -> None:
        """Take the line of progress away."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _line(self, text: str) -> None:
        print(f"\r\x1b[K{one_line(text)}", end="", file=sys.stderr, flush=True)


def _build_importance(source: Path, matrix: Path, text: str, options: argparse.Namespace, paths: Paths) -> None:
    report = _Report(options)
    session = ChatSession(ProcessClient(fake=options.fake_engine))
    with session, _line_of(report), session.interrupted_by_ctrl_c():
        for _ in session.load(str(source), ModelParams(n_ctx=_IMPORTANCE_CTX), KnownModels.in_paths(paths)):
            pass
        name = Path(options.imatrix_text or _BUNDLED).name
        for event in session.build_importance(str(matrix), text=text, text_name=name):
            num_done = event.num_chunks if isinstance(event, ImportanceBuilt) else event.num_chunks_done
            report.importance(num_done, event.num_chunks)


@contextmanager
def _line_of(report: _Report) -> Iterator[None]:
    try:
        yield
    finally:
        report.clear_line()


def _make(plans: list[QuantizePlan], report: _Report, imatrix: Path | None) -> ExitCode:
    news: queue.SimpleQueue[_News] = queue.SimpleQueue()
    making = QuantizeRun(
        plans, imatrix=imatrix, on_progress=news.put, on_result=news.put, on_end=lambda results: news.put(None)
    )
    making.start()
    try:
        while (item := _next(news)) is not None:
            if isinstance(item, QuantizeProgress):
                report.progressed(item)
            else:
                report.ended(item)
    except BaseException:  # Ctrl-C, or a reader that has gone
        making.cancel()
        raise
    finally:
        making.wait()
        report.clear_line()
    return report.exit_code


def _next(news: queue.SimpleQueue[_News]) -> _News:
    while True:  # where a wait cannot be interrupted by a signal (Windows), Ctrl-C is seen after at most this long
        with suppress(queue.Empty):
            return news.get(timeout=_POLL_S)


def _plan_fields(plan: QuantizePlan) -> dict[str, Any]:
    return {
        "type": plan.type.name,
        "source": str(plan.source),
        "source_bytes": plan.source_bytes,
        "path": str(plan.output),
        "output_bytes": plan.output_bytes,
        "bits_per_weight": plan.bits_per_weight,
        "tensor_types": plan.type_counts,
        "num_fallback": plan.num_fallback,
        "has_imatrix": plan.has_imatrix,
        "free_bytes": plan.free_bytes,
        "warnings": list(plan.warnings),
    }


def _size(num_bytes: int) -> str:
    mebibytes = num_bytes / _MIB
    return f"{mebibytes / 1024:.2f} GiB" if mebibytes >= 1024 else f"{mebibytes:.1f} MiB"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
