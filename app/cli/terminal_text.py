"""Text from a model, made safe for a terminal: no model may move the cursor or ring the bell."""

import re
import shutil
import textwrap
import unicodedata

# C0 but tab and line feed, DEL, C1, and the marks that turn the direction of what follows.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def safe_text(text: str) -> str:
    """Return `text` with every control character replaced by a picture of it."""
    return _UNSAFE.sub(_picture, text.replace("\r\n", "\n"))


def on_one_line(text: str) -> str:
    """Return `text` with its line breaks made safe too: a name of a file may hold them, and a sentence is one line."""
    return safe_text(text.replace("\n", "\u2424"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def wrapped(text: str, *, indent: str = "") -> str:
    """Return lines that a narrow terminal does not break within a word; what is broken goes on behind `indent`."""
    width = max(20, _num_columns())
    lines = (textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) for line in text.split("\n"))
    return "\n".join("\n".join(line) for line in lines)


def one_line(text: str) -> str:
    """Return as much of `text` as fits into one line that is to be written over: a broken one could not be."""
    left = _num_columns() - 1
    for index, character in enumerate(text):
        left -= 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
        if left < 0:
            return text[:index]
    return text


def _num_columns() -> int:
    return shutil.get_terminal_size().columns
