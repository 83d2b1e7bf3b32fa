"""`fireside compare`: the same prompts through several models, one after the other, and what each costs and says."""

import argparse
import contextlib
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from app.cli.arguments import whole_number
from app.cli.compare_columns import ColumnPlan, add_column_arguments, column_from, column_plan, reference_of
from app.cli.compare_display import Display, JsonDisplay, TableDisplay
from app.cli.outcome import ExitCode
from app.compare.again import plan_again
from app.compare.plan import MAX_SAMPLES, MAX_TOKENS, context_for, fair_sampling, new_comparison
from app.compare.prompt_sets import PromptSet, read_prompts, short_prompts
from app.compare.report import check_report_path, write_report
from app.compare.results import Comparison, Mode, PromptItem
from app.compare.room_check import RoomCheck
from app.compare.run_folder import LAST, begin_run, keep, read_record, resume_run
from app.compare.runner import CompareRun, Services
from app.errors import ReportNotSaved, UsageError
from app.paths import Paths
from app.settings import Settings, SettingsStore
from engine import ChatMessage, EngineClient, ModelParams, ProcessClient, Role, SamplingParams

_FAKE_MODEL = "fake:"
_MOST_TOKENS = 1_000_000

MakeClient = Callable[[bool], EngineClient]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes."""
    parser.add_argument("names", nargs="*", metavar="MODEL", help="the models: paths, names, or `starter`")
    add_column_arguments(parser)
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--prompt", metavar="TEXT", help="what to ask; default: a short set of our own")
    asked.add_argument("--prompts", metavar="FILE", help="a file of prompts: .txt, .md, .json or .jsonl")
    parser.add_argument("--repeats", type=whole_number, metavar="N", help="how often each is asked; default: 1")
    parser.add_argument(
        "--max-tokens", type=whole_number, metavar="N", help=f"longest reply, in tokens; default: {MAX_TOKENS}"
    )
    parser.add_argument("--ctx", type=whole_number, metavar="N", help="context of each model; default: what is needed")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--race", action="store_true", help="ask all at once; their speeds cannot be compared then")
    how.add_argument("--samples", type=whole_number, metavar="N", help="N replies to a prompt from one model, at once")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a report: .html, .json, .csv or .md")
    later = parser.add_mutually_exclusive_group()
    later.add_argument(
        "--resume", metavar="ID", help=f"go on with a comparison that was interrupted; `{LAST}` is the latest"
    )
    later.add_argument(
        "--again",
        metavar="FILE|ID",
        help=f"compare once more as in a report (.html or .json), the folder of a run, or a run by its id or `{LAST}`",
    )
    parser.add_argument("--json", action="store_true", help="print JSON Lines")


def run(options: argparse.Namespace, paths: Paths, make_client: MakeClient | None = None) -> ExitCode:
    """Compare, print, and keep the record.

    Args:
        make_client: stands in for the engine process; takes whether it is to be the fake one.

    Raises:
        AppError, ModelsError, EngineError: it could not begin.
    """
    settings = SettingsStore(paths.settings_file).load()[0]
    if options.report is not None:
        check_report_path(options.report)
    display: Display = JsonDisplay() if options.json else TableDisplay()

    def new_client() -> EngineClient:
        return make_client(options.fake_engine) if make_client else ProcessClient(fake=options.fake_engine)

    services = Services(new_client, settings, display.take, RoomCheck(paths, new_client))
    if options.resume is not None:
        _refuse_others(options, "--resume")
        comparing, fault = resume_run(options.resume, paths, services)
    elif options.again is not None:
        _refuse_others(options, "--again")
        record = read_record(options.again, paths)
        comparing, fault = begin_run(plan_again(record, settings, paths, is_fake=options.fake_engine), paths, services)
    else:
        comparing, fault = begin_run(_plan(options, settings, paths), paths, services)
    try:
        display.begin(comparing.comparison(), num_done=len(comparing.state.cells))
        if fault:
            display.tell(fault)
        with _cancelled_by_ctrl_c(comparing):
            is_finished = comparing.run()
        display.end()
        if not is_finished:
            display.interrupted(comparing, _resume_command(comparing, options))
            if not comparing.is_saved and comparing.state.cells:
                display.show(comparing.comparison())  # nowhere else is it any more
            return ExitCode.INTERRUPTED
        return _conclude(comparing.comparison(), display, options, paths)
    finally:
        comparing.close()


def _plan(options: argparse.Namespace, settings: Settings, paths: Paths) -> Comparison:
    plans = _columns(options)
    mode = Mode.RACE if options.race else Mode.SAMPLES if options.samples is not None else Mode.FAIR
    max_tokens = _in_range("--max-tokens", options.max_tokens, MAX_TOKENS, _MOST_TOKENS)
    if mode is Mode.SAMPLES:
        if options.repeats is not None:
            raise UsageError("--repeats and --samples were both given.", "Give one of them.")
        repeats = _in_range("--samples", options.samples, 1, MAX_SAMPLES)
    else:
        repeats = 1 if options.repeats is None else options.repeats
    name, prompts = _prompts(options)
    num_at_once = repeats if mode is Mode.SAMPLES else 1
    params = ModelParams(
        n_ctx=options.ctx if options.ctx is not None else context_for(prompts, max_tokens, num_at_once=num_at_once),
        n_seq_max=num_at_once,
    )
    sampling = SamplingParams(seed=0, max_tokens=max_tokens) if mode is Mode.SAMPLES else fair_sampling(max_tokens)
    return new_comparison(
        [column_from(plan, params, sampling, settings, paths, is_fake=options.fake_engine) for plan in plans],
        prompts,
        mode=mode,
        repeats=repeats,
        prompts_name=name,
        watts=settings.power_watts,
        reference=reference_of(options.reference, plans),
    )


def _columns(options: argparse.Namespace) -> list[ColumnPlan]:
    """Return what is to be compared, in the order it was named."""
    names = options.names
    if not names and not options.column:
        names = [options.model] if options.model else [_FAKE_MODEL] if options.fake_engine else []
    return [column_plan(words) for words in (*([name] for name in names), *options.column)]


def _prompts(options: argparse.Namespace) -> PromptSet:
    if options.prompt is not None:
        if not options.prompt.strip():
            raise UsageError("The prompt is empty.", "Write what to ask behind --prompt.")
        return PromptSet("one prompt", (PromptItem(id="1", messages=(ChatMessage(Role.USER, options.prompt),)),))
    return short_prompts() if options.prompts is None else read_prompts(Path(options.prompts).expanduser())


def _in_range(flag: str, value: int | None, default: int, most: int) -> int:
    if value is None:
        return default
    if not 1 <= value <= most:
        raise UsageError(f"{flag} is {value}.", f"Give a number from 1 to {most:,}.")
    return value


def _refuse_others(options: argparse.Namespace, flag: str) -> None:
    given = (*options.names, options.prompt, options.prompts, options.repeats, options.max_tokens, options.samples)
    others = (options.ctx, options.reference, *options.column)
    if any(value is not None for value in (*given, *others)) or options.race:
        how = "is gone on with" if flag == "--resume" else "is run again"
        raise UsageError(
            f"A comparison that {how} has its models and prompts already.", f"Give {flag} alone, with --report."
        )


@contextlib.contextmanager
def _cancelled_by_ctrl_c(comparing: CompareRun) -> Iterator[None]:
    """Let the first Ctrl-C end the run in order; a second one ends the program."""

    def stop(number: int, frame: FrameType | None) -> None:
        comparing.cancel()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _resume_command(comparing: CompareRun, options: argparse.Namespace) -> str:
    folder = f" --data-dir {shlex.quote(options.data_dir)}" if options.data_dir else ""
    fake = " --fake-engine" if options.fake_engine else ""
    return f"fireside compare --resume {comparing.id}{folder}{fake}"


def _conclude(comparison: Comparison, display: Display, options: argparse.Namespace, paths: Paths) -> ExitCode:
    if not_kept := keep(comparison, paths):
        display.tell(not_kept)
    display.show(comparison)
    code = ExitCode.DONE
    if options.report is not None:
        try:
            write_report(comparison, options.report)
        except ReportNotSaved as error:
            display.tell(f"{error.message} {error.hint}")
            code = ExitCode.REQUEST_FAILED
    if not any(not cell.error for cell in comparison.cells):
        return ExitCode.MODEL if any(column.error for column in comparison.columns) else ExitCode.REQUEST_FAILED
    return code
