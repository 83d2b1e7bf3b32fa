"""Bytes of a text whose encoding nobody names."""


def decode_text(data: bytes) -> tuple[str, str | None]:
    """Return the text in `data`, and a sentence where its encoding had to be guessed."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace"), None
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace"), "The text is no valid UTF-8, so it was read as Windows-1252."
