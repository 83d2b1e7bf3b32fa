"""Every change of the chats, as a job for the writer: a function of its connection, run inside one transaction.

All can be done twice with the same result, because a job that met a fault may be sent again by its caller.
"""

import os
import sqlite3
from typing import Any

import psutil

from app.errors import StoreError
from app.store.records import ChatChange, NewChat, NewNode, NodeState, Partial, ReplyEnd
from app.store.rows import to_blob, to_json
from app.store.search import forget_row, index_row
from engine import clean_text

_GONE = "The message could not be kept, because its chat or the message before it is gone."


def add_chat(connection: sqlite3.Connection, chat: NewChat, now: float) -> None:
    """Begin a chat."""
    title = clean_text(chat.title)
    added = connection.execute(
        """INSERT INTO chats
        (id, title, title_is_own, created_at, changed_at, change_number, system_prompt, model, settings)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING RETURNING seq""",
        (
            *(chat.id, title, chat.title_is_own, now, now, _next_change(connection)),
            *(clean_text(chat.system_prompt), clean_text(chat.model), to_json(chat.settings)),
        ),
    ).fetchone()
    if added is not None:
        index_row(connection, -added[0], title)


def change_chat(connection: sqlite3.Connection, chat_id: str, change: ChatChange) -> None:
    """Change what belongs to a chat beside its messages."""
    values: dict[str, Any] = {
        "is_pinned": change.is_pinned,
        "system_prompt": None if change.system_prompt is None else clean_text(change.system_prompt),
        "model": None if change.model is None else clean_text(change.model),
        "settings": None if change.settings is None else to_json(change.settings),
    }
    for name, value in values.items():
        if value is not None:
            connection.execute(f"UPDATE chats SET {name} = ? WHERE id = ?", (value, chat_id))


def rename_chat(connection: sqlite3.Connection, chat_id: str, title: str, *, is_own: bool) -> None:
    """Give a chat a title; one that was not the user's choice never replaces one that was."""
    found = connection.execute("SELECT seq, title, title_is_own FROM chats WHERE id = ?", (chat_id,)).fetchone()
    if found is None or (found[2] and not is_own):
        return
    title = clean_text(title)
    forget_row(connection, -found[0], found[1])
    connection.execute("UPDATE chats SET title = ?, title_is_own = ? WHERE id = ?", (title, is_own, chat_id))
    index_row(connection, -found[0], title)


def add_node(connection: sqlite3.Connection, node: NewNode, now: float, *, is_shown: bool) -> None:
    """Add a message below its parent; `is_shown` makes the path to it the active one."""
    if (
        node.parent_id is not None
        and not connection.execute(
            "SELECT 1 FROM nodes WHERE id = ? AND chat_id = ?", (node.parent_id, node.chat_id)
        ).fetchone()
    ):
        raise StoreError(_GONE)
    content, thinking = clean_text(node.content), clean_text(node.thinking)
    is_open = node.state is NodeState.OPEN
    added = connection.execute(
        """INSERT INTO nodes
        (id, chat_id, parent_id, source_id, role, state, content, thinking, token_ids, created_at, settings,
        template_hash, model_fingerprint, model_name, owner_pid)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING RETURNING seq""",
        (
            *(node.id, node.chat_id, node.parent_id, node.source_id, node.role.value, node.state.value),
            *(content, thinking, to_blob(node.token_ids), now, to_json(node.settings)),
            *(clean_text(node.template_hash), clean_text(node.model_fingerprint), clean_text(node.model_name)),
            os.getpid() if is_open else None,
        ),
    ).fetchone()
    if added is None:
        return
    if not is_open:
        index_row(connection, added[0], content, thinking)
    # A path ends at a leaf: below the one that was shown, the new one is shown whether asked for or not.
    connection.execute(
        """UPDATE chats SET changed_at = ?1, change_number = ?2,
        active_leaf = CASE WHEN ?3 OR active_leaf IS ?4 THEN ?5 ELSE active_leaf END WHERE id = ?6""",
        (now, _next_change(connection), is_shown, node.parent_id, node.id, node.chat_id),
    )


def show_node(connection: sqlite3.Connection, node_id: str) -> None:
    """Make the newest branch through a message the active one."""
    connection.execute(
        "UPDATE chats SET active_leaf = ? WHERE id = (SELECT chat_id FROM nodes WHERE id = ?)",
        (_leaf_below(connection, node_id), node_id),
    )


def save_partial(connection: sqlite3.Connection, partial: Partial, now: float) -> None:
    """Keep what has arrived of a reply that is still open."""
    connection.execute(
        """INSERT OR REPLACE INTO partials (node_id, content, thinking, num_tokens, saved_at)
        SELECT id, ?, ?, ?, ? FROM nodes WHERE id = ? AND state = 'open'""",
        (clean_text(partial.content), clean_text(partial.thinking), partial.num_tokens, now, partial.node_id),
    )


def finish_reply(connection: sqlite3.Connection, end: ReplyEnd, now: float) -> None:
    """Make an open reply final; one that is final stays as it is."""
    found = connection.execute(
        "SELECT seq, chat_id, state, content, thinking FROM nodes WHERE id = ?", (end.node_id,)
    ).fetchone()
    if found is None:
        raise StoreError(_GONE)
    number, chat_id, state, *earlier = found
    if state not in (NodeState.OPEN.value, NodeState.INTERRUPTED.value):
        return
    if state == NodeState.INTERRUPTED.value:  # another program took this one for dead
        forget_row(connection, number, *earlier)
    content, thinking = clean_text(end.content), clean_text(end.thinking)
    connection.execute(
        """UPDATE nodes SET state = ?, content = ?, thinking = ?, token_ids = ?, finish_reason = ?, stop_string = ?,
        error = ?, metrics = ?, settings = COALESCE(?, settings), template_hash = COALESCE(?, template_hash),
        model_fingerprint = COALESCE(?, model_fingerprint), model_name = COALESCE(?, model_name), owner_pid = NULL
        WHERE id = ?""",
        (
            NodeState.DONE.value if end.error is None else NodeState.FAILED.value,
            *(content, thinking, to_blob(end.token_ids)),
            end.finish_reason.value if end.finish_reason else None,
            clean_text(end.stop_string) if end.stop_string is not None else None,
            *(to_json(end.error) or None, to_json(end.metrics), to_json(end.settings) or None),
            *(clean_text(end.template_hash) or None, clean_text(end.model_fingerprint) or None),
            *(clean_text(end.model_name) or None, end.node_id),
        ),
    )
    connection.execute("DELETE FROM partials WHERE node_id = ?", (end.node_id,))
    connection.execute(
        "UPDATE chats SET changed_at = ?, change_number = ? WHERE id = ?", (now, _next_change(connection), chat_id)
    )
    index_row(connection, number, content, thinking)


def settle_interrupted(connection: sqlite3.Connection) -> int:
    """Give each open reply whose program has ended what was saved of it, and return how many there were."""
    num_settled = 0
    for number, node_id, pid, content, thinking in connection.execute(
        """SELECT nodes.seq, nodes.id, nodes.owner_pid, COALESCE(partials.content, nodes.content),
        COALESCE(partials.thinking, nodes.thinking)
        FROM nodes LEFT JOIN partials ON partials.node_id = nodes.id WHERE nodes.state = 'open'"""
    ).fetchall():
        if pid is not None and pid != os.getpid() and psutil.pid_exists(pid):
            continue
        connection.execute(
            "UPDATE nodes SET state = ?, content = ?, thinking = ?, owner_pid = NULL WHERE id = ?",
            (NodeState.INTERRUPTED.value, content, thinking, node_id),
        )
        connection.execute("DELETE FROM partials WHERE node_id = ?", (node_id,))
        index_row(connection, number, content, thinking)
        num_settled += 1
    return num_settled


def save_draft(connection: sqlite3.Connection, chat_id: str, text: str, now: float) -> None:
    """Keep what is typed and not sent; an empty text removes it."""
    if text:
        connection.execute(
            "INSERT OR REPLACE INTO drafts (chat_id, content, saved_at) VALUES (?, ?, ?)",
            (chat_id, clean_text(text), now),
        )
    else:
        connection.execute("DELETE FROM drafts WHERE chat_id = ?", (chat_id,))


def _next_change(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT COALESCE(MAX(change_number), 0) + 1 FROM chats").fetchone()[0])


def _leaf_below(connection: sqlite3.Connection, node_id: str) -> str:
    while below := connection.execute(
        "SELECT id FROM nodes WHERE parent_id = ? ORDER BY seq DESC LIMIT 1", (node_id,)
    ).fetchone():
        node_id = below[0]
    return node_id
