"""ChatStore: everything the rest of the program does with chats, from any thread.

Writes are queued for one thread and return at once; reads go over a connection of the calling thread and wait for none.
"""

import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from app.errors import StoreDamaged
from app.store import trash, writes
from app.store.faults import store_error
from app.store.opening import Opened, mark_damaged, open_file
from app.store.readers import Readers
from app.store.records import ChatChange, ChatRow, Hit, NewChat, NewNode, Partial, ReplyEnd
from app.store.rows import read_chat, read_chat_rows
from app.store.runs import Run, add_run, read_runs
from app.store.search import NUM_HITS, search
from app.store.tree import Chat
from app.store.writer import OnTrouble, Writer

LOCK_TIMEOUT_S = 10.0
RETENTION_DAYS = 30.0

_T = TypeVar("_T")


class ChatStore:
    """The chats of one file.

    A write returns a future that is done once the change is safe from a power cut, or has failed with a StoreError;
    each failure is told to `on_trouble` as well, so a future may be dropped. A write that a lock from outside keeps
    waiting is not lost: it is tried until it succeeds or the store closes.
    """

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        on_trouble: OnTrouble = lambda error: None,
        retention_days: float = RETENTION_DAYS,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        clock: Callable[[], float] = time.time,
    ) -> tuple["ChatStore", tuple[str, ...]]:
        """Open the file, made, converted or recovered if need be.

        Args:
            on_trouble: hears each failed write, and that a lock is being waited for; called from the writer's thread,
                which must not wait for the store.
            retention_days: how long the trash keeps; math.inf for ever.
            lock_timeout_s: how long a lock is waited for before it is told.
            clock: seconds since 1970; may jump.

        Returns: the store, and what the user has to know, a sentence each.

        Raises:
            StoreTooNew: a newer version wrote the file; nothing was touched.
            StoreLocked: another program holds it.
            StoreError: it cannot be used for another reason.
        """
        opened = open_file(path, lock_timeout_s=lock_timeout_s)
        store = cls(
            opened, on_trouble=on_trouble, retention_days=retention_days, lock_timeout_s=lock_timeout_s, clock=clock
        )
        store._write(writes.settle_interrupted)
        return store, opened.notices

    def __init__(
        self,
        opened: Opened,
        *,
        on_trouble: OnTrouble,
        retention_days: float,
        lock_timeout_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._path = opened.path
        self._folder = opened.folder
        self._retention_s = retention_days * trash.DAY_S
        self._clock = clock
        self._readers = Readers(self._path, busy_s=lock_timeout_s)
        try:
            self._writer = Writer(
                self._path, on_trouble=on_trouble, on_damaged=self._mark_damaged, lock_notice_s=lock_timeout_s
            )
        except sqlite3.Error as error:
            raise store_error(error, self._path) or error from error

    @property
    def path(self) -> Path:
        """Where the chats lie, which is another place than asked for where that cannot be written."""
        return self._path

    @property
    def is_kept(self) -> bool:
        """Whether what is written outlives the program."""
        return self._folder is None

    # Reading

    def list_chats(self, *, trashed: bool = False) -> list[ChatRow]:
        """Return the chats without their messages: pinned ones first, then the one that changed last."""
        return self._read(lambda connection: read_chat_rows(connection, trashed=trashed))

    def load_chat(self, chat_id: str) -> Chat | None:
        """Return a chat with all its messages; None where there is none."""
        return self._read(lambda connection: read_chat(connection, chat_id))

    def search(self, text: str, *, num_hits: int = NUM_HITS, includes_trash: bool = False) -> list[Hit]:
        """Return where titles and messages hold `text`, letter by letter but for capitals, in all branches.

        A blank text has no hits: the list of chats is what belongs there.
        """
        return self._read(lambda connection: search(connection, text, num_hits=num_hits, includes_trash=includes_trash))

    def load_draft(self, chat_id: str) -> str:
        """Return what was typed in a chat and not sent; NO_CHAT for the one not begun yet."""
        found: tuple[str] | None = self._read(
            lambda connection: connection.execute("SELECT content FROM drafts WHERE chat_id = ?", (chat_id,)).fetchone()
        )
        return found[0] if found else ""

    # Chats

    def add_chat(self, chat: NewChat) -> Future[None]:
        """Begin a chat."""
        now = self._clock()
        return self._write(lambda connection: writes.add_chat(connection, chat, now))

    def rename_chat(self, chat_id: str, title: str, *, is_own: bool = True) -> Future[None]:
        """Give a chat a title; one made by the program never replaces the user's own."""
        return self._write(lambda connection: writes.rename_chat(connection, chat_id, title, is_own=is_own))

    def change_chat(self, chat_id: str, change: ChatChange) -> Future[None]:
        """Pin a chat, or change its system prompt, its model or its settings."""
        return self._write(lambda connection: writes.change_chat(connection, chat_id, change))

    def save_draft(self, chat_id: str, text: str) -> None:
        """Keep what is typed in a chat; only the latest counts."""
        now = self._clock()
        self._writer.submit_latest(
            f"draft {chat_id}", lambda connection: writes.save_draft(connection, chat_id, text, now)
        )

    # Messages

    def add_node(self, node: NewNode, *, is_shown: bool = True) -> Future[None]:
        """Add a message; one beside others, as an edit or another reply makes it, replaces none.

        Args:
            is_shown: whether the path to it becomes the active one; below the active leaf it always does.
        """
        now = self._clock()
        return self._write(lambda connection: writes.add_node(connection, node, now, is_shown=is_shown))

    def show_node(self, node_id: str) -> Future[None]:
        """Make the newest branch through a message the active one: another variant, or where a search found it."""
        return self._write(lambda connection: writes.show_node(connection, node_id))

    def save_partial(self, partial: Partial) -> None:
        """Keep what has arrived of an open reply; only the latest counts, and the end of the reply replaces it."""
        now = self._clock()
        self._writer.submit_latest(
            f"partial {partial.node_id}", lambda connection: writes.save_partial(connection, partial, now)
        )

    def finish_reply(self, end: ReplyEnd) -> Future[None]:
        """Make an open reply final."""
        now = self._clock()
        return self._write(lambda connection: writes.finish_reply(connection, end, now))

    # Trash

    def delete_node(self, node_id: str) -> Future[None]:
        """Put one message into the trash; those below it stay."""
        now = self._clock()
        return self._write(lambda connection: trash.delete_node(connection, node_id, now, self._retention_s))

    def restore_node(self, node_id: str) -> Future[None]:
        """Take a message out of the trash."""
        return self._write(lambda connection: trash.restore_node(connection, node_id))

    def trash_chat(self, chat_id: str) -> Future[None]:
        """Put a chat into the trash."""
        now = self._clock()
        return self._write(lambda connection: trash.trash_chat(connection, chat_id, now, self._retention_s))

    def restore_chat(self, chat_id: str) -> Future[None]:
        """Take a chat out of the trash."""
        return self._write(lambda connection: trash.restore_chat(connection, chat_id))

    def purge_chat(self, chat_id: str) -> Future[bool]:
        """Remove a chat that is in the trash for good."""
        return self._write(lambda connection: trash.purge_chat(connection, chat_id))

    def purge_expired(self) -> Future[int]:
        """Remove for good what was in the trash for the whole retention; to be called at the start and once a day."""
        now = self._clock()
        return self._write(lambda connection: trash.purge_expired(connection, now, self._retention_s))

    def note_purged(self, chat_id: str) -> Future[None]:
        """Note that whatever was computed of a chat, and is kept elsewhere, is to go."""
        return self._write(lambda connection: trash.note_purged(connection, (chat_id,)))

    def list_purged(self) -> list[str]:
        """Return the chats of which that is still to be done: purged ones, and those with messages that were."""
        return self._read(trash.read_purged)

    def forget_purged(self, chat_ids: Sequence[str]) -> Future[None]:
        """Note that it was done."""
        return self._write(lambda connection: trash.forget_purged(connection, chat_ids))

    # Measuring runs

    def add_run(self, run: Run) -> Future[None]:
        """Keep the record of a measuring run."""
        return self._write(lambda connection: add_run(connection, run))

    def list_runs(self, kind: str | None = None) -> list[Run]:
        """Return the runs of a kind, or all, the newest first."""
        return self._read(lambda connection: read_runs(connection, kind))

    # Life

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything queued so far is written.

        Raises:
            TimeoutError: it took longer.
        """
        self._write(lambda connection: None).result(timeout_s)

    def close(self, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        """Write what is queued and close; what a lock keeps out for `timeout_s` fails, and its future says so."""
        self._writer.stop(timeout_s)
        self._readers.close()
        self._writer.close()  # last, for only a connection that writes can clear the log away
        if self._folder is not None:
            self._folder.cleanup()

    def _write(self, job: Callable[[sqlite3.Connection], _T]) -> "Future[_T]":
        return self._writer.submit(job)

    def _read(self, query: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            with self._readers.connection() as connection:
                return query(connection)
        except sqlite3.Error as error:
            fault = store_error(error, self._path)
            if isinstance(fault, StoreDamaged):
                self._mark_damaged()
            if fault is None:
                raise
            raise fault from error

    def _mark_damaged(self) -> None:
        mark_damaged(self._path)
