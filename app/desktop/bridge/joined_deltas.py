"""The deltas of a moment as one, so that the window shows them in one go."""

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from engine import Delta, Event, Failed, Finished


def joined_events(events: "deque[Event]") -> Iterator[Event]:
    """Take all events out, with the deltas of each request as one: before its end, or behind all others."""
    deltas: dict[str, list[Delta]] = {}
    while events:
        event = events.popleft()
        if isinstance(event, Delta):
            deltas.setdefault(event.request_id, []).append(event)
            continue
        if isinstance(event, Finished | Failed) and event.request_id in deltas:
            yield _joined(deltas.pop(event.request_id))
        yield event
    for of_one in deltas.values():
        yield _joined(of_one)


def _joined(deltas: Sequence[Delta]) -> Delta:
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
