"""SettingsSaving: writes what the user chose beside the window's thread, and says when that fails."""

import logging
import threading
from collections.abc import Callable

from app.desktop.bridge.background import Background
from app.desktop.widgets.notices import Notice
from app.errors import SettingsError
from app.settings import SettingsStore

_KEY = "settings-unsaved"
_LOG = logging.getLogger(__name__)


class SettingsSaving:
    """Writes of several changes of one setting the last; what could not be written goes with the next change."""

    def __init__(self, store: SettingsStore) -> None:
        self._store = store
        self._pending: dict[str, object] = {}
        self._changing = threading.Lock()
        self._writing = threading.Lock()
        self._is_told = False
        self._window: tuple[Background, Callable[[Notice], None], Callable[[str], None]] | None = None

    def begin(
        self, background: Background, show_notice: Callable[[Notice], None], dismiss: Callable[[str], None]
    ) -> None:
        """Write in `background` from now on, and tell in the window."""
        self._window = background, show_notice, dismiss

    def save(self, name: str, value: object) -> None:
        """Keep one setting; a window that does not exist yet keeps it when it closes."""
        with self._changing:
            self._pending[name] = value
        if self._window is not None:
            self._window[0].run(self.write_pending, self._on_written, self._on_failed)

    def write_pending(self) -> None:
        """Write what is not written yet.

        Raises:
            SettingsError: it could not be written, and waits for the next try.
        """
        with self._writing:
            with self._changing:
                changes, self._pending = self._pending, {}
            if not changes:
                return
            try:
                self._store.update(**changes)
            except SettingsError:
                with self._changing:
                    self._pending = changes | self._pending
                raise

    def close(self) -> None:
        """Write what no thread came to; there is no window left to tell of a failure."""
        try:
            self.write_pending()
        except SettingsError as error:
            _LOG.warning("the settings are not saved: %s", error)

    def _on_written(self, _: None) -> None:
        if self._is_told and self._window is not None:
            self._is_told = False
            self._window[2](_KEY)

    def _on_failed(self, error: Exception) -> None:
        if not isinstance(error, SettingsError):
            raise error
        _LOG.warning("the settings are not saved: %s", error)
        if not self._is_told and self._window is not None:  # once: a window that is moved is a change as well
            self._is_told = True
            self._window[1](Notice(key=_KEY, text=error.message, hint=error.hint, is_error=True))
