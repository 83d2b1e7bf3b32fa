"""From a command to what is known of its prompt: tokens for the engine, a count, or text; on the tokeniser thread."""

from engine.measuring import no_model
from engine.messages import Counted, CountTokens, Generate, Overflow, Rendered, RenderPrompt
from engine.overflow import Fitted, fit_chat
from engine.sampling import seed_of
from engine.sequence import Prompt
from engine.tokenizing import PromptEncoder


def prompt_of(encoder: PromptEncoder, command: Generate, received_at: float) -> Prompt:
    """Return the request that a command makes.

    Args:
        received_at: time.perf_counter() when it came.

    Raises:
        EngineError: there is none.
    """
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
