"""What a front end asks of a worker."""

import enum

import msgspec

from engine.params import ModelParams, SamplingParams
from engine.text import clean_text


class Role(enum.Enum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class ChatMessage(msgspec.Struct, frozen=True):
    """One turn of a chat; unpaired surrogates in `content` become U+FFFD."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "content", clean_text(self.content))


class LoadModel(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Load a model; answered by LoadProgress, then ModelLoaded, LoadCancelled or Failed with this id."""

    request_id: str
    path: str
    params: ModelParams = ModelParams()


class CancelLoad(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Give up the load with this id; ignored when it has ended."""

    request_id: str


class UnloadModel(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Free the model; open requests fail, then ModelUnloaded."""


class Generate(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Reply to a chat; answered by Delta events, then one Finished or Failed.

    Attributes:
        chat_id: names the chat for the cause of a cache miss; None for a one-off request.
    """

    request_id: str
    messages: tuple[ChatMessage, ...]
    sampling: SamplingParams = SamplingParams()
    chat_id: str | None = None


class Abort(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Stop one request; it ends with Finished and reason `abort`. Ignored when it has ended."""

    request_id: str


class CountTokens(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Count the prompt tokens of a chat as Generate would evaluate it; answered by Counted or Failed."""

    request_id: str
    messages: tuple[ChatMessage, ...]


class RenderPrompt(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Show the prompt text of a chat as the template renders it; answered by Rendered or Failed."""

    request_id: str
    messages: tuple[ChatMessage, ...]


class DescribeEngine(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell versions and devices; answered by EngineDescribed or Failed."""

    request_id: str


class Shutdown(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """End the worker."""


Command = (
    LoadModel | CancelLoad | UnloadModel | Generate | Abort | CountTokens | RenderPrompt | DescribeEngine | Shutdown
)
