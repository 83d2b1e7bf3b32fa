"""From a command to what is known of its prompt: tokens for the engine, a count, or text; on the tokeniser thread."""

import itertools
from typing import NamedTuple

import msgspec

from engine.errors import EngineError
from engine.measuring import no_model
from engine.messages import (
    ChatMessage,
    Counted,
    CountTokens,
    Generate,
    Overflow,
    Prepare,
    PromptMode,
    Rendered,
    RenderPrompt,
    Role,
)
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

    command: Generate | Prepare
    prompt: Prompt | Preparation | None
    error: EngineError | None


def prompt_of(encoder: PromptEncoder, command: Generate | Prepare, received_at: float) -> Prompt | Preparation:
    """Return the request that a command makes, or the beginning of one.

    Args:
        received_at: time.perf_counter() when it came.

    Raises:
        EngineError: there is none.
    """
    if isinstance(command, Prepare):
        return _preparation(encoder, command, received_at)
    fitted = _fitted(encoder, command)
    encoded = fitted.encoded
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
        dropped=fitted.event(command.request_id),
        is_private=command.is_private,
        message_ends=encoded.message_ends,
        rewritten_from=encoded.rewritten_from,
        speculative=command.speculative,
    )


def counted(encoder: PromptEncoder | None, command: CountTokens) -> Counted:
    """Return how many tokens a chat's prompt has.

    Raises:
        EngineError: there is none.
    """
    num_tokens = len(_fitted(_needed(encoder), command).encoded.tokens)
    return Counted(request_id=command.request_id, num_tokens=num_tokens)


def rendered(encoder: PromptEncoder | None, command: RenderPrompt) -> Rendered:
    """Return a chat's prompt as text.

    Raises:
        EngineError: there is none.
    """
    encoder = _needed(encoder)
    messages = command.messages
    if command.options.overflow is Overflow.DROP_OLDEST:
        messages = _fitted(encoder, command).messages
    return Rendered(request_id=command.request_id, text=encoder.render(messages, command.options).text)


def _fitted(encoder: PromptEncoder, command: Generate | CountTokens | RenderPrompt) -> Fitted:
    return fit_chat(encoder.encode, command.messages, command.options, n_ctx=encoder.n_ctx)


def _needed(encoder: PromptEncoder | None) -> PromptEncoder:
    if encoder is None:
        raise no_model()
    return encoder


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
