"""ModelRecords: when each model was used last, and how fast memory is read here, kept in the settings."""

import math
import time

from PySide6.QtCore import QObject

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.model_session import ModelSession
from app.desktop.session.user_settings import UserSettings
from engine import MachineSpeed

_MAX_USED = 200


class ModelRecords(QObject):
    """Keeps what the engine tells, as it comes."""

    def __init__(
        self, settings: UserSettings, model: ModelSession, bridge: EngineBridge, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._settings = settings
        self._model = model
        model.loaded.connect(self._on_loaded)
        bridge.machine_measured.connect(self._on_machine_measured)

    def _on_loaded(self) -> None:
        if self._model.chosen is None:
            return
        path = str(self._model.chosen.path)
        others = {name: at for name, at in times_of_use(self._settings).items() if name != path}
        newest = sorted(others.items(), key=lambda item: item[1], reverse=True)[: _MAX_USED - 1]
        self._settings.set("models_used", {path: time.time(), **dict(newest)})

    def _on_machine_measured(self, speed: MachineSpeed) -> None:
        measured = {**self._settings.now.read_bandwidth, str(speed.n_threads): round(speed.read_bandwidth)}
        self._settings.set("read_bandwidth", measured)


def times_of_use(settings: UserSettings) -> dict[str, float]:
    """Return when model files were loaded last, by path, in seconds since 1970; settings may hold anything."""
    used = settings.now.models_used.items()
    return {path: at for path, at in used if isinstance(at, float) and math.isfinite(at)}
