"""Which model a file holds, told quickly: hashes that a reply is stored with, to know later what made it."""

import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO, Protocol

from models.errors import NotGGUF
from models.gguf_info import GGUFInfo, parts_of, printable

_MAX_HEAD_BYTES = 32 * 2**20  # three times the largest vocabulary with its merges
_LATER_HEAD_BYTES = 2**20  # of a later part, which holds no vocabulary
_NUM_SAMPLES = 16
_SAMPLE_BYTES = 16 * 2**10
_MAX_TEMPLATE_BYTES = 4 * 2**20
_CHUNK_BYTES = 2**20


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


def fingerprint(info: GGUFInfo) -> str:
    """Return what tells the model of a file from all others: SHA-256, as 64 hexadecimal digits.

    Hashed are, for each file of the model in its order: its size and the length of its head, 8 bytes each,
    little-endian; its head, which is all that comes before the tensors (at most 32 MiB) and in the later parts of a
    split model the first MiB; then 16 samples of 16 KiB from the rest, the first at its beginning, the last at its
    end, the others evenly between; where the rest is no longer than the samples, all of it.

    So names and times do not matter, and a file of any size takes milliseconds. Two files differ unless they have the
    same size, the same metadata and tensor list, and the same numbers in every sample. A file that changes meanwhile
    gives some other fingerprint.

    Raises:
        NotGGUF: a part is no regular file.
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for number, path in enumerate(parts_of(info)):
        _add_file(digest, path, min(info.header_bytes, _MAX_HEAD_BYTES) if number == 0 else _LATER_HEAD_BYTES)
    return digest.hexdigest()


def file_fingerprint(path: Path, header_bytes: int) -> str:
    """Return what tells the content of one file from all others, whatever it is a part of; taken like `fingerprint`.

    Raises:
        NotGGUF: it is no regular file.
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    _add_file(digest, path, min(header_bytes, _MAX_HEAD_BYTES))
    return digest.hexdigest()


def template_hash(info: GGUFInfo) -> str:
    """Return the SHA-256 of the text of a file's chat template (of its first 4 MiB), "" where it has none.

    Raises:
        OSError: the file cannot be read.
    """
    if info.template_span is None or info.template_span[1] == 0:
        return ""
    position, length = info.template_span
    digest = hashlib.sha256()
    with info.path.open("rb", buffering=0) as file:
        _add_piece(digest, file, position, min(length, _MAX_TEMPLATE_BYTES))
    return digest.hexdigest()


def _add_file(digest: _Hash, path: Path, head_bytes: int) -> None:
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would block
        raise NotGGUF(f"{printable(path.name)} is not a regular file.", "Put the part of the model in its place.")
    with path.open("rb", buffering=0) as file:
        file_bytes = os.fstat(file.fileno()).st_size
        head_bytes = min(head_bytes, file_bytes)
        digest.update(file_bytes.to_bytes(8, "little") + head_bytes.to_bytes(8, "little"))
        _add_piece(digest, file, 0, head_bytes)
        rest = file_bytes - head_bytes
        if rest <= _NUM_SAMPLES * _SAMPLE_BYTES:
            _add_piece(digest, file, head_bytes, rest)
            return
        for number in range(_NUM_SAMPLES):
            at = head_bytes + (rest - _SAMPLE_BYTES) * number // (_NUM_SAMPLES - 1)
            _add_piece(digest, file, at, _SAMPLE_BYTES)


def _add_piece(digest: _Hash, file: BinaryIO, position: int, num_bytes: int) -> None:
    """Hash a piece of a file, or what is left of it where the file has become shorter."""
    file.seek(position)
    while num_bytes > 0 and (data := file.read(min(num_bytes, _CHUNK_BYTES))):
        digest.update(data)
        num_bytes -= len(data)
