"""The chats that engines are asked beside each other: stories, and documents of a wanted length."""

from collections.abc import Callable

from benchmarks.peer_engines import Chat

SUBJECTS = ("a lighthouse", "a violin", "a train", "a garden", "a map", "a winter", "a bridge", "an island")
_LINE = "On day {} of chat {} the {} left the harbour before dawn and came back with {} letters for the keeper. "
_SHIPS = ("ferry", "pilot boat", "mail ship", "old trawler", "lighter", "schooner", "barge")


def story_chat(number: int, subject: str) -> Chat:
    """Return a question whose answer is long."""
    return (("user", f"Number {number}: tell me a long story about {subject}."),)


def document_text(number: int, num_lines: int, first_day: int = 1) -> list[str]:
    """Return lines that no other number has."""
    return [
        _LINE.format(day, number, _SHIPS[(day * 5 + number) % len(_SHIPS)], day * 7 % 30)
        for day in range(first_day, first_day + num_lines)
    ]


def document(number: int, num_tokens: int, question: str, count_tokens: Callable[[Chat], int]) -> Chat:
    """Return a chat of at most so many tokens that shares no beginning with another number's."""
    lines = document_text(number, num_tokens // 16)

    def chat() -> Chat:
        return (("system", f"{number} is the number of this chat."), ("user", "".join(lines) + question))

    while (length := count_tokens(chat())) > num_tokens:
        excess = length - num_tokens
        if excess > 40:
            del lines[-(excess // 40) :]
        else:
            lines[-1] = lines[-1][: -max(4, 2 * excess)] if len(lines[-1]) > 4 * excess else ""
            lines = [line for line in lines if line]
    return chat()


def go_on(chat: Chat, reply: str, message: str) -> Chat:
    """Return a chat with a reply and the next message."""
    return (*chat, ("assistant", reply), ("user", message))
