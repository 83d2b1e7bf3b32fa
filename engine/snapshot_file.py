"""The file of one snapshot: a header, then chunks with a checksum each; all is checked before any of it is used.

llama.cpp's own files of sequences are not used: it takes a flipped byte as it is, and a torn file ends the process.
"""

import contextlib
import enum
import io
import os
import stat
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from engine.backend import StateBytes

_MAGIC = b"FSNAP\r\n\x1a"  # what is copied as text does not survive it
_VERSION = 1
_PRELUDE = struct.Struct("<8sIII")  # magic, version, bytes of the header, its checksum
_CHECKSUM = struct.Struct("<I")
_CHUNK_BYTES = 1 << 20
_MAX_HEADER_BYTES = 128 << 20


class FileFault(enum.Enum):
    """Why a file of the cache cannot be used."""

    GONE = "gone"  # or it cannot be opened
    FOREIGN = "foreign"  # no snapshot, or one of another version
    TORN = "torn"  # its end is missing
    DAMAGED = "damaged"  # a checksum is wrong


class SnapshotFileError(Exception):
    """A file that cannot be used.

    Attributes:
        chat_id: whose it was, where that could still be read.
    """

    def __init__(self, fault: FileFault, details: str = "", *, chat_id: str | None = None) -> None:
        super().__init__(f"{fault.value}: {details}" if details else fault.value)
        self.fault = fault
        self.chat_id = chat_id


class SnapshotHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a snapshot without reading its state.

    Attributes:
        model, settings: see StateKeys.
        model_name: for people.
        adapters: what the tokens were computed with.
        chat_id: whose they are.
        tokens: 32-bit numbers, the low byte first.
        num_state_bytes: of the state, which comes first in the body.
        checkpoints: (tokens, bytes) of those that follow it.
        prefill_s_per_token: what reading cost when it was written; None where it was not known.
        written_at: seconds since 1970; two files of the same tokens differ in it, and so in every checksum.
        name: under which it is kept; empty where it is kept of itself.
        rewritten: between which tokens a template may write the last reply anew; None where it does not.
        mac: of all the others, by the key of the folder; see `folder_key.signed`.
    """

    model: str
    settings: str
    model_name: str
    adapters: tuple[tuple[str, float], ...]
    chat_id: str
    tokens: bytes
    num_state_bytes: int
    checkpoints: tuple[tuple[int, int], ...]
    prefill_s_per_token: float | None
    written_at: float
    name: str = ""
    rewritten: tuple[int, int] | None = None
    mac: bytes = b""

    @property
    def is_shared(self) -> bool:
        """Whether it is kept under a name, and with no chat."""
        return bool(self.name) and not self.chat_id

    @property
    def num_body_bytes(self) -> int:
        """Bytes of state and checkpoints."""
        return self.num_state_bytes + sum(num_bytes for _, num_bytes in self.checkpoints)

    def token_ids(self) -> "array[int]":
        """Return the tokens as numbers."""
        return tokens_from_bytes(self.tokens)


class SnapshotContent(NamedTuple):
    """A file that was read and found whole."""

    header: SnapshotHeader
    state: StateBytes
    checkpoint_states: tuple[StateBytes, ...]


def tokens_to_bytes(tokens: Sequence[int]) -> bytes:
    """Return tokens as a header holds them."""
    numbers = array("i", tokens)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def tokens_from_bytes(data: bytes) -> "array[int]":
    """Return the tokens of a header."""
    numbers = array("i")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def write_snapshot(
    file: BinaryIO, header: SnapshotHeader, body: Sequence[StateBytes], may_go_on: Callable[[], bool] = lambda: True
) -> bool:
    """Write a snapshot; False when it was given up, with a file that is torn.

    Args:
        body: the state, then the checkpoints.
        may_go_on: asked before each chunk; may wait.

    Raises:
        OSError: it cannot be written.
    """
    data = msgspec.msgpack.encode(header)
    seed = zlib.crc32(data)
    file.write(_PRELUDE.pack(_MAGIC, _VERSION, len(data), seed))
    file.write(data)
    number = 0
    for part in body:
        view = memoryview(part).cast("B")
        for start in range(0, len(view), _CHUNK_BYTES):
            if not may_go_on():
                return False
            chunk = view[start : start + _CHUNK_BYTES]
            file.write(chunk)
            file.write(_CHECKSUM.pack(_checksum(chunk, seed, number)))
            number += 1
    return True


def read_header(path: Path) -> SnapshotHeader:
    """Return the header of a file whose length is what it says.

    Raises:
        SnapshotFileError: the file cannot be used.
    """
    with _opened(path) as file:
        return _read_header(file)[0]


def read_snapshot(path: Path) -> SnapshotContent:
    """Return all of a file, checked.

    Raises:
        SnapshotFileError: the file cannot be used.
        MemoryError: it does not fit.
    """
    with _opened(path) as file:
        header, seed = _read_header(file)
        number, parts = 0, []
        for num_bytes in (header.num_state_bytes, *(count for _, count in header.checkpoints)):
            part = bytearray(num_bytes)
            view = memoryview(part)
            for start in range(0, num_bytes, _CHUNK_BYTES):
                chunk = view[start : start + _CHUNK_BYTES]
                _fill(file, chunk)
                expected = _CHECKSUM.unpack(_read(file, _CHECKSUM.size))[0]
                if _checksum(chunk, seed, number) != expected:
                    raise SnapshotFileError(FileFault.DAMAGED, f"chunk {number}")
                number += 1
            parts.append(part)
    return SnapshotContent(header, parts[0], tuple(parts[1:]))


def _read_header(file: io.FileIO) -> tuple[SnapshotHeader, int]:
    size = os.fstat(file.fileno()).st_size
    if size < _PRELUDE.size:
        raise SnapshotFileError(FileFault.TORN, f"{size} bytes")
    magic, version, num_bytes, seed = _PRELUDE.unpack(_read(file, _PRELUDE.size))
    if magic != _MAGIC or version != _VERSION:
        raise SnapshotFileError(FileFault.FOREIGN)
    if num_bytes > min(_MAX_HEADER_BYTES, size - _PRELUDE.size):
        raise SnapshotFileError(FileFault.TORN, "the header")
    data = _read(file, num_bytes)
    if zlib.crc32(data) != seed:
        raise SnapshotFileError(FileFault.DAMAGED, "the header")
    try:
        header = msgspec.msgpack.decode(data, type=SnapshotHeader)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SnapshotFileError(FileFault.FOREIGN, str(error)) from error
    counts = (header.num_state_bytes, *(count for pair in header.checkpoints for count in pair))
    if min(counts) < 0 or len(header.tokens) % 4:
        raise SnapshotFileError(FileFault.DAMAGED, "a number in the header")
    if size != _PRELUDE.size + num_bytes + _body_bytes(header):
        raise SnapshotFileError(FileFault.TORN, f"{size} bytes", chat_id=header.chat_id)
    return header, seed


def _body_bytes(header: SnapshotHeader) -> int:
    return sum(
        count + _CHECKSUM.size * -(-count // _CHUNK_BYTES)
        for count in (header.num_state_bytes, *(count for _, count in header.checkpoints))
    )


def _checksum(chunk: memoryview, seed: int, number: int) -> int:
    """Return the checksum of a chunk in its place: one of another file, or another place, has another."""
    return zlib.crc32(chunk, zlib.crc32(struct.pack("<II", seed, number)))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[io.FileIO]:
    """Open a file for reading; what the system refuses is a fault of the file."""
    try:
        file = open(path, "rb", buffering=0, opener=_open_at_once)  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        raise SnapshotFileError(FileFault.GONE, str(error)) from error
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SnapshotFileError(FileFault.FOREIGN, "no file")
        yield file


def _open_at_once(name: str, flags: int) -> int:
    """Open a file for reading; a pipe that nobody writes to would be waited for."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _read(file: io.FileIO, count: int) -> bytes:
    data = bytearray(count)
    _fill(file, memoryview(data))
    return bytes(data)


def _fill(file: io.FileIO, view: memoryview) -> None:
    done = 0
    while done < len(view):
        try:
            count = file.readinto(view[done:])
        except OSError as error:  # a bad sector
            raise SnapshotFileError(FileFault.DAMAGED, str(error)) from error
        if not count:
            raise SnapshotFileError(FileFault.TORN)
        done += count
