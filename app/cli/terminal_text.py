"""Text from a model, made safe for a terminal: no model may move the cursor or ring the bell."""

import re
import unicodedata

# C0 but tab and line feed, DEL, C1, and the marks that turn the direction of what follows.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def safe_text(text: str) -> str:
    """Return `text` with every control character replaced by a picture of it."""
    return _UNSAFE.sub(_picture, text.replace("\r\n", "\n"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def is_blank(text: str) -> bool:
    """Return whether nothing of `text` can be seen: blanks, line breaks, zero-width characters."""
    return all(c.isspace() or unicodedata.category(c) in ("Cc", "Cf") for c in text)
