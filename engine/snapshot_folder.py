"""The snapshots on disk: which there are, within how many bytes, written and read on threads of their own.

Several processes may share the folder. What a file says is believed only after its checksums; a file that is torn,
foreign or damaged goes. A file is written under a temporary name and renamed when it is safely on the disk.
"""

import concurrent.futures
import contextlib
import logging
import os
import shutil
import threading
import time
import uuid
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from engine.backend import AdapterKey, StateBytes, StateKeys
from engine.disk_thread import DiskThread
from engine.folder_entry import FileRead, FolderEntry, entries_of_others, entry_of, file_name_for, file_name_of
from engine.folder_key import folder_key, is_signed, signed
from engine.folder_lock import delete_unless_locked, folder_lock, try_lock
from engine.snapshot_file import (
    FileFault,
    SnapshotFileError,
    SnapshotHeader,
    read_header,
    read_snapshot,
    tokens_to_bytes,
    write_snapshot,
)

_LOG = logging.getLogger(__name__)
_SUFFIX, _PART_SUFFIX, _LOCK_NAME = ".snapshot", ".part", "lock"
_MOST_BYTES, _DISK_SHARE = 8 << 30, 0.05  # unless a limit was set
_SPARE_BYTES = 64 << 20  # left free whatever the limit
_LOCK_WAIT_S = 2.0
_END_S = 1.0  # more for a disk that is slow: what was begun comes to its end
_SCAN_WAIT_S = 1.0  # for the first look at the folder, which a load usually outlasts
_CHUNK_WAIT_S = 0.25  # between chunks while replies are computed
_MAX_TAKEN = 4096


class SnapshotFolder:
    """The folder of one worker.

    Args:
        path: made where it is not there.
        max_bytes: of all files together; None takes 8 GiB, or 5 % of the free disk where that is less.
    """

    def __init__(self, path: Path, *, max_bytes: int | None) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._key = b""  # until the first look
        self._lock = threading.Lock()  # guards the five below
        self._lost: set[str] = set()  # chats whose files could not be used
        self._entries: dict[str, FolderEntry] = {}
        self._writing: dict[str, SnapshotHeader] = {}  # by name; what is taken out is not written
        self._taken: dict[str, bool] = {}  # handed over before, as a shared one or not: what was refused is not again
        self._num_waiting = 0
        self._calm = threading.Event()
        self._calm.set()
        self._ends_at: float | None = None
        self._writer = DiskThread("engine-snapshot-writer")
        self._reader = DiskThread("engine-snapshot-reader")
        self._has_waited = False
        self._scan_done = self._writer.submit(self._scan)

    @property
    def max_bytes(self) -> int:
        """Bytes that all files may take now."""
        if self._max_bytes is not None:
            return self._max_bytes
        try:
            available = shutil.disk_usage(self.path).free + sum(entry.num_bytes for entry in self.entries)
        except (OSError, ValueError):
            return 0
        return min(_MOST_BYTES, int(available * _DISK_SHARE))

    def set_max_bytes(self, max_bytes: int | None) -> None:
        """Keep to another limit from now on; see `max_bytes` of the class."""
        self._max_bytes = max_bytes
        with self._lock:
            self._taken = {
                name: header.is_shared for name, header in self._writing.items()
            }  # there may be room now for what was refused
        self._writer.submit(self._trim, 0)

    @property
    def entries(self) -> list[FolderEntry]:
        """The files that are known, once the first look is done."""
        if not self._has_waited:  # once: a disk that does not answer is not waited for each time
            self._has_waited = True
            concurrent.futures.wait([self._scan_done], timeout=_SCAN_WAIT_S)
        with self._lock:
            return list(self._entries.values())

    @property
    def is_writing(self) -> bool:
        """Whether a snapshot is being written or waits for it."""
        with self._lock:
            return self._num_waiting > 0

    def has_lost(self, chat_id: str) -> bool:
        """Whether a file of a chat could not be used; told once."""
        with self._lock:
            was_lost = chat_id in self._lost
            self._lost.discard(chat_id)
        return was_lost

    def set_calm(self, is_calm: bool) -> None:
        """Tell whether the processor is free: while it is not, writing goes on chunk by chunk, with long pauses."""
        if is_calm:
            self._calm.set()
        else:
            self._calm.clear()

    def has(
        self, keys: StateKeys, adapters: AdapterKey, tokens: Sequence[int], *, can_cut: bool, is_shared: bool = False
    ) -> bool:
        """Whether there is a file of just these tokens, will be, or had to make way for others; one that begins with
        them is as good where a memory can be cut, and one of a chat is not where it is to be shared."""
        name, entries = file_name_of(keys, adapters, tokens_to_bytes(tokens)), self.entries
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and (entry.is_shared or not is_shared):
                return True
            if name in self._taken and (self._taken[name] or not is_shared):
                return True
        numbers = array("i", tokens)
        return can_cut and any(entry.begins_with(keys, adapters, numbers) for entry in entries)

    def write(self, header: SnapshotHeader, body: Sequence[StateBytes], *, can_cut: bool) -> None:
        """Write a snapshot when there is time.

        Args:
            can_cut: whether it stands in for every other that it begins with, and not for those of its chat alone.
        """
        name = file_name_for(header)
        with self._lock:
            entry = self._entries.get(name)
            if name in self._writing or (entry is not None and (entry.is_shared or not header.is_shared)):
                return
            self._writing[name] = header
            self._taken[name] = header.is_shared
            if len(self._taken) > _MAX_TAKEN:
                del self._taken[next(iter(self._taken))]
            self._num_waiting += 1
        self._writer.submit(self._write, name, header, body, can_cut)

    def read(self, entry: FolderEntry) -> "concurrent.futures.Future[FileRead]":
        """Read a file on a thread of its own."""
        return self._reader.submit(self._read, entry)

    def discard(self, name: str, reason: str, *, chat_id: str | None = None) -> None:
        """Delete a file that is of no use.

        Args:
            chat_id: whose it was, where its next reply is to tell of it; see `has_lost`.
        """
        _LOG.info("a snapshot on disk was discarded (%s)", reason)
        self._delete([name])
        with self._lock:
            self._taken.pop(name.removesuffix(_SUFFIX), None)
            if chat_id is not None:
                self._lost.add(chat_id)

    def forget(self, chat_ids: Iterable[str]) -> None:
        """Delete all files of chats, and write none that waits."""
        gone = set(chat_ids)
        self._forget_where(lambda chat_id, label: chat_id in gone)

    def forget_named(self, names: Iterable[str]) -> None:
        """Delete all files that are kept under names."""
        gone = set(names) - {""}
        self._forget_where(lambda chat_id, label: label in gone)

    def _forget_where(self, is_gone: Callable[[str, str], bool]) -> None:
        """Delete files by chat and name, and write none that waits."""
        with self._lock:
            self._writing = {name: h for name, h in self._writing.items() if not is_gone(h.chat_id, h.name)}
            self._taken = {name: header.is_shared for name, header in self._writing.items()}
        self._delete_where(lambda entry: is_gone(entry.chat_id, entry.label), of_all=True)
        if not self._scan_done.done():  # one may be taken note of just now
            self._writer.submit(self._delete_where, lambda entry: is_gone(entry.chat_id, entry.label))

    def clear(self) -> None:
        """Delete all files."""
        with self._lock:
            self._writing, self._taken = {}, {}
        self._delete([path.name for path in self._files()])

    def flush(self, wait_s: float) -> None:
        """Wait until what was handed over is written."""
        self._calm.set()
        concurrent.futures.wait([self._writer.submit(lambda: None)], timeout=wait_s)

    def close(self, wait_s: float) -> None:
        """Write what was handed over, as far as the time allows; a disk that hangs is not waited for any longer."""
        self._ends_at = time.monotonic() + wait_s
        self.flush(wait_s)
        for thread in (self._writer, self._reader):
            left_s = max(self._ends_at - time.monotonic(), 0.0) + _END_S
            if not thread.end(left_s, drops_waiting=thread is self._reader):
                _LOG.warning("the disk of the prompt cache takes long to answer")

    # --- writer thread ---

    def _scan(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with folder_lock(self.path / _LOCK_NAME, wait_s=_LOCK_WAIT_S):
                for part in self.path.glob(f"*{_PART_SUFFIX}"):
                    delete_unless_locked(part)
                self._key = folder_key(self.path)
        except (OSError, ValueError) as error:
            _LOG.warning("the folder of the prompt cache cannot be used: %s", error)
            self._max_bytes = 0
            return
        for path in self._files():
            self._look_at(path)
        if self._max_bytes is not None:
            self._trim(0)

    def _look_at(self, path: Path) -> None:
        try:
            header, status = read_header(path), path.stat()
        except SnapshotFileError as error:
            if error.fault is not FileFault.GONE:
                self.discard(path.name, str(error), chat_id=error.chat_id)
            return
        except OSError:
            return
        if path.name != file_name_for(header) + _SUFFIX:
            self.discard(path.name, "it has another file's name")
            return
        if not is_signed(header, self._key):
            self.discard(path.name, "another program has written it", chat_id=header.chat_id)
            return
        last_used = status.st_mtime
        if last_used > (now := time.time()):  # by a clock that was wrong then: it would be the last to go
            last_used = now
            with contextlib.suppress(OSError):
                os.utime(path)
        self._note(path.name, header, status.st_size, last_used)

    def _note(self, file_name: str, header: SnapshotHeader, num_bytes: int, last_used: float) -> None:
        entry = entry_of(file_name, header, num_bytes, last_used)
        with self._lock:
            self._entries[file_name.removesuffix(_SUFFIX)] = entry

    def _write(self, name: str, header: SnapshotHeader, body: Sequence[StateBytes], can_cut: bool) -> None:
        try:
            self._write_file(name, header, body, can_cut=can_cut)
        except (OSError, ValueError) as error:
            _LOG.warning("a snapshot could not be written: %s", error)
        except Exception:  # nobody waits for the outcome
            _LOG.exception("a snapshot could not be written")
        finally:
            with self._lock:
                self._writing.pop(name, None)
                self._num_waiting -= 1

    def _write_file(self, name: str, header: SnapshotHeader, body: Sequence[StateBytes], *, can_cut: bool) -> None:
        """Write a file; once more where another process that was just started took it for one that was left behind."""
        if not self._is_wanted(name, header):
            return
        try:
            self._write_part(name, header, body, can_cut=can_cut)
        except FileNotFoundError:
            self._write_part(name, header, body, can_cut=can_cut)

    def _write_part(self, name: str, header: SnapshotHeader, body: Sequence[StateBytes], *, can_cut: bool) -> None:
        part = self.path / f"{name}-{uuid.uuid4().hex[:8]}{_PART_SUFFIX}"
        try:
            with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                try_lock(file.fileno())
                is_whole = write_snapshot(file, signed(header, self._key), body, self._may_go_on)
                if is_whole:
                    _sync(file)
            if is_whole and self._is_wanted(name, header):
                self._commit(part, name, header, can_cut=can_cut)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def _is_wanted(self, name: str, header: SnapshotHeader) -> bool:
        with self._lock:
            if name not in self._writing:
                return False
        if not self._key or header.num_body_bytes > self.max_bytes:
            return False
        return shutil.disk_usage(self.path).free > header.num_body_bytes + _SPARE_BYTES and self._may_go_on()

    def _may_go_on(self) -> bool:
        self._calm.wait(_CHUNK_WAIT_S)
        return self._ends_at is None or time.monotonic() < self._ends_at

    def _commit(self, part: Path, name: str, header: SnapshotHeader, *, can_cut: bool) -> None:
        num_bytes, path = part.stat().st_size, self.path / f"{name}{_SUFFIX}"
        with folder_lock(self.path / _LOCK_NAME, wait_s=_LOCK_WAIT_S):
            self._trim(num_bytes)
            part.replace(path)
            _sync_folder(self.path)
        self._note(path.name, header, num_bytes, time.time())
        with self._lock:
            is_wanted = name in self._writing
        if not is_wanted:  # it was forgotten this very moment
            self._delete([path.name])
            return
        tokens, keys = header.token_ids(), StateKeys(header.model, header.settings)
        self._delete_where(
            lambda other: (
                len(other.tokens) < len(tokens)
                and not other.label
                and other.keys == keys
                and other.adapters == header.adapters
                and (can_cut or other.chat_id == header.chat_id)
                and tokens[: len(other.tokens)] == other.tokens
            )
        )

    def _trim(self, num_new_bytes: int) -> None:
        """Delete what was used longest ago, until so many bytes fit; what has a name goes last, unless it takes more
        than half of the room."""
        found, most = [], self.max_bytes
        with self._lock:
            labelled = {entry.name: entry.num_bytes for entry in self._entries.values() if entry.label}
        protects = sum(labelled.values()) <= most // 2
        for path in self._files():
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((protects and path.name in labelled, status.st_mtime, status.st_size, path.name))
        found.sort()
        excess = sum(size for _, _, size, _ in found) + num_new_bytes - most
        for _, _, size, name in found:
            if excess <= 0:
                break
            self._delete([name])
            excess -= size

    # --- any thread ---

    def _files(self) -> list[Path]:
        try:
            return sorted(self.path.glob(f"*{_SUFFIX}"))
        except (OSError, ValueError):
            return []

    def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError, ValueError):
                (self.path / name).unlink(missing_ok=True)
            with self._lock:
                self._entries.pop(name.removesuffix(_SUFFIX), None)

    def _delete_where(self, is_gone: Callable[[FolderEntry], bool], *, of_all: bool = False) -> None:
        """Delete files that are known, or of all those that other processes have written."""
        entries = self.entries
        others = entries_of_others(self._files(), {entry.name for entry in entries}) if of_all else []
        self._delete([entry.name for entry in [*entries, *others] if is_gone(entry)])

    def _read(self, entry: FolderEntry) -> FileRead:
        began = time.perf_counter()
        path = self.path / entry.name
        try:
            content = read_snapshot(path)
            with contextlib.suppress(OSError):
                os.utime(path)
            if not is_signed(content.header, self._key):
                raise SnapshotFileError(FileFault.FOREIGN, "another program has written it")
            if content.header.token_ids() != entry.tokens:
                raise SnapshotFileError(FileFault.DAMAGED, "it holds other tokens")
        except SnapshotFileError as error:
            self.discard(entry.name, str(error))
            return FileRead(entry, None, error.fault, time.perf_counter() - began)
        except (MemoryError, OSError) as error:
            _LOG.warning("a snapshot of %d bytes could not be read: %r", entry.num_bytes, error)
            return FileRead(entry, None, FileFault.GONE, time.perf_counter() - began)
        return FileRead(entry, content, None, time.perf_counter() - began)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
