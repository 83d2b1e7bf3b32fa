"""The chats in SQLite: messages as a tree, drafts, trash, search. Nothing else imports sqlite3; no Qt here."""

from app.store.records import (
    NO_CHAT,
    ChatChange,
    ChatRow,
    Hit,
    NewChat,
    NewNode,
    Node,
    NodeState,
    Partial,
    ReplyEnd,
    new_id,
)
from app.store.runs import Run
from app.store.search import count_places, find_places
from app.store.store import ChatStore
from app.store.tree import Chat

__all__ = [
    "NO_CHAT",
    "Chat",
    "ChatChange",
    "ChatRow",
    "ChatStore",
    "Hit",
    "NewChat",
    "NewNode",
    "Node",
    "NodeState",
    "Partial",
    "ReplyEnd",
    "Run",
    "count_places",
    "find_places",
    "new_id",
]
