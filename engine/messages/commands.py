"""What a front end asks of a worker."""

import enum

import msgspec

from engine.messages.cache import ClearCache, DescribeCache, ForgetChats, ForgetNamed, OpenChat, SetCache
from engine.messages.importance import BuildImportance
from engine.messages.speculative import SetDraft
from engine.params import CacheParams, ModelParams, SamplingParams, SpeculativeParams
from engine.text import clean_text


def _clean(value: msgspec.Struct, *names: str) -> None:
    for name in names:
        msgspec.structs.force_setattr(value, name, clean_text(getattr(value, name)))


class Role(enum.Enum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool that a reply asked for; unpaired surrogates become U+FFFD.

    Attributes:
        arguments: a JSON object as text.
        call_id: what the tool's answer refers to; may be empty.
    """

    name: str
    arguments: str
    call_id: str = ""

    def __post_init__(self) -> None:
        _clean(self, "name", "arguments", "call_id")


class ChatMessage(msgspec.Struct, frozen=True):
    """One turn of a chat; unpaired surrogates become U+FFFD.

    Attributes:
        thinking: what an assistant thought before `content`; the template decides whether the model sees it again.
        tool_calls: of an assistant.
        call_id: of a tool: which call this is the answer to; may be empty.
    """

    role: Role
    content: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""

    def __post_init__(self) -> None:
        _clean(self, "content", "thinking", "call_id")


class PromptMode(enum.Enum):
    """How messages become a prompt."""

    CHAT = "chat"  # by the chat template, up to where a new reply begins
    CONTINUE = "continue"  # the same, up to the end of the last message, an assistant's that is to go on
    COMPLETION = "completion"  # the plain text of the messages, for models without a chat format


class Overflow(enum.Enum):
    """What happens to a chat that is longer than the context."""

    REFUSE = "refuse"  # ContextOverflow, before anything is computed
    DROP_OLDEST = "drop_oldest"  # whole turns are left out, oldest first, the system prompt kept; told by TurnsDropped


class PromptOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a chat is made into a prompt.

    Attributes:
        chat_format: name of the format to use, from the model's `chat_formats`; None takes the model's own.
        enable_thinking: handed to the template; None leaves it to the template.
        tools: JSON Schema objects of the tools a template may offer, each as JSON text.
        variables: further template variables, a JSON object as text.
    """

    mode: PromptMode = PromptMode.CHAT
    overflow: Overflow = Overflow.REFUSE
    chat_format: str | None = None
    enable_thinking: bool | None = None
    tools: tuple[str, ...] = ()
    variables: str = "{}"

    def __post_init__(self) -> None:
        _clean(self, "variables")
        msgspec.structs.force_setattr(self, "tools", tuple(map(clean_text, self.tools)))


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """A LoRA adapter in use.

    Attributes:
        path: of its GGUF file.
        scale: strength; 0 is as if it were not there.
    """

    path: str
    scale: float = 1.0


class LoadModel(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Load a model; answered by LoadProgress, then ModelLoaded, LoadCancelled or Failed with this id.

    Attributes:
        is_known: whether this file, unchanged, was loaded before with these settings; any other is tried in a process
            of its own first.
        cache: as SetCache; None leaves that as it is.
        drafts: whether tokens will be drafted: what steps take for that is measured while nothing is asked.
    """

    request_id: str
    path: str
    params: ModelParams = ModelParams()
    is_known: bool = False
    cache: CacheParams | None = None
    drafts: bool = False


class CancelLoad(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Give up the load with this id, of a model or of a draft model; ignored when it has ended."""

    request_id: str


class UnloadModel(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Free the model; open requests fail, then ModelUnloaded."""


class Generate(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Reply to a chat; answered by Delta events, then one Finished or Failed.

    Attributes:
        chat_id: names the chat for the cause of a cache miss; None for a one-off request.
        adapters: in effect for this reply; loaded when first used.
        read_ahead: whether to read on when the reply has ended and the engine is idle, so that the next message's
            prompt starts later; it costs a moment of power, and no request waits for it.
        is_private: whether nothing of it may be written to disk.
        speculative: whether tokens are drafted ahead.
        is_fresh: whether it is computed even where its reply is stored; the new one takes that one's place.
    """

    request_id: str
    messages: tuple[ChatMessage, ...]
    sampling: SamplingParams = SamplingParams()
    chat_id: str | None = None
    options: PromptOptions = PromptOptions()
    adapters: tuple[Adapter, ...] = ()
    read_ahead: bool = True
    is_private: bool = False
    speculative: SpeculativeParams = SpeculativeParams()
    is_fresh: bool = False


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Read the beginning of a prompt before anything is asked, and keep it under a name, for every chat that begins so.

    Answered by PrefillProgress, then Prepared, PrepareCancelled (after Abort) or Failed. It is read while no reply is
    computed: one that comes waits for a step at most.

    Attributes:
        messages: of the chat, up to the place where a question goes. The last one, where it is the user's, is one that
            the question is written behind, as a document that stands before it.
        options, adapters: as of the Generate that is to come; a beginning that is too long is refused.
        name: what it is called in CacheDescribed, and forgotten by; several may have one. Empty for a chat that was
            opened: it is kept as if a reply had read it, and given up when a request of that chat comes.
        chat_id: with whose chat it is dropped; None where it is of no chat, and stays until it is forgotten by name.
        is_private: whether nothing of it may be written to disk.
    """

    request_id: str
    messages: tuple[ChatMessage, ...]
    name: str
    options: PromptOptions = PromptOptions()
    adapters: tuple[Adapter, ...] = ()
    chat_id: str | None = None
    is_private: bool = False

    def __post_init__(self) -> None:
        _clean(self, "name")


class Abort(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Stop one request; a reply ends with Finished and reason `abort`. Ignored when it has ended."""

    request_id: str


class CountTokens(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Count the prompt tokens of a chat as Generate would evaluate it; answered by Counted or Failed."""

    request_id: str
    messages: tuple[ChatMessage, ...]
    options: PromptOptions = PromptOptions()


class RenderPrompt(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Show the prompt text of a chat as Generate would evaluate it; answered by Rendered or Failed."""

    request_id: str
    messages: tuple[ChatMessage, ...]
    options: PromptOptions = PromptOptions()


class DescribeEngine(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell versions and devices; answered by EngineDescribed or Failed."""

    request_id: str


class MeasureCacheTypes(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell size and speed of the cache types with the loaded model; answered by CacheTypesMeasured or Failed.

    Takes some seconds in which nothing else is computed; refused while requests run.
    """

    request_id: str


class SetThreads(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Compute with at most so many threads from the next step on; 0 is as many as the machine has for it.

    A count that the model was loaded with, and a reproducible request, keep theirs.
    """

    most: int


class MeasureMachine(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell how fast this machine reads memory and multiplies; answered by MachineMeasured or Failed.

    Takes about a second in which nothing else is computed; refused while requests run. Needs no model.
    """

    request_id: str


class RunBareLoop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Run the thinnest loop on the same library with the loaded model; answered by BareLoopRun or Failed.

    It is what any engine on top of that library can at best reach. Refused while requests run.

    Attributes:
        num_prompt_tokens: read first, by each sequence.
        num_tokens: generated by each sequence, end tokens or not.
        num_sequences: that advance together, one token each a step.
    """

    request_id: str
    num_prompt_tokens: int
    num_tokens: int
    num_sequences: int = 1


class Shutdown(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """End the worker."""


Command = (
    LoadModel
    | CancelLoad
    | UnloadModel
    | Generate
    | Prepare
    | Abort
    | CountTokens
    | RenderPrompt
    | DescribeEngine
    | MeasureCacheTypes
    | MeasureMachine
    | SetThreads
    | SetDraft
    | RunBareLoop
    | BuildImportance
    | SetCache
    | DescribeCache
    | ClearCache
    | ForgetChats
    | ForgetNamed
    | OpenChat
    | Shutdown
)
