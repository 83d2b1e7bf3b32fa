"""Where the messages of a chat end in its prompt, to say in which of them reading had to begin."""

from collections.abc import Sequence

from engine.messages import ChatMessage


def message_ends(
    messages: Sequence[ChatMessage], text: str, tokens: Sequence[int], pieces: Sequence[bytes], *, num_front_bytes: int
) -> tuple[int, ...]:
    """Return how many tokens a prompt has up to the end of each message, about.

    A message that the template changed ends where the one before it does.

    Args:
        text: of the prompt.
        num_front_bytes: bytes of tokens that stand in front of the text.
    """
    place, done, num_bytes = 0, 0, num_front_bytes
    byte_ends = []
    for message in messages:
        content = message.content.strip()
        found = text.find(content, place)
        if found >= 0:
            place = found + len(content)
            num_bytes += len(text[done:place].encode("utf-8"))
            done = place
        byte_ends.append(num_bytes)
    ends: list[int] = []
    seen = count = 0
    for end in byte_ends:
        while seen < end and count < len(tokens):
            seen += len(pieces[tokens[count]])
            count += 1
        ends.append(count)
    return tuple(ends)
