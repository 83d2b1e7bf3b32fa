"""The chats a run asks: of about a wanted length, none of which shares its beginning with another."""

from collections.abc import Callable

from engine import ChatMessage, Role

Messages = tuple[ChatMessage, ...]

_FILLER = "The keeper of the lighthouse wrote down the wind, the waves and every boat that passed before the night. "
_COPIED = (
    "Mara had counted the boats twice before she saw that one of them carried no lamp. It lay low in the water, as "
    "if somebody had filled it with stones, and it moved against the wind. She took the brass bell from its hook, "
    "thought of her father, who had rung it once for a whale, and put it back. By the time the kettle boiled, the "
    "boat had passed the second buoy and a voice was singing in it, badly, a song about apples."
)
_TRIAL = 8


class Prompts:
    """Makes chats for one model.

    Args:
        count_tokens: of a chat as the model reads it.
    """

    def __init__(self, count_tokens: Callable[[Messages], int]) -> None:
        self._count_tokens = count_tokens
        few, more = count_tokens(_chat(0, 1)), count_tokens(_chat(0, 1 + _TRIAL))
        self._per_filler = max(1.0, (more - few) / _TRIAL)
        self._frame = few - self._per_filler

    def long(self, number: int, num_tokens: int) -> Messages:
        """Return a chat of at most about `num_tokens` tokens, and its beginning is of this number alone."""
        count = max(1, int((num_tokens - self._frame) / self._per_filler))
        return _chat(number, count)

    def short(self, number: int) -> Messages:
        """Return a question whose answer is long."""
        text = f"Chapter {number}. Tell me a long story about a lighthouse and the sea."
        return (ChatMessage(Role.SYSTEM, f"{number} is the number of this chat."), ChatMessage(Role.USER, text))

    def longer(self, messages: Messages, num_tokens: int) -> Messages:
        """Return a chat whose last message has grown, so that all of it is at most about `num_tokens` tokens."""
        count = max(1, int((num_tokens - self.num_tokens(messages)) / self._per_filler))
        *before, last = messages
        return (*before, ChatMessage(last.role, f"{_FILLER * count}\n{last.content}"))

    def copy(self, number: int) -> Messages:
        """Return a question whose answer is mostly a text of its own."""
        text = f"Copy the text below. Change only the name Mara to Ida.\n\n{_COPIED}"
        return (ChatMessage(Role.SYSTEM, f"{number} is the number of this chat."), ChatMessage(Role.USER, text))

    def follow_up(self, messages: Messages, reply: str, *, is_edited: bool = False) -> Messages:
        """Return the chat that goes on after a reply, with another message there where it was edited."""
        text = "Say it once more, in five words." if is_edited else "And what happened next?"
        return (*messages, ChatMessage(Role.ASSISTANT, reply), ChatMessage(Role.USER, text))

    def num_tokens(self, messages: Messages) -> int:
        """Return the length of a chat."""
        return self._count_tokens(messages)


def _chat(number: int, num_fillers: int) -> Messages:
    system = ChatMessage(Role.SYSTEM, f"{number} is the number of this chat.")
    return (
        system,
        ChatMessage(Role.USER, f"{_FILLER * num_fillers}\nSay in one sentence what the text above is about."),
    )
