"""What `fireside compare` shows: JSON Lines for programs; progress, a table and the replies for a person."""

import sys
from typing import Any, Protocol

import msgspec

from app.cli.outcome import print_event
from app.cli.streams import is_terminal
from app.cli.terminal_text import one_line, safe_text, wrapped
from app.compare.advice import advise
from app.compare.analysis import Analysis
from app.compare.events import (
    CellDone,
    CellStarted,
    ColumnFailed,
    ColumnLoaded,
    ColumnLoading,
    Notice,
    Progress,
    RunEvent,
)
from app.compare.exports import computed
from app.compare.results import MEASURES, Comparison, Mode
from app.compare.runner import CompareRun

_SHOWN = (
    *("file_bytes", "peak_memory_bytes", "load_s", "ttft_s", "prefill_rate", "decode_rate"),
    *("bandwidth_share", "joules_per_token", "cost_per_million_tokens", "agreement"),
)
_LEAST_SPREAD = 0.005  # below, it is shown as none
_BEST, _NOISY = "*", "~"
_SHOWN_REPLIES = 12  # more are for the report


class Display(Protocol):
    """Shows a run from its beginning to its end."""

    def begin(self, comparison: Comparison, *, num_done: int) -> None:
        """Show what is going to be done."""

    def take(self, event: RunEvent) -> None:
        """Show what happens."""

    def end(self) -> None:
        """Note that nothing more happens."""

    def tell(self, text: str) -> None:
        """Show a sentence that is no result."""

    def interrupted(self, comparing: CompareRun, command: str) -> None:
        """Say how to go on."""

    def show(self, comparison: Comparison) -> None:
        """Show the result."""


class JsonDisplay:
    """See Display; prints one line for each reply, and the whole comparison last."""

    def begin(self, comparison: Comparison, *, num_done: int) -> None:
        """See Display."""
        print_event("begin", id=comparison.id, columns=_columns(comparison), num_done=num_done)

    def take(self, event: RunEvent) -> None:
        """See Display."""
        match event:
            case CellDone(cell):
                print_event("cell", **msgspec.to_builtins(cell))
            case ColumnLoaded(column, description):
                print_event("loaded", column=column, load_s=description.load_s, n_ctx=description.n_ctx)
            case ColumnFailed(column, message, hint):
                print_event("column_failed", column=column, message=message, hint=hint)
            case Notice(text):
                self.tell(text)
            case _:
                pass

    def end(self) -> None:
        """See Display."""

    def tell(self, text: str) -> None:
        """See Display."""
        print_event("notice", text=text)

    def interrupted(self, comparing: CompareRun, command: str) -> None:
        """See Display."""
        resume = command if comparing.is_saved else None
        print_event("interrupted", id=comparing.id, num_done=len(comparing.state.cells), resume=resume)

    def show(self, comparison: Comparison) -> None:
        """See Display."""
        record = msgspec.to_builtins(comparison)
        print_event("comparison", record=record, computed=computed(Analysis(comparison)))


class TableDisplay:
    """See Display; progress goes to standard error: on one line of a terminal, else a line for each load."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        self._has_terminal = is_terminal(sys.stderr)
        self._is_line_open = False
        self._doing = ""
        self._progress = Progress(0, 0, None)

    def begin(self, comparison: Comparison, *, num_done: int) -> None:
        """See Display."""
        self._labels = {column.id: safe_text(column.label) for column in comparison.columns}
        for column in comparison.columns:
            if column.error:
                self.tell(f"{column.label}: {column.error} {column.hint}".rstrip())
        if num_done:
            self.tell(f"{num_done} replies are there already.")

    def take(self, event: RunEvent) -> None:
        """See Display."""
        match event:
            case ColumnLoading(column):
                self._doing = f"loading {self._labels[column]}"
                if not self._has_terminal:
                    self.tell(f"{self._labels[column]}, {_done(self._progress)}")
            case CellStarted(place):
                self._doing = f"{self._labels[place.column]}, prompt {place.prompt}, repeat {place.repeat + 1}"
            case Progress():
                self._progress = event
            case ColumnFailed(column, message, hint):
                self.tell(f"{self._labels[column]}: {message} {hint}".rstrip())
                return
            case Notice(text):
                self.tell(text)
                return
            case _:
                return
        self._draw()

    def end(self) -> None:
        """See Display."""
        if self._is_line_open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_line_open = False

    def tell(self, text: str) -> None:
        """See Display."""
        self.end()
        print(f"fireside: {safe_text(text)}", file=sys.stderr, flush=True)

    def interrupted(self, comparing: CompareRun, command: str) -> None:
        """See Display."""
        num_done = len(comparing.state.cells)
        if not comparing.is_saved:
            self.tell(f"The comparison was interrupted. {num_done} replies could not be saved: this is all of them.")
            return
        self.tell(f"The comparison was interrupted; what is done is kept ({num_done} replies). Go on with")
        print(f"  {command}", file=sys.stderr)

    def show(self, comparison: Comparison) -> None:
        """See Display."""
        analysis = Analysis(comparison)
        print(_title(comparison))
        print()
        _print_table(_rows(analysis))
        print()
        if any(_BEST in cell for row in _rows(analysis)[1:] for cell in row[1:]):
            print(f"{_BEST} best of its measure. A spread is the middle half of the repeats of one prompt.")
        for note in (*comparison.notes, *analysis.notes):
            print(wrapped(safe_text(note)))
        if comparison.mode is Mode.FAIR and len(comparison.columns) > 1:
            advice = advise(analysis)
            print(wrapped(safe_text(" ".join((advice.sentence, *advice.evidence[:1])))))
        _print_replies(comparison)

    def _draw(self) -> None:
        if self._has_terminal:
            line = one_line(f"{_done(self._progress)}  {self._doing}")
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            self._is_line_open = True


def _columns(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {"id": column.id, "label": column.label, "path": column.path, "error": column.error}
        for column in comparison.columns
    ]


def _done(progress: Progress) -> str:
    share = f"{progress.num_done} of {progress.num_total}"
    return share if progress.left_s is None else f"{share}, {_time(progress.left_s)} left"


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _title(comparison: Comparison) -> str:
    prompts = f"{len(comparison.prompts)} prompts" if len(comparison.prompts) > 1 else "one prompt"
    if comparison.mode is Mode.SAMPLES:
        return f"{comparison.repeats} samples of {prompts}, in one batch"
    how = "one after the other" if comparison.mode is Mode.FAIR else "all at once: speeds cannot be compared"
    times = f"{comparison.repeats} times" if comparison.repeats > 1 else "once"
    models = f"{len(comparison.columns)} models" if len(comparison.columns) > 1 else "One model"
    return f"{models}, {prompts}, each {times}, {how}"


def _rows(analysis: Analysis) -> list[tuple[str, ...]]:
    names = [name for name in _SHOWN if name in analysis.measures]
    headings = [f"{MEASURES[name].label} {MEASURES[name].unit}".strip() for name in names]
    rows = [("", *(headings or [""]))]
    for column in analysis.comparison.columns:
        cells = [_cell(analysis, column.id, name) for name in names] or ["-"]
        if column.error:
            cells = ["failed", *[""] * (len(cells) - 1)]
        rows.append((safe_text(column.label), *cells))
    return rows


def _cell(analysis: Analysis, column: str, name: str) -> str:
    figure = analysis.figure(column, name)
    if figure.interval is None:
        return "-"
    spread = ""
    if figure.quartiles is not None and figure.quartiles >= _LEAST_SPREAD:
        spread = f" ±{50 * figure.quartiles:.0f}%"
    mark = _BEST if analysis.best(name) == column else _NOISY if figure.is_noisy else " "
    return f"{MEASURES[name].number(figure.interval.value)}{spread}{mark}"


def _print_table(rows: list[tuple[str, ...]]) -> None:
    # Headings break at their blanks, or the table would be as wide as they are.
    split = [[heading.rsplit(" ", 1) if " " in heading else ["", heading] for heading in rows[0]]]
    lines = [tuple(parts[line] for parts in split[0]) for line in (0, 1)]
    table = [*lines, *rows[1:]]
    widths = [max(len(row[place]) for row in table) for place in range(len(rows[0]))]
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join((row[0].ljust(widths[0]), *cells)).rstrip())


def _print_replies(comparison: Comparison) -> None:
    """Print what was said, where that is little."""
    repeats = comparison.repeats if comparison.mode is Mode.SAMPLES else 1
    if len(comparison.prompts) > 1 or len(comparison.columns) * repeats > _SHOWN_REPLIES:
        return
    for column in comparison.columns:
        for cell in comparison.cells_of(column.id):
            if cell.repeat >= repeats:
                continue
            number = f", {cell.repeat + 1}" if repeats > 1 else ""
            print(f"\n[{safe_text(column.label)}{number}]")
            print(wrapped(safe_text(cell.text or cell.error).strip()))
