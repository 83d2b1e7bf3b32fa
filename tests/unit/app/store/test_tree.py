"""Chat: the path and the variants of a tree, also of one that is none."""

from typing import Any

import pytest

from app.store import Chat, ChatRow, Node, NodeState
from engine import Role


def node(node_id: str, parent_id: str | None, *, is_deleted: bool = False) -> Node:
    """Return a message whose number is in its id."""
    number = int(node_id[1:])
    deleted_at = 1.0 if is_deleted else None
    outcome: Any = (None, None, None, {}, {}, "", "", "", deleted_at)
    return Node(number, node_id, "c", parent_id, None, Role.USER, NodeState.DONE, node_id, "", (), 0.0, *outcome)


def chat_of(*nodes: Node, active_leaf: str | None) -> Chat:
    """Return a chat."""
    row = ChatRow("c", "", False, 0.0, 0.0, 1, False, None)
    return Chat(row=row, system_prompt="", model="", settings={}, active_leaf=active_leaf, nodes=nodes)


@pytest.fixture
def chat() -> Chat:
    """Return a chat with two beginnings, and two variants in the first."""
    nodes = [node("n1", None), node("n2", "n1"), node("n3", "n1", is_deleted=True), node("n4", "n3"), node("n5", None)]
    return chat_of(*nodes, active_leaf="n4")


def test_path_goes_from_the_first_message_to_the_leaf(chat: Chat) -> None:
    assert [found.id for found in chat.path()] == ["n1", "n3", "n4"]
    assert [found.id for found in chat.path("n2")] == ["n1", "n2"]
    assert [found.id for found in chat.shown_path()] == ["n1", "n4"]


def test_variants_stand_beside_each_other(chat: Chat) -> None:
    assert [found.id for found in chat.variants(chat.by_id["n3"])] == ["n2", "n3"]
    assert [found.id for found in chat.variants(chat.by_id["n5"])] == ["n1", "n5"]
    assert [chat.leaf_below(key) for key in ("n1", "n2", "n5")] == ["n4", "n2", "n5"]


def test_empty_chat_has_no_path() -> None:
    assert chat_of(active_leaf=None).path() == []
    assert chat_of(node("n1", None), active_leaf="gone").path() == []


def test_path_ends_when_messages_point_at_each_other() -> None:
    assert len(chat_of(node("n1", "n2"), node("n2", "n1"), active_leaf="n1").path()) <= 3


def test_variant_stands_beside_its_source(chat: Chat) -> None:
    made = chat.by_id["n4"].variant("better", role=Role.ASSISTANT)
    assert (made.parent_id, made.source_id, made.content, made.role) == ("n3", "n4", "better", Role.ASSISTANT)
    assert made.id != "n4"
