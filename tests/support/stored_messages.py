"""All messages of a store, whatever chats they are in."""

from app.store import ChatStore, Node


def stored_messages(store: ChatStore) -> list[Node]:
    """Return the messages of all chats but those in the trash."""
    chats = [store.load_chat(row.id) for row in store.list_chats()]
    return [node for chat in chats if chat is not None for node in chat.nodes]
