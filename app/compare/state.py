"""A comparison as it stands: the plan, and what has come of it so far."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from app.bench.machine_state import MachineState
from app.compare.journal import (
    CellEntry,
    ColumnEntry,
    EndEntry,
    EngineEntry,
    Entry,
    NoteEntry,
    PromptEntry,
)
from app.compare.plan import Place
from app.compare.results import Cell, Column, Comparison, PromptItem


class RunState:
    """See above; changed by entries alone, so that a journal brings it back.

    Attributes:
        num_done: replies by column.
        is_ended: whether all is done.
    """

    def __init__(self, header: Comparison, entries: Iterable[Entry] = ()) -> None:
        self._header = header
        self.columns: dict[str, Column] = {column.id: column for column in header.columns}
        self.prompts: dict[str, PromptItem] = {prompt.id: prompt for prompt in header.prompts}
        self.cells: dict[Place, Cell] = {}
        self.num_done: Counter[str] = Counter()
        self.engine = header.engine
        self.notes = list(header.notes)
        self.machine = header.machine
        self.is_ended = False
        for entry in entries:
            self.take(entry)

    def take(self, entry: Entry) -> None:
        """Take note of what came."""
        match entry:
            case CellEntry(cell):
                is_new = place_of(cell) not in self.cells
                if is_new and cell.column in self.columns and cell.prompt in self.prompts:
                    self.cells[place_of(cell)] = cell
                    self.num_done[cell.column] += 1
            case ColumnEntry(column):
                if column.id in self.columns:
                    self.columns[column.id] = column
            case EngineEntry(engine):
                self.engine = engine
            case NoteEntry(text):
                if text not in self.notes:
                    self.notes.append(text)
            case PromptEntry(prompt):
                if not prompt.follows or prompt.follows in self.prompts:
                    self.prompts.setdefault(prompt.id, prompt)
                    self.is_ended = False
            case EndEntry(machine):
                self._end(machine)

    def forgive(self) -> list[Column]:
        """Return the columns that failed meanwhile as they are when they are tried again."""
        planned = {column.id for column in self._header.columns if column.error}
        failed = [column for column in self.columns.values() if column.error and column.id not in planned]
        return [msgspec.structs.replace(column, error="", hint="") for column in failed]

    @property
    def failed(self) -> set[str]:
        """Ids of the columns of which nothing more comes."""
        return {column.id for column in self.columns.values() if column.error}

    def num_left(self) -> dict[str, int]:
        """Return how many replies each column still is to have; a failed one has none left."""
        each = len(self.prompts) * self._header.repeats
        return {column.id: 0 if column.error else each - self.num_done[column.id] for column in self.columns.values()}

    def plan(self) -> Comparison:
        """Return what there is to do, without what has come of it."""
        return msgspec.structs.replace(self._header, prompts=tuple(self.prompts.values()))

    def comparison(self) -> Comparison:
        """Return the record, as far as it is."""
        return msgspec.structs.replace(
            self._header,
            columns=tuple(self.columns.values()),
            prompts=tuple(self.prompts.values()),
            cells=tuple(sorted(self.cells.values(), key=lambda cell: cell.number)),
            engine=self.engine,
            notes=tuple(self.notes),
            machine=self.machine,
        )

    def _end(self, machine: MachineState) -> None:
        self.is_ended = True
        if self.machine is not None:
            self.machine = msgspec.structs.replace(self.machine, after=machine)


def place_of(cell: Cell) -> Place:
    """Return where a reply stands."""
    return Place(cell.column, cell.prompt, cell.repeat)
