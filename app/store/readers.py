"""Connections that only read: each serves one reader at a time and then waits for the next."""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from app.store.schema import connect_to_read


class Readers:
    """The reading connections to one file; there are as many as there were readers at once.

    Args:
        busy_s: how long a reader waits for a lock.
    """

    def __init__(self, path: Path, *, busy_s: float) -> None:
        self._path = path
        self._busy_s = busy_s
        self._idle: list[sqlite3.Connection] = []
        self._num_in_use = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that sees the chats as they are now, whatever is written meanwhile.

        Raises:
            RuntimeError: they are closed.
            sqlite3.Error: the file cannot be opened.
        """
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the store is closed")
            connection = self._idle.pop() if self._idle else None
            self._num_in_use += 1
        try:
            if connection is None:
                connection = connect_to_read(self._path, busy_s=self._busy_s)
            connection.execute("BEGIN")
            yield connection
        finally:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
            with self._changed:
                self._num_in_use -= 1
                if connection is not None:
                    self._idle.append(connection)
                self._changed.notify_all()

    def close(self) -> None:
        """Close them all, those in use after their readers are done."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: self._num_in_use == 0)
            while self._idle:
                self._idle.pop().close()
