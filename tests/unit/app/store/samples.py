"""Chats to write, and how to wait until they are written."""

from app.store import Chat, ChatStore, NewChat, NewNode, Node, NodeState, ReplyEnd
from engine import Role


def add_chat(store: ChatStore, *texts: str, title: str = "") -> tuple[str, list[str]]:
    """Write a chat whose messages come in turn from the user and the model; return its id and theirs."""
    chat = NewChat(title=title)
    store.add_chat(chat)
    ids: list[str] = []
    for number, text in enumerate(texts):
        role = Role.ASSISTANT if number % 2 else Role.USER
        node = NewNode(chat_id=chat.id, parent_id=ids[-1] if ids else None, role=role, content=text)
        store.add_node(node)
        ids.append(node.id)
    store.flush(30)
    return chat.id, ids


def begin_reply(store: ChatStore, chat_id: str, parent_id: str | None) -> str:
    """Write an open reply; return its id."""
    node = NewNode(chat_id=chat_id, parent_id=parent_id, role=Role.ASSISTANT, state=NodeState.OPEN)
    store.add_node(node).result(30)
    return node.id


def finish_reply(store: ChatStore, node_id: str, text: str) -> None:
    """End an open reply."""
    store.finish_reply(ReplyEnd(node_id=node_id, content=text)).result(30)


def load(store: ChatStore, chat_id: str) -> Chat:
    """Return a chat that must be there, after all writes."""
    store.flush(30)
    chat = store.load_chat(chat_id)
    assert chat is not None
    return chat


def node_of(store: ChatStore, chat_id: str, node_id: str) -> Node:
    """Return a message that must be there."""
    return load(store, chat_id).by_id[node_id]


def shown(store: ChatStore, chat_id: str) -> list[str]:
    """Return the texts of the shown path."""
    return [node.content for node in load(store, chat_id).shown_path()]
