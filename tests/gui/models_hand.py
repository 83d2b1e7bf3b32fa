"""The hand that uses the Models page, and a small library for it."""

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.desktop.bridge.model_jobs import ModelJobs
from app.desktop.itemmodels.model_rows import ModelRow
from app.desktop.models_presenter import ModelsPresenter
from app.desktop.models_shelf import Shelf
from app.desktop.session.user_settings import UserSettings
from app.desktop.theme.theme import Theme
from app.desktop.widgets.models_details import FileAction
from app.desktop.widgets.models_page import ModelsPage
from app.desktop.widgets.notices import NoticeArea
from app.settings import Settings
from tests.gui.scripted_shelf import ScriptedShelf, file_row, model_row, odd_files

SMALL = file_row("/home/a/models/small.gguf", "Q4_K_M")
LARGE = file_row("/home/a/models/large.gguf", "F16", num_bytes=270 << 20, bits_per_weight=16.0)
FOREIGN = file_row(
    "/home/a/.lmstudio/other.gguf", "Q8_0", owner="LM Studio", place="LM Studio", is_ours=False, bits_per_weight=8.5
)
LIBRARY = (model_row("SmolLM2 135M Instruct", SMALL, LARGE), model_row("Other 1B", FOREIGN), *odd_files())


class Host(QWidget):
    """Stands in for the window: shows a page, and keeps what is said."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.page: QWidget | None = None
        self.notices = NoticeArea(theme, self)
        self.said: list[str] = []

    def show_page(self, page: QWidget | None) -> None:
        """Show a page over everything."""
        if self.page is not None and page is not self.page:
            self.page.hide()
        self.page = page
        if page is not None:
            page.setParent(self)
            page.setGeometry(self.rect())
            page.show()
            page.setFocus()

    def announce(self, text: str) -> None:
        self.said.append(text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        if self.page is not None:
            self.page.setGeometry(self.rect())
        self.notices.setGeometry(0, self.height() - 80, self.width(), 80)


class Session(QObject):
    """Stands in for the session of the model."""

    loaded = Signal(object)
    chosen = None


class Engine(QObject):
    """Stands in for the bridge to the engine."""

    machine_measured = Signal(object)
    machine_not_measured = Signal(object)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.num_measures = 0

    def measure_machine(self) -> None:
        self.num_measures += 1


class Hand:
    """Opens the page and uses it with mouse and keys.

    Attributes:
        shelf: says what there is, unless another one was given.
        chosen: what was to be loaded, in order.
        shown: folders that were to be shown, in order.
    """

    def __init__(self, theme: Theme, qtbot: QtBot, shelf: Shelf | None = None) -> None:
        self.qtbot = qtbot
        self.shelf = ScriptedShelf()
        self.window = Host(theme)
        self.jobs = ModelJobs(self.window)
        self.engine = Engine(self.window)
        self.settings = UserSettings(Settings(), lambda name, value: None)
        self.chosen: list[str] = []
        self.shown: list[str] = []
        self.presenter = ModelsPresenter(
            theme,
            self.window,  # type: ignore[arg-type]
            make_shelf=lambda: shelf or self.shelf,
            jobs=self.jobs,
            bridge=self.engine,  # type: ignore[arg-type]
            model=Session(self.window),  # type: ignore[arg-type]
            settings=self.settings,
            choose_model=self.chosen.append,
            starter_name=lambda: "starter",
            show_notice=self.window.notices.show_notice,
            open_folder=self.shown.append,
        )
        self.window.resize(1000, 700)
        self.window.show()
        self.window.activateWindow()
        qtbot.waitExposed(self.window)

    @property
    def page(self) -> ModelsPage:
        return self.presenter.page

    def open(self, models: tuple[ModelRow, ...] = LIBRARY) -> "Hand":
        self.shelf.models = models
        self.presenter.show()
        return self.settle()

    def settle(self) -> "Hand":
        keys = ("scan", "fits", "folder", "remove")
        self.qtbot.waitUntil(lambda: not any(self.jobs.is_running(key) for key in keys))
        return self

    def texts(self) -> list[str]:
        return [line.text for line in self.page.model.lines]

    def click_row(self, path: str) -> None:
        index = self.page.model.index(self.page.model.row_of(path))
        self.page.list.scrollTo(index)
        QTest.mouseClick(
            self.page.list.viewport(), Qt.MouseButton.LeftButton, pos=self.page.list.visualRect(index).center()
        )

    def press(self, action: FileAction) -> None:
        QTest.mouseClick(self.page.details.buttons[action], Qt.MouseButton.LeftButton)

    def strip_text(self, key: str) -> str:
        strip = self.page.jobs.strip(key)
        return "" if strip is None else strip.text

    def wait_for(self, key: str, text: str) -> None:
        self.qtbot.waitUntil(lambda: text in self.strip_text(key))
