"""From the commands of a front end to prompts, on the tokeniser's thread."""

import itertools
from typing import NamedTuple

import msgspec

from engine.errors import EngineError
from engine.messages import ChatMessage, CountTokens, Generate, Overflow, Prepare, PromptMode, RenderPrompt, Role
from engine.overflow import Fitted, fit_chat
from engine.params import SamplingParams
from engine.preparing import Preparation
from engine.sampling import seed_of
from engine.sequence import Prompt
from engine.tokenizing import PromptEncoder

# What a question may begin with: some vocabularies join it with what stands before it, some templates change it there.
_QUESTIONS_BEGUN = ("a", "The", "1", "(", "\u4f60", " a", "\n\na")


class Encoded(NamedTuple):
    """What a command has become, or the reason why it cannot, on its way from the tokeniser's thread to the loop."""

    request_id: str
    prompt: Prompt | Preparation | None
    error: EngineError | None


def fitted(encoder: PromptEncoder, command: Generate | CountTokens | RenderPrompt) -> Fitted:
    """Return the chat of a command as the model will read it.

    Raises:
        RequestError, ChatTemplateError, ContextOverflow: there is no prompt of it.
    """
    return fit_chat(encoder.encode, command.messages, command.options, n_ctx=encoder.n_ctx)


def prompt_of(encoder: PromptEncoder, command: Generate | Prepare, received_at: float) -> Prompt | Preparation:
    """Return the prompt of a request, or the beginning of one.

    Args:
        received_at: time.perf_counter() when the command arrived.

    Raises:
        As `fitted`; GrammarError: the grammar or schema cannot be used.
    """
    if isinstance(command, Prepare):
        return _preparation(encoder, command, received_at)
    chat = fitted(encoder, command)
    encoded = chat.encoded
    return Prompt(
        request_id=command.request_id,
        tokens=encoded.tokens,
        sampling=command.sampling,
        seed=seed_of(command.sampling),
        received_at=received_at,
        chat_id=command.chat_id,
        num_system_tokens=encoded.num_system_tokens,
        num_settled_tokens=encoded.num_settled_tokens,
        reply=encoded.reply,
        matcher=encoder.matcher(command.sampling, encoded.reply),
        thinking=encoded.thinking,
        next_turn_tokens=encoded.next_turn_tokens if command.read_ahead else (),
        adapters=command.adapters,
        dropped=chat.event(command.request_id),
        is_private=command.is_private,
        message_ends=encoded.message_ends,
    )


def _preparation(encoder: PromptEncoder, command: Prepare, received_at: float) -> Preparation:
    """Return the tokens that a prompt begins with whatever is asked, and the next one of some question."""
    messages = list(command.messages)
    begun = messages.pop() if messages and messages[-1].role is Role.USER else ChatMessage(Role.USER, "")
    mode = PromptMode.CHAT if command.options.mode is PromptMode.CONTINUE else command.options.mode
    options = msgspec.structs.replace(command.options, mode=mode, overflow=Overflow.REFUSE)
    prompts = []
    for question in _QUESTIONS_BEGUN:
        asked = ChatMessage(Role.USER, begun.content + question)
        prompts.append(encoder.encode((*messages, asked), options))
    columns = zip(*(prompt.tokens for prompt in prompts), strict=False)
    count = sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))
    first = prompts[0]
    prompt = Prompt(
        request_id=command.request_id,
        tokens=first.tokens[: count + 1],
        sampling=SamplingParams(max_tokens=1),
        seed=0,
        received_at=received_at,
        chat_id=command.chat_id,
        num_system_tokens=first.num_system_tokens,
        num_settled_tokens=min(first.num_settled_tokens, count),
        adapters=command.adapters,
        is_private=command.is_private,
    )
    return Preparation(prompt, command.name)
