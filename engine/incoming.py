"""A Generate command made into the prompt that the engine takes: fitted into the context, rendered, tokenised."""

from engine.measuring import no_model
from engine.messages import CountTokens, Generate, RenderPrompt
from engine.overflow import Fitted, fit_chat
from engine.sampling import seed_of
from engine.sequence import Prompt
from engine.tokenizing import PromptEncoder


def needed(encoder: PromptEncoder | None) -> PromptEncoder:
    """Return the encoder of the model.

    Raises:
        EngineUnavailable: there is no model.
    """
    if encoder is None:
        raise no_model()
    return encoder


def fitted(encoder: PromptEncoder, command: Generate | CountTokens | RenderPrompt) -> Fitted:
    """Return a command's chat as it fits the context.

    Raises:
        RequestError: it does not, or cannot be made into a prompt.
    """
    return fit_chat(encoder.encode, command.messages, command.options, n_ctx=encoder.n_ctx)


def prompt_of(encoder: PromptEncoder, command: Generate, received_at: float) -> Prompt:
    """Return the prompt of a command that came at `received_at`, by time.perf_counter().

    Raises:
        EngineError: there can be none.
    """
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
        speculative=command.speculative,
    )
