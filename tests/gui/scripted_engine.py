"""A scripted engine and the hand that plays it: a test says what the engine answers, and sees what was asked of it."""

import dataclasses
import itertools
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from app.desktop.building import WindowParts
from engine import (
    Command,
    Delta,
    EngineDied,
    ErrorInfo,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    LoadModel,
    ModelDescription,
    ModelLoaded,
    OnEvent,
    RequestMetrics,
)
from tests.gui.scripted_shelf import ScriptedShelf

_Command = TypeVar("_Command", bound=Command)


class ScriptedClient:
    """Implements EngineClient; does nothing by itself."""

    def __init__(self) -> None:
        self.sent: list[Command] = []
        self.closed_after: float | None = None
        self._on_event: OnEvent = lambda event: None

    def start(self, on_event: OnEvent) -> None:
        self._on_event = on_event

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def close(self, timeout_s: float = 2.0) -> None:
        self.closed_after = timeout_s

    def emit(self, *events: Event) -> None:
        for event in events:
            self._on_event(event)

    def last(self, kind: type[_Command]) -> _Command:
        return next(command for command in reversed(self.sent) if isinstance(command, kind))

    def count(self, kind: type[Command]) -> int:
        return sum(isinstance(command, kind) for command in self.sent)


def finished(request_id: str, text: str, reason: FinishReason = FinishReason.STOP, **changes: object) -> Finished:
    """Return the end of a reply; `changes` are of its measures, but for those that Finished itself has."""
    own = ("thinking", "stop_string", "token_ids", "cache", "speculative", "drafted_spans")
    others = {name: changes.pop(name) for name in own if name in changes}
    values: dict[str, object] = {"token_ids": ()}
    return Finished(
        request_id=request_id,
        text=text,
        finish_reason=reason,
        metrics=metrics(**changes),
        **(values | others),  # type: ignore[arg-type]
    )


@dataclasses.dataclass
class Choice:
    """What the choice of models found."""

    path: Path
    label: str
    last_model: str


def describe(**changes: object) -> ModelDescription:
    """Return the description of a small model."""
    values: dict[str, object] = {
        "path": "/models/small.gguf",
        "name": "Small",
        "architecture": "llama",
        "type_name": "Q4_1",
        "n_params": 1,
        "weight_bytes": 1,
        "n_ctx": 4096,
        "n_ctx_requested": 0,
        "n_ctx_train": 4096,
        "n_vocab": 1,
        "n_layer": 1,
        "n_batch": 1,
        "n_ubatch": 1,
        "n_seq_max": 4,
        "n_threads": 1,
        "n_gpu_layers": 0,
        "device": "cpu",
        "type_k": "f16",
        "type_v": "f16",
        "kv_bytes_per_token": 1024,
        "has_chat_template": True,
        "load_s": 0.1,
    }
    return ModelDescription(**(values | changes))  # type: ignore[arg-type]


def metrics(**changes: object) -> RequestMetrics:
    """Return the measures of a short reply."""
    values: dict[str, object] = {
        "num_prompt_tokens": 30,
        "num_cached_tokens": 10,
        "num_generated_tokens": 11,
        "ttft_s": 0.25,
        "prefill_s": 0.2,
        "decode_s": 0.5,
    }
    return RequestMetrics(**(values | changes))  # type: ignore[arg-type]


class Desk:
    """One window and the hand that plays its engine."""

    def __init__(self, parts: WindowParts, client: ScriptedClient, qtbot: QtBot) -> None:
        self.parts = parts
        self.client = client
        self.qtbot = qtbot
        self.opened: list[str] = []
        self.saved: list[tuple[str, object]] = []
        self.shelf = ScriptedShelf()
        self.window = parts.window
        self.view = parts.window.chat_view
        self.composer = parts.window.composer
        self._counts = itertools.count(1)

    def load(self, **changes: object) -> None:
        """Choose the default model and load it."""
        before = self.client.count(LoadModel)
        self.parts.actions.choose_model(None)
        self.qtbot.waitUntil(lambda: self.client.count(LoadModel) > before)
        request = self.client.last(LoadModel)
        self.client.emit(ModelLoaded(request_id=request.request_id, description=describe(**changes)))
        self.qtbot.waitUntil(lambda: self.parts.model.description is not None)

    def say(self, text: str) -> str:
        """Send a message and return the id of its request."""
        before = self.client.count(Generate)
        self.composer.text_edit.setPlainText(text)
        self.composer.submit()
        self.qtbot.waitUntil(lambda: self.client.count(Generate) > before)
        return self.client.last(Generate).request_id

    def delta(self, request_id: str, text: str, *, thinking: str = "", was_thinking: bool = False) -> None:
        """Let a piece arrive and be shown."""
        count = next(self._counts)
        self.client.emit(
            Delta(
                request_id=request_id,
                text=text,
                num_generated_tokens=count,
                num_context_tokens=30 + count,
                decode_s=count * 0.05,
                thinking=thinking,
                was_thinking=was_thinking,
            )
        )
        self.parts.bridge._drain()

    def think(self, request_id: str, thinking: str) -> None:
        """Let a piece of thinking arrive and be shown."""
        self.delta(request_id, "", thinking=thinking)

    def finish(self, request_id: str, text: str, reason: FinishReason = FinishReason.STOP, **changes: object) -> None:
        """Let the reply end; `changes` are of its measures, but for `stop_string` and `thinking`."""
        self.client.emit(finished(request_id, text, reason, **changes))
        self.qtbot.waitUntil(lambda: not self.parts.conversation.is_busy)

    def reply(self, question: str, answer: str) -> None:
        """Play a whole exchange."""
        request_id = self.say(question)
        self.delta(request_id, answer)
        self.finish(request_id, answer)

    def press(self, button: QAbstractButton) -> str:
        """Press a button that asks the engine, and return the id of the request."""
        before = self.client.count(Generate)
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
        self.qtbot.waitUntil(lambda: self.client.count(Generate) > before)
        return self.client.last(Generate).request_id

    def fail(self, request_id: str, error: ErrorInfo) -> None:
        """Let the reply fail."""
        self.client.emit(Failed(request_id=request_id, error=error))
        self.qtbot.waitUntil(lambda: not self.parts.conversation.is_busy)

    def die(self, *open_requests: str) -> ErrorInfo:
        """Let the engine die."""
        error = ErrorInfo("EngineDied", "The engine stopped unexpectedly (SIGKILL).", "Load the model again.")
        for request_id in open_requests:
            self.client.emit(Failed(request_id=request_id, error=error))
        self.client.emit(EngineDied(exit_code=-9, log_tail=(), error=error))
        self.qtbot.waitUntil(lambda: self.parts.model.error == error)
        return error

    @property
    def last_row(self) -> object:
        """The newest row."""
        return self.view.rows[-1]


def find_default_model(wanted: str | None) -> Choice:
    """Stand in for the choice of models."""
    return Choice(Path("/models/small.gguf"), "Small", wanted or "starter")
