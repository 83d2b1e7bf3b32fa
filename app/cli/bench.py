"""`fireside bench`: measures how fast a model runs here, and what of it the engine itself takes."""

import argparse
import contextlib
import datetime
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from app import __version__
from app.bench import (
    BenchDriver,
    BenchPlan,
    Measure,
    RunRecord,
    compared_rows,
    machine_state,
    measure_rows,
    noise_warning,
    read_record,
    run_scenarios,
    summarise,
)
from app.bench.record import ModelRecord, machine_record
from app.bench.report import Row, differences
from app.bench.statistics import median_ratio
from app.cli.arguments import whole_number
from app.cli.draft_commands import add_draft_layers_argument, with_layers, with_words
from app.cli.outcome import ExitCode, print_event
from app.cli.streams import is_terminal
from app.cli.terminal_text import one_line, safe_text
from app.draft_models import check_draft
from app.errors import SettingsError, StoreError, UsageError
from app.known_models import KnownModels
from app.model_choice import choose_model
from app.paths import Paths
from app.settings import SettingsStore
from app.speculation import DraftChoice
from app.store import ChatStore, Run, new_id
from engine import DraftMode, EngineClient, ModelParams, ProcessClient

_SLOTS = 12  # eight replies at once beside the chats that are kept
_FAKE_MODEL = "fake:"
_HEADINGS = ("", "median", "lowest .. highest", "spread", "bare loop")
_COMPARED = ("", "before", "now", "ratio", "")

MakeClient = Callable[[bool], EngineClient]


class _Target(NamedTuple):
    """What is measured."""

    path: str
    label: str
    fingerprint: str
    params: ModelParams
    plan: BenchPlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes."""
    parser.add_argument(
        "name", nargs="?", metavar="MODEL", help="the model; default: the one used last, else `starter`"
    )
    parser.add_argument("--repeats", type=whole_number, metavar="N", help="how often all is measured; default: 5")
    parser.add_argument(
        "--prompt-tokens", type=whole_number, metavar="N", help="length of the long prompt; default: 1024"
    )
    parser.add_argument("--busy", action="store_true", help="measure again beside a program that keeps one core busy")
    parser.add_argument(
        "--draft",
        metavar="MODEL|ngram|both",
        action="append",
        default=[],
        help="measure drafting on and off, with a draft model, the chat's own text, or both as in --draft both --draft "
        "MODEL",
    )
    add_draft_layers_argument(parser)
    parser.add_argument("--growth", action="store_true", help="follow one chat as it grows to 8,000 tokens")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="do what the run recorded in FILE did, and compare")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with the run recorded in FILE")
    parser.add_argument("--json", action="store_true", help="print JSON Lines")


def run(options: argparse.Namespace, paths: Paths, make_client: MakeClient | None = None) -> ExitCode:
    """Measure, print, and keep the record.

    Args:
        make_client: stands in for the engine process; takes whether it is to be the fake one.

    Raises:
        AppError, ModelsError, EngineError: it could not begin, or the engine failed.
    """
    replayed = read_record(options.replay) if options.replay else None
    other = read_record(options.against) if options.against else replayed
    target = _target(options, paths, replayed)

    def make() -> EngineClient:
        return make_client(options.fake_engine) if make_client else ProcessClient(fake=options.fake_engine)

    record = _measure(make, target, paths, is_quiet=options.json)
    _keep(record, paths)
    if options.json:
        _print_events(record, other)
    else:
        _print_tables(record, other)
    return ExitCode.DONE


def _target(options: argparse.Namespace, paths: Paths, replayed: RunRecord | None) -> _Target:
    name = options.name or options.model
    if replayed is not None and (
        options.repeats,
        options.prompt_tokens,
        options.busy,
        options.growth,
        options.draft,
        options.draft_gpu_layers,
    ) != (None, None, False, False, [], None):
        raise UsageError(
            "A replay takes its numbers from the file.",
            "Leave --repeats, --prompt-tokens, --busy, --growth, --draft and --draft-gpu-layers out.",
        )
    drafting = with_layers(with_words(DraftChoice(mode=DraftMode.OFF), options.draft, paths), options.draft_gpu_layers)
    asked = {
        "repeats": options.repeats,
        "prompt_tokens": options.prompt_tokens,
        "is_busy": options.busy,
        "is_growing": options.growth,
        "draft_mode": drafting.mode,
        "draft_path": drafting.wanted_path or "",
        "draft_gpu_layers": drafting.n_gpu_layers,
    }
    plan = replayed.plan if replayed else BenchPlan(**{key: value for key, value in asked.items() if value is not None})
    params = replayed.params if replayed else ModelParams(n_ctx=plan.n_ctx, n_seq_max=_SLOTS)
    if options.fake_engine:
        return _Target(name or _FAKE_MODEL, "fake engine", "", params, plan)
    name = name or (replayed.model.path if replayed else None)
    choice = choose_model(name, SettingsStore(paths.settings_file).load()[0], paths)
    if replayed is not None and choice.fingerprint != replayed.model.fingerprint:
        raise UsageError(f"{choice.label} is not the model of that run.", "Give the path of the same model.")
    if plan.draft_path:
        check = check_draft(choice.path, Path(plan.draft_path), params=params, n_gpu_layers=plan.draft_gpu_layers)
        if check.reason:
            raise UsageError(check.reason, check.hint)  # before anything is measured
    return _Target(str(choice.path), choice.label, choice.fingerprint, params, plan)


def _measure(make: Callable[[], EngineClient], target: _Target, paths: Paths, *, is_quiet: bool) -> RunRecord:
    settings = SettingsStore(paths.settings_file).load()[0]
    before = machine_state()
    with BenchDriver(make(), successor=make) as driver, _progress(is_quiet=is_quiet) as on_progress:
        engine = driver.describe()
        measures, model = run_scenarios(
            driver,
            target.path,
            target.params,
            target.plan,
            known=KnownModels.in_paths(paths),
            folder=paths.data_dir,
            on_progress=on_progress,
        )
    return RunRecord(
        id=new_id(),
        created_at=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        program=__version__,
        engine=engine,
        machine=machine_record(before, machine_state(), watts=settings.power_watts),
        model=ModelRecord(label=target.label, path=target.path, fingerprint=target.fingerprint, description=model),
        params=target.params,
        plan=target.plan,
        sampling=target.plan.sampling,
        measures=measures,
    )


@contextlib.contextmanager
def _progress(*, is_quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """Give a function that tells a person how far it is: on one line of a terminal, else a line for each repeat."""
    has_terminal = is_terminal(sys.stderr)
    last = ""

    def tell(text: str, share: float) -> None:
        nonlocal last
        if is_quiet:
            return
        if has_terminal:
            print(f"\r\x1b[K{one_line(f'{100 * share:3.0f} %  {text}')}", end="", file=sys.stderr, flush=True)
        elif text.partition(":")[0] != last:
            print(f"fireside: {text.partition(':')[0]}", file=sys.stderr, flush=True)
        last = text.partition(":")[0]

    try:
        yield tell
    finally:
        if has_terminal and last:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _keep(record: RunRecord, paths: Paths) -> None:
    """Keep the record with the chats, and the bandwidth for the readouts of replies; neither may cost the result."""
    bandwidth = summarise(getattr(record.measure("bandwidth"), "values", ()))
    if bandwidth is not None and record.model.fingerprint:
        note_bandwidth(paths, record.model.description.n_threads, bandwidth.median)
    try:
        store, _ = ChatStore.open(paths.database_file, lock_timeout_s=2.0)
        try:
            kept = Run(
                id=record.id,
                kind="bench",
                model_fingerprint=record.model.fingerprint,
                model_name=record.model.label,
                record=record.to_plain(),
            )
            store.add_run(kept).result(5.0)
        finally:
            store.close(1.0)
    except (StoreError, TimeoutError) as error:
        print(f"fireside: The run was not kept: {getattr(error, 'message', 'the chats are locked.')}", file=sys.stderr)


def note_bandwidth(paths: Paths, n_threads: int, read_bandwidth: float) -> None:
    """Remember how fast memory was read; a disk that cannot be written is no reason to stop."""
    store = SettingsStore(paths.settings_file)
    measured = {**store.load()[0].read_bandwidth, str(n_threads): round(read_bandwidth)}
    try:
        store.update(read_bandwidth=measured)
    except SettingsError as error:
        print(f"fireside: {error.message} {error.hint}", file=sys.stderr)


# Printing


def _print_events(record: RunRecord, other: RunRecord | None) -> None:
    for measure in record.measures:
        print_event("line", **_line(measure, other))
    print_event("run", record=record.to_plain(), warning=noise_warning(record))


def _line(measure: Measure, other: RunRecord | None) -> dict[str, Any]:
    summary = summarise(measure.values)
    line: dict[str, Any] = {
        "name": measure.name,
        "unit": measure.unit,
        "median": summary.median if summary else None,
        "min": summary.minimum if summary else None,
        "max": summary.maximum if summary else None,
        "repeats": len(measure.values),
    }
    if measure.bare:
        line["bare_ratio"] = median_ratio(measure.values, measure.bare)
    before = other.measure(measure.name) if other else None
    old = summarise(before.values) if before and before.unit == measure.unit else None
    if old is not None:
        line["against_median"] = old.median
        line["against_ratio"] = summary.median / old.median if summary and old.median else None
    return line


def _print_tables(record: RunRecord, other: RunRecord | None) -> None:
    description, machine = record.model.description, record.machine
    threads = "1 thread" if description.n_threads == 1 else f"{description.n_threads} threads"
    print(f"{safe_text(record.model.label)} ({safe_text(description.type_name)}), {threads}, on {description.device}")
    print(f"{machine.processor}, {_state(record)}")
    print()
    _print_table(_HEADINGS, measure_rows(record))
    print()
    if other is not None:
        print(f"Beside the run of {other.created_at}")
        for sentence in differences(record, other):
            print(sentence)
        print()
        _print_table(_COMPARED, compared_rows(record, other))
        print()
    if record.plan.repeats == 1:
        print("Each was measured once, so nothing can be said about how far they vary: try --repeats 5.")
    if warning := noise_warning(record):
        print(f"fireside: {warning}", file=sys.stderr)


def _state(record: RunRecord) -> str:
    before = record.machine.before
    parts = [f"{before.num_processors} processors"]
    if before.frequency_mhz:
        parts.append(f"{before.frequency_mhz / 1000:.1f} GHz")
    if before.load_average is not None:
        parts.append(f"load {before.load_average:.1f}")
    if before.power_source:
        parts.append(f"on {'the mains' if before.power_source == 'mains' else 'battery'}")
    return ", ".join(parts)


def _print_table(headings: Row, rows: list[Row]) -> None:
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    for row in table:
        first = row[0].ljust(widths[0])
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join((first, *cells)).rstrip())
