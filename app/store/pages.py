"""Rows out of the raw pages of a damaged file, where SQLite itself no longer finds the way to them.

Every page that looks like a leaf of a table is taken for itself: https://www.sqlite.org/fileformat2.html, sections 1.6
(pages), 2.1 (records) and 4.1 (the log of changes). Nothing here trusts a number in the file.
"""

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MAGIC = b"SQLite format 3\0"

_LEAF = 0x0D
_PAGE_BYTES = 4096
_HEADER_BYTES = 100
_LOG_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_MAX_TEXT_BYTES = 256 << 20
_MAX_COLUMNS = 100
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class RawRow(NamedTuple):
    """A row with no word of which table it is from."""

    number: int
    values: tuple[Any, ...]


class PageFile:
    """The pages of a file, those in its log before those in the file.

    Args:
        path: read whole only page by page.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        header = self._file.read(_HEADER_BYTES)
        size = int.from_bytes(header[16:18], "big")
        size = 65536 if size == 1 else size
        is_sound = header.startswith(MAGIC) and 512 <= size <= 65536 and size & (size - 1) == 0
        self.page_bytes = size if is_sound else _PAGE_BYTES
        self.num_pages = -(-path.stat().st_size // self.page_bytes)
        self._logged = _latest_frames(path.with_name(f"{path.name}-wal"), self.page_bytes)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def page(self, number: int) -> bytes:
        """Return a page, counted from 1; what is not there is empty."""
        if number in self._logged:
            return self._logged[number]
        self._file.seek((number - 1) * self.page_bytes)
        return self._file.read(self.page_bytes)

    def rows(self) -> Iterator[RawRow]:
        """Return the rows of all pages that can be leaves of a table."""
        for number in range(1, max(self.num_pages, *self._logged, 0) + 1):
            page = self.page(number)
            start = _HEADER_BYTES if number == 1 else 0
            if len(page) < start + 8 or page[start] != _LEAF:
                continue
            num_cells = int.from_bytes(page[start + 3 : start + 5], "big")
            for cell in range(min(num_cells, (len(page) - start - 8) // 2)):
                pointer = int.from_bytes(page[start + 8 + 2 * cell : start + 10 + 2 * cell], "big")
                with contextlib.suppress(ValueError, IndexError, struct.error, UnicodeDecodeError):
                    yield self._row(page, pointer)

    def _row(self, page: bytes, pointer: int) -> RawRow:
        size, start = _varint(page, pointer)
        number, start = _varint(page, start)
        payload = self._payload(page, start, size)
        header_bytes, position = _varint(payload, 0)
        kinds = []
        while position < header_bytes:
            kind, position = _varint(payload, position)
            kinds.append(kind)
        if position != header_bytes or len(kinds) > _MAX_COLUMNS:
            raise ValueError("no record")
        values = []
        for kind in kinds:
            value, position = _value(payload, position, kind)
            values.append(value)
        return RawRow(number - (1 << 64) if number >> 63 else number, tuple(values))

    def _payload(self, page: bytes, start: int, size: int) -> bytes:
        if size > _MAX_TEXT_BYTES:
            raise ValueError("too long")
        usable = self.page_bytes
        if size <= usable - 35:
            return _cut(page, start, size)
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= usable - 35 else least
        parts = [_cut(page, start, local)]
        following = int.from_bytes(_cut(page, start + local, 4), "big")
        missing = size - local
        while missing > 0:
            overflow = self.page(following) if following > 1 else b""
            part = _cut(overflow, 4, min(missing, usable - 4))
            parts.append(part)
            missing -= len(part)
            following = int.from_bytes(overflow[:4], "big")
        return b"".join(parts)


def _latest_frames(log: Path, page_bytes: int) -> dict[int, bytes]:
    frames: dict[int, bytes] = {}
    try:
        file = log.open("rb")
    except OSError:
        return frames
    with file:
        salt = file.read(_LOG_HEADER_BYTES)[16:24]
        while len(frame := file.read(_FRAME_HEADER_BYTES + page_bytes)) == _FRAME_HEADER_BYTES + page_bytes:
            if frame[8:16] != salt:  # left over from before the log began anew
                break
            frames[int.from_bytes(frame[:4], "big")] = frame[_FRAME_HEADER_BYTES:]
    return frames


def _cut(data: bytes, start: int, size: int) -> bytes:
    part = data[start : start + size]
    if len(part) != size:
        raise ValueError("cut off")
    return part


def _varint(data: bytes, start: int) -> tuple[int, int]:
    value = 0
    for position in range(start, start + 8):
        byte = data[position]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, position + 1
    return value << 8 | data[start + 8], start + 9


def _value(payload: bytes, start: int, kind: int) -> tuple[Any, int]:
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind], start
    if kind in _INTEGER_BYTES:
        part = _cut(payload, start, _INTEGER_BYTES[kind])
        return int.from_bytes(part, "big", signed=True), start + len(part)
    if kind == 7:
        return struct.unpack(">d", _cut(payload, start, 8))[0], start + 8
    if kind < 12:
        raise ValueError("no such kind of value")
    part = _cut(payload, start, (kind - 12) // 2)
    return (part.decode("utf-8") if kind % 2 else part), start + len(part)
