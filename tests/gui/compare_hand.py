"""Whoever uses the Compare page in tests: a window whose comparisons are made by fake engines in this process."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.compare.results import Mode
from app.desktop.building import WindowParts, build_window
from app.desktop.compare_source import CompareSource
from app.desktop.session.compare_setup import ColumnSetup, CompareSetup, ModelOption
from app.desktop.session.model_session import Starter
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_lane import CompareLane
from app.known_models import KnownModels
from app.paths import Paths, find_paths
from app.settings import Settings
from engine import EngineClient, InprocClient
from tests.gui.scripted_engine import ScriptedClient, find_default_model
from tests.gui.scripted_shelf import ScriptedShelf
from tests.support.template_thread import render_templates_here

QUICK = "fake:n_words=12"
OTHER = "fake:n_words=20"
LEVEL = "fake:n_words=14"
BROKEN = "fake:fail=1"


class FakeSource(CompareSource):
    """Offers two fake models, and none of this computer's."""

    def models(self) -> tuple[ModelOption, ...]:
        return (
            ModelOption(QUICK, "Quick", 1 << 20, "group"),
            ModelOption(OTHER, "Other", 3 << 20),
            ModelOption(LEVEL, "Quick, a level", 1 << 19, "group"),
        )


class CompareHand:
    """A window with the page open."""

    def __init__(
        self,
        theme: Theme,
        qtbot: QtBot,
        data_dir: Path,
        make_client: Callable[[], EngineClient] = lambda: InprocClient(fake=True),
        source: type[CompareSource] = FakeSource,
    ) -> None:
        self.qtbot = qtbot
        self._patch = pytest.MonkeyPatch()
        render_templates_here(self._patch)
        self.paths: Paths = find_paths(str(data_dir))
        self.paths.create()
        self.parts: WindowParts = build_window(
            theme,
            ScriptedClient(),
            choose=find_default_model,
            starter=lambda: Starter(name="starter", label="Starter model"),
            settings=Settings(),
            save=lambda name, value: None,
            known=KnownModels(data_dir / "known-models.json"),
            shelf=lambda *_: ScriptedShelf(),
            comparing=lambda user: source(self.paths, lambda: user.now, make_client, is_fake=source is FakeSource),
        )
        self.window = self.parts.window
        self.window.resize(1200, 800)
        self.window.show()
        qtbot.waitExposed(self.window)
        QTest.mouseClick(self.window.top_bar.compare, Qt.MouseButton.LeftButton)
        self.page = self.parts.compare.presenter.page
        qtbot.waitUntil(lambda: bool(self.page.setup.columns.cards[0].setup.model))

    @property
    def lanes(self) -> Sequence[CompareLane]:
        """The columns, from the left."""
        return list(self.page.columns.lanes.values())

    @property
    def is_running(self) -> bool:
        """Whether replies are being made."""
        return not self.page.stop_button.isHidden()

    def choose(self, *models: str, mode: Mode = Mode.FAIR, text: str = "Say something.", repeats: int = 1) -> None:
        """Fill in the set-up."""
        columns = tuple(ColumnSetup(model) for model in models)
        self.page.setup.choose(CompareSetup(columns, mode, text=text, repeats=repeats, max_tokens=64))

    def start(self) -> None:
        """Press the button and wait until there are columns."""
        QTest.mouseClick(self.page.setup.start_button, Qt.MouseButton.LeftButton)
        self.qtbot.waitUntil(lambda: self.page.view is not self.page.setup, timeout=20_000)

    def wait_for_end(self, timeout: int = 30_000) -> None:
        """Wait until nothing runs any more and the result is there."""
        self.qtbot.waitUntil(lambda: not self.is_running, timeout=timeout)
        self.qtbot.waitUntil(lambda: self.page.tabs[2].isEnabled(), timeout=timeout)

    def compare(self, *models: str, mode: Mode = Mode.FAIR, text: str = "Say something.", repeats: int = 1) -> None:
        """Do a whole comparison."""
        self.choose(*models, mode=mode, text=text, repeats=repeats)
        self.start()
        self.wait_for_end()

    def said(self, lane: int) -> list[str]:
        """Return the messages of a column."""
        view = self.lanes[lane].chat
        return [row.turn.text for row in view.rows]

    def close(self) -> None:
        """End the window and all it began."""
        self.window.close()
        self.parts.close()
        for thread in threading.enumerate():
            if thread.name == "compare":
                thread.join(10)
        self.window.deleteLater()
        self.parts.bridge.deleteLater()
        self._patch.undo()
