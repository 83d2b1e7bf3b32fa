"""The hand that uses the Models page, and a small library for it."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.desktop.itemmodels.model_rows import ModelRow
from app.desktop.widgets.models_details import FileAction
from app.desktop.widgets.models_page import ModelsPage
from tests.gui.scripted_engine import Desk
from tests.gui.scripted_shelf import ScriptedShelf, file_row, model_row, odd_files

SMALL = file_row("/home/a/models/small.gguf", "Q4_K_M")
LARGE = file_row("/home/a/models/large.gguf", "F16", num_bytes=270 << 20, bits_per_weight=16.0)
FOREIGN = file_row(
    "/home/a/.lmstudio/other.gguf", "Q8_0", owner="LM Studio", place="LM Studio", is_ours=False, bits_per_weight=8.5
)
LIBRARY = (model_row("SmolLM2 135M Instruct", SMALL, LARGE), model_row("Other 1B", FOREIGN), *odd_files())
_KEYS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier


class Hand:
    """Opens the page and uses it with mouse and keys."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.shelf: ScriptedShelf = desk.shelf
        self.qtbot = desk.qtbot

    @property
    def page(self) -> ModelsPage:
        return self.desk.parts.models.page

    def open(self, models: tuple[ModelRow, ...] = LIBRARY) -> "Hand":
        self.shelf.models = models
        QTest.keyClick(self.desk.window, Qt.Key.Key_L, _KEYS)
        self.qtbot.waitUntil(lambda: self.desk.window.page is self.page)
        return self.settle()

    def settle(self) -> "Hand":
        jobs = self.desk.parts.jobs
        self.qtbot.waitUntil(lambda: not any(jobs.is_running(key) for key in ("scan", "fits", "folder", "remove")))
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

    def strip(self, key: str) -> str:
        strip = self.page.jobs.strip(key)
        return "" if strip is None else strip.text

    def wait_for(self, key: str, text: str) -> None:
        self.qtbot.waitUntil(lambda: text in self.strip(key))
