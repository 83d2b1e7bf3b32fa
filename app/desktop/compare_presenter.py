"""ComparePresenter: joins the Compare page with the run of a comparison, the files it is made of, and the chats."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject

from app.compare.events import (
    CellDone,
    CellStarted,
    CellText,
    ColumnFailed,
    ColumnLoading,
    Notice,
    Paused,
    Progress,
)
from app.compare.report import write_report
from app.compare.results import Comparison, Mode
from app.compare.runner import CompareRun, OnRunEvent
from app.compare.word_diff import WordDiff, word_diff
from app.desktop.bridge.background import Background
from app.desktop.bridge.compare_job import Begun, CompareJob, Ended, JobEvent, NotBegun
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.chats import Chats
from app.desktop.session.compare_board import CompareBoard, LaneKey
from app.desktop.session.compare_chats import begin_chat, list_past, read_past
from app.desktop.session.compare_outcome import CompareOutcome, outcome_of
from app.desktop.session.compare_setup import CompareSetup, Interrupted, ModelOption, PastChat
from app.desktop.session.model_session import ModelSession, ModelState
from app.desktop.widgets import notices
from app.desktop.widgets.compare_page import ComparePage
from app.desktop.widgets.compare_report import ask_report
from app.desktop.widgets.figures import count_text, duration_text
from app.desktop.widgets.main_window import MainWindow

_LOG = logging.getLogger(__name__)
_KEY = "compare"


class Source(Protocol):
    """What the page is fed from; every call takes time. See CompareSource."""

    def models(self) -> Sequence[ModelOption]:
        """Return the models that can be chosen."""

    def interrupted(self) -> Interrupted | None:
        """Return the latest run that did not come to its end."""

    def plan(self, setup: CompareSetup, chats: Sequence[PastChat] = ()) -> Comparison:
        """Return what is to be done."""

    def plan_again(self, record: Comparison) -> Comparison:
        """Return the plan of a comparison once more, with the files as they are now."""

    def begin(self, plan: Comparison, on_event: OnRunEvent) -> tuple[CompareRun, str | None]:
        """Return a new run."""

    def resume(self, run_id: str, on_event: OnRunEvent) -> tuple[CompareRun, str | None]:
        """Return a run that was interrupted."""


class ComparePresenter(QObject):
    """Connects the page.

    Args:
        source: finds models, makes runs.
        background: where files are read and results computed.
        show_notice: shows a notice in the window.
    """

    def __init__(
        self,
        window: MainWindow,
        page: ComparePage,
        *,
        source: Source,
        job: CompareJob,
        background: Background,
        chats: Chats,
        model: ModelSession,
        show_notice: Callable[[notices.Notice], None],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._source = source
        self._job = job
        self._background = background
        self._chats = chats
        self._model = model
        self._show_notice = show_notice
        self._board: CompareBoard | None = None
        self._outcome: CompareOutcome | None = None
        self._progress = Progress(0, 0, None)
        self._doing = ""
        self._asked_diff = 0
        self._stopped = ""  # the run that can be gone on with
        self._finished: Comparison | None = None  # the one that can be run again
        self.page = page
        page.hide()
        page.closed.connect(lambda: window.show_page(None))
        window.page_changed.connect(lambda now: window.top_bar.compare.setChecked(now is page))
        page.pause_toggled.connect(self._on_pause)
        page.stop_requested.connect(self._on_stop)
        page.again_requested.connect(self.run_again)
        page.setup.start_requested.connect(self.start)
        page.setup.resume_requested.connect(self.resume)
        page.setup.unload_requested.connect(self._on_unload)
        page.setup.chats_requested.connect(self._list_chats)
        page.columns.turn_submitted.connect(job.add_turn)
        page.columns.turn_submitted.connect(lambda *_: self._show_running())
        page.columns.chat_requested.connect(self.go_on_as_chat)
        page.diff.pair_chosen.connect(self._on_pair)
        page.result.report_requested.connect(lambda: ask_report(window, self.save_report))
        page.result.bar_changed.connect(self._on_bar_changed)
        for signal in (model.changed, chats.marks_changed):
            signal.connect(self._show_loaded)
        job.happened.connect(self._on_happened)
        self._show_loaded()

    def show(self) -> None:
        """Show the page, and look which models and interrupted runs there are."""
        self._window.show_page(self.page)
        self._background.run(self._source.models, self.page.setup.show_models, self._on_failed)
        if not self.page.setup.chats.isHidden():
            self._list_chats()
        if not self._job.is_running and not self._stopped:
            self._look_for_interrupted()

    def start(self, setup: CompareSetup) -> None:
        """Compare."""
        if self._job.is_running:
            return
        self.page.setup.show_fault("")
        store = self._chats.recorder.store

        def make(on_event: OnRunEvent) -> tuple[CompareRun, str | None]:
            return self._source.begin(self._source.plan(setup, read_past(store, setup.chats)), on_event)

        self._begin(make)

    def resume(self, run_id: str) -> None:
        """Go on with a run that was interrupted."""
        if not self._job.is_running:
            self._begin(lambda on_event: self._source.resume(run_id, on_event))

    def run_again(self) -> None:
        """Compare once more what has come to its end."""
        record = self._finished
        if record is not None and not self._job.is_running:
            self._begin(lambda on_event: self._source.begin(self._source.plan_again(record), on_event))

    def go_on_as_chat(self, lane: LaneKey) -> None:
        """Open a chat with what was said in a lane, and with its model."""
        board = self._board
        if board is None:
            return
        column = board.columns[lane.column]
        begin_chat(self._chats, board.chat(lane, self.page.columns.shown), column)
        self._window.show_page(None)
        self._window.composer.text_edit.setFocus()

    def save_report(self, path: Path) -> None:
        """Write a report; its kind follows from the ending of the name."""
        board = self._board
        if board is None:
            return
        outcome = self._outcome
        comparison = outcome.comparison if outcome is not None else board.comparison

        def done(_: None) -> None:
            self._show_notice(notices.Notice(key=_KEY, text=self.tr("The report is saved."), hint=str(path)))

        bar = self.page.result.bar
        self._background.run(lambda: write_report(comparison, path, bar=bar), done, self._on_failed)

    # The run

    def _begin(self, make: Callable[[OnRunEvent], tuple[CompareRun, str | None]]) -> None:
        self.page.setup.show_interrupted(None)
        self._stopped, self._finished = "", None
        self._job.start(make)
        self._progress, self._doing = Progress(0, 0, None), self.tr("Looking at the models …")
        self._show_running()

    def _on_happened(self, event: JobEvent) -> None:
        board = self._board
        match event:
            case Begun(comparison):
                self._on_begun(comparison)
            case Ended():
                self._on_ended(event)
            case NotBegun(error):
                self._on_not_begun(error)
            case Progress():
                self._progress = event
                self._tell()
            case Paused():
                self._doing = self.tr("Paused")
                self._tell()
            case Notice(text):
                self._show_notice(notices.Notice(key=_KEY, text=text))
            case CellText() if board is not None:
                board.grow(event)
                self.page.columns.take(event)
            case _ if board is not None:
                self._on_step(board, event)

    def _on_step(self, board: CompareBoard, event: JobEvent) -> None:
        match event:
            case CellStarted(place):
                board.begin(place)
                words = self.tr("{name} answers")
                self._doing = words.format(name=isolated(shortened(board.columns[place.column].label, 60)))
            case ColumnLoading(column):
                words = self.tr("Loading {name}")
                self._doing = words.format(name=isolated(shortened(board.columns[column].label, 60)))
            case CellDone(cell):
                board.end(cell)
            case ColumnFailed(column, message, hint):
                board.fail(column, message, hint)
                self._window.announce(message)
        self.page.columns.take(event)
        self._tell()

    def _on_begun(self, comparison: Comparison) -> None:
        page = self.page
        if self._board is not None and self._board.comparison.id == comparison.id:
            self._board.renew(comparison)
        else:
            self._board = CompareBoard(comparison)
            self._outcome = None
            page.set_available(page.result, is_available=False)
        page.columns.show_board(self._board)
        page.columns.set_running(is_running=True)
        page.set_available(page.columns, is_available=True)
        is_race = comparison.mode is Mode.RACE
        page.show_banner(self.tr("All at once: the speeds are not comparable.") if is_race else "")
        page.show_view(page.columns)

    def _on_ended(self, ended: Ended) -> None:
        if self._board is not None:
            self._board.drop_open()
            self._board.renew(ended.comparison)
            self.page.columns.show_board(self._board)
        can_go_on = not ended.is_finished and ended.is_saved
        self._stopped = ended.comparison.id if can_go_on else ""
        self._finished = ended.comparison if ended.is_finished else None
        self._show_running()
        self.page.columns.set_running(is_running=not ended.is_finished)  # a run that was stopped takes no message
        done, total = self._progress.num_done, self._progress.num_total
        if ended.is_finished:
            words = self.tr("Done: one reply.") if done == 1 else self.tr("Done: {done} replies.")
        elif ended.is_saved:
            words = self.tr("Stopped: {done} of {total} replies are kept.")
        else:
            words = self.tr("Stopped: {done} of {total} replies are there; they could not be saved.")
        text = words.format(done=count_text(done), total=count_text(total))
        self.page.show_progress(text, None)
        self._window.announce(text)
        if self._window.page is not self.page:
            actions = ((self.tr("Show"), self.show),)
            self._show_notice(
                notices.Notice(key=_KEY, text=self.tr("The comparison has ended."), hint=text, actions=actions)
            )
        if ended.comparison.cells:
            self._compute(ended.comparison)

    def _compute(self, comparison: Comparison) -> None:
        bar = self.page.result.bar
        self._background.run(lambda: outcome_of(comparison, bar), self._on_outcome, self._on_failed)

    def _on_bar_changed(self) -> None:
        if self._outcome is not None:
            self._compute(self._outcome.comparison)

    def _on_outcome(self, outcome: CompareOutcome) -> None:
        board = self._board
        if board is None or outcome.comparison.id != board.comparison.id:
            return
        is_new, self._outcome = self._outcome is None or self._outcome.comparison is not outcome.comparison, outcome
        page = self.page
        page.result.show_outcome(outcome)
        page.set_available(page.result, is_available=True)
        # One prompt is read, a set of them is measured.
        if len(board.roots) > 1 and page.view is page.columns and is_new:
            page.show_view(page.result)

    def _on_not_begun(self, error: Exception) -> None:
        message, hint = _words(error)
        if not message:
            message = self.tr("The comparison ended because of a fault in Fireside.")
            hint = self.tr("The log has details.")
        self._show_running()
        self.page.show_line(is_shown=False)
        self.page.setup.show_fault(message, hint)
        self.page.show_view(self.page.setup)
        self._window.announce(message)

    def _on_pause(self) -> None:
        if self._stopped:
            self.resume(self._stopped)
        elif self._job.is_paused:
            self._job.go_on()
            self._doing = ""
        else:
            self._job.pause()
            self._doing = self.tr("Pausing after this reply")
        self._show_running()

    def _on_stop(self) -> None:
        self._doing = self.tr("Stopping …")
        self._job.stop()
        self._tell()

    def _show_running(self) -> None:
        is_running, is_done = self._job.is_running, self._finished is not None
        can_go_on = self._job.is_paused or bool(self._stopped)
        self.page.set_running(is_running=is_running, can_go_on=can_go_on, can_begin_again=is_done and not is_running)
        self.page.show_line(is_shown=True)
        if is_running:
            self._tell()

    def _tell(self) -> None:
        if not self._job.is_running:
            return
        done, total, left_s = self._progress
        parts = [self._doing] if self._doing else []
        if total:
            words = self.tr("reply {number} of {total}")
            parts.append(words.format(number=count_text(min(done + 1, total)), total=count_text(total)))
        if left_s is not None and left_s > 0:
            parts.append(self.tr("about {time} left").format(time=duration_text(left_s)))
        self.page.show_progress(" · ".join(parts), done / total if total else None)

    # Around it

    def _look_for_interrupted(self) -> None:
        def show(run: Interrupted | None) -> None:
            if not self._job.is_running:
                self.page.setup.show_interrupted(run)

        self._background.run(self._source.interrupted, show, self._on_failed)

    def _show_loaded(self) -> None:
        is_loaded = self._model.state is ModelState.READY
        self.page.setup.show_loaded(self._model.label if is_loaded else "", is_in_use=bool(self._chats.busy))

    def _on_unload(self) -> None:
        if not self._chats.busy:
            self._model.unload()

    def _list_chats(self) -> None:
        store = self._chats.recorder.store
        if store is None:
            self.page.setup.chats.show_chats(())
        else:
            self._background.run(lambda: list_past(store), self.page.setup.chats.show_chats, self._on_failed)

    def _on_pair(self, one: int, other: int) -> None:
        board, shown = self._board, self.page.columns.shown
        if board is None or not 0 <= one < len(board.lanes) or not 0 <= other < len(board.lanes):
            return
        replies = [board.reply(board.lanes[number], shown) for number in (one, other)]
        texts = [reply.text if reply is not None and not reply.is_open else "" for reply in replies]
        self._asked_diff += 1
        number = self._asked_diff
        if not all(texts):
            self.page.diff.show_diff(None)
            return

        def show(diff: WordDiff) -> None:
            if number == self._asked_diff:
                self.page.diff.show_diff(diff)

        self._background.run(lambda: word_diff(*texts), show, self._on_failed)

    def _on_failed(self, error: Exception) -> None:
        message, hint = _words(error)
        if not message:
            raise error
        self._show_notice(notices.Notice(key=_KEY, text=message, hint=hint, is_error=True))


def _words(error: Exception) -> tuple[str, str]:
    """Return sentence and hint of an error that is told; empty for a fault."""
    message, hint = getattr(error, "message", None), getattr(error, "hint", None)
    return (message, str(hint or "")) if isinstance(message, str) else ("", "")
