"""Deleting: messages and whole chats go to the trash, come back, and after a time are gone for good.

Nothing is purged because a clock says so once. How long something has been in the trash is counted by a clock of our
own, which goes on by the time between two looks at the system's: never backwards, and at most by a part of the
retention at once. A clock that was wrong for a day, or leapt by years, costs nothing.
"""

import sqlite3
from collections.abc import Iterable

from app.store.search import forget_row, index_row

DAY_S = 86400.0

_SEEN = "clock_seen"
_COUNTED = "clock_counted"
_PURGED = "purged "  # and the id of a chat: text of it is gone for good here, and is to go elsewhere too
_NUM_STEPS = 4  # a text in the trash is purged after at least so many looks at the clock


def count_time(connection: sqlite3.Connection, now: float, retention_s: float) -> float:
    """Let the trash's own clock go on to this moment, and return it."""
    facts: dict[str, float] = dict(connection.execute("SELECT name, value FROM facts"))
    elapsed = min(max(0.0, now - facts.get(_SEEN, now)), retention_s / _NUM_STEPS)
    counted = facts.get(_COUNTED, 0.0) + elapsed
    connection.executemany(
        "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", [(_SEEN, now), (_COUNTED, counted)]
    )
    return counted


def delete_node(connection: sqlite3.Connection, node_id: str, now: float, retention_s: float) -> None:
    """Mark a message as deleted; what is below it stays where it is."""
    connection.execute(
        "UPDATE nodes SET deleted_at = ?, deleted_clock = ? WHERE id = ? AND deleted_at IS NULL",
        (now, count_time(connection, now, retention_s), node_id),
    )


def restore_node(connection: sqlite3.Connection, node_id: str) -> None:
    """Take a message out of the trash."""
    # A message whose text is purged already has no clock, and stays deleted.
    connection.execute(
        "UPDATE nodes SET deleted_at = NULL, deleted_clock = NULL WHERE id = ? AND deleted_clock IS NOT NULL",
        (node_id,),
    )


def trash_chat(connection: sqlite3.Connection, chat_id: str, now: float, retention_s: float) -> None:
    """Put a chat into the trash."""
    connection.execute(
        "UPDATE chats SET deleted_at = ?, deleted_clock = ? WHERE id = ? AND deleted_at IS NULL",
        (now, count_time(connection, now, retention_s), chat_id),
    )


def restore_chat(connection: sqlite3.Connection, chat_id: str) -> None:
    """Take a chat out of the trash."""
    connection.execute("UPDATE chats SET deleted_at = NULL, deleted_clock = NULL WHERE id = ?", (chat_id,))


def purge_chat(connection: sqlite3.Connection, chat_id: str) -> bool:
    """Remove a chat of the trash for good, and return whether there was one."""
    found = connection.execute(
        "SELECT seq, title FROM chats WHERE id = ? AND deleted_at IS NOT NULL", (chat_id,)
    ).fetchone()
    if found is None:
        return False
    forget_row(connection, -found[0], found[1])
    for number, content, thinking in connection.execute(
        "SELECT seq, content, thinking FROM nodes WHERE chat_id = ? AND state <> 'open'", (chat_id,)
    ).fetchall():
        forget_row(connection, number, content, thinking)
    connection.execute("DELETE FROM drafts WHERE chat_id = ?", (chat_id,))
    connection.execute("DELETE FROM chats WHERE id = ?", (chat_id,))
    note_purged(connection, (chat_id,))
    return True


def purge_expired(connection: sqlite3.Connection, now: float, retention_s: float) -> int:
    """Remove what has been in the trash for the whole retention, and return how many chats and messages that were."""
    before = count_time(connection, now, retention_s) - retention_s
    chats = connection.execute("SELECT id FROM chats WHERE deleted_clock <= ?", (before,)).fetchall()
    num_chats = sum(purge_chat(connection, chat_id) for (chat_id,) in chats)
    nodes = connection.execute(
        "SELECT seq, content, thinking, chat_id FROM nodes WHERE deleted_clock <= ? AND state <> 'open'", (before,)
    ).fetchall()
    note_purged(connection, {chat_id for *_, chat_id in nodes})
    for number, content, thinking, _ in nodes:
        forget_row(connection, number, content, thinking)
        _empty(connection, number)
        index_row(connection, number, "", "")
    return num_chats + len(nodes)


def note_purged(connection: sqlite3.Connection, chat_ids: Iterable[str]) -> None:
    """Note that copies of these chats which others keep have to go, until `forget_purged`."""
    connection.executemany(
        "INSERT OR REPLACE INTO facts (name, value) VALUES (?, 0)", [(_PURGED + chat_id,) for chat_id in chat_ids]
    )


def read_purged(connection: sqlite3.Connection) -> list[str]:
    """Return the chats of which that was noted."""
    found = connection.execute("SELECT name FROM facts WHERE name >= ? AND name < ?", (_PURGED, _PURGED[:-1] + "!"))
    return [name.removeprefix(_PURGED) for (name,) in found]


def forget_purged(connection: sqlite3.Connection, chat_ids: Iterable[str]) -> None:
    """Note that nothing is left of these chats."""
    connection.executemany("DELETE FROM facts WHERE name = ?", [(_PURGED + chat_id,) for chat_id in chat_ids])


def _empty(connection: sqlite3.Connection, number: int) -> None:
    """Take the words out of a message; its place stays, for others hang below it."""
    connection.execute(
        """UPDATE nodes SET content = '', thinking = '', token_ids = x'', stop_string = NULL, error = NULL,
        metrics = '', settings = '', deleted_clock = NULL WHERE seq = ?""",
        (number,),
    )
