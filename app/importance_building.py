"""Computing an importance matrix in an engine of its own, beside the one that chats."""

import queue
from collections.abc import Callable
from pathlib import Path

from engine import (
    Abort,
    BuildImportance,
    Command,
    EngineClient,
    EngineDied,
    Event,
    Failed,
    ImportanceBuilt,
    ImportanceCancelled,
    ImportanceProgress,
    LoadModel,
    ModelLoaded,
    ModelParams,
    error_from_info,
)

_N_CTX = 512  # the matrix is computed in a context of its own; this one is not used
_POLL_S = 0.1
_LOAD, _BUILD = "load", "importance"


def build_importance(
    client: EngineClient,
    model: Path,
    output: Path,
    text: str,
    *,
    text_name: str,
    report: Callable[[float], None],
    is_cancelled: Callable[[], bool],
) -> bool:
    """Write the importance matrix of a model to a file, and tell whether it is there: it is not where it was given up.

    Args:
        client: not started yet; closed at the end.
        text: empty takes the one that comes with the program.
        report: gets the share that is done.

    Raises:
        EngineError: the model cannot be loaded, or its matrix not be computed.
    """
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    client.start(events.put)
    try:
        loaded = _answer(
            client,
            LoadModel(request_id=_LOAD, path=str(model), params=ModelParams(n_ctx=_N_CTX)),
            events,
            report=report,
            is_cancelled=is_cancelled,
        )
        if loaded is None:
            return False
        order = BuildImportance(request_id=_BUILD, path=str(output), text=text, text_name=text_name)
        built = _answer(client, order, events, report=report, is_cancelled=is_cancelled)
        return isinstance(built, ImportanceBuilt)
    finally:
        client.close()


def _answer(
    client: EngineClient,
    command: Command,
    events: "queue.SimpleQueue[Event]",
    *,
    report: Callable[[float], None],
    is_cancelled: Callable[[], bool],
) -> Event | None:
    """Send a command and return what ends it; None where it was given up."""
    client.send(command)
    while True:
        if is_cancelled():
            client.send(Abort(request_id=_BUILD))
            return None
        try:
            event = events.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        match event:
            case ImportanceProgress():
                report(event.num_chunks_done / max(1, event.num_chunks))
            case Failed() | EngineDied():
                raise error_from_info(event.error)
            case ModelLoaded() | ImportanceBuilt():
                return event
            case ImportanceCancelled():
                return None
            case _:
                pass
