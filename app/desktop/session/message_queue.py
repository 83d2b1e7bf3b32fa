"""MessageQueue: what was said while a reply was in progress, and is sent when that has ended."""

from collections.abc import Iterator
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from app.store import new_id


class QueuedMessage(NamedTuple):
    """A message that waits.

    Attributes:
        after: id of the message that was the last one shown when it was said; None where any will do.
    """

    id: str
    text: str
    after: str | None = None


class MessageQueue(QObject):
    """Messages in the order in which they are sent.

    Signals:
        changed: another message waits, or one less.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._messages: list[QueuedMessage] = []

    def __iter__(self) -> Iterator[QueuedMessage]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, text: str, *, after: str | None = None) -> None:
        """Put a message at the end."""
        self._messages.append(QueuedMessage(new_id(), text, after))
        self.changed.emit()

    def forget_places(self) -> None:
        """Let the messages follow whatever is shown: the chat goes on in another way than when they were said."""
        self._messages = [message._replace(after=None) for message in self._messages]

    def take(self, message_id: str | None = None) -> str:
        """Remove a message, the first one by default, and return its text; "" where it is not there any more."""
        found = next((m for m in self._messages if message_id in (None, m.id)), None)
        if found is None:
            return ""
        self._messages.remove(found)
        self.changed.emit()
        return found.text
