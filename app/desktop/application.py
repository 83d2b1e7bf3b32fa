"""The composition root of the window: builds the parts, starts the engine, and takes everything down in order.

Nothing heavy is imported before the first paint: Markdown, Pygments and the model library come after it.
"""

import dataclasses
import logging
import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from app.desktop.bridge.background import Background
from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.chat_keeping import ChatKeeping
from app.desktop.chat_presenter import ChatPresenter
from app.desktop.rendering.blocks import BlockParser
from app.desktop.rendering.highlighting import CodeLexer, lex
from app.desktop.session.chat_format_choice import ChatFormatChoice
from app.desktop.session.chat_recorder import ChatRecorder
from app.desktop.session.chats import Chats
from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ChooseModel, ChosenModel, ModelSession, Starter
from app.desktop.session.surroundings import Surroundings
from app.desktop.single_instance import claim
from app.desktop.theme.theme import Theme
from app.desktop.translation import install_translation
from app.desktop.widgets.chat_view import ChatView
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.inspector import Inspector
from app.desktop.widgets.load_panel import LoadPanel
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.model_picker import ModelPicker
from app.desktop.widgets.notices import Notice, NoticeArea
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.sampling_panel import SamplingPanel
from app.desktop.widgets.system_prompt import SystemPromptEdit
from app.desktop.widgets.top_bar import TopBar
from app.desktop.window_actions import WindowActions
from app.known_models import KnownModels
from app.paths import Paths
from app.settings import Settings, SettingsStore
from engine import EngineClient, ProcessClient

_LOG = logging.getLogger(__name__)
# The window is gone at once; the engine gets this long before it is ended by force.
_CLOSE_TIMEOUT_S = 1.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowParts:
    """The parts of one window, wired."""

    theme: Theme
    background: Background
    bridge: EngineBridge
    model: ModelSession
    chats: Chats
    keeping: ChatKeeping
    picker: ModelPicker
    readouts: Readouts
    sampling: SamplingPanel
    window: MainWindow
    presenter: ChatPresenter
    actions: WindowActions

    @property
    def conversation(self) -> Conversation:
        """The chat that is shown."""
        return self.chats.current

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Take the window off the screen, then end what runs behind it."""
        self.window.hide()
        self.chats.let_all_go()
        self.background.close()
        self.bridge.close(timeout_s)
        self.keeping.close()


def build_window(
    theme: Theme,
    client: EngineClient,
    *,
    choose: ChooseModel,
    starter: Callable[[], Starter],
    settings: Settings,
    save: Callable[[str, object], None],
    known: KnownModels,
    open_link: Callable[[str], object] | None = None,
) -> WindowParts:
    """Start the engine behind `client` and build a window for it, not yet shown.

    Args:
        choose: finds and checks a model file; runs beside the window's thread.
        starter: tells of the model that comes with the program, when it is first needed.
        save: keeps one setting.
        known: which model files were loaded before.
        open_link: opens a target that the user agreed to; None hands it to the desktop.
    """
    bridge = EngineBridge(client)
    bridge.start()
    background = Background(bridge)
    model = ModelSession(bridge, background, choose, bridge, known=known)
    sampling = SamplingPanel(theme)
    formats = ChatFormatChoice(model, settings.chat_formats, save)
    around = Surroundings(
        bridge=bridge,
        model=model,
        recorder=ChatRecorder(bridge),
        sampling=lambda _: sampling.params,
        chat_format=lambda: formats.chosen,
    )
    chats = Chats(around, background)
    readouts = Readouts(theme)
    picker = ModelPicker(theme, starter, settings.last_model)
    window = MainWindow(
        theme,
        top_bar=TopBar(theme),
        chat_view=ChatView(theme, _LazyParser(), CodeLexer(background)),
        notices=NoticeArea(theme),
        composer=Composer(theme, picker),
        inspector=Inspector(theme, readouts, sampling, LoadPanel(theme), SystemPromptEdit(theme)),
    )
    presenter = ChatPresenter(window, chats, readouts, lambda notice: actions.show_notice(notice))
    actions = WindowActions(
        theme,
        window,
        picker=picker,
        readouts=readouts,
        model=model,
        chats=chats,
        presenter=presenter,
        formats=formats,
        starter=starter,
        save=save,
        open_link=open_link,
    )
    keeping = ChatKeeping(chats, background, actions.show_notice, window.notices.dismiss)
    return WindowParts(
        theme=theme,
        background=background,
        bridge=bridge,
        model=model,
        chats=chats,
        keeping=keeping,
        picker=picker,
        readouts=readouts,
        sampling=sampling,
        window=window,
        presenter=presenter,
        actions=actions,
    )


def run_window(paths: Paths, *, model: str | None, fake_engine: bool) -> int:
    """Show the window until it is closed, and return the exit code.

    Args:
        model: what to load after the first paint; None takes the last one, else the starter.
        fake_engine: use the deterministic engine without weights.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Qt's loop would keep Python from seeing Ctrl-C
    application = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(application, QApplication)
    application.setApplicationName("Fireside")
    install_translation(application)
    claimed = claim(paths.data_dir, model=model)  # before anything in the folder is opened
    if claimed is None:
        return 0
    store = SettingsStore(paths.settings_file)
    settings, notice = store.load()
    saver = _SettingsSaver(store)
    parts = build_window(
        Theme(application, settings.theme, zoom=settings.zoom),
        ProcessClient(fake=fake_engine),
        choose=lambda wanted: _choose(wanted, settings),
        starter=_starter,
        settings=settings,
        save=saver.save,
        known=KnownModels.in_paths(paths),
    )
    saver.background = parts.background
    sys.excepthook = _FaultReporter(parts.actions).report
    parts.window.first_painted.connect(lambda: _after_first_paint(parts, paths, settings, model, notice))
    claimed.raised.connect(lambda wanted: _come_to_front(parts, wanted))
    parts.window.first_painted.connect(claimed.answer)
    parts.window.show()
    parts.window.composer.text_edit.setFocus()
    try:
        return application.exec()
    finally:
        parts.close()
        claimed.close()
        sys.excepthook = sys.__excepthook__


def _after_first_paint(
    parts: WindowParts, paths: Paths, settings: Settings, model: str | None, notice: str | None
) -> None:
    parts.keeping.open(paths.database_file, retention_days=settings.retention_days)
    parts.actions.choose_model(model)
    if notice is not None:
        parts.actions.show_notice(Notice(key="settings", text=notice))
    QTimer.singleShot(0, lambda: parts.background.run(_warm_up, lambda _: None, _log_fault))


def _come_to_front(parts: WindowParts, model: str) -> None:
    """Do what a second start asks for."""
    parts.window.come_to_front()
    if model:
        parts.actions.choose_model(model)


def _warm_up() -> None:
    """Load what the first reply will need, so that it does not wait for it."""
    lex("", "python")
    _new_parser()


def _new_parser() -> BlockParser:
    from app.desktop.rendering.renderer import Renderer

    return Renderer()


class _LazyParser:
    """Makes the parser when it is first asked for."""

    def __init__(self) -> None:
        self._parser: BlockParser | None = None

    def __call__(self) -> BlockParser:
        if self._parser is None:
            self._parser = _new_parser()
        return self._parser


def _choose(wanted: str | None, settings: Settings) -> ChosenModel:
    from app.model_choice import choose_model

    return choose_model(wanted, settings)


def _starter() -> Starter:
    from models import STARTER_LABEL, STARTER_NAME

    return Starter(name=STARTER_NAME, label=STARTER_LABEL)


class _SettingsSaver:
    """Writes settings one after the other, beside the window's thread."""

    def __init__(self, store: SettingsStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.background: Background | None = None

    def save(self, name: str, value: object) -> None:
        if self.background is not None:
            self.background.run(lambda: self._write(name, value), lambda _: None, _log_fault)

    def _write(self, name: str, value: object) -> None:
        with self._lock:
            self._store.update(**{name: value})


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
        text = "Something went wrong inside Fireside. Your text is kept."
        self._actions.show_notice(Notice(key="fault", text=text, hint=f"{kind.__name__}: {error}", is_error=True))
        self._is_reporting = False


def _log_fault(error: Exception) -> None:
    _LOG.warning("a background task failed", exc_info=error)
