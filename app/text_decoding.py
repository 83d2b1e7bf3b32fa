"""Bytes of a text whose encoding nobody names."""

import codecs

# A call on megabytes keeps all other threads waiting, the window's too.
_PIECE_BYTES = 1 << 18


def decode_text(data: bytes) -> tuple[str, str | None]:
    """Return the text in `data`, and a sentence where its encoding had to be guessed."""
    pieces, notice = decode_pieces(data)
    return "".join(pieces), notice


def decode_pieces(data: bytes) -> tuple[list[str], str | None]:
    """Return what `decode_text` does, with the text in pieces."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # the first begins like UTF-16
        return _pieces(data, "utf-32", "replace"), None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _pieces(data, "utf-16", "replace"), None
    try:
        return _pieces(data, "utf-8-sig", "strict"), None
    except UnicodeDecodeError:
        return _pieces(data, "cp1252", "replace"), "The text is no valid UTF-8, so it was read as Windows-1252."


def _pieces(data: bytes, encoding: str, errors: str) -> list[str]:
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    starts = range(0, len(data), _PIECE_BYTES)
    return [decoder.decode(data[start : start + _PIECE_BYTES], start == starts[-1]) for start in starts]
