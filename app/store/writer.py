"""The one thread that writes: jobs come by a queue, each is one transaction, and a lock from outside is waited out."""

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from app.errors import StoreDamaged, StoreError, StoreLocked
from app.store.faults import store_error
from app.store.schema import connect_to_write

Job = Callable[[sqlite3.Connection], Any]
OnTrouble = Callable[[StoreError], None]

_LOG = logging.getLogger(__name__)
_PAUSE_S = 0.02


class _Task(NamedTuple):
    """One job in the queue.

    Attributes:
        key: of a job of which only the latest counts; the job itself then lies in a table by that key.
        is_durable: whether it must be on the disk before it counts as done.
    """

    job: Job | None
    key: str
    is_durable: bool
    done: Future[Any]


class Writer:
    """Carries out jobs in the order in which they came.

    Args:
        on_trouble: hears each failure, and once that a lock is being waited for; called from the writer's thread.
        lock_notice_s: how long a lock is waited for before the user hears of it.
        on_damaged: called when the file turns out damaged.
    """

    def __init__(
        self, path: Path, *, on_trouble: OnTrouble, on_damaged: Callable[[], None], lock_notice_s: float
    ) -> None:
        self._path = path
        self._on_trouble = on_trouble
        self._on_damaged = on_damaged
        self._lock_notice_s = lock_notice_s
        self._queue: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._latest: dict[str, Job] = {}
        self._is_closed = False
        self._give_up_at: float | None = None
        self._is_durable = True
        self._connection = connect_to_write(path)
        self._thread = threading.Thread(target=self._run, name="chat-store-writer", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> Future[Any]:
        """Queue a job; its future has its result once that is safe from a power cut.

        Raises:
            RuntimeError: the writer is closed.
        """
        return self._put(_Task(job, "", is_durable=True, done=Future()))

    def submit_latest(self, key: str, job: Job) -> None:
        """Queue a job that replaces one of the same key that still waits; safe from a killed program, not a power cut.

        Raises:
            RuntimeError: the writer is closed.
        """
        with self._lock:
            is_queued = key in self._latest
            self._latest[key] = job
        if not is_queued:
            self._put(_Task(None, key, is_durable=False, done=Future()))

    def stop(self, timeout_s: float) -> None:
        """Carry out what is queued and take no more; after `timeout_s` what a lock still keeps out fails."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._give_up_at = time.monotonic() + timeout_s
            self._queue.put(None)
        self._thread.join()

    def close(self) -> None:
        """Close the connection, after `stop`."""
        self._connection.close()

    def _put(self, task: _Task) -> Future[Any]:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the store is closed")
            self._queue.put(task)
        return task.done

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            if not task.done.set_running_or_notify_cancel():
                continue
            try:
                result = self._carry_out(task)
            except StoreError as error:
                task.done.set_exception(error)
                self._report(error)
            except Exception as error:  # the thread must go on for the jobs behind this one
                _LOG.exception("a job of the chat store failed")
                task.done.set_exception(error)
            else:
                task.done.set_result(result)

    def _carry_out(self, task: _Task) -> Any:
        job = task.job
        if job is None:
            with self._lock:
                job = self._latest.pop(task.key)
        started_at = time.monotonic()
        is_reported = False
        while True:
            try:
                return self._transact(job, is_durable=task.is_durable)
            except sqlite3.Error as error:
                fault = store_error(error, self._path)
                if fault is None:
                    raise
                if isinstance(fault, StoreDamaged):
                    self._on_damaged()
                if not isinstance(fault, StoreLocked) or self._is_too_late():
                    raise fault from error
                if not is_reported and time.monotonic() - started_at >= self._lock_notice_s:
                    is_reported = True
                    self._report(fault)
            time.sleep(_PAUSE_S)

    def _transact(self, job: Job, *, is_durable: bool) -> Any:
        connection = self._connection
        if is_durable != self._is_durable:
            connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
            self._is_durable = is_durable
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = job(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _is_too_late(self) -> bool:
        return self._give_up_at is not None and time.monotonic() >= self._give_up_at

    def _report(self, error: StoreError) -> None:
        try:
            self._on_trouble(error)
        except Exception:  # a listener must not end the thread
            _LOG.exception("a listener of the chat store failed")
