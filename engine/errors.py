"""The error tree of the engine and the form an error takes on the wire.

Every error here can be shown to a person: `message` says what happened in one sentence, `hint` says what to do,
`details` holds the native log or other evidence. Anything else that escapes is a bug.
"""

import msgspec

from engine.text import clean_text


class ErrorInfo(msgspec.Struct, frozen=True):
    """An error as a value, as it crosses the process border.

    Attributes:
        error: class name in the error tree, for example "ContextOverflow".
        message: one sentence for a person.
        hint: what to do, one sentence, may be empty.
        details: evidence such as the last native log lines, may be empty.
    """

    error: str
    message: str
    hint: str = ""
    details: str = ""


class EngineError(Exception):
    """Root of all engine errors that can be shown."""

    def __init__(self, message: str, hint: str = "", details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def info(self) -> ErrorInfo:
        """Return the wire form of this error; what it quotes may hold unpaired surrogates, which have none."""
        return ErrorInfo(type(self).__name__, *map(clean_text, (self.message, self.hint, self.details)))


class InvalidParams(EngineError):
    """A setting is outside what it may be."""


class ModelLoadError(EngineError):
    """The model could not be loaded."""


class ModelFileMissing(ModelLoadError):
    """There is no file at the path."""


class UnsupportedModel(ModelLoadError):
    """The file is a model this engine cannot run."""


class NotAChatModel(ModelLoadError):
    """The file is something else than a text-generating model."""


class OutOfMemory(ModelLoadError):
    """The machine has too little free memory for these settings."""


class RequestError(EngineError):
    """One request failed; the engine and its neighbours go on."""


class ContextOverflow(RequestError):
    """The prompt is longer than the context."""


class ChatTemplateError(RequestError):
    """The model's chat template is missing, broken, or took too long."""


class GrammarError(RequestError):
    """The grammar or the JSON schema that a reply has to follow cannot be used."""


class AdapterMismatch(RequestError):
    """The adapter does not belong to this model, or cannot be read."""


class SpeculativeError(EngineError):
    """Tokens cannot be drafted; replies go on without."""


class DraftMismatch(SpeculativeError):
    """The draft model does not belong to this model, or cannot be read."""


class CannotTrim(SpeculativeError):
    """A memory cannot take refused drafts back."""


class DecodeFailed(RequestError):
    """The model could not compute a step."""


class CacheNotWritten(EngineError):
    """What was read could not be kept on disk; replies go on, and the next start reads again."""


class EngineUnavailable(EngineError):
    """The engine process is not there."""


class EngineStartFailed(EngineUnavailable):
    """The engine process did not start."""


class EngineDied(EngineUnavailable):
    """The engine process ended while it was in use."""


class ProtocolMismatch(EngineUnavailable):
    """Window and engine speak different versions of the message protocol."""


class InternalError(EngineError):
    """A bug in the engine: shown as such, with its traceback in `details`."""


def _tree(root: type[EngineError]) -> dict[str, type[EngineError]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


def error_from_info(info: ErrorInfo) -> EngineError:
    """Return the exception that `info` describes; an unknown name becomes a plain EngineError."""
    return _tree(EngineError).get(info.error, EngineError)(info.message, info.hint, info.details)


def overflow_error(num_tokens: int, n_ctx: int, *, is_estimate: bool = False) -> ContextOverflow:
    """Return the error for a prompt that is longer than the context."""
    count = f"at least {num_tokens:,}" if is_estimate else f"{num_tokens:,}"
    return ContextOverflow(
        f"The prompt has {count} tokens; the context holds {n_ctx:,}.",
        f"Shorten it by {num_tokens - n_ctx:,} tokens, or load the model with a larger context.",
    )
