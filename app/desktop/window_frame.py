"""WindowFrame: the settings that change the window itself, and what the window remembers of itself."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QObject

from app.desktop.session.chats import Chats
from app.desktop.session.user_settings import UserSettings
from app.desktop.theme.theme import Theme
from app.desktop.widgets.main_window import MainWindow
from app.desktop.window_state import WindowState, WindowStateSaver, read_window_state


class WindowFrame(QObject):
    """Applies settings as they change, and keeps place, sides and the open chat for the next start."""

    def __init__(self, theme: Theme, window: MainWindow, settings: UserSettings, chats: Chats) -> None:
        super().__init__(window)
        self._theme = theme
        self._window = window
        self._settings = settings
        self._chats = chats
        self._state = read_window_state(settings.now.window)
        self._saver = WindowStateSaver(self._read, self._save, settings.now.window, self)
        window.restore(self._state)
        if settings.now.window:
            window.inspector.set_collapsed(self._state.collapsed)
        for name in ("send_key", "follow"):
            self._apply(name)
        settings.changed.connect(self._apply)
        theme.zoom_changed.connect(self._on_zoom_changed)
        window.state_changed.connect(self._saver.note_change)
        window.inspector.collapsed_changed.connect(self._saver.note_change)
        chats.current_changed.connect(self._saver.note_change)

    def open_last_chat(self) -> None:
        """Show the chat that was open when the window was closed, unless something was begun meanwhile."""
        if self._state.chat_id is not None:
            self._chats.open_first(self._state.chat_id, self._has_no_new_text)

    def _has_no_new_text(self) -> bool:
        return self._window.composer.draft == self._chats.current.draft

    def save(self) -> None:
        """Keep the state of now."""
        self._saver.save_now()

    def _read(self) -> WindowState:
        chat = self._chats.current.chat
        return dataclasses.replace(
            self._window.state(),
            collapsed=tuple(sorted(self._window.inspector.collapsed)),
            chat_id=chat.id if chat.is_begun and not chat.is_private else None,
        )

    def _save(self, table: Mapping[str, Any]) -> None:
        self._settings.set("window", dict(table))

    def _on_zoom_changed(self, zoom: float) -> None:
        self._settings.set("zoom", zoom)

    def _apply(self, name: str) -> None:
        now = self._settings.now
        match name:
            case "theme":
                self._theme.set_mode(now.theme)
            case "zoom":
                self._theme.set_zoom(now.zoom)
            case "send_key":
                self._window.composer.set_send_key(now.send_key)
            case "follow":
                self._window.chat_view.follow_mode = now.follow
