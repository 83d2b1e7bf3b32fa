"""ModelsPresenter: joins the Models page with the library, the engine's model and the work that is done with files."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import PurePath

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.bridge.model_jobs import Job, JobCalls, ModelJobs
from app.desktop.itemmodels.model_rows import (
    Inspection,
    MadeLevel,
    MakeProgress,
    ModelRow,
    QuantiseOrder,
    ScanCount,
    ScanOutcome,
)
from app.desktop.model_records import ModelRecords
from app.desktop.models_shelf import Shelf
from app.desktop.models_words import error_words, file_name, making_text
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.model_session import ModelSession
from app.desktop.session.user_settings import UserSettings
from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import count_text
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.models_card import ModelCard
from app.desktop.widgets.models_details import FileAction
from app.desktop.widgets.models_page import ModelsPage
from app.desktop.widgets.notices import Notice
from engine import ErrorInfo

_LOG = logging.getLogger(__name__)
_SCAN, _FITS, _VERIFY, _QUANTISE = "scan", "fits", "verify", "quantise"
_MEASURE, _INSPECT, _OFFER, _FOLDER, _REMOVE = "measure", "inspect", "offer", "folder", "remove"
_REMOVED = "model-removed"
_QUIET_S = 0.5


class ModelsPresenter(QObject):
    """Connects the page; the page is made when it is first wanted.

    Args:
        make_shelf: makes the shelf, once, beside the window's thread.
        choose_model: loads a model for the shown chat.
        starter_name: tells what the starter is called.
        open_folder: shows a folder in the programs of the desktop.
    """

    def __init__(
        self,
        theme: Theme,
        window: MainWindow,
        *,
        make_shelf: Callable[[], Shelf],
        jobs: ModelJobs,
        bridge: EngineBridge,
        model: ModelSession,
        settings: UserSettings,
        choose_model: Callable[[str], None],
        starter_name: Callable[[], str],
        show_notice: Callable[[Notice], None],
        open_folder: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(window)
        self._theme = theme
        self._window = window
        self._make_shelf = make_shelf
        self._shelf: Shelf | None = None
        self._lock = threading.Lock()
        self._jobs = jobs
        self._choose_model = choose_model
        self._starter_name = starter_name
        self._show_notice = show_notice
        self._open_folder = open_folder or (lambda folder: QDesktopServices.openUrl(QUrl.fromLocalFile(folder)))
        self._page: ModelsPage | None = None
        self._models: Sequence[ModelRow] = ()
        self._bridge = bridge
        ModelRecords(settings, model, bridge, self)  # before anybody else hears of what it keeps
        bridge.machine_measured.connect(self._on_machine_measured)
        bridge.machine_not_measured.connect(self._on_machine_not_measured)
        self._scan_began = 0.0
        self._in_work: dict[str, str] = {}  # the name of what a job is about

    @property
    def page(self) -> ModelsPage:
        """The page."""
        if self._page is None:
            self._page = self._new_page()
        return self._page

    def show(self) -> None:
        """Show the page, and look whether anything has changed."""
        self._window.show_page(self.page)
        self.scan()

    def scan(self) -> None:
        """Look through the folders, unless that is being done."""
        if self._jobs.is_running(_SCAN):
            return
        self._jobs.cancel(_FITS)
        self._scan_began = time.monotonic()
        self.page.show_scanning(is_scanning=True)
        if not self._models:
            self._say_scanning(None)

        def work(job: Job) -> ScanOutcome:
            shelf = self._the_shelf()
            if not self._models and (known := shelf.known()):
                job.report(tuple(known))
            return shelf.scan(job)

        self._jobs.run(
            _SCAN,
            work,
            JobCalls(on_result=self._on_scanned, on_error=self._on_scan_failed, on_progress=self._on_scan_progress),
        )

    # --- scanning ---

    def _the_shelf(self) -> Shelf:
        """Return the shelf; called in the threads of jobs."""
        with self._lock:
            if self._shelf is None:
                self._shelf = self._make_shelf()
            return self._shelf

    def _on_scan_progress(self, progress: object) -> None:
        if isinstance(progress, ScanCount):
            # A look that finds nothing new is over at once, and need not be told.
            if not self._models or time.monotonic() - self._scan_began > _QUIET_S:
                self._say_scanning(progress)
        elif isinstance(progress, tuple):
            self._show_models(progress)

    def _say_scanning(self, count: ScanCount | None) -> None:
        text = self.tr("Looking for models …")
        if count is not None:
            folder = isolated(shortened(count.folder, 80))
            text = self.tr("Looking for models … {count} files so far, now in {folder}").format(
                count=count_text(count.num_files), folder=folder
            )
        self.page.jobs.show_running(_SCAN, text, None)

    def _on_scanned(self, outcome: ScanOutcome) -> None:
        self._end_scan()
        self._show_models(outcome.models)
        if outcome.problems:
            text = self.tr("Some folders could not be looked into.")
            self.page.jobs.show_outcome(_SCAN, text, " ".join(outcome.problems), is_error=False)
        self._read_folders()
        self._measure()

    def _on_scan_failed(self, error: Exception) -> None:
        self._end_scan()
        self._show_models(self._models)
        message, hint = error_words(error)
        self.page.jobs.show_outcome(_SCAN, message, hint, is_error=True)

    def _end_scan(self) -> None:
        self.page.show_scanning(is_scanning=False)
        self.page.jobs.dismiss(_SCAN)

    def _measure(self) -> None:
        self._jobs.run(
            _FITS,
            lambda job: self._the_shelf().fits(job),
            JobCalls(on_result=self._show_models, on_error=self._log, on_progress=self._show_models),
        )

    def _show_models(self, models: Sequence[ModelRow]) -> None:
        self._models = models
        self.page.show_models(models)

    # --- folders ---

    def _read_folders(self) -> None:
        self._jobs.run(
            _FOLDER,
            lambda _: self._the_shelf().folders(),
            JobCalls(on_result=self.page.folders.show_folders, on_error=self._log),
        )

    def _ask_for_folder(self) -> None:
        dialog = QFileDialog(self._window, self.tr("Add a folder with models"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.finished.connect(dialog.deleteLater)
        dialog.filesSelected.connect(lambda files: self.add_folder(files[0]) if files else None)
        dialog.open()

    def add_folder(self, path: str) -> None:
        """Look into a folder of the user's from now on."""
        self._change_folders(lambda: self._the_shelf().add_folder(path))

    def _remove_folder(self, path: str) -> None:
        self._change_folders(lambda: self._the_shelf().remove_folder(path))

    def _change_folders(self, change: Callable[[], None]) -> None:
        def on_changed(_: object) -> None:
            self._jobs.cancel(_SCAN)
            self._read_folders()
            self.scan()

        self._jobs.run(_FOLDER, lambda _: change(), JobCalls(on_result=on_changed, on_error=self._on_failed(_FOLDER)))

    # --- what is done with a file ---

    def _on_asked(self, path: str, action: FileAction) -> None:
        calls: dict[FileAction, Callable[[str], None]] = {
            FileAction.CHAT: self._chat,
            FileAction.INSPECT: self._inspect,
            FileAction.VERIFY: self._verify,
            FileAction.QUANTISE: self._offer,
            FileAction.SHOW: self._show_in_folder,
            FileAction.COPY_PATH: self._copy_path,
            FileAction.REMOVE: self._remove,
        }
        calls[action](path)

    def _chat(self, path: str) -> None:
        self._window.show_page(None)
        self._choose_model(path)

    def _inspect(self, path: str) -> None:
        def show(inspection: Inspection) -> None:
            ModelCard(self._theme, self._name_of(path), inspection, self._window).show()

        self._jobs.run(
            _INSPECT,
            lambda _: self._the_shelf().inspect(path),
            JobCalls(on_result=show, on_error=self._on_failed(_INSPECT)),
        )

    def _verify(self, path: str) -> None:
        name = self._in_work[_VERIFY] = self._name_of(path)
        text = self.tr("Verifying {name} …").format(name=name)

        def on_result(num_tensors: int) -> None:
            text = self.tr("{name} is sound.").format(name=name)
            checked = self.tr("Every block of its {count} tensors was read and holds numbers.")
            self._say_end(_VERIFY, text, checked.format(count=count_text(num_tensors)))

        self.page.jobs.show_running(_VERIFY, text, 0.0)
        self._jobs.run(
            _VERIFY,
            lambda job: self._the_shelf().verify(path, job),
            JobCalls(
                on_result=on_result,
                on_error=self._on_failed(_VERIFY),
                on_progress=lambda share: self.page.jobs.show_running(_VERIFY, text, share),
            ),
        )

    def _show_in_folder(self, path: str) -> None:
        self._open_folder(str(PurePath(path).parent))

    def _copy_path(self, path: str) -> None:
        QGuiApplication.clipboard().setText(path)
        self._window.announce(self.tr("The path is copied"))

    def _remove(self, path: str) -> None:
        name = self._name_of(path)

        def on_removed(removed: object) -> None:
            def undo() -> None:
                self._jobs.run(
                    _REMOVE,
                    lambda _: self._the_shelf().undo(removed),
                    JobCalls(on_result=lambda _: self._scan_again(), on_error=self._on_failed(_REMOVE)),
                )

            text = self.tr("{name} is in the trash.").format(name=name)
            self._show_notice(Notice(key=_REMOVED, text=text, actions=((self.tr("Undo"), undo),)))
            self._scan_again()

        self._jobs.run(
            _REMOVE,
            lambda _: self._the_shelf().remove(path),
            JobCalls(on_result=on_removed, on_error=self._on_failed(_REMOVE)),
        )

    def _scan_again(self) -> None:
        self._jobs.cancel(_SCAN)
        self.scan()

    # --- quantising ---

    def _offer(self, path: str) -> None:
        panel = self.page.quantise
        panel.show_waiting(self._name_of(path))
        self.page.show_panel(panel)
        self._jobs.run(
            _OFFER,
            lambda job: self._the_shelf().offer(path, job),
            JobCalls(
                on_result=panel.show_offer,
                on_progress=panel.show_offer,
                on_error=lambda error: panel.show_problem(*error_words(error)),
            ),
        )

    def _quantise(self, order: QuantiseOrder) -> None:
        name = self._in_work[_QUANTISE] = self._name_of(order.path)
        self.page.jobs.show_running(_QUANTISE, self.tr("Quantising {name} …").format(name=name), 0.0)
        self.page.show_list()

        def on_result(made: Sequence[MadeLevel]) -> None:
            self._on_made(name, made)

        self._jobs.run(
            _QUANTISE,
            lambda job: self._the_shelf().quantise(order, job),
            JobCalls(on_result=on_result, on_error=self._on_failed(_QUANTISE), on_progress=self._on_quantise_progress),
        )

    def _on_quantise_progress(self, progress: MakeProgress) -> None:
        text = making_text(progress, self._in_work.get(_QUANTISE, ""))
        self.page.jobs.show_running(_QUANTISE, text, progress.share)

    def _on_made(self, name: str, made: Sequence[MadeLevel]) -> None:
        done = [level.type_name for level in made if not level.error]
        failed = [level for level in made if level.error]
        text = self.tr("Made {types} of {name}.").format(types=", ".join(done), name=name) if done else ""
        if failed:
            why = " ".join(f"{level.type_name}: {level.error} {level.hint}".strip() for level in failed)
            missing = ", ".join(level.type_name for level in failed)
            text = self.tr("Not made of {name}: {types}.").format(name=name, types=missing)
            if done:
                why = self.tr("{types} made.").format(types=", ".join(done)) + " " + why
            self._say_end(_QUANTISE, text, why, is_error=True)
        else:
            self._say_end(_QUANTISE, text, "")
        self._scan_again()

    def _on_machine_measured(self) -> None:
        if self._page is not None:
            self._page.jobs.dismiss(_MEASURE)
            self._measure()

    def _on_machine_not_measured(self, error: ErrorInfo) -> None:
        self._say_end(_MEASURE, error.message, error.hint, is_error=True)

    # --- words ---

    def _on_failed(self, key: str) -> Callable[[Exception], None]:
        def show(error: Exception) -> None:
            message, hint = error_words(error)
            self._say_end(key, message, hint, is_error=True)

        return show

    def _say_end(self, key: str, text: str, hint: str, *, is_error: bool = False) -> None:
        self.page.jobs.show_outcome(key, text, hint, is_error=is_error)
        self._window.announce(text)

    def _log(self, error: Exception) -> None:
        _LOG.warning("the list of models is not complete", exc_info=error)

    def _name_of(self, path: str) -> str:
        return file_name(self._models, path)

    def _cancel(self, key: str) -> None:
        strips = self.page.jobs
        if key == _SCAN:  # what was found so far is worth having
            self._jobs.stop(key)
            self.page.show_scanning(is_scanning=False)
        else:
            self._jobs.cancel(key)
        if key == _QUANTISE:
            text = self.tr("Quantising {name} was cancelled.").format(name=self._in_work.get(key, ""))
            strips.show_outcome(key, text, self.tr("What was begun is removed."))
        else:
            strips.dismiss(key)

    def _new_page(self) -> ModelsPage:
        page = ModelsPage(self._theme, self._window)
        page.hide()  # until it is shown as a page
        page.closed.connect(lambda: self._window.show_page(None))
        page.rescan_asked.connect(self.scan)
        page.add_folder_asked.connect(self._ask_for_folder)
        page.starter_asked.connect(lambda: self._chat(self._starter_name()))
        page.folders.removed.connect(self._remove_folder)
        page.details.asked.connect(self._on_asked)
        page.details.measure_asked.connect(self._bridge.measure_machine)
        page.quantise.ordered.connect(self._quantise)
        page.jobs.cancel_requested.connect(self._cancel)
        return page
