"""An importance matrix is computed in an engine of its own, which is closed however that ends."""

from pathlib import Path

import pytest

from app.importance_building import build_importance
from engine import (
    Abort,
    BuildImportance,
    Command,
    EngineDied,
    EngineError,
    ErrorInfo,
    Event,
    Failed,
    ImportanceBuilt,
    ImportanceCancelled,
    ImportanceProgress,
    LoadModel,
    ModelLoaded,
    OnEvent,
)
from tests.gui.scripted_engine import describe

ERROR = ErrorInfo("OutOfMemory", "There is not enough memory.", "Close something.")


class Client:
    """Answers each kind of command with some events."""

    def __init__(self, *answers: Event) -> None:
        self.sent: list[Command] = []
        self.is_closed = False
        self._answers = answers
        self._on_event: OnEvent = lambda event: None

    def start(self, on_event: OnEvent) -> None:
        self._on_event = on_event

    def send(self, command: Command) -> None:
        self.sent.append(command)
        if isinstance(command, LoadModel) and not any(isinstance(answer, Failed) for answer in self._answers):
            self._on_event(ModelLoaded(request_id=command.request_id, description=describe()))
        elif isinstance(command, LoadModel | BuildImportance):
            for answer in self._answers:
                self._on_event(answer)

    def close(self, timeout_s: float = 2.0) -> None:
        self.is_closed = True


def build(client: Client, *, cancelled: bool = False) -> tuple[bool, list[float]]:
    shares: list[float] = []
    is_there = build_importance(
        client,
        Path("/models/a.gguf"),
        Path("/tmp/matrix"),
        "words",
        text_name="words.txt",
        report=shares.append,
        is_cancelled=lambda: cancelled,
    )
    return is_there, shares


BUILT = ImportanceBuilt(request_id="importance", path="/m", num_chunks=4, num_tokens=2048, num_tensors=9, seconds=1.0)


def test_matrix_is_built_of_the_text_with_progress() -> None:
    progress = ImportanceProgress(request_id="importance", num_chunks_done=1, num_chunks=4)
    client = Client(progress, BUILT)
    assert build(client) == (True, [0.25])
    load, order = client.sent
    assert isinstance(load, LoadModel) and load.path == "/models/a.gguf"
    assert isinstance(order, BuildImportance) and (order.text, order.text_name) == ("words", "words.txt")
    assert client.is_closed


@pytest.mark.parametrize("cancelled", [True, False], ids=["by-the-user", "by-the-engine"])
def test_matrix_that_is_given_up_is_not_there(cancelled: bool) -> None:
    client = Client(ImportanceCancelled(request_id="importance"))
    assert build(client, cancelled=cancelled) == (False, [])
    assert any(isinstance(command, Abort) for command in client.sent) is cancelled
    assert client.is_closed


@pytest.mark.parametrize(
    "answer",
    [Failed(request_id="load", error=ERROR), EngineDied(exit_code=-9, log_tail=(), error=ERROR)],
    ids=["load-fails", "engine-dies"],
)
def test_failure_is_the_error_of_the_engine(answer: Event) -> None:
    client = Client(answer)
    with pytest.raises(EngineError, match="not enough memory"):
        build(client)
    assert client.is_closed
