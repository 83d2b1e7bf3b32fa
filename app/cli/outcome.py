"""How a command ends: exit codes, and errors as a sentence with a hint, or as an event."""

import enum
import json
import sys
import traceback
from typing import Any

import app.errors
from app.cli.terminal_text import on_one_line
from app.errors import AppError
from engine import EngineError, EngineUnavailable, InvalidParams, ModelLoadError, TurnsDropped
from models import LibraryError, ModelsError, QuantizeError, QuantizeRefused


class ExitCode(enum.IntEnum):
    """Exit codes of every command; scripts rely on them."""

    DONE = 0
    REQUEST_FAILED = 1
    USAGE = 2
    MODEL = 3
    ENGINE_DIED = 4
    INTERRUPTED = 130


CONTEXT_FULL = "The context is full, so the reply ends here."

FROM_CACHE = "This reply is from the cache: the same was asked before."

ONLY_THOUGHT = "The reply ended before its answer began: all of it was thinking."

ShownError = AppError | ModelsError | EngineError

_MODEL_ERRORS = (
    ModelsError,
    ModelLoadError,
    app.errors.ModelFileMissing,
    app.errors.ModelFileUnreadable,
    app.errors.StarterMissing,
)


def exit_code_of(error: ShownError) -> ExitCode:
    """Return the exit code that belongs to an error."""
    if isinstance(error, QuantizeRefused):
        return ExitCode.USAGE
    if isinstance(error, LibraryError | QuantizeError):
        return ExitCode.REQUEST_FAILED
    if isinstance(error, _MODEL_ERRORS):
        return ExitCode.MODEL
    if isinstance(error, EngineUnavailable):
        return ExitCode.ENGINE_DIED
    if isinstance(error, app.errors.WindowNotAnswering | app.errors.StoreError):
        return ExitCode.REQUEST_FAILED
    if isinstance(error, InvalidParams | AppError):
        return ExitCode.USAGE
    return ExitCode.REQUEST_FAILED


def print_event(event: str, **fields: Any) -> None:
    """Print one line of JSON Lines to standard output."""
    print(json.dumps({"event": event, **fields}), flush=True)


def print_failed(error: ShownError, **fields: Any) -> None:
    """Print an error as the event that ends a request."""
    print_event("failed", error=type(error).__name__, message=error.message, hint=error.hint, **fields)


def show_error(error: ShownError, *, debug: bool = False) -> None:
    """Write an error to standard error: what happened, and what to do."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
        if error.details:
            print(error.details, file=sys.stderr)
    print(f"fireside: {on_one_line(error.message)}", file=sys.stderr)
    if error.hint:
        print(on_one_line(error.hint), file=sys.stderr)


def report(error: Exception, *, as_json: bool, debug: bool) -> int:
    """Show the error that ends the program, and return the exit code."""
    if not isinstance(error, ShownError):
        # Anything that cannot be shown is a bug, and the log holds its traceback.
        bug = AppError(f"This is a bug in Fireside: {type(error).__name__}: {error}.", "The log holds the details.")
        bug.__cause__ = error
        show_error(bug, debug=debug)
        if as_json:
            print_event("failed", error=type(error).__name__, message=bug.message, hint=bug.hint)
        return ExitCode.REQUEST_FAILED
    show_error(error, debug=debug)
    if as_json:
        print_failed(error)
    return exit_code_of(error)


def dropped_sentence(dropped: TurnsDropped) -> str:
    """Say what of a chat the model does not see."""
    if dropped.is_reply_cut:
        return "The context is full: the model sees only the last part of its reply."
    count = "1 earlier message was" if dropped.num_messages == 1 else f"{dropped.num_messages} earlier messages were"
    return f"The context is full: {count} left out."
