"""What a request is told of an exception: errors are made to be shown, anything else is a fault of the program."""

import logging
from collections.abc import Callable

from engine.errors import EngineError, InternalError
from engine.messages import Event, Failed

_LOG = logging.getLogger(__name__)


def event_of(request_id: str, compute: Callable[[], Event]) -> Event:
    """Return what `compute` returns, or its failure as the answer to the request."""
    try:
        return compute()
    except Exception as error:
        return Failed(request_id=request_id, error=shown(error).info())


def shown(error: Exception) -> EngineError:
    """Return the error to send: one made to be shown as it is, anything else as the bug it is."""
    if isinstance(error, EngineError):
        return error
    _LOG.error("a request failed by a fault of the program", exc_info=error)
    return InternalError("The engine met a fault of its own.", "Please report it.", repr(error))
