"""The key of a folder of the prompt cache: what was not written with it is not read.

Checksums tell that a file is as it was written, not who wrote it, and llama.cpp takes states that no context has made:
some have positions after which no step can be computed. Whoever can read the key can change the folder's files anyway.
"""

import contextlib
import hashlib
import os
import stat
import uuid
from pathlib import Path
from typing import TypeVar

import msgspec

_Record = TypeVar("_Record", bound=msgspec.Struct)
_NAME, _PART_SUFFIX = "key", ".part"
_NUM_BYTES = 32


def folder_key(path: Path) -> bytes:
    """Return the key of a folder, made where there is none; to be called with the folder's lock held.

    Raises:
        OSError: it can neither be read nor made.
    """
    file = path / _NAME
    return _read(file) or _made(file)


def signed(record: _Record, key: bytes) -> _Record:
    """Return a record as it is written with a key: its field `mac` is what only who has the key can say of the rest."""
    data = msgspec.msgpack.encode(msgspec.structs.replace(record, mac=b""))
    return msgspec.structs.replace(record, mac=hashlib.blake2b(data, key=key, digest_size=16).digest())


def is_signed(record: msgspec.Struct, key: bytes) -> bool:
    """Whether a record was written with a key."""
    return signed(record, key) == record


def _read(file: Path) -> bytes | None:
    """Return a key, None where there is none that could be one; a pipe that nobody writes to is not waited for."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return None
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        key = os.read(descriptor, _NUM_BYTES + 1) if is_file else b""
    finally:
        os.close(descriptor)
    return key if len(key) == _NUM_BYTES else None


def _made(file: Path) -> bytes:
    key = os.urandom(_NUM_BYTES)
    part = file.with_name(f"{_NAME}-{uuid.uuid4().hex[:8]}{_PART_SUFFIX}")  # as the folder calls what was left behind
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
            target.write(key)
            target.flush()
            os.fsync(target.fileno())
        part.replace(file)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return key
