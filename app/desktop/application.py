"""The composition root of the window: builds the parts, starts the engine, and takes everything down in order.

Nothing heavy is imported before the first paint: Markdown, Pygments and the model library come after it.
"""

import gc
import logging
import signal
import sys
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from app.adapter_files import open_adapter_files
from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.building import WindowParts, build_window
from app.desktop.models_shelf import Shelf
from app.desktop.rendering.highlighting import lex
from app.desktop.rendering.lazy_parser import LazyParser
from app.desktop.session.model_session import ChosenModel, Starter
from app.desktop.session.user_settings import UserSettings
from app.desktop.settings_saving import SettingsSaving
from app.desktop.single_instance import claim
from app.desktop.theme.theme import Theme
from app.desktop.translation import install_translation
from app.desktop.widgets.notices import Notice
from app.desktop.window_actions import WindowActions
from app.known_models import KnownModels
from app.memory_record import MemoryRecord
from app.paths import Paths
from app.settings import Settings, SettingsStore
from engine import ProcessClient

__all__ = ["build_window", "run_window"]

if TYPE_CHECKING:
    from app.desktop.compare_source import CompareSource
    from app.draft_models import DraftFiles

_LOG = logging.getLogger(__name__)
# How long a thread that computes, as one that colours code, may keep the window's thread waiting each time.
_SWITCH_S = 0.001


def run_window(paths: Paths, *, model: str | None, fake_engine: bool) -> int:
    """Show the window until it is closed, and return the exit code.

    Args:
        model: what to load after the first paint; None takes the last one, else the starter.
        fake_engine: use the deterministic engine without weights.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Qt's loop would keep Python from seeing Ctrl-C
    sys.setswitchinterval(_SWITCH_S)
    application = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(application, QApplication)
    application.setApplicationName("Fireside")
    install_translation(application)
    claimed = claim(paths.data_dir, model=model)  # before anything in the folder is opened
    if claimed is None:
        return 0
    store = SettingsStore(paths.settings_file)
    settings, notice = store.load()
    saving = SettingsSaving(store)
    parts = build_window(
        Theme(application, settings.theme, zoom=settings.zoom),
        ProcessClient(fake=fake_engine),
        choose=lambda wanted: _choose(wanted, settings, paths),
        starter=_starter,
        settings=settings,
        save=saving.save,
        known=KnownModels.in_paths(paths),
        shelf=lambda user, bridge: _shelf(paths, user, bridge, fake_engine=fake_engine),
        memory=MemoryRecord.in_paths(paths),
        settings_file=str(paths.settings_file),
        cache_dir=str(paths.prompt_cache_dir),
        adapter_files=open_adapter_files(paths),
        draft_files=lambda: _draft_files(paths),
        comparing=lambda user: _compare_source(paths, user, fake_engine=fake_engine),
    )
    saving.begin(parts.background, parts.actions.show_notice, parts.window.notices.dismiss)
    parts.window.chat_view.empty_state.set_first_run(settings.last_model is None)
    sys.excepthook = _FaultReporter(parts.actions).report
    parts.window.first_painted.connect(lambda: _after_first_paint(parts, paths, settings, model, notice))
    claimed.raised.connect(lambda wanted: _come_to_front(parts, wanted))
    parts.window.first_painted.connect(claimed.answer)
    parts.window.show()
    parts.window.composer.text_edit.setFocus()
    try:
        return application.exec()
    finally:
        claimed.stop_listening()
        parts.close()
        saving.close()
        claimed.close()
        sys.excepthook = sys.__excepthook__


def _after_first_paint(
    parts: WindowParts, paths: Paths, settings: Settings, model: str | None, notice: str | None
) -> None:
    parts.keeping.open(paths.database_file, retention_days=settings.retention_days)
    parts.actions.choose_model(model)
    if notice is not None:
        parts.actions.show_notice(Notice(key="settings", text=notice))
    QTimer.singleShot(0, lambda: parts.background.run(_warm_up, _keep_for_good, _log_fault))


def _come_to_front(parts: WindowParts, model: str) -> None:
    """Do what a second start asks for."""
    parts.window.come_to_front()
    if model:
        parts.actions.choose_model(model)


def _warm_up() -> None:
    """Load what the first reply will need, so that it does not wait for it."""
    lex("", "python")
    LazyParser()()


def _keep_for_good(_: object) -> None:
    """Take what is there from now on out of each search for garbage, which would stop the window for 50 ms."""
    gc.freeze()


def _choose(wanted: str | None, settings: Settings, paths: Paths) -> ChosenModel:
    from app.model_choice import choose_model

    return choose_model(wanted, settings, paths)


def _starter() -> Starter:
    from models import STARTER_LABEL, STARTER_NAME

    return Starter(name=STARTER_NAME, label=STARTER_LABEL)


def _shelf(paths: Paths, user: UserSettings, bridge: EngineBridge, *, fake_engine: bool) -> Shelf:
    from app.desktop.library_opening import open_shelf

    return open_shelf(paths, user, bridge, lambda: ProcessClient(fake=fake_engine))


def _draft_files(paths: Paths) -> "DraftFiles":
    from app.draft_models import open_draft_files

    return open_draft_files(paths)


def _compare_source(paths: Paths, user: UserSettings, *, fake_engine: bool) -> "CompareSource":
    from app.desktop.compare_source import CompareSource

    return CompareSource(paths, lambda: user.now, lambda: ProcessClient(fake=fake_engine), is_fake=fake_engine)


class _FaultReporter:
    """Shows a fault of the program as such and keeps the window open; the log has the traceback."""

    def __init__(self, actions: WindowActions) -> None:
        self._actions = actions
        self._is_reporting = False

    def report(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _LOG.critical("fault in the window", exc_info=(kind, error, trace))
        if self._is_reporting:
            return
        self._is_reporting = True
        text = QApplication.translate("Fault", "Something went wrong inside Fireside. Your text is kept.")
        self._actions.show_notice(Notice(key="fault", text=text, hint=f"{kind.__name__}: {error}", is_error=True))
        self._is_reporting = False


def _log_fault(error: Exception) -> None:
    _LOG.warning("a background task failed", exc_info=error)
