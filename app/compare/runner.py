"""CompareRun: does what a comparison plans, reply after reply, keeps each at once, and goes on where it ended."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.bench.machine_state import machine_state
from app.compare.column_worker import (
    ColumnWorker,
    Inbox,
    Reply,
    Request,
    RunCancelled,
    ask_at_once,
    warm_up,
)
from app.compare.events import (
    CellDone,
    CellStarted,
    ColumnFailed,
    ColumnLoaded,
    ColumnLoading,
    Notice,
    Paused,
    Progress,
    RunEvent,
)
from app.compare.journal import (
    CellEntry,
    ColumnEntry,
    EndEntry,
    EngineEntry,
    Entry,
    Journal,
    NoteEntry,
    PromptEntry,
)
from app.compare.plan import Place, Stage, chat_at, follow_up, left_of, sampling_at, stages
from app.compare.reply_cell import cell_of
from app.compare.results import Cell, Column, Comparison, Mode, PromptItem
from app.compare.state import RunState
from app.compare.time_left import TimeLeft
from app.compare.watched_file import FileFault, WatchedFile
from app.energy import EnergyMeter
from app.settings import Settings
from engine import EngineClient, EngineError, ModelDescription, ModelParams

_LOG = logging.getLogger(__name__)
_POLL_S = 0.2  # after which a pause sees that the run is to stop
MAX_DEATHS = 3  # in a row, until a column is given up
OnRunEvent = Callable[[RunEvent], None]
FindLack = Callable[[Sequence[Column]], Mapping[str, FileFault]]
"""Returns which of the columns that are to be loaded together have no room, by id, and why."""


class Services(NamedTuple):
    """What a run needs from outside.

    Attributes:
        make_client: returns an engine that is not started.
        settings: hold power, price and the measured bandwidth.
        on_event: hears what happens, on the thread of `run`; must not block.
        find_lack: tells before anything is loaded; what it lets through the engine may still refuse.
    """

    make_client: Callable[[], EngineClient]
    settings: Settings
    on_event: OnRunEvent = lambda event: None
    find_lack: FindLack = lambda columns: {}


class _Loaded(NamedTuple):
    """A worker, and the columns whose next reply tells how long the load took."""

    worker: ColumnWorker
    untold: set[str]


class CompareRun:
    """One comparison.

    `run` does all that is left on the calling thread. `pause`, `go_on` and `cancel` may be called from any other, or
    from a signal handler.

    Args:
        state: what there is to do, and what is done.
        journal: keeps it; closed with `close`.
    """

    def __init__(self, state: RunState, journal: Journal, services: Services) -> None:
        self.state = state
        self._journal = journal
        self._services = services
        self._inbox = Inbox()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._plan = state.plan()
        self._workers: dict[tuple[object, ...], _Loaded] = {}
        self._files = {column.id: WatchedFile(column) for column in state.columns.values()}
        self._deaths = dict.fromkeys(state.columns, 0)
        self._time_left = TimeLeft()
        self._bandwidth = dict(services.settings.read_bandwidth)
        self._told_fault = ""

    @property
    def id(self) -> str:
        """Names the run, also to go on with it later."""
        return self._plan.id

    @property
    def is_saved(self) -> bool:
        """Whether all that is done is on disk."""
        return self._journal.is_saved

    def comparison(self) -> Comparison:
        """Return the record, as far as it is."""
        return self.state.comparison()

    def pause(self) -> None:
        """Wait before the next reply; the one in progress comes to its end, so that it need not be made again."""
        self._may_go_on.clear()

    def go_on(self) -> None:
        """End a pause."""
        self._may_go_on.set()

    def cancel(self) -> None:
        """Stop at once; the reply in progress is lost, all others are kept."""
        self._inbox.cancel()

    def add_turn(self, prompt_id: str, text: str) -> PromptItem:
        """Add the next message to the chats of all columns, each behind its own reply; `run` asks it.

        Raises:
            UsageError: the text is blank, or there is no such prompt.
        """
        prompt = follow_up(self._plan, prompt_id, text)
        self._keep(PromptEntry(prompt))
        self._plan = self.state.plan()
        return prompt

    def run(self) -> bool:
        """Do all that is left; return whether it came to its end, False where it was cancelled."""
        try:
            self._tell_progress()
            self._plan_memory()
            for stage in stages(self._plan):
                self._run_stage(stage)
            if not self.state.is_ended:
                self._keep(EndEntry(machine_state()))
            return True
        except RunCancelled:
            return False
        finally:
            self._close_workers(set())

    def close(self) -> None:
        """Give the run free for others; to be called when `run` has returned."""
        self._journal.close()

    # Stages

    def _plan_memory(self) -> None:
        left = self.state.num_left()
        columns = [column for column in self.state.columns.values() if left[column.id]]
        together = [[column] for column in columns] if self._plan.mode is Mode.FAIR else [columns]
        for group in together:
            for column_id, fault in self._services.find_lack(group).items():
                self._fail(self.state.columns[column_id], *fault)

    def _run_stage(self, stage: Stage) -> None:
        left = left_of(stage, self.state.cells.keys(), self.state.failed)
        if left is None:
            return
        columns = [self.state.columns[column] for column in left.columns]
        self._close_workers({self._key(column) for column in columns})
        for column in columns:
            self._worker(column, is_new_stage=True)
        for places in left.rounds:
            possible = [place for place in places if not self.state.columns[place.column].error]
            if possible:
                self._wait_while_paused()
                self._run_round(possible)
                self._tell_progress()

    def _run_round(self, places: Sequence[Place]) -> None:
        requests = [request for place in places if (request := self._request(place)) is not None]
        if not requests:
            return
        for request in requests:
            self._services.on_event(CellStarted(request.place))
        replies = ask_at_once(
            self._inbox, requests, EnergyMeter(self._services.settings.power_watts), self._services.on_event
        )
        for reply in replies:
            self._take(reply)

    def _request(self, place: Place) -> Request | None:
        column = self.state.columns[place.column]
        worker = None if column.error else self._worker(column)
        if worker is None:
            return None
        messages = chat_at(place, self.state.prompts, self.state.cells)
        if messages is None:
            self._keep_cell(self._failed_cell(place, "There is no reply to go on from."))
            return None
        return Request(worker, place, column, messages, sampling_at(column, place, self._plan.mode))

    def _take(self, reply: Reply) -> None:
        place = reply.request.place
        column = self.state.columns[place.column]
        fault = self._files[column.id].fault()
        if fault is not None:  # what it was made of cannot be known
            self._fail(column, *fault)
            return
        if reply.error is not None:
            _LOG.warning("%s failed on %s: %s", column.label, place.prompt, reply.error.message)
            self._keep_cell(self._failed_cell(place, reply.error.message))
            if reply.request.worker.is_alive:
                self._deaths[column.id] = 0
            else:
                self._count_death(column, reply.error.message, reply.error.hint)
            return
        self._deaths[column.id] = 0
        loaded = self._workers[self._key(column)]
        cell = cell_of(
            reply,
            len(self.state.cells),
            model=loaded.worker.model,
            settings=self._services.settings,
            bandwidth=self._bandwidth,
            has_load=column.id in loaded.untold,
        )
        loaded.untold.discard(column.id)
        self._time_left.note_reply(column.id, reply.seconds)
        self._keep_cell(cell)

    def _count_death(self, column: Column, message: str, hint: str) -> None:
        self._deaths[column.id] += 1
        if self._deaths[column.id] >= MAX_DEATHS:
            text = f"{column.label} was given up: its engine ended {MAX_DEATHS} times in a row. {message}"
            self._fail(column, text, hint)

    # Engines

    def _key(self, column: Column) -> tuple[object, ...]:
        """Return what columns have in common that can share a worker; at once, each has its own."""
        alone = column.id if self._plan.mode is Mode.RACE else ""
        return (alone, column.path, _frozen(column.params))

    def _worker(self, column: Column, *, is_new_stage: bool = False) -> ColumnWorker | None:
        """Return an engine that can be asked; None where the column has failed."""
        fault = self._files[column.id].fault()
        if fault is not None:
            self._fail(column, *fault)
            return None
        key = self._key(column)
        loaded = self._workers.get(key)
        if loaded is not None and loaded.worker.is_alive:
            if is_new_stage:
                loaded.untold.add(column.id)
            return loaded.worker
        if loaded is not None:
            self._workers.pop(key).worker.close()
        self._files[column.id].read_through()
        self._services.on_event(ColumnLoading(column.id))
        began = time.perf_counter()
        try:
            worker, model = self._start(key, column)
            if str(model.n_threads) not in self._bandwidth:
                self._bandwidth[str(model.n_threads)] = worker.measure_machine().read_bandwidth
                # What was read for that would count as memory of the model.
                self._workers.pop(key).worker.close()
                worker, model = self._start(key, column)
        except EngineError as error:
            if key in self._workers:
                self._workers.pop(key).worker.close()
            self._fail(column, error.message, error.hint)
            return None
        if self._plan.mode is Mode.RACE:
            worker.limit_threads(max(1, model.n_threads // (len(self.state.columns) - len(self.state.failed))))
        warm_up(self._inbox, worker, column)
        self._time_left.note_load(time.perf_counter() - began)
        told = msgspec.structs.replace(column, type_name=column.type_name or model.type_name, notices=model.notices)
        if told != column:
            self._keep(ColumnEntry(told))
        self._services.on_event(ColumnLoaded(column.id, model))
        return worker

    def _start(self, key: tuple[object, ...], column: Column) -> tuple[ColumnWorker, ModelDescription]:
        """Load a model into an engine of its own."""
        worker = ColumnWorker(self._services.make_client(), self._inbox)
        self._workers[key] = _Loaded(worker, {column.id})
        self._note_engine(worker)
        return worker, worker.load(column)

    def _note_engine(self, worker: ColumnWorker) -> None:
        engine = worker.describe()
        if self.state.engine is None:
            self._keep(EngineEntry(engine))
        elif self.state.engine.library != engine.library:
            self._keep(NoteEntry("The run was gone on with on another version of llama.cpp."))

    def _close_workers(self, kept: set[tuple[object, ...]]) -> None:
        for key in [key for key in self._workers if key not in kept]:
            self._workers.pop(key).worker.close()

    # What came of it

    def _fail(self, column: Column, message: str, hint: str) -> None:
        _LOG.warning("%s failed: %s", column.label, message)
        self._keep(ColumnEntry(msgspec.structs.replace(self.state.columns[column.id], error=message, hint=hint)))
        self._services.on_event(ColumnFailed(column.id, message, hint))
        self._tell_progress()

    def _failed_cell(self, place: Place, message: str) -> Cell:
        number = len(self.state.cells)
        return Cell(column=place.column, prompt=place.prompt, repeat=place.repeat, number=number, error=message)

    def _keep_cell(self, cell: Cell) -> None:
        self._keep(CellEntry(cell))
        self._services.on_event(CellDone(cell))

    def _keep(self, entry: Entry) -> None:
        self.state.take(entry)
        fault = self._journal.append(entry) or ""
        if fault and fault != self._told_fault:
            self._services.on_event(Notice(fault))
        elif self._told_fault and not fault:
            self._services.on_event(Notice("The comparison is saved again, all of it."))
        self._told_fault = fault

    def _tell_progress(self) -> None:
        left, done = self.state.num_left(), len(self.state.cells)
        self._services.on_event(Progress(done, done + sum(left.values()), self._time_left.seconds(left, self._plan)))

    def _wait_while_paused(self) -> None:
        if not self._may_go_on.is_set():
            self._services.on_event(Paused())
        while not self._may_go_on.wait(_POLL_S):
            self._inbox.check()
        self._inbox.check()


def _frozen(params: ModelParams) -> bytes:
    return msgspec.json.encode(params)
