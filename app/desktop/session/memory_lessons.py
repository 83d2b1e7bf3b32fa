"""MemoryLessons: the record of loads learns from replies what models take, beside the window's thread."""

import logging

from PySide6.QtCore import QObject, Slot

from app.desktop.bridge.background import Background
from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.model_session import ModelSession
from app.memory_record import MemoryRecord
from engine import EngineDescription, Finished

_LOG = logging.getLogger(__name__)


class MemoryLessons(QObject):
    """Listens to the engine as long as the bridge lives.

    Args:
        record: what is learned goes there.
    """

    def __init__(self, bridge: EngineBridge, model: ModelSession, background: Background, record: MemoryRecord) -> None:
        super().__init__(bridge)
        self._model = model
        self._background = background
        self._record = record
        self._features: str | None = None
        bridge.engine_described.connect(self._on_described)
        bridge.reply_finished.connect(self._on_finished)

    @Slot(object)
    def _on_described(self, engine: EngineDescription) -> None:
        self._features = engine.features

    @Slot(object)
    def _on_finished(self, event: Finished) -> None:
        model, metrics, features = self._model.description, event.metrics, self._features
        if model is None or features is None or not self._record.can_learn(model, metrics):
            return
        self._background.run(
            lambda: self._record.note(model, metrics, features=features),
            lambda _: None,
            lambda error: _LOG.warning("what the model has taken is not noted", exc_info=error),
        )
