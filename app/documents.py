"""Files to documents: text, Markdown and code in any usual encoding, and PDF; whatever a file holds, a text or one
sentence why not."""

import io
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from app.document_text import Document, document
from app.errors import AttachmentError
from app.pdf_text import read_pdf
from app.text_decoding import decode_pieces
from engine import clean_text

MAX_TEXT_BYTES = 4 << 20
MAX_PDF_BYTES = 64 << 20
_PDF_MARK, _PDF_MARK_WITHIN = b"%PDF-", 1024
_KINDS = "Attach a text, Markdown, code or PDF file."
_MAX_CONTROLS = 0.02  # of the characters: a text has next to none
_CONTROLS = {*map(chr, range(32)), "\x7f"} - {*"\t\n\r\f\v\x1b\x08"}


class ReadDocument(NamedTuple):
    """What a file has become.

    Attributes:
        notice: a sentence where something had to be guessed.
    """

    document: Document
    notice: str | None


def read_document(path: Path, *, is_wanted: Callable[[], bool] = lambda: True) -> ReadDocument:
    """Return the text of a file.

    Args:
        is_wanted: asked from time to time while a PDF is read; False gives up.

    Raises:
        AttachmentError: there is no text in it, or it is too large, or it cannot be read.
    """
    name = path.name or str(path)
    data = _read(path, name)
    notice = None
    if _is_pdf(data, path):
        read = read_pdf(path, name, is_wanted=is_wanted)
        text = clean_text(read.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")).rstrip()
    elif path.suffix.lower() == ".pdf":
        raise AttachmentError(f"{_quoted(name)} is no PDF: it begins otherwise.", "The file may be damaged.")
    elif len(data) > MAX_TEXT_BYTES:
        raise _too_large(name, len(data), MAX_TEXT_BYTES)
    else:
        text, notice = _decoded(data, name)
    if not text:
        raise AttachmentError(f"{_quoted(name)} has no text in it.", _KINDS)
    return ReadDocument(document(name, text), notice)


def _read(path: Path, name: str) -> bytes:
    """Return the bytes of a file, of a PDF its beginning; a pipe or a device is none, and is not waited for."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise AttachmentError(f"{_quoted(name)} is no file.", _KINDS)
            head = file.read(_PDF_MARK_WITHIN) or b""  # of what is no file after all nothing may come yet
            if _is_pdf(head, path):
                if status.st_size > MAX_PDF_BYTES:
                    raise _too_large(name, status.st_size, MAX_PDF_BYTES)
                return head
            if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
                raise _no_text(name)
            if status.st_size > MAX_TEXT_BYTES:
                raise _too_large(name, status.st_size, MAX_TEXT_BYTES)
            return head + file.read(MAX_TEXT_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if os.path.isdir(path):  # noqa: PTH112 - that of Path raises where it cannot look
            raise AttachmentError(f"{_quoted(name)} is a folder.", "Attach the files in it.") from error
        raise AttachmentError(f"{_quoted(name)} cannot be read: {reason}.", "See whether it is there.") from error


def _open_at_once(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _is_pdf(head: bytes, path: Path) -> bool:
    """Whether a file is a PDF: it may have something before its mark, and a text may speak of the mark."""
    return head.lstrip().startswith(_PDF_MARK) or (
        path.suffix.lower() == ".pdf" and _PDF_MARK in head[:_PDF_MARK_WITHIN]
    )


def _decoded(data: bytes, name: str) -> tuple[str, str | None]:
    """Return the text of bytes, piece by piece: a call on all of them would keep the window's thread waiting."""
    pieces, notice = decode_pieces(data)
    line_ends = io.IncrementalNewlineDecoder(None, translate=True)
    texts, num_controls = [], 0
    for number, piece in enumerate(pieces, start=1):
        num_controls += sum(map(piece.count, _CONTROLS))
        texts.append(line_ends.decode(piece, final=number == len(pieces)).replace("\0", ""))
    if num_controls > _MAX_CONTROLS * sum(map(len, pieces)):
        raise _no_text(name)
    if notice is not None:
        notice = f"{_quoted(name)} is no valid UTF-8, so it was read as Windows-1252."
    return "".join(texts).rstrip(), notice


def _no_text(name: str) -> AttachmentError:
    return AttachmentError(f"{_quoted(name)} is no text.", _KINDS)


def _too_large(name: str, num_bytes: int, max_bytes: int) -> AttachmentError:
    size = f"{num_bytes / 1e6:,.0f} MB; at most {max_bytes >> 20} MiB can be attached"
    return AttachmentError(f"{_quoted(name)} is too large: {size}.", "Attach the part that matters.")


def _quoted(name: str) -> str:
    return document(name, "").name
