"""InspectorPresenter: the settings of the shown chat and of its model, and the numbers that nobody else tells."""

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QObject

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.bridge.worker_memory import WorkerMemory
from app.desktop.session.chats import Chats
from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelSession, ModelState
from app.desktop.session.token_counts import TokenCounts
from app.desktop.session.total_rate import TotalRate
from app.desktop.session.user_settings import UserSettings
from app.desktop.widgets.load_panel import LoadPanel
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.sampling_panel import SamplingPanel
from app.desktop.widgets.system_prompt import SystemPromptEdit
from engine import Delta, EngineDescription, ErrorInfo, Finished, ModelDescription, ModelParams


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectorParts:
    """The widgets of the inspector."""

    readouts: Readouts
    sampling: SamplingPanel
    load_panel: LoadPanel
    system_prompt: SystemPromptEdit


class InspectorPresenter(QObject):
    """Connects the inspector with the shown chat, the model and the user's settings."""

    def __init__(
        self,
        window: MainWindow,
        parts: InspectorParts,
        *,
        chats: Chats,
        model: ModelSession,
        bridge: EngineBridge,
        settings: UserSettings,
        counts: TokenCounts,
        memory: WorkerMemory,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._parts = parts
        self._chats = chats
        self._model = model
        self._bridge = bridge
        self._settings = settings
        self._counts = counts
        self._memory = memory
        self._conversation: Conversation | None = None
        self._total = TotalRate()
        parts.sampling.changed.connect(self._on_sampling_changed)
        parts.sampling.let_go.connect(lambda: chats.current.save_settings())
        parts.sampling.keep_requested.connect(self._on_keep_requested)
        parts.system_prompt.changed.connect(self._on_system_prompt_changed)
        parts.load_panel.load_requested.connect(self._on_load_requested)
        bridge.engine_described.connect(self._on_engine_described)
        bridge.threads_changed.connect(parts.readouts.show_threads)
        bridge.delta_received.connect(self._on_delta)
        bridge.reply_finished.connect(self._on_any_finished)
        bridge.reply_failed.connect(self._on_any_failed)
        model.changed.connect(self._on_model_changed)
        model.loaded.connect(self._on_loaded)
        memory.measured.connect(parts.readouts.show_worker_memory)
        counts.system_counted.connect(self._on_system_counted)
        chats.current_changed.connect(self._show_current)
        window.state_changed.connect(self._measure_memory)
        self._show_current()

    @property
    def _model_key(self) -> str:
        chosen = self._model.chosen
        return self._chats.current.settings.model or (chosen.last_model if chosen is not None else "")

    def _show_current(self) -> None:
        self._parts.system_prompt.flush()  # of the chat that was shown until now
        before, self._conversation = self._conversation, self._chats.current
        if before is not None and before is not self._conversation:
            before.reply_finished.disconnect(self._on_reply_finished)
            before.path_changed.disconnect(self._on_path_changed)
        if before is not self._conversation:
            self._conversation.reply_finished.connect(self._on_reply_finished)
            self._conversation.path_changed.connect(self._on_path_changed)
        self._parts.system_prompt.set_text(self._conversation.settings.system_prompt)
        self._show_seed()
        self._show_layers()
        self._counts.count_system(self._conversation)

    def _show_seed(self) -> None:
        reply = self._chats.current.last_reply
        self._parts.sampling.show_used_seed(reply.metrics.seed if reply and reply.metrics else None)

    def _on_path_changed(self) -> None:
        if not self._chats.current.is_busy:  # else the numbers are those of the reply that is written
            self._show_seed()
            self._counts.count_system(self._chats.current)

    def _show_layers(self) -> None:
        app, model = self._settings.now.sampling, self._settings.model_sampling(self._model_key)
        self._parts.sampling.set_layers(app, model, self._chats.current.settings.sampling)

    def _on_sampling_changed(self) -> None:
        conversation = self._chats.current
        values = self._parts.sampling.chat_values
        conversation.set_settings(dataclasses.replace(conversation.settings, sampling=values))

    def _on_keep_requested(self, layer: str, values: Mapping[str, Any]) -> None:
        if layer == "app":
            self._settings.set("sampling", dict(values))
        elif self._model_key:
            self._settings.set_entry("model_sampling", self._model_key, values)

    def _on_system_prompt_changed(self, text: str) -> None:
        if self._conversation is not None:
            settings = dataclasses.replace(self._conversation.settings, system_prompt=text)
            self._conversation.set_settings(settings)
            self._counts.count_system(self._conversation)

    def _on_load_requested(self, params: ModelParams) -> None:
        chosen = self._model.chosen
        if chosen is not None:
            self._settings.set_load_params(chosen.last_model, params)
            self._chats.let_all_go()
            self._model.load_again()
            self._chats.send_queued()

    def _on_model_changed(self) -> None:
        is_ready = self._model.state is ModelState.READY
        self._parts.load_panel.set_params(self._model.params, self._model.description)
        self._measure_memory()
        if not is_ready:
            self._parts.readouts.show_worker_memory(None)
            self._parts.readouts.show_threads(None)

    def _on_loaded(self, _: ModelDescription) -> None:
        self._bridge.describe_engine()
        self._show_layers()
        self._counts.count_system(self._chats.current)

    def _on_engine_described(self, description: EngineDescription) -> None:
        self._parts.load_panel.set_devices(description.devices)

    def _measure_memory(self) -> None:
        if self._window.is_inspector_visible and self._model.state is ModelState.READY:
            self._memory.start()
        else:
            self._memory.stop()

    def _on_delta(self, event: Delta) -> None:
        self._total.note(event.request_id, event.num_generated_tokens, time.monotonic())
        self._parts.readouts.show_total(self._total.rate())

    def _on_any_finished(self, event: Finished) -> None:
        self._total.forget(event.request_id)
        self._parts.readouts.show_total(self._total.rate())

    def _on_any_failed(self, request_id: str, _: ErrorInfo) -> None:
        self._total.forget(request_id)
        self._parts.readouts.show_total(self._total.rate())

    def _on_reply_finished(self, event: Finished) -> None:
        self._parts.sampling.show_used_seed(event.metrics.seed)

    def _on_system_counted(self, num_tokens: int | None) -> None:
        is_empty = not self._chats.current.turns
        self._parts.readouts.show_context_parts(num_tokens, (num_tokens or 0) if is_empty else None)
