"""SQLite's failures as errors of ours."""

import sqlite3
from pathlib import Path

from app.errors import StoreDamaged, StoreError, StoreFull, StoreLocked, StoreReadOnly

_PRIMARY = 0xFF  # an extended code has its kind in the low byte


def store_error(error: sqlite3.Error, path: Path) -> StoreError | None:
    """Return what a failure of SQLite means to the user; None is a fault of the program."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    details = f"{getattr(error, 'sqlite_errorname', type(error).__name__)}: {error}"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(
            "Another program holds the chats locked.",
            f"Close what else has {path.name} open; what is written here waits for it.",
            details,
        )
    if code == sqlite3.SQLITE_ERROR and "no such module" in str(error):
        return StoreError(
            "Chats cannot be kept, because this SQLite has no full-text search.",
            "Run Fireside with a Python whose SQLite has FTS5, as those of python.org have.",
            details,
        )
    lost_table = code == sqlite3.SQLITE_ERROR and ("no such table" in str(error) or "no such column" in str(error))
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or lost_table:
        return StoreDamaged(
            "The file of chats is damaged.",
            "Start Fireside again: it keeps the damaged file and saves what can be read.",
            details,
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreFull("The disk is full, so nothing can be saved.", f"Make room where {path} lies.", details)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreReadOnly(
            "The chats cannot be saved where they lie.", f"Make {path} and its folder writable.", details
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreError("The disk failed while chats were read or saved.", f"Check the disk of {path}.", details)
    if code == sqlite3.SQLITE_CONSTRAINT:
        return StoreError("This could not be saved, because its chat or an earlier message is gone.", "", details)
    if code == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
        return StoreError("This text is too long to be saved.", "Shorten it, or attach it as a file.", details)
    return None
