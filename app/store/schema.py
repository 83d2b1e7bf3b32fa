"""The tables, and how a connection to them is set up."""

import sqlite3
from pathlib import Path

VERSION = 2
APPLICATION_ID = 0x46736964  # "Fsid": tells our files from those of others

TABLES: dict[str, tuple[str, ...]] = {
    "chats": (
        *("seq", "id", "title", "title_is_own", "created_at", "changed_at", "change_number", "is_pinned"),
        *("deleted_at", "deleted_clock", "system_prompt", "model", "settings", "active_leaf"),
    ),
    "nodes": (
        *("seq", "id", "chat_id", "parent_id", "source_id", "role", "state", "content", "thinking", "token_ids"),
        *("created_at", "finish_reason", "stop_string", "error", "metrics", "settings", "template_hash"),
        *("model_fingerprint", "model_name", "owner_pid", "deleted_at", "deleted_clock"),
    ),
    "partials": ("node_id", "content", "thinking", "num_tokens", "saved_at"),
    "drafts": ("chat_id", "content", "saved_at"),
    "facts": ("name", "value"),
    "runs": ("seq", "id", "kind", "created_at", "model_fingerprint", "model_name", "record"),
}

# The grams hold no text of their own (content=''), only which row has which gram: app/store/search.py.
FIRST_SCHEMA = """
CREATE TABLE chats (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL DEFAULT '',
    title_is_own INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL DEFAULT 0,
    changed_at REAL NOT NULL DEFAULT 0,
    change_number INTEGER NOT NULL DEFAULT 0,
    is_pinned INTEGER NOT NULL DEFAULT 0,
    deleted_at REAL,
    deleted_clock REAL,
    system_prompt TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    settings TEXT NOT NULL DEFAULT '',
    active_leaf TEXT
);
CREATE TABLE nodes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    chat_id TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
    parent_id TEXT REFERENCES nodes(id),
    source_id TEXT,
    role TEXT NOT NULL DEFAULT 'user',
    state TEXT NOT NULL DEFAULT 'done',
    content TEXT NOT NULL DEFAULT '',
    thinking TEXT NOT NULL DEFAULT '',
    token_ids BLOB NOT NULL DEFAULT x'',
    created_at REAL NOT NULL DEFAULT 0,
    finish_reason TEXT,
    stop_string TEXT,
    error TEXT,
    metrics TEXT NOT NULL DEFAULT '',
    settings TEXT NOT NULL DEFAULT '',
    template_hash TEXT NOT NULL DEFAULT '',
    model_fingerprint TEXT NOT NULL DEFAULT '',
    model_name TEXT NOT NULL DEFAULT '',
    owner_pid INTEGER,
    deleted_at REAL,
    deleted_clock REAL
);
CREATE TABLE partials (
    node_id TEXT PRIMARY KEY REFERENCES nodes(id) ON DELETE CASCADE,
    content TEXT NOT NULL DEFAULT '',
    thinking TEXT NOT NULL DEFAULT '',
    num_tokens INTEGER NOT NULL DEFAULT 0,
    saved_at REAL NOT NULL DEFAULT 0
);
CREATE TABLE drafts (chat_id TEXT PRIMARY KEY, content TEXT NOT NULL DEFAULT '', saved_at REAL NOT NULL DEFAULT 0);
CREATE TABLE facts (name TEXT PRIMARY KEY, value REAL NOT NULL DEFAULT 0);
CREATE INDEX nodes_of_chat ON nodes(chat_id, seq);
CREATE INDEX nodes_of_parent ON nodes(parent_id, seq);
CREATE INDEX open_nodes ON nodes(state) WHERE state = 'open';
CREATE INDEX deleted_nodes ON nodes(deleted_clock) WHERE deleted_clock IS NOT NULL;
CREATE INDEX chats_in_order ON chats(change_number);
CREATE VIRTUAL TABLE grams USING fts5(held, content='', columnsize=0, detail=none, tokenize='ascii');
"""

RUNS_TABLE = """
CREATE TABLE runs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL DEFAULT '',
    created_at REAL NOT NULL DEFAULT 0,
    model_fingerprint TEXT NOT NULL DEFAULT '',
    model_name TEXT NOT NULL DEFAULT '',
    record TEXT NOT NULL DEFAULT ''
)
"""

_BUSY_S = 0.25
_MAX_WAL_BYTES = 16 << 20


def connect_to_write(path: Path, *, busy_s: float = _BUSY_S) -> sqlite3.Connection:
    """Return a connection that writes; transactions are begun and ended by its user.

    Raises:
        sqlite3.Error: the file is not there or cannot be opened.
    """
    return _connect(path, "rw", busy_s)


def connect_to_read(path: Path, *, busy_s: float = 5.0) -> sqlite3.Connection:
    """Return a connection that only reads.

    Raises:
        sqlite3.Error: the file is not there or cannot be opened.
    """
    connection = _connect(path, "ro", busy_s)
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA cache_size = -16000")  # 16 MB, of which a search takes what it needs
    return connection


def create_tables(connection: sqlite3.Connection) -> None:
    """Make an empty file one of ours, with the first schema; within the caller's transaction."""
    for statement in FIRST_SCHEMA.split(";"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def add_runs(connection: sqlite3.Connection) -> None:
    """Add the table of measuring runs; within the caller's transaction."""
    connection.execute(RUNS_TABLE)


def missing_parts(connection: sqlite3.Connection) -> list[str]:
    """Return the tables and columns that should be there and are not."""
    missing = []
    for table, columns in TABLES.items():
        found = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        missing += [f"{table}.{column}" for column in columns if column not in found]
    if not list(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'grams'")):
        missing.append("grams")
    return missing


def _connect(path: Path, mode: str, busy_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # closed by whoever closes the store
        timeout=busy_s,
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # what is purged is gone from the file as well
        connection.execute("PRAGMA synchronous = FULL")  # some systems build SQLite with another default for WAL
        connection.execute("PRAGMA fullfsync = ON")  # where a plain sync leaves data in the drive
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_MAX_WAL_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection
