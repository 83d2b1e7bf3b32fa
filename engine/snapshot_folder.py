"""The snapshots on disk: which there are, within how many bytes; written, read and deleted on threads of their own.

Several processes may share the folder. What a file says is believed only after its checksums; a file that is torn,
foreign or damaged goes. A file is written under a temporary name and renamed when it is safely on the disk. Who asks
for any of it waits for no disk.
"""

import concurrent.futures
import contextlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.backend import AdapterKey, StateBytes, StateKeys
from engine.disk_thread import DiskThread
from engine.errors import CacheNotWritten
from engine.folder_entry import FileRead, FolderEntry, entries_of_others, entry_of, file_name_for
from engine.folder_files import PART_SUFFIX, FolderFiles, new_file, sync
from engine.folder_key import is_signed, signed
from engine.folder_limit import FolderLimit, refusal_of
from engine.forgotten_marks import ForgottenMarks, marks_of
from engine.known_files import SUFFIX, KnownFiles
from engine.snapshot_file import (
    FileFault,
    SnapshotFileError,
    SnapshotHeader,
    read_header,
    read_snapshot,
    write_snapshot,
)

_LOG = logging.getLogger(__name__)
_END_S = 1.0  # more for a disk that is slow: what was begun comes to its end
_SCAN_WAIT_S = 1.0  # for the first look at the folder, which a load usually outlasts
_CHUNK_WAIT_S = 0.25  # between chunks while replies are computed


class _Job(NamedTuple):
    """A snapshot to be written; see SnapshotFolder.write."""

    name: str
    header: SnapshotHeader
    body: Sequence[StateBytes]
    can_cut: bool
    used_at: float


class SnapshotFolder:
    """The folder of one worker.

    Args:
        path: made where it is not there.
        max_bytes: see FolderLimit.
        on_refused: told, on another thread, when the folder or the disk takes nothing.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int | None,
        on_refused: Callable[[CacheNotWritten], object] = lambda error: None,
    ) -> None:
        self.path = path
        self._limit = FolderLimit(path, max_bytes)
        self._on_refused = on_refused
        self._files = FolderFiles(path, SUFFIX)
        self._key = b""  # until the first look
        self._marks = ForgottenMarks(path, self._key)
        self._known = KnownFiles()
        self._calm = threading.Event()
        self._calm.set()
        self._ends_at: float | None = None
        self._writer = DiskThread("engine-snapshot-writer")
        self._reader = DiskThread("engine-snapshot-reader")
        self._has_waited = False
        self._look: concurrent.futures.Future[bool] | None = None
        self._scan_done = self._writer.submit(self._scan)

    @property
    def max_bytes(self) -> int:
        """Bytes that all files may take, as far as is known."""
        return self._limit.seen_bytes

    def set_max_bytes(self, max_bytes: int | None) -> None:
        """Keep to another limit from now on; see FolderLimit."""
        self._limit.max_bytes = max_bytes
        self._known.offer_all_again()  # there may be room now for what was refused
        self._writer.order(lambda: self._trim(0))

    @property
    def entries(self) -> list[FolderEntry]:
        """The files that are known, once the first look is done."""
        self._wait_for_scan()
        return self._known.entries

    @property
    def is_writing(self) -> bool:
        """Whether a snapshot is being written or waits for it."""
        return self._known.is_writing

    def has_lost(self, chat_id: str) -> bool:
        """Whether a file of a chat could not be used; told once."""
        return self._known.has_lost(chat_id)

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
        self._wait_for_scan()
        return self._known.has(keys, adapters, tokens, can_cut=can_cut, is_shared=is_shared)

    def offer_again(self, keys: StateKeys, adapters: AdapterKey, tokens: Sequence[int]) -> None:
        """Let tokens be handed over once more that were refused, or had to make way: somebody asks for them."""
        self._known.offer_again(keys, adapters, tokens)

    def write(
        self, header: SnapshotHeader, body: Sequence[StateBytes], *, can_cut: bool, used_at: float | None = None
    ) -> None:
        """Write a snapshot when there is time.

        Args:
            can_cut: whether it stands in for every other that it begins with, and not for those of its chat alone.
            used_at: when it was last in use, in seconds since 1970: what was forgotten since then is not written.
        """
        name = f"{file_name_for(header)}{SUFFIX}"
        if self._known.take(name, header):
            job = _Job(name, header, body, can_cut, time.time() if used_at is None else used_at)
            self._writer.submit(self._write, job)

    def read(self, entry: FolderEntry) -> "concurrent.futures.Future[FileRead]":
        """Read a file on a thread of its own."""
        return self._reader.submit(self._read, entry)

    def look(self) -> "concurrent.futures.Future[bool] | None":
        """Look for what other processes have written or deleted since the last look; tells whether there is more.

        None where the disk has not answered before: it is not asked again.
        """
        if not self._scan_done.done() or (self._look is not None and not self._look.done()):
            return None
        self._look = self._reader.submit(self._look_for_others)
        return self._look

    def discard(self, name: str, reason: str, *, chat_id: str | None = None) -> None:
        """Delete a file that is of no use.

        Args:
            chat_id: whose it was, where its next reply is to tell of it; see `has_lost`.
        """
        self._note_fault(name, reason, chat_id)
        self._writer.order(lambda: self._files.delete([name]))

    def forget(self, chat_ids: Iterable[str]) -> None:
        """Delete all files of chats, and write none that waits."""
        gone = set(chat_ids)
        self._forget_where(lambda chat_id, label: chat_id in gone, marks_of(gone, ()))

    def forget_named(self, names: Iterable[str]) -> None:
        """Delete all files that are kept under names."""
        gone = set(names) - {""}
        self._forget_where(lambda chat_id, label: label in gone, marks_of((), gone))

    def clear(self) -> None:
        """Delete all files."""
        self._forget_where(lambda chat_id, label: True, None)

    def when_forgotten(self, call: Callable[[], object]) -> None:
        """Call something once all files are deleted that were to be; at once where they are, else on another thread."""
        if self._writer.has_orders:
            self._writer.order(call)
        else:
            call()

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

    def _forget_where(self, is_gone: Callable[[str, str], bool], marks: Iterable[str] | None) -> None:
        self._known.forget(is_gone)
        at = time.time()
        self._writer.order(lambda: self._delete_forgotten(is_gone, marks, at))

    def _note_fault(self, name: str, reason: str, chat_id: str | None) -> None:
        _LOG.info("a snapshot on disk was discarded (%s)", reason)
        self._known.note_fault(name, chat_id)

    def _wait_for_scan(self) -> None:
        if not self._has_waited:  # once: a disk that does not answer is not waited for each time
            self._has_waited = True
            concurrent.futures.wait([self._scan_done], timeout=_SCAN_WAIT_S)

    # --- writer thread ---

    def _scan(self) -> None:
        try:
            self._key = self._files.prepare()
            self._marks = ForgottenMarks(self.path, self._key)
            self._marks.tidy()
        except (OSError, ValueError) as error:
            _LOG.warning("the folder of the prompt cache cannot be used: %s", error)
            self._refused(refusal_of(error, self.path))
            self._limit.max_bytes = 0
            return
        self._look_for_others()
        if self._limit.max_bytes is not None:
            self._trim(0)
        try:
            self._limit.takes(0, self._known.num_bytes)
        except CacheNotWritten as refusal:
            self._refused(refusal)
        except OSError as error:
            self._refused(refusal_of(error, self.path))

    def _write(self, job: _Job) -> None:
        try:
            self._write_file(job)
        except CacheNotWritten as refusal:
            _LOG.info("a snapshot was not written: %s", refusal.message)
            self._refused(refusal)
        except (OSError, ValueError) as error:
            _LOG.warning("a snapshot could not be written: %s", error)
            self._refused(refusal_of(error, self.path))
        except Exception:  # nobody waits for the outcome
            _LOG.exception("a snapshot could not be written")
        finally:
            self._known.note_end(job.name)

    def _write_file(self, job: _Job) -> None:
        """Write a file; once more where another process that was just started took it for one that was left behind."""
        if not self._key or not self._may_go_on(job.name):
            return
        if not self._limit.takes(job.header.num_body_bytes, self._known.num_bytes):
            return
        try:
            self._write_part(job)
        except FileNotFoundError:
            self._write_part(job)

    def _write_part(self, job: _Job) -> None:
        part = self.path / f"{job.name.removesuffix(SUFFIX)}-{uuid.uuid4().hex[:8]}{PART_SUFFIX}"
        try:
            with new_file(part) as file:
                header = signed(job.header, self._key)
                is_whole = write_snapshot(file, header, job.body, lambda: self._may_go_on(job.name))
                if is_whole:
                    sync(file)
            if is_whole and self._may_go_on(job.name):
                self._commit(part, job)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def _may_go_on(self, name: str) -> bool:
        self._writer.obey()
        self._calm.wait(_CHUNK_WAIT_S)
        return self._known.is_wanted(name) and (self._ends_at is None or time.monotonic() < self._ends_at)

    def _commit(self, part: Path, job: _Job) -> None:
        num_bytes, path, header = part.stat().st_size, self.path / job.name, job.header
        with self._files.locked():
            if self._marks.is_forgotten(header.chat_id, header.name, job.used_at):
                _LOG.info("a snapshot was not written: it was forgotten meanwhile")
                return
            self._trim(num_bytes)
            part.replace(path)
            self._files.sync()
        if not self._known.note_written(entry_of(path.name, header, num_bytes, time.time())):
            self._delete([path.name])
            return
        tokens, keys = header.token_ids(), StateKeys(header.model, header.settings)
        needless = [
            other.name
            for other in self._known.entries
            if not other.label
            and (job.can_cut or other.chat_id == header.chat_id)
            and other.is_beginning_of(keys, header.adapters, tokens)
        ]
        self._delete(needless)

    def _trim(self, num_new_bytes: int) -> None:
        """Delete what was used longest ago, until so many bytes fit; what has a name goes last, unless it takes more
        than half of the room."""
        found, most = [], self._limit.ask(self._known.num_bytes)
        labelled = {entry.name: entry.num_bytes for entry in self._known.entries if entry.label}
        protects = sum(labelled.values()) <= most // 2
        for path in self._files.paths():
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

    def _delete_forgotten(
        self, is_gone: Callable[[str, str], bool], marks: Iterable[str] | None, forgotten_at: float
    ) -> None:
        """Delete files by chat and name, those that other processes have written too, which are to write no more."""
        with self._files.locked() if self._key else contextlib.nullcontext():
            self._marks.set(marks, forgotten_at)
            known, paths = self._known.entries, self._files.paths()
            others = entries_of_others(paths, {entry.name for entry in known})
            names = [entry.name for entry in (*known, *others) if is_gone(entry.chat_id, entry.label)]
            self._delete([path.name for path in paths] if marks is None else names)

    def _refused(self, refusal: CacheNotWritten) -> None:
        if self._limit.max_bytes != 0:
            self._on_refused(refusal)

    # --- both disk threads ---

    def _delete(self, names: Sequence[str]) -> None:
        self._files.delete(names)
        self._known.drop(names)

    def _refuse(self, name: str, reason: str, *, chat_id: str | None = None) -> None:
        self._files.delete([name])
        self._note_fault(name, reason, chat_id)

    def _look_for_others(self) -> bool:
        self._limit.ask(self._known.num_bytes)
        if not self._key or not self._files.has_changed():
            return False
        paths, known = self._files.paths(), {entry.name for entry in self._known.entries}
        self._known.drop(known.difference(path.name for path in paths))
        new = [path for path in paths if path.name not in known]
        for path in new:
            self._look_at(path)
        return bool(new)

    def _look_at(self, path: Path) -> None:
        try:
            header, status = read_header(path), path.stat()
        except SnapshotFileError as error:
            if error.fault is not FileFault.GONE:
                self._refuse(path.name, str(error), chat_id=error.chat_id)
            return
        except OSError:
            return
        if path.name != file_name_for(header) + SUFFIX:
            self._refuse(path.name, "it has another file's name")
            return
        if not is_signed(header, self._key):
            self._refuse(path.name, "another program has written it", chat_id=header.chat_id)
            return
        if self._marks.is_forgotten(header.chat_id, header.name, header.written_at):
            self._delete([path.name])  # whoever forgot it ended before it had gone
            return
        last_used = status.st_mtime
        if last_used > (now := time.time()):  # by a clock that was wrong then: it would be the last to go
            last_used = now
            with contextlib.suppress(OSError):
                os.utime(path)
        self._known.find(entry_of(path.name, header, status.st_size, last_used))

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
            self._refuse(entry.name, str(error))
            return FileRead(entry, None, error.fault, time.perf_counter() - began)
        except (MemoryError, OSError) as error:
            _LOG.warning("a snapshot of %d bytes could not be read: %r", entry.num_bytes, error)
            return FileRead(entry, None, FileFault.GONE, time.perf_counter() - began)
        return FileRead(entry, content, None, time.perf_counter() - began)
