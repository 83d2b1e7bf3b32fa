"""The stored replies on disk, beside the snapshots: read once, written and deleted on a thread of their own.

A file is written under a temporary name and renamed when it is safely on the disk; one that is not whole is deleted.
"""

import concurrent.futures
import contextlib
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from engine.disk_thread import DiskThread
from engine.folder_key import folder_key, is_signed, signed
from engine.folder_lock import delete_unless_locked, folder_lock, try_lock
from engine.forgotten_marks import ForgottenMarks
from engine.response_file import KeptReply, ResponseFault, read_reply, reply_bytes

_LOG = logging.getLogger(__name__)
_SUFFIX, _PART_SUFFIX, _LOCK_NAME = ".reply", ".reply-part", "lock"
_LOCK_WAIT_S = 2.0


class ResponseFolder:
    """The files of one worker.

    Args:
        path: made where it is not there.
        max_bytes: of all files together; those used longest ago go. With 0 all go.
        on_read: takes each reply that was found, the one used longest ago first; called on another thread.
    """

    def __init__(self, path: Path, *, max_bytes: int, on_read: Callable[[KeptReply], None]) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._on_read = on_read
        self._key = b""  # none: the folder cannot be used
        self._thread = DiskThread("engine-reply-writer")
        self._deleted: concurrent.futures.Future[None] | None = None
        self._scan_done = self._thread.submit(self._scan)

    def is_read(self, wait_s: float) -> bool:
        """Whether all replies were read; waits for it so long."""
        return bool(concurrent.futures.wait([self._scan_done], timeout=wait_s).done)

    def write(self, reply: KeptReply, *, asked_at: float | None = None) -> None:
        """Write a reply when there is time.

        Args:
            asked_at: seconds since 1970; what was forgotten since then is not written.
        """
        self._thread.submit(self._write, reply, time.time() if asked_at is None else asked_at)

    def touch(self, key: str) -> None:
        """Note that a reply was of use."""
        self._thread.submit(self._touch, key)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete replies."""
        self._deleted = self._thread.submit(self._delete, [f"{key}{_SUFFIX}" for key in keys])

    def forget(self, chat_ids: frozenset[str]) -> None:
        """Delete the replies of chats, of other processes too."""
        self._deleted = self._thread.submit(self._forget, chat_ids)

    def clear(self) -> None:
        """Delete all replies, of other processes too."""
        self._deleted = self._thread.submit(self._clear)

    def when_forgotten(self, call: Callable[[], object]) -> None:
        """See ResponseCache.when_forgotten."""
        if self._deleted is None or self._deleted.done():
            call()
        else:
            self._thread.submit(call)

    def close(self, wait_s: float) -> None:
        """Do what was asked for, as far as the time allows."""
        if not self._thread.end(wait_s):
            _LOG.warning("the disk takes long to keep replies")

    # --- its thread ---

    def _scan(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with folder_lock(self.path / _LOCK_NAME, wait_s=_LOCK_WAIT_S):
                self._key = folder_key(self.path)
            for part in self.path.glob(f"*{_PART_SUFFIX}"):
                delete_unless_locked(part)
            self._trim(0)
            for _, _, path in self._files():
                self._look_at(path)
        except (OSError, ValueError) as error:
            _LOG.warning("the folder of stored replies cannot be used: %s", error)
            self._key = b""

    def _look_at(self, path: Path) -> None:
        try:
            reply = read_reply(path)
            if path.name != f"{reply.key}{_SUFFIX}":
                raise ResponseFault("it has another file's name")
            if not is_signed(reply, self._key):
                raise ResponseFault("another program has written it")
        except ResponseFault as fault:
            _LOG.info("a stored reply was discarded (%s)", fault)
            self._delete([path.name])
        except OSError as error:
            _LOG.info("a stored reply could not be read: %s", error)
        else:
            self._on_read(msgspec.structs.replace(reply, mac=b""))

    def _write(self, reply: KeptReply, asked_at: float) -> None:
        data = reply_bytes(signed(reply, self._key))
        if not self._key or len(data) > self._max_bytes:
            return
        part = self.path / f"{reply.key}-{uuid.uuid4().hex[:8]}{_PART_SUFFIX}"
        try:
            with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                try_lock(file.fileno())
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            with folder_lock(self.path / _LOCK_NAME, wait_s=_LOCK_WAIT_S):
                marks = ForgottenMarks(self.path, self._key)
                if any(marks.is_forgotten(chat_id, "", asked_at) for chat_id in reply.chat_ids):
                    return
                self._trim(len(data))
                part.replace(self.path / f"{reply.key}{_SUFFIX}")
        except (OSError, ValueError) as error:
            _LOG.warning("a reply could not be stored: %s", error)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def _touch(self, key: str) -> None:
        with contextlib.suppress(OSError):
            os.utime(self.path / f"{key}{_SUFFIX}")

    def _clear(self) -> None:
        self._delete([path.name for _, _, path in self._files()])

    def _forget(self, chat_ids: frozenset[str]) -> None:
        for _, _, path in self._files():
            with contextlib.suppress(ResponseFault, OSError):
                if chat_ids.intersection(read_reply(path).chat_ids):
                    self._delete([path.name])

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError, ValueError):
                (self.path / name).unlink(missing_ok=True)

    def _trim(self, num_new_bytes: int) -> None:
        """Delete what was used longest ago, until so many bytes fit."""
        found = self._files()
        excess = sum(size for _, size, _ in found) + num_new_bytes - self._max_bytes
        for _, size, path in found:
            if excess <= 0:
                break
            self._delete([path.name])
            excess -= size

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return time of use, bytes and path of each file, the one used longest ago first."""
        found = []
        for path in self.path.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return sorted(found)
