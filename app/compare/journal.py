"""A comparison on disk while it runs, line after line: a killed program loses the reply in progress only.

The first line is the whole plan, and is put in place at once. Each line after it is written and synced before the next
reply is asked for, and has a checksum: a line that was cut off counts as never written.
"""

import contextlib
import errno
import os
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.atomic_file import write_atomically
from app.bench.machine_state import MachineState
from app.compare.results import Cell, Column, Comparison, PromptItem, comparison_from_json, comparison_to_json
from app.errors import RunError, RunInUse, UsageError
from engine import EngineDescription

_FILE_NAME, _LOCK_NAME = "journal.jsonl", "lock"
_HEAD, _MIDDLE, _TAIL = b'{"crc":"', b'","entry":', b"}"
_CRC_DIGITS = 8
_MAX_FILE_BYTES = 1 << 30
_IN_USE = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


class CellEntry(msgspec.Struct, frozen=True, tag="cell"):
    """A reply."""

    cell: Cell


class ColumnEntry(msgspec.Struct, frozen=True, tag="column"):
    """A column of which something was found out, or that failed."""

    column: Column


class EngineEntry(msgspec.Struct, frozen=True, tag="engine"):
    """What computes."""

    engine: EngineDescription


class NoteEntry(msgspec.Struct, frozen=True, tag="note"):
    """A sentence for the reader."""

    text: str


class PromptEntry(msgspec.Struct, frozen=True, tag="prompt"):
    """A prompt that came after the beginning: the next message to all columns."""

    prompt: PromptItem


class EndEntry(msgspec.Struct, frozen=True, tag="end"):
    """All is done."""

    machine: MachineState


Entry = CellEntry | ColumnEntry | EngineEntry | NoteEntry | PromptEntry | EndEntry
_DECODER: "msgspec.json.Decoder[Entry]" = msgspec.json.Decoder(Entry)


class ReadJournal(NamedTuple):
    """What a journal holds.

    Attributes:
        num_lost: lines that are damaged.
        num_bytes: up to the end of the last whole line.
    """

    header: Comparison
    entries: tuple[Entry, ...]
    num_lost: int
    num_bytes: int


class Journal:
    """The journal of one run, which no other process writes meanwhile.

    Made by `begin_journal` and `open_journal`.

    Args:
        lock: descriptor of the locked file; None where the file system has no locks.
        pending: lines that are not on disk yet.
        num_bytes: that are on disk; 0 before the first line.
    """

    def __init__(self, folder: Path, lock: int | None, *, pending: list[bytes], num_bytes: int) -> None:
        self.folder = folder
        self._lock = lock
        self._pending = pending
        self._num_bytes = num_bytes

    @property
    def is_saved(self) -> bool:
        """Whether everything is on disk."""
        return not self._pending

    def append(self, entry: Entry) -> str | None:
        """Add a line, and return a sentence where it could not be written.

        What could not be written is kept in memory, and tried again with the next line.
        """
        self._pending.append(_line(msgspec.json.encode(entry)))
        return self.save()

    def save(self) -> str | None:
        """Write what is not on disk yet; see `append`."""
        try:
            self._write(b"".join(self._pending))
        except OSError as error:
            return f"The comparison cannot be saved as it goes: {error.strerror or error}. It goes on in memory."
        self._pending.clear()
        return None

    def close(self) -> None:
        """Let others go on with the run."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _write(self, data: bytes) -> None:
        path = self.folder / _FILE_NAME
        if self._num_bytes == 0:
            write_atomically(path, data)
        else:
            with path.open("r+b") as file:
                file.truncate(self._num_bytes)  # what a full disk, or a kill, left of a line
                file.seek(self._num_bytes)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        self._num_bytes += len(data)


def begin_journal(runs_dir: Path, header: Comparison) -> tuple[Journal, str | None]:
    """Return the journal of a new run, and a sentence where nothing can be written."""
    folder = runs_dir / header.id
    lock = None
    with contextlib.suppress(OSError):  # what is wrong is told by the first write
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _take_lock(folder)
    journal = Journal(folder, lock, pending=[_line(comparison_to_json(header))], num_bytes=0)
    return journal, journal.save()


def open_journal(folder: Path) -> tuple[Journal, ReadJournal]:
    """Return the journal of a run that was interrupted, and what it holds.

    Raises:
        RunInUse: another program is going on with it.
        RunError: it cannot be read.
    """
    try:
        lock = _take_lock(folder)
    except OSError as error:
        raise _unreadable(folder, error.strerror or str(error)) from error
    try:
        found = read_journal(folder)
    except BaseException:
        if lock is not None:
            os.close(lock)
        raise
    return Journal(folder, lock, pending=[], num_bytes=found.num_bytes), found


def read_journal(folder: Path) -> ReadJournal:
    """Return what the journal in a folder holds; it may be written meanwhile.

    Raises:
        RunError: it cannot be read.
    """
    path = folder / _FILE_NAME
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise _unreadable(folder, "it is too large")
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(folder, error.strerror or str(error)) from error
    *lines, torn = data.split(b"\n")
    payloads = [_payload(line) for line in lines]
    if not payloads or payloads[0] is None:
        raise _unreadable(folder, "its beginning is damaged")
    try:
        header = comparison_from_json(payloads[0], name="its plan")
    except UsageError as error:
        raise _unreadable(folder, error.message.rstrip(".")) from error
    entries = [_entry(payload) for payload in payloads[1:]]
    kept = tuple(entry for entry in entries if entry is not None)
    return ReadJournal(header, kept, len(entries) - len(kept), len(data) - len(torn))


def written_at(folder: Path) -> int | None:
    """Return when the journal in a folder was last written, in nanoseconds; None where there is none."""
    try:
        return (folder / _FILE_NAME).stat().st_mtime_ns
    except OSError:
        return None


def is_journal(path: Path) -> bool:
    """Tell whether a file has the name of a journal."""
    return path.name == _FILE_NAME


def _line(payload: bytes) -> bytes:
    return b"%s%08x%s%s%s\n" % (_HEAD, zlib.crc32(payload), _MIDDLE, payload, _TAIL)


def _payload(line: bytes) -> bytes | None:
    """Return what a line holds, None where it is damaged."""
    begin = len(_HEAD) + _CRC_DIGITS
    payload = line[begin + len(_MIDDLE) : -len(_TAIL)]
    is_whole = line == _line(payload)[:-1]
    return payload if is_whole else None


def _entry(payload: bytes | None) -> Entry | None:
    if payload is None:
        return None
    try:
        return _DECODER.decode(payload)
    except Exception:  # of another version, or changed by hand: whatever it provokes, the line is of no use
        return None


def _unreadable(folder: Path, reason: str) -> RunError:
    return RunError(f"The run in {folder} cannot be gone on with: {reason}.", "Begin a new comparison.")


def _take_lock(folder: Path) -> int | None:
    """Return the descriptor of a file that is locked as long as it is open; the system frees it with the process."""
    descriptor = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in _IN_USE:
            raise RunInUse(
                "Another program is going on with this run.", "Wait for it, or end it, and try again."
            ) from error
        return None  # a file system without locks
    return descriptor
