"""Where runs lie: beginning one, going on with an interrupted one, reading its record, and keeping one that is done."""

import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.compare.journal import ColumnEntry, begin_journal, is_journal, open_journal, read_journal, written_at
from app.compare.results import Comparison, read_comparison
from app.compare.runner import CompareRun, Services
from app.compare.state import RunState
from app.errors import RunError, StoreError, UsageError
from app.paths import Paths
from app.store import ChatStore, Run
from engine import clean_text

LAST = "last"
KIND = "compare"
_NUM_KEPT = 20  # journals of runs that are done
_LEAST_ID = 4
_STORE_WAIT_S = 5.0


class RunSummary(NamedTuple):
    """A run as a list of them shows it."""

    id: str
    created_at: str
    num_done: int
    num_total: int
    is_ended: bool


def begin_run(plan: Comparison, paths: Paths, services: Services) -> tuple[CompareRun, str | None]:
    """Return a new run, and a sentence where it cannot be saved as it goes."""
    _remove_old(paths.runs_dir)
    journal, fault = begin_journal(paths.runs_dir, plan)
    return CompareRun(RunState(plan), journal, services), fault


def resume_run(name: str, paths: Paths, services: Services) -> tuple[CompareRun, str | None]:
    """Return a run that was interrupted, and a sentence where something of it is lost; what had failed is tried again.

    Args:
        name: the beginning of its id, or `last`.

    Raises:
        UsageError: there is no such run.
        RunError: another program is going on with it, or it cannot be read.
    """
    journal, found = open_journal(paths.runs_dir / _find(name, paths, is_open=True))
    state = RunState(found.header, found.entries)
    lost = None
    if found.num_lost:
        lines = "line is" if found.num_lost == 1 else "lines are"
        lost = f"{found.num_lost} {lines} damaged: those replies are made again."
    if not state.is_ended:
        for column in state.forgive():
            state.take(ColumnEntry(column))
            journal.append(ColumnEntry(column))
    return CompareRun(state, journal, services), lost


def read_record(name: str, paths: Paths) -> Comparison:
    """Return the comparison that a person names, as far as it got.

    Args:
        name: a report, a JSON file of one, the folder of a run, the beginning of the id of a run here, or `last`.

    Raises:
        UsageError: it names no comparison, or a damaged one.
        RunError: the run cannot be read.
    """
    try:
        path = Path(name).expanduser()
        is_there = path.exists()
    except (OSError, ValueError, RuntimeError):  # no such user, a NUL byte, a name too long
        path, is_there = Path(name), False
    if is_there and path.is_dir() and written_at(path) is None:
        raise UsageError(f"No comparison is in {clean_text(name)}.", "Give the folder of a run, or a report.")
    if is_there and (path.is_dir() or is_journal(path)):
        found = read_journal(path if path.is_dir() else path.parent)
        return RunState(found.header, found.entries).comparison()
    if is_there or path.name != name or path.suffix:
        return read_comparison(path)
    found = read_journal(paths.runs_dir / _find(name, paths, is_open=False))
    return RunState(found.header, found.entries).comparison()


def list_runs(paths: Paths) -> list[RunSummary]:
    """Return the runs whose journals are there, the newest first; one that cannot be read is left out."""
    summaries = []
    for folder in _folders(paths.runs_dir):
        try:
            found = read_journal(folder)
        except RunError:
            continue
        state = RunState(found.header, found.entries)
        done = len(state.cells)
        total = done + sum(state.num_left().values())
        summaries.append(RunSummary(found.header.id, found.header.created_at, done, total, state.is_ended))
    return summaries


def keep(comparison: Comparison, paths: Paths) -> str | None:
    """Keep a comparison with the chats, and return a sentence where that cannot be."""
    first = next((column for column in comparison.columns if column.id == comparison.reference), None)
    first = first or (comparison.columns[0] if comparison.columns else None)
    run = Run(
        id=comparison.id,
        kind=KIND,
        model_fingerprint=first.fingerprint if first else "",
        model_name=", ".join(column.label for column in comparison.columns),
        record=msgspec.to_builtins(comparison),
    )
    try:
        store, _ = ChatStore.open(paths.database_file, lock_timeout_s=2.0)
        try:
            store.add_run(run).result(_STORE_WAIT_S)
        finally:
            store.close(1.0)
    except (StoreError, TimeoutError) as error:
        return f"The comparison was not kept with the chats: {getattr(error, 'message', 'the chats are locked.')}"
    return None


def _find(name: str, paths: Paths, *, is_open: bool) -> str:
    """Return the id of the run that a name means; `last` means one that was interrupted where it has to be open."""
    hint = "Begin a new comparison."
    if name == LAST:
        found = next((summary.id for summary in list_runs(paths) if not (is_open and summary.is_ended)), None)
        if found is None:
            raise UsageError("No comparison was interrupted." if is_open else "There is no comparison yet.", hint)
        return found
    ids = [folder.name for folder in _folders(paths.runs_dir) if folder.name.startswith(name)]
    if len(ids) != 1 or len(name) < _LEAST_ID:
        known = ", ".join(summary.id for summary in list_runs(paths)[:3])
        which = "are several comparisons" if len(ids) > 1 else "is no comparison"
        raise UsageError(f"There {which} {name!r}.", f"There are {known}." if known else hint)
    return ids[0]


def _folders(runs_dir: Path) -> list[Path]:
    """Return the folders of runs, the one written last first."""
    try:
        found = [(at, folder) for folder in runs_dir.iterdir() if (at := written_at(folder)) is not None]
    except OSError:
        return []
    return [folder for _, folder in sorted(found, reverse=True)]


def _remove_old(runs_dir: Path) -> None:
    """Remove journals of runs that are done and kept elsewhere, all but the latest."""
    for folder in _folders(runs_dir)[_NUM_KEPT:]:
        try:
            found = read_journal(folder)
        except RunError:
            continue
        if RunState(found.header, found.entries).is_ended:
            shutil.rmtree(folder, ignore_errors=True)
