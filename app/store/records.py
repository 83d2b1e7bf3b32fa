"""What goes into the store and what comes out of it: plain records, none of which knows SQL."""

import dataclasses
import enum
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from engine import FinishReason, Role

NO_CHAT = ""  # whose draft is that of a chat not begun yet


def new_id() -> str:
    """Return an id no other process draws: 32 hexadecimal digits."""
    return uuid.uuid4().hex


class NodeState(enum.Enum):
    """How far a message is; OPEN is a reply in progress, INTERRUPTED one whose program ended first."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewChat:
    """A chat to begin.

    Attributes:
        title_is_own: the user chose the title; one made from the first message never replaces it.
        model: how the settings name the model of this chat.
        settings: of this chat only, by name.
    """

    id: str = dataclasses.field(default_factory=new_id)
    title: str = ""
    title_is_own: bool = False
    system_prompt: str = ""
    model: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChatChange:
    """What to change of a chat; None leaves it as it is."""

    is_pinned: bool | None = None
    system_prompt: str | None = None
    model: str | None = None
    settings: Mapping[str, Any] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewNode:
    """A message to add below its parent. Adding one twice, after a failure, adds it once.

    Attributes:
        parent_id: None for the first message of a chat.
        source_id: the message this one was made from, by editing or by going on.
        state: OPEN for a reply that has still to come.
    """

    chat_id: str
    parent_id: str | None
    role: Role
    content: str = ""
    thinking: str = ""
    token_ids: Sequence[int] = ()
    id: str = dataclasses.field(default_factory=new_id)
    source_id: str | None = None
    state: NodeState = NodeState.DONE
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    template_hash: str = ""
    model_fingerprint: str = ""
    model_name: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Partial:
    """All that has arrived of a reply in progress."""

    node_id: str
    content: str
    thinking: str = ""
    num_tokens: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplyEnd:
    """The whole reply at its end.

    Attributes:
        token_ids: what the model itself sampled, so that a cache is asked for exactly these.
        error: makes the reply a failed one; what had arrived of it stays.
        settings: what it was made with, where that was not known when it was added.
    """

    node_id: str
    content: str
    thinking: str = ""
    token_ids: Sequence[int] = ()
    finish_reason: FinishReason | None = None
    stop_string: str | None = None
    error: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    template_hash: str = ""
    model_fingerprint: str = ""
    model_name: str = ""


class ChatRow(NamedTuple):
    """One line of the list of chats.

    Attributes:
        changed_at: seconds since 1970 by the clock of that moment, to be shown.
        change_number: grows with each change of any chat, whatever the clock does: what the list is ordered by.
        deleted_at: when it went to the trash.
    """

    id: str
    title: str
    title_is_own: bool
    created_at: float
    changed_at: float
    change_number: int
    is_pinned: bool
    deleted_at: float | None


class Node(NamedTuple):
    """A message as it is stored.

    Attributes:
        number: grows with each message added to any chat, whatever the clock does.
        content: of a reply in progress or interrupted, what had arrived when it was last saved.
        deleted_at: when the user deleted it; its children stay.
    """

    number: int
    id: str
    chat_id: str
    parent_id: str | None
    source_id: str | None
    role: Role
    state: NodeState
    content: str
    thinking: str
    token_ids: Sequence[int]
    created_at: float
    finish_reason: FinishReason | None
    stop_string: str | None
    error: Mapping[str, Any] | None
    metrics: Mapping[str, Any]
    settings: Mapping[str, Any]
    template_hash: str
    model_fingerprint: str
    model_name: str
    deleted_at: float | None

    @property
    def is_deleted(self) -> bool:
        """Whether the user deleted this message."""
        return self.deleted_at is not None

    def variant(self, content: str = "", **others: Any) -> NewNode:
        """Return a new message beside this one: an edited text, another reply, or this one going on."""
        values: dict[str, Any] = {
            "chat_id": self.chat_id,
            "parent_id": self.parent_id,
            "role": self.role,
            "source_id": self.id,
            "content": content,
        }
        return NewNode(**(values | others))


class Hit(NamedTuple):
    """A place where a search found its text.

    Attributes:
        node_id: None for a title.
        field: "title", "content" or "thinking".
        excerpt: the surroundings of the first place in that field, on one line.
        spans: start and length of each place in the excerpt.
    """

    chat_id: str
    title: str
    node_id: str | None
    field: str
    excerpt: str
    spans: tuple[tuple[int, int], ...]
