"""What can be read of a damaged file, copied into a new one."""

import contextlib
import logging
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from shutil import copyfile
from typing import Any, NamedTuple

from app.store.pages import PageFile
from app.store.schema import TABLES
from app.store.search import index_all
from engine import clean_text

# What is worth reading; the rest follows from it, or is a count that begins anew.
_WANTED = ("chats", "nodes", "partials", "drafts", "runs")
# By name, because a damaged row can hold anything.
_NUMBERS = {"created_at", "changed_at", "saved_at", "change_number", "title_is_own", "is_pinned", "num_tokens"}
_NUMBERS_OR_NOTHING = {"deleted_at", "deleted_clock", "owner_pid"}
_TEXTS_OR_NOTHING = {"parent_id", "source_id", "finish_reason", "stop_string", "error", "active_leaf"}
_ID_LENGTH = 32
_MAX_GAP = 2000  # rows that are missing one after the other before the way through them is given up

_LOG = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """How much was read."""

    num_chats: int
    num_messages: int


def recover(damaged: Path, target: sqlite3.Connection) -> Recovered:
    """Copy what can be read of a file and its log into an empty new one; the damaged file is not touched.

    Raises:
        sqlite3.Error: the new file cannot be written.
        OSError: the damaged one cannot be read at all.
    """
    with tempfile.TemporaryDirectory(prefix=f".{damaged.name}-", dir=damaged.parent) as folder:
        copy = Path(folder) / "copy.sqlite3"
        copyfile(damaged, copy)
        with suppress(OSError):
            copyfile(f"{damaged}-wal", f"{copy}-wal")
        target.execute("PRAGMA foreign_keys = OFF")
        target.execute("BEGIN IMMEDIATE")
        _take_raw_rows(copy, target)  # first, for SQLite writes into the copy; its own rows then replace these
        _drop_half_page(copy)
        _take_rows(copy, target)
        _mend(target)
        index_all(target)
        target.execute("COMMIT")
        target.execute("PRAGMA foreign_keys = ON")
    counts = [target.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in ("chats", "nodes")]
    return Recovered(*counts)


def _drop_half_page(copy: Path) -> None:
    """Cut a file that was cut within a page back to whole ones: SQLite would take NULs for what is missing."""
    with contextlib.closing(PageFile(copy)) as file:
        whole = copy.stat().st_size // file.page_bytes * file.page_bytes
    if whole:
        os.truncate(copy, whole)


def _take_rows(copy: Path, target: sqlite3.Connection) -> None:
    for table in _WANTED:
        with suppress(sqlite3.Error), closing(_connect(copy)) as source:
            found = [row[1] for row in source.execute(f"PRAGMA table_info({table})")]
            columns = [name for name in TABLES[table] if name in found]
            if columns:
                _store(target, table, columns, _read_rows(source, table, columns))


def _connect(copy: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA writable_schema = ON")  # lets a file be opened that is shorter than it says
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _read_rows(source: sqlite3.Connection, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Return the rows from the front, and those behind a damaged place one by one."""
    select = f"SELECT rowid, {', '.join(columns)} FROM {table}"
    last = 0
    with suppress(sqlite3.DatabaseError):
        for row in source.execute(f"{select} ORDER BY rowid"):
            last = row[0]
            yield row[1:]
        return
    with suppress(sqlite3.DatabaseError):
        for row in source.execute(f"{select} WHERE rowid > ? ORDER BY rowid DESC", (last,)):
            yield row[1:]
    number, gap = last, 0
    while gap < _MAX_GAP:
        number, gap = number + 1, gap + 1
        with suppress(sqlite3.DatabaseError):
            for row in source.execute(f"{select} WHERE rowid = ?", (number,)):
                gap = 0
                yield row[1:]


def _take_raw_rows(copy: Path, target: sqlite3.Connection) -> None:
    with contextlib.closing(PageFile(copy)) as file:
        for row in file.rows():
            for table in ("chats", "nodes"):  # a number in the first place is stored as nothing
                width = len(TABLES[table])
                ids = row.values[1 : 2 if table == "chats" else 3]
                if len(row.values) == width and row.values[0] is None and all(map(_is_id, ids)):
                    _store(target, table, TABLES[table], [(row.number, *row.values[1:])])


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value) == _ID_LENGTH and value.isalnum()


def _store(target: sqlite3.Connection, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    for row in rows:
        values = [_sound(name, value) for name, value in zip(columns, row, strict=True)]
        ids = [value for name, value in zip(columns, values, strict=True) if name in ("id", "chat_id", "node_id")]
        if all(ids) or table == "drafts":  # whose chat may be the one not begun yet
            target.execute(statement, values)


def _sound(name: str, value: Any) -> Any:
    if name == "seq":
        return value if isinstance(value, int) and value > 0 else None
    if name in _NUMBERS or name in _NUMBERS_OR_NOTHING:
        return value if isinstance(value, int | float) else (0 if name in _NUMBERS else None)
    if name == "token_ids":
        return value if isinstance(value, bytes) else b""
    if isinstance(value, str):
        return clean_text(value)
    return None if name in _TEXTS_OR_NOTHING else ""


def _mend(target: sqlite3.Connection) -> None:
    """Make a tree again of messages of which some are missing: every one that is there can be reached."""
    target.execute(
        """INSERT INTO chats (id, title, created_at, changed_at)
        SELECT chat_id, 'Recovered chat', MIN(created_at), MAX(created_at) FROM nodes
        WHERE chat_id NOT IN (SELECT id FROM chats) GROUP BY chat_id"""
    )
    target.execute(
        """UPDATE nodes SET parent_id = NULL WHERE parent_id IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM nodes AS above WHERE above.id = nodes.parent_id AND above.chat_id = nodes.chat_id
        AND above.seq < nodes.seq)"""
    )
    target.execute("DELETE FROM partials WHERE node_id NOT IN (SELECT id FROM nodes WHERE state = 'open')")
    # Where the leaf is missing, the newest message is one: nothing was added below it.
    target.execute(
        """UPDATE chats SET active_leaf = (SELECT id FROM nodes WHERE chat_id = chats.id ORDER BY seq DESC LIMIT 1)
        WHERE active_leaf IS NULL OR active_leaf NOT IN (SELECT id FROM nodes WHERE chat_id = chats.id)
        OR EXISTS (SELECT 1 FROM nodes WHERE parent_id = chats.active_leaf)"""
    )
    # The order of the list went with the chats that lost their row.
    target.execute("UPDATE chats SET change_number = seq WHERE change_number = 0")
    # The time in the trash is counted from now on.
    for table in ("chats", "nodes"):
        target.execute(f"UPDATE {table} SET deleted_clock = 0 WHERE deleted_clock IS NOT NULL")
