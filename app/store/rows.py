"""Rows to records and back: clean text, JSON, token ids."""

import array
import enum
import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from app.store.records import ChatRow, Node, NodeState
from app.store.tree import Chat
from engine import FinishReason, Role, clean_text

CHAT_ROW = "id, title, title_is_own, created_at, changed_at, change_number, is_pinned, deleted_at"

_NODE = """nodes.seq, nodes.id, nodes.chat_id, nodes.parent_id, nodes.source_id, nodes.role, nodes.state, nodes.content,
    nodes.thinking, nodes.token_ids, nodes.created_at, nodes.finish_reason, nodes.stop_string, nodes.error,
    nodes.metrics, nodes.settings, nodes.template_hash, nodes.model_fingerprint, nodes.model_name, nodes.deleted_at"""
_TOKEN_TYPE = "i"
_E = TypeVar("_E", bound=enum.Enum)


def to_json(value: Mapping[str, Any] | None) -> str:
    """Return a mapping as text that can be stored; an empty one as no text."""
    return clean_text(json.dumps(dict(value), ensure_ascii=False, default=str)) if value else ""


def to_blob(token_ids: Sequence[int]) -> bytes:
    """Return token ids as 32-bit numbers, the lowest byte first."""
    numbers = array.array(_TOKEN_TYPE, token_ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def read_chat_rows(connection: sqlite3.Connection, *, trashed: bool) -> list[ChatRow]:
    """Return the list of chats: pinned ones first, then the one that changed last."""
    rows = connection.execute(
        f"""SELECT {CHAT_ROW} FROM chats WHERE deleted_at IS {"NOT NULL" if trashed else "NULL"}
        ORDER BY is_pinned DESC, change_number DESC"""
    )
    return [_chat_row(row) for row in rows]


def read_chat(connection: sqlite3.Connection, chat_id: str) -> Chat | None:
    """Return a chat with all its messages, those of other branches and deleted ones too."""
    found = connection.execute(
        f"SELECT {CHAT_ROW}, system_prompt, model, settings, active_leaf FROM chats WHERE id = ?", (chat_id,)
    ).fetchone()
    if found is None:
        return None
    rows = connection.execute(
        f"""SELECT {_NODE}, partials.content, partials.thinking FROM nodes
        LEFT JOIN partials ON partials.node_id = nodes.id WHERE nodes.chat_id = ? ORDER BY nodes.seq""",
        (chat_id,),
    )
    system_prompt, model, settings, active_leaf = found[8:]
    return Chat(
        row=_chat_row(found[:8]),
        system_prompt=system_prompt,
        model=model,
        settings=_from_json(settings),
        active_leaf=active_leaf,
        nodes=tuple(map(_node, rows)),
    )


def _chat_row(row: tuple[Any, ...]) -> ChatRow:
    chat_id, title, title_is_own, created_at, changed_at, change_number, is_pinned, deleted_at = row
    return ChatRow(
        chat_id, title, bool(title_is_own), created_at, changed_at, change_number, bool(is_pinned), deleted_at
    )


def _node(row: tuple[Any, ...]) -> Node:
    number, node_id, chat_id, parent_id, source_id, role, state, content, thinking, token_ids, created_at = row[:11]
    finish_reason, stop_string, error, metrics, settings, *others = row[11:20]
    partial_content, partial_thinking = row[20:]
    if partial_content is not None and state == NodeState.OPEN.value:
        content, thinking = partial_content, partial_thinking
    return Node(
        number,
        node_id,
        chat_id,
        parent_id,
        source_id,
        _member(Role, role) or Role.USER,
        _member(NodeState, state) or NodeState.DONE,
        content,
        thinking,
        _to_token_ids(token_ids),
        created_at,
        _member(FinishReason, finish_reason),
        stop_string,
        _from_json(error) or None,
        _from_json(metrics),
        _from_json(settings),
        *others,
    )


def _from_json(text: object) -> Mapping[str, Any]:
    if not text or not isinstance(text, str):
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # out of a damaged file; the message itself is worth more
        return {}
    return value if isinstance(value, dict) else {}


def _to_token_ids(blob: object) -> Sequence[int]:
    numbers = array.array(_TOKEN_TYPE)
    if isinstance(blob, bytes) and len(blob) % numbers.itemsize == 0:
        numbers.frombytes(blob)
        if sys.byteorder == "big":
            numbers.byteswap()
    return numbers


def _member(kind: type[_E], value: object) -> _E | None:
    try:
        return kind(value)
    except ValueError:
        return None
