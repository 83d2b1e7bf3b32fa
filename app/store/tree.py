"""Chat: one chat in memory, its messages as a tree, and the path through it that is shown."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from app.store.records import ChatRow, Node


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chat:
    """A chat and every message it ever had, until purged.

    Attributes:
        active_leaf: the last message of the shown path.
        nodes: in the order in which they were added, so that a parent comes before its children.
    """

    row: ChatRow
    system_prompt: str
    model: str
    settings: Mapping[str, Any]
    active_leaf: str | None
    nodes: tuple[Node, ...]

    @functools.cached_property
    def by_id(self) -> dict[str, Node]:
        """The messages by their id."""
        return {node.id: node for node in self.nodes}

    @functools.cached_property
    def _children(self) -> dict[str | None, list[Node]]:
        children: dict[str | None, list[Node]] = {}
        for node in self.nodes:
            children.setdefault(node.parent_id, []).append(node)
        return children

    def children(self, node_id: str | None) -> Sequence[Node]:
        """Return the messages right below one, the oldest first; below None the first messages of the chat."""
        return self._children.get(node_id, ())

    def variants(self, node: Node) -> Sequence[Node]:
        """Return a message and those that stand beside it, the oldest first."""
        return self.children(node.parent_id)

    def path(self, leaf: str | None = None) -> list[Node]:
        """Return the messages from the first to `leaf`, deleted ones too; None is the active leaf."""
        path: list[Node] = []
        node = self.by_id.get(leaf or self.active_leaf or "")
        while node is not None and len(path) <= len(self.nodes):
            path.append(node)
            node = self.by_id.get(node.parent_id or "")
        return path[::-1]

    def shown_path(self) -> list[Node]:
        """Return the messages of the active path that are not deleted."""
        return [node for node in self.path() if not node.is_deleted]

    def leaf_below(self, node_id: str) -> str:
        """Return the leaf of the newest branch that goes through a message."""
        while below := self.children(node_id):
            node_id = below[-1].id
        return node_id
