"""What the model is given of a chat."""

from collections.abc import Iterable

from app.desktop.session.turns import ReplyTurn, Turn, UserTurn
from engine import ChatMessage, Role


def messages_of(
    turns: Iterable[Turn], system_prompt: str, *, before: Turn | None = None, draft: str = ""
) -> list[ChatMessage]:
    """Return a chat as messages; replies without an answer are left out.

    Args:
        before: where it ends; None takes all of it.
        draft: a message of the user's to put at its end.
    """
    messages = [ChatMessage(Role.SYSTEM, system_prompt)] if system_prompt.strip() else []
    for turn in turns:
        if turn is before:
            break
        if isinstance(turn, UserTurn):
            messages.append(ChatMessage(Role.USER, turn.text))
        elif turn.text:
            messages.append(said(turn))
    if draft:
        messages.append(ChatMessage(Role.USER, draft))
    return messages


def said(reply: ReplyTurn) -> ChatMessage:
    """Return a reply as a message."""
    return ChatMessage(Role.ASSISTANT, reply.text, thinking=reply.thinking)
