"""A window over a scripted engine."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.desktop.building import build_window
from app.desktop.session.model_session import Starter
from app.desktop.theme.theme import Theme
from app.known_models import KnownModels
from app.settings import Settings
from app.settings import Theme as ThemeMode
from tests.gui.models_hand import Hand
from tests.gui.scripted_engine import Choice, Desk, ScriptedClient, find_default_model
from tests.gui.scripted_shelf import ScriptedShelf


@pytest.fixture(scope="session")
def _one_theme(qapp: QApplication) -> Theme:
    return Theme(qapp, ThemeMode.LIGHT, family="DejaVu Sans")


@pytest.fixture
def theme(_one_theme: Theme) -> Iterator[Theme]:
    yield _one_theme
    _one_theme.set_mode(ThemeMode.LIGHT)
    _one_theme.reset_zoom()


@pytest.fixture
def make_desk(theme: Theme, qtbot: QtBot, data_dir: Path) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(
        choose: Callable[[str | None], Choice] = find_default_model,
        settings: Settings | None = None,
        draft_files: Callable[[], Any] | None = None,
    ) -> Desk:
        client = ScriptedClient()
        opened: list[str] = []
        saved: list[tuple[str, object]] = []
        shelf = ScriptedShelf()
        parts = build_window(
            theme,
            client,
            choose=choose,
            starter=lambda: Starter(name="starter", label="Starter model"),
            settings=settings or Settings(),
            draft_files=draft_files,
            save=lambda name, value: saved.append((name, value)),
            known=KnownModels(data_dir / "known-models.json"),
            shelf=lambda *_: shelf,
            cache_dir=str(data_dir / "prompt-cache"),
            open_link=opened.append,
        )
        desk = Desk(parts, client, qtbot)
        desk.opened, desk.saved, desk.shelf = opened, saved, shelf
        made.append(desk)
        parts.window.resize(1000, 700)
        parts.window.show()
        qtbot.waitExposed(parts.window)
        return desk

    yield make
    for desk in made:
        desk.parts.close()
        desk.parts.window.deleteLater()
        desk.parts.bridge.deleteLater()


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    """A window whose model is loaded."""
    desk = make_desk()
    desk.load()
    return desk


@pytest.fixture
def hand(theme: Theme, qtbot: QtBot) -> Iterator[Hand]:
    """Whoever uses the Models page, in a window of its own."""
    hand = Hand(theme, qtbot)
    yield hand
    hand.shelf.gate.set()
    hand.jobs.close()
    hand.window.close()
    hand.window.deleteLater()
