"""What the library knows about files between two scans, kept in one small file that may be lost at any time.

A record is used again only while size, times and file number are the same, so it never speaks of another file. The
index is written whole under another name and renamed: two programs may write it at once, and one of them wins.
"""

import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from models.errors import GGUFError
from models.gguf_info import GGUFInfo, printable, read_gguf_info
from models.model_kinds import ModelKind

_LOG = logging.getLogger(__name__)
_VERSION = 1
_MAX_INDEX_BYTES = 64 * 2**20
_ID_DIGITS = 16
_NUMBER_MASK = 2**63 - 1  # file numbers of some systems are longer than what is kept


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One file, as its header describes it, and by what it is recognised.

    Attributes:
        id: of the entry that this file begins.
        source, is_ours, alias: from the last scan; see ScanRoot and FoundFile.
        fingerprint: of its content; empty until it was needed.
        problem, hint: why it cannot be used; empty where it can.
    """

    path: str
    file_bytes: int
    mtime_ns: int
    ctime_ns: int
    device: int
    inode: int
    id: str
    source: str = ""
    is_ours: bool = False
    alias: str = ""
    fingerprint: str = ""
    problem: str = ""
    hint: str = ""
    kind: ModelKind | None = None
    architecture: str = ""
    name: str = ""
    type_name: str = ""
    licence: str = ""
    tokenizer: str = ""
    has_chat_template: bool = False
    num_tensors: int = 0
    num_parameters: int = 0
    num_expert_parameters: int = 0
    weight_bytes: int = 0
    n_ctx_train: int = 0
    expert_count: int = 0
    expert_used_count: int = 0
    header_bytes: int = 0
    split_no: int = 0
    split_count: int = 1
    num_split_tensors: int = 0

    @property
    def file_key(self) -> tuple[int, int]:
        """Which file this is, by whatever name."""
        return self.device, self.inode

    def is_of(self, status: os.stat_result) -> bool:
        """Return whether a file is still the one that was read."""
        return self.is_content_of(status) and self.ctime_ns == status.st_ctime_ns

    def is_content_of(self, status: os.stat_result) -> bool:
        """Return whether a file, maybe moved since, holds what was read."""
        is_same_file = self.file_key == file_key(status)
        return is_same_file and (self.file_bytes, self.mtime_ns) == (status.st_size, status.st_mtime_ns)


def file_key(status: os.stat_result) -> tuple[int, int]:
    """Return which file this is, by whatever name."""
    return status.st_dev & _NUMBER_MASK, status.st_ino & _NUMBER_MASK


def read_record(path: Path, status: os.stat_result) -> FileRecord:
    """Read the header of a file; one that cannot be used becomes a record that says why."""
    known = _identity(path, status)
    if not is_text(path):
        return FileRecord(
            **known, problem=f"The name of {printable(path.name)} holds characters that are no text.", hint="Rename it."
        )
    try:
        info = read_gguf_info(path)
    except GGUFError as error:
        return FileRecord(**known, problem=error.message, hint=error.hint)
    except OSError as error:
        # Not a property of the file: the next scan looks again.
        reason = (error.strerror or str(error)).lower()
        message = f"{printable(path.name)} cannot be read: {reason}."
        return FileRecord(**known | {"mtime_ns": -1}, problem=message, hint="Look at its permissions, and at the disk.")
    return FileRecord(**known, **_description(info))


def is_text(path: Path) -> bool:
    """Return whether a path can be written down; names on some disks are bytes that are no text."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _identity(path: Path, status: os.stat_result) -> dict[str, Any]:
    device, inode = file_key(status)
    return {
        "path": os.fspath(path),
        "file_bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "ctime_ns": status.st_ctime_ns,
        "device": device,
        "inode": inode,
        "id": id_of(os.fsencode(path)),
    }


def id_of(place: bytes) -> str:
    """Return the id of an entry that is first seen at a place."""
    return hashlib.sha256(place).hexdigest()[:_ID_DIGITS]


def _description(info: GGUFInfo) -> dict[str, Any]:
    sizes = info.hyperparameters
    return {
        "kind": info.kind,
        "architecture": info.architecture,
        "name": info.name,
        "type_name": info.type_name,
        "licence": info.licence,
        "tokenizer": info.tokenizer,
        "has_chat_template": info.has_chat_template,
        "num_tensors": info.num_tensors,
        "num_parameters": info.num_parameters,
        "num_expert_parameters": info.num_expert_parameters,
        "weight_bytes": info.weight_bytes,
        "n_ctx_train": info.n_ctx_train,
        "expert_count": sizes.expert_count if sizes else 0,
        "expert_used_count": sizes.expert_used_count if sizes else 0,
        "header_bytes": info.header_bytes,
        "split_no": info.split_no,
        "split_count": info.split_count,
        "num_split_tensors": info.num_split_tensors,
    }


class _IndexFile(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    records: list[FileRecord] = []


class LibraryIndex:
    """The file of records.

    Attributes:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> tuple[FileRecord, ...]:
        """Return the records; none where there is no index, or it cannot be used."""
        try:
            if self.path.stat().st_size > _MAX_INDEX_BYTES:
                raise ValueError("it is too large")
            found = msgspec.json.decode(self.path.read_bytes(), type=_IndexFile)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
            _LOG.info("the index of models cannot be used, all files are read again: %s", error)
            return ()
        return tuple(found.records) if found.version == _VERSION else ()

    def save(self, records: Iterable[FileRecord]) -> None:
        """Write the records; what keeps them from being written costs time at the next scan and nothing else."""
        writable = [record for record in records if is_text(Path(record.path)) and record.mtime_ns >= 0]
        try:
            write_whole(self.path, msgspec.json.encode(_IndexFile(version=_VERSION, records=writable)))
        except OSError as error:
            _LOG.info("the index of models is not kept: %s", error)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that at any moment either the old or the new content is there.

    Raises:
        OSError: it could not be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
