"""The deltas of a moment as one, so that the window shows them in one go."""

from collections.abc import Sequence

import msgspec

from engine import Delta


def joined(deltas: Sequence[Delta]) -> Delta:
    """Return one Delta that says what all of them say, in order."""
    text: list[str] = []
    thinking: list[str] = []
    for delta in deltas:
        if delta.was_thinking:
            thinking += text
            text = []
        thinking.append(delta.thinking)
        text.append(delta.text)
    return msgspec.structs.replace(
        deltas[-1],
        text="".join(text),
        thinking="".join(thinking),
        was_thinking=any(delta.was_thinking for delta in deltas),
    )
