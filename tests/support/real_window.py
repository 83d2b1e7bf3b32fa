"""The real window over a real engine, started again and again on the same data, as the program's start does."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.desktop.building import WindowParts, build_window
from app.desktop.session.model_session import ModelState, Starter
from app.desktop.theme.theme import Theme
from app.known_models import KnownModels
from app.model_choice import choose_model
from app.settings import Settings
from engine import EngineClient
from tests.support.person import Person

_OPEN_MS, _LOAD_MS = 10_000, 60_000


class RealWindows:
    """Shows one window after the other, with the settings that the one before has kept.

    Args:
        data: where chats, and the record of loaded models, are.
        parts: what the window is built with beside the usual.
    """

    def __init__(self, qtbot: QtBot, theme: Theme, data: Path, settings: Settings, **parts: Any) -> None:
        self.settings = settings
        self._qtbot = qtbot
        self._theme = theme
        self._data = data
        self._extra = parts
        self._shown: WindowParts | None = None

    def show(self, client: EngineClient, *, size: tuple[int, int] | None) -> WindowParts:
        """Close the window that is there, and show another one.

        Args:
            size: in pixels; None leaves it as it was kept.
        """
        self.close()
        self._shown = parts = build_window(
            self._theme,
            client,
            choose=lambda wanted: choose_model(wanted, self.settings),
            starter=lambda: Starter(name="starter", label="Starter model"),
            settings=self.settings,
            save=self._keep,
            known=KnownModels(self._data / "known-models.json"),
            shelf=lambda *_: pytest.fail("the page of models is not opened here"),
            **self._extra,
        )
        if size is not None:
            parts.window.resize(*size)
        with self._qtbot.waitExposed(parts.window):
            parts.window.show()
        parts.window.activateWindow()
        return parts

    def open_chats(self, parts: WindowParts) -> None:
        """Show the chats that are kept, and wait for them."""
        with self._qtbot.waitSignal(parts.keeping.opened, timeout=_OPEN_MS):
            parts.keeping.open(self._data / "chats.sqlite3", retention_days=30)

    def load(self, parts: WindowParts, model: str | None = None) -> Person:
        """Load a model, None the usual one, and return somebody before the window."""
        parts.actions.choose_model(model)
        self._qtbot.waitUntil(lambda: parts.model.state is ModelState.READY, timeout=_LOAD_MS)
        return Person(parts, self._qtbot)

    def close(self) -> None:
        """End the window that is there."""
        if self._shown is not None:
            self._shown.window.close()
            self._shown.close()
            self._shown.window.deleteLater()
            self._shown.bridge.deleteLater()
            self._shown = None

    def _keep(self, name: str, value: object) -> None:
        changes: dict[str, Any] = {name: value}
        self.settings = dataclasses.replace(self.settings, **changes)
