"""Older schemas become the present one, step by step, after a copy of the file was made."""

import datetime
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from app.store.schema import add_runs, create_tables

Migration = Callable[[sqlite3.Connection], None]

# The n-th makes version n out of version n - 1, inside one transaction. Never change one that was released.
MIGRATIONS: tuple[Migration, ...] = (create_tables, add_runs)

NUM_BACKUPS = 3

_LOG = logging.getLogger(__name__)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the schema in a file; 0 is an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, path: Path, *, migrations: Sequence[Migration] = MIGRATIONS) -> Path | None:
    """Bring a file to the newest schema; all of it or nothing.

    Returns: the copy made before, None where nothing was to do or the file was empty.

    Raises:
        sqlite3.Error: it could not be done; the file is as it was.
    """
    if version_of(connection) >= len(migrations):
        return None
    connection.execute("BEGIN IMMEDIATE")  # two programs that start at once migrate once
    try:
        version = version_of(connection)
        backup = back_up(path, version) if 0 < version < len(migrations) else None
        for number, step in enumerate(migrations[version:], version + 1):
            step(connection)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return backup


def back_up(path: Path, version: int) -> Path:
    """Copy a file as it is in all its parts, and let the oldest of such copies go.

    Raises:
        sqlite3.Error: there is no room for it, or the file cannot be read.
    """
    now = datetime.datetime.now().astimezone()
    target = path.with_name(f"{path.name}.version-{version}-{now:%Y%m%d-%H%M%S-%f}")
    try:
        # A connection of its own: the one that migrates holds the lock, which keeps writers out but not readers.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
    except (sqlite3.Error, OSError) as error:
        with suppress(OSError):
            target.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise sqlite3.OperationalError(f"no backup before a migration: {error}") from error
        raise
    for old in sorted(path.parent.glob(f"{path.name}.version-*"), key=_time_in_name)[:-NUM_BACKUPS]:
        _LOG.info("an old backup is removed: %s", old)
        with suppress(OSError):
            old.unlink()
    return target


def _time_in_name(path: Path) -> str:
    return path.name.partition(".version-")[2].partition("-")[2]
