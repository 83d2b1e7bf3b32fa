"""Makes the file of chats usable, whatever it is: damage is set aside and recovered, and the program always starts."""

import contextlib
import datetime
import glob
import logging
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from app.atomic_file import sync_folder
from app.errors import StoreDamaged, StoreError, StoreFull, StoreLocked, StoreReadOnly, StoreTooNew
from app.store.faults import store_error
from app.store.migrations import migrate, version_of
from app.store.recovery import recover
from app.store.schema import APPLICATION_ID, VERSION, connect_to_read, connect_to_write, missing_parts

_LOG = logging.getLogger(__name__)
_NUM_TRIES = 4  # another program may set the same file aside in the same moment


class Opened(NamedTuple):
    """A file that can be used.

    Attributes:
        notices: sentences for the user, mostly none.
        folder: made for this session only, where the chats cannot be written at their place.
    """

    path: Path
    notices: tuple[str, ...]
    folder: tempfile.TemporaryDirectory[str] | None = None


def open_file(path: Path, *, lock_timeout_s: float) -> Opened:
    """Return a sound file of the present schema at `path`, or one in its place.

    Raises:
        StoreTooNew: a newer version wrote it; nothing was touched.
        StoreLocked: another program held it for `lock_timeout_s`.
        StoreError: it cannot be used for another reason, as a full disk.
    """
    path = Path(os.path.realpath(path))  # a link to a file kept elsewhere stays a link
    notices: list[str] = []
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _one_at_a_time(path, lock_timeout_s) as is_alone, _translated(path):
            if is_alone:
                _sweep(path)
            for _ in range(_NUM_TRIES):
                if _is_ready(path, notices, lock_timeout_s):
                    return Opened(path, tuple(notices))
    except (OSError, StoreReadOnly) as error:
        _LOG.info("chats cannot be kept at their place: %s", error)
        return _open_elsewhere(path, tuple(notices))
    raise StoreDamaged("The file of chats is damaged and could not be recovered.", f"Move {path} to another place.")


def mark_damaged(path: Path) -> None:
    """Have the file looked through at the next start; kept beside it, for the file itself is no place for it."""
    with suppress(OSError):
        _mark_of(path).touch(mode=0o600)


@contextlib.contextmanager
def _one_at_a_time(path: Path, timeout_s: float) -> Iterator[bool]:
    """Keep other programs from making or setting aside files here at the same time.

    SQLite's own lock on an empty file is one that every system has.
    """
    lock = path.with_name(f"{path.name}.lock")
    connection = None
    is_alone = False
    try:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_WRONLY, 0o600))
            connection = sqlite3.connect(lock, timeout=timeout_s, isolation_level=None)
            connection.execute("BEGIN EXCLUSIVE")
            is_alone = True
        except (sqlite3.Error, OSError) as error:
            fault = store_error(error, path) if isinstance(error, sqlite3.Error) else None
            if isinstance(fault, StoreLocked):
                raise fault from error
            _LOG.info("chats are opened without a lock: %s", error)  # a folder that cannot be written, or odd content
        yield is_alone
    finally:
        if connection is not None:
            connection.close()


def _mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.check")


def _is_ready(path: Path, notices: list[str], lock_timeout_s: float) -> bool:
    """Do what the file needs next, and return whether that was all."""
    if not path.exists():
        _create(path)
        return False
    seen = path.stat()
    if not path.is_file() or seen.st_size == 0:
        if (aside := _set_aside(path, seen)) is not None:
            notices.append(f"The file of chats could not be read, so Fireside begins a new one; it is kept as {aside}.")
        return False
    try:
        _check(path, lock_timeout_s)
    except StoreDamaged as error:
        _LOG.info("the file of chats is damaged: %s", error.details)
        notices.extend(_replace(path, seen))
        return False
    return True


def _check(path: Path, lock_timeout_s: float) -> None:
    with _translated(path):
        with closing(connect_to_read(path, busy_s=lock_timeout_s)) as connection:
            version = version_of(connection)
            is_ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
            if is_ours and version > VERSION:
                raise StoreTooNew(
                    "These chats were written by a newer version of Fireside.",
                    "Install that version again, or begin with an empty folder: --data-dir DIR.",
                    f"schema {version}, this version knows {VERSION}",
                )
        if not is_ours or version == 0:
            raise StoreDamaged("The file is no file of chats.")
        with closing(connect_to_write(path, busy_s=lock_timeout_s)) as connection:
            _try_to_write(connection, path)
            if backup := migrate(connection, path):
                _LOG.info("the chats were copied to %s before they were converted", backup)
            if missing := missing_parts(connection):
                raise StoreDamaged("A part of the chats is missing.", details=", ".join(missing))
            if _mark_of(path).exists():
                result = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if result != "ok":
                    raise StoreDamaged("The file of chats is damaged.", details=result)
                connection.execute("INSERT INTO grams(grams) VALUES ('integrity-check')")
        _mark_of(path).unlink(missing_ok=True)
    with suppress(OSError):
        path.chmod(0o600)


def _try_to_write(connection: sqlite3.Connection, path: Path) -> None:
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        # A first change is what tells a file that may be opened for writing from one that can be written.
        connection.execute("INSERT OR REPLACE INTO facts (name, value) VALUES ('opened', 1)")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if not isinstance(store_error(error, path), StoreFull):  # what is there can be read on a full disk too
            raise
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _create(path: Path) -> None:
    """Put a new file in place, whole or not at all, unless another program was faster."""
    with _new_file(path) as new:
        _put_in_place(new, path)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(handle)
    new = Path(name)
    try:
        with closing(connect_to_write(new)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            migrate(connection, new)
        yield new
    finally:
        for part in (new, *_companions(new)):
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _put_in_place(new: Path, path: Path) -> None:
    if path.exists():
        return
    for stray in _companions(path):  # of a file that is gone; they would be taken for this one's
        with suppress(FileNotFoundError):
            stray.rename(stray.with_name(f"{stray.name}.{_time()}"))
    if not _link(new, path) and not path.exists():
        new.rename(path)
    sync_folder(path.parent)


def _replace(path: Path, seen: os.stat_result) -> list[str]:
    """Put a new file with all that can be read in the place of a damaged one."""
    with _new_file(path) as new:
        with closing(connect_to_write(new)) as connection:
            found = recover(path, connection)
        if (aside := _set_aside(path, seen, successor=new)) is None:
            return []
    _mark_of(path).unlink(missing_ok=True)
    if not found.num_chats:
        return [f"The file of chats was damaged and nothing in it could be read; it is kept as {aside}."]
    chats = "1 chat" if found.num_chats == 1 else f"{found.num_chats} chats"
    messages = "1 message" if found.num_messages == 1 else f"{found.num_messages} messages"
    return [f"The file of chats was damaged; {chats} with {messages} could be saved, and it is kept as {aside}."]


def _set_aside(path: Path, seen: os.stat_result, *, successor: Path | None = None) -> str | None:
    """Rename a file that cannot be used, and return its new name; None where another program has done so.

    With a successor the place is never empty where the system can do that: a start after a power cut found no chats.
    """
    aside = path.with_name(f"{path.name}.damaged-{_time()}")
    try:
        now = path.stat()
        if (now.st_ino, now.st_dev) != (seen.st_ino, seen.st_dev):
            return None
        if successor is None or not _link(path, aside):
            path.rename(aside)
    except FileNotFoundError:
        return None
    for companion in _companions(path):
        with suppress(FileNotFoundError):
            companion.rename(f"{aside}{companion.name[len(path.name) :]}")
    if successor is not None:
        successor.replace(path)
    sync_folder(path.parent)
    return aside.name


def _link(path: Path, target: Path) -> bool:
    """Give a file a second name that is not taken, and return whether that can be done here."""
    try:
        os.link(path, target)
    except (AttributeError, NotImplementedError, OSError):
        return False
    return True


def _sweep(path: Path) -> None:
    """Remove what a program left that was ended while it made a file."""
    for left in path.parent.glob(f".{glob.escape(path.name)}-*"):
        _LOG.info("removed what an earlier start left: %s", left)
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            with suppress(OSError):
                left.unlink()


def _open_elsewhere(path: Path, notices: tuple[str, ...]) -> Opened:
    """Go on with a copy that lasts for this session."""
    folder = tempfile.TemporaryDirectory(prefix="fireside-chats-")
    try:
        copy = Path(folder.name) / path.name
        for part in (path, path.with_name(f"{path.name}-wal")):
            with suppress(OSError):
                shutil.copyfile(part, copy.with_name(part.name))
        for _ in range(_NUM_TRIES):
            with _translated(copy):
                if _is_ready(copy, [], 1.0):
                    break
        else:
            raise OSError("the copy cannot be used")
        notice = f"The chats in {path} cannot be written, so what is new is kept only until Fireside ends."
        return Opened(copy, (*notices, notice), folder)
    except BaseException as error:
        folder.cleanup()
        if isinstance(error, OSError):
            raise StoreError("There is no place to keep chats.", "Make room on the disk.", str(error)) from error
        raise


def _companions(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def _time() -> str:
    return f"{datetime.datetime.now().astimezone():%Y%m%d-%H%M%S-%f}"


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        fault = store_error(error, path)
        if fault is None:
            raise
        raise fault from error
