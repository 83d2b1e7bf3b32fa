"""UserSettings: what the user has chosen, as the window uses it; every change is kept at once."""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from app.settings import Settings
from engine import EngineError, ModelParams

_LOG = logging.getLogger(__name__)
_DEFAULT_PARAMS = ModelParams()


class UserSettings(QObject):
    """The settings of this session.

    Args:
        save: keeps one setting, given by name.

    Signals:
        changed: name of a setting.
    """

    changed = Signal(str)

    def __init__(self, settings: Settings, save: Callable[[str, object], None]) -> None:
        super().__init__()
        self._settings = settings
        self._save = save

    @property
    def now(self) -> Settings:
        """All settings."""
        return self._settings

    def set(self, name: str, value: object) -> None:
        """Change a setting."""
        if getattr(self._settings, name) != value:
            changes: dict[str, Any] = {name: value}
            self._settings = dataclasses.replace(self._settings, **changes)
            self._save(name, value)
            self.changed.emit(name)

    def set_entry(self, name: str, key: str, value: Mapping[str, Any]) -> None:
        """Change one entry of a setting that is a table; an empty value takes it out."""
        table = {other: entry for other, entry in getattr(self._settings, name).items() if other != key}
        self.set(name, table | ({key: dict(value)} if value else {}))

    def model_sampling(self, model: str) -> Mapping[str, Any]:
        """Return the sampling settings kept for a model."""
        kept = self._settings.model_sampling.get(model)
        return kept if isinstance(kept, Mapping) else {}

    def load_params(self, model: str) -> ModelParams:
        """Return how a model is loaded; the defaults where nothing usable is kept."""
        kept = self._settings.load_params.get(model)
        if not isinstance(kept, Mapping):
            return _DEFAULT_PARAMS
        try:
            return msgspec.convert(dict(kept), ModelParams)
        except (msgspec.ValidationError, EngineError, ValueError, TypeError) as error:
            _LOG.warning("the load settings of a model are not used: %s", error)
            return _DEFAULT_PARAMS

    def set_load_params(self, model: str, params: ModelParams) -> None:
        """Load a model in another way from now on."""
        wanted, usual = msgspec.to_builtins(params), msgspec.to_builtins(_DEFAULT_PARAMS)
        different = {name: value for name, value in wanted.items() if value != usual[name] and value is not None}
        self.set_entry("load_params", model, different)
