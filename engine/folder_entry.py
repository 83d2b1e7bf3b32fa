"""What is known of the files of the prompt cache without reading them, and what they are called."""

import contextlib
import hashlib
from array import array
from collections.abc import Container, Iterable
from pathlib import Path
from typing import NamedTuple

from engine.backend import AdapterKey, StateKeys
from engine.snapshot_file import FileFault, SnapshotContent, SnapshotFileError, SnapshotHeader, read_header


class FolderEntry(NamedTuple):
    """A file, by its header.

    Attributes:
        name: of the file.
        label: the name under which it is kept; empty where it is kept of itself.
    """

    name: str
    keys: StateKeys
    model_name: str
    adapters: AdapterKey
    chat_id: str
    tokens: "array[int]"
    checkpoint_tokens: tuple[int, ...]
    num_bytes: int
    last_used: float
    prefill_s_per_token: float | None
    label: str = ""

    @property
    def is_shared(self) -> bool:
        """Whether it is kept under a name, and with no chat."""
        return bool(self.label) and not self.chat_id

    def begins_with(self, keys: StateKeys, adapters: AdapterKey, tokens: "array[int]") -> bool:
        """Whether it was made in the same way, and its first tokens are these."""
        return self.keys == keys and self.adapters == adapters and self.tokens[: len(tokens)] == tokens

    def is_beginning_of(self, keys: StateKeys, adapters: AdapterKey, tokens: "array[int]") -> bool:
        """Whether it was made in the same way, and tokens begin with these and go on."""
        is_shorter = len(self.tokens) < len(tokens)
        is_alike = self.keys == keys and self.adapters == adapters
        return is_shorter and is_alike and tokens[: len(self.tokens)] == self.tokens


class FileRead(NamedTuple):
    """What came of reading a file: all of it, or a fault, after which the file is deleted."""

    entry: FolderEntry
    content: SnapshotContent | None
    fault: FileFault | None
    seconds: float


def file_name_for(header: SnapshotHeader) -> str:
    """Return the name of the file with a header."""
    return file_name_of(StateKeys(header.model, header.settings), header.adapters, header.tokens)


def entry_of(file_name: str, header: SnapshotHeader, num_bytes: int, last_used: float) -> FolderEntry:
    """Return what a header says of its file."""
    return FolderEntry(
        name=file_name,
        keys=StateKeys(header.model, header.settings),
        model_name=header.model_name,
        adapters=header.adapters,
        chat_id=header.chat_id,
        tokens=header.token_ids(),
        checkpoint_tokens=tuple(count for count, _ in header.checkpoints),
        num_bytes=num_bytes,
        last_used=last_used,
        prefill_s_per_token=header.prefill_s_per_token,
        label=header.name,
    )


def entries_of_others(paths: Iterable[Path], known: Container[str]) -> list[FolderEntry]:
    """Return what the headers of files say that another process has written meanwhile.

    Args:
        known: names of files that need not be read.
    """
    found = []
    for path in paths:
        if path.name not in known:
            with contextlib.suppress(SnapshotFileError, OSError):
                status = path.stat()
                found.append(entry_of(path.name, read_header(path), status.st_size, status.st_mtime))
    return found


def file_name_of(keys: StateKeys, adapters: AdapterKey, tokens: bytes) -> str:
    """Return the name of a file, which says all of what it holds: the same again takes the same place."""
    digest = hashlib.blake2b(repr((keys.model, keys.settings, adapters)).encode(), digest_size=20)
    digest.update(tokens)
    return digest.hexdigest()
