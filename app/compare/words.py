"""Words of a text, in every script: what a difference of two replies counts in."""

import re
import unicodedata
from typing import NamedTuple

# Scripts that put no blanks between words, by their first and last code point: there a character is a word.
_UNBROKEN = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FFF),  # parts of Chinese characters
    (0x3005, 0x3007),
    (0x3021, 0x31FF),  # Japanese syllables, Bopomofo
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),  # Chinese characters
)
_PLAIN = re.compile(r"[ \t\r\n]+|[A-Za-z0-9_]+(?:'[A-Za-z]+)?|[^A-Za-z0-9_ \t\r\n]")
_JOINER = "\u200d"


class Word(NamedTuple):
    """A word, a mark, or blanks that are more than one blank; and the single blank behind it, if any.

    All the words of a text, with their blanks, make the text again.
    """

    text: str
    blank: str = ""


def words_of(text: str) -> list[Word]:
    """Return the words of a text. Line breaks and indentation are words of their own: in code they count."""
    pieces = _PLAIN.findall(text) if text.isascii() else _pieces(text)
    words: list[Word] = []
    for piece in pieces:
        if piece == " " and words:
            words[-1] = Word(words[-1].text, " ")
        else:
            words.append(Word(piece))
    return words


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    kind = ""
    for character in text:
        now = _kind(character)
        if (now in ("letter", "blank") and now == kind) or (now == "mark" and pieces) or _is_joined(pieces):
            pieces[-1] += character
            now = kind if now == "mark" else now
        else:
            pieces.append(character)
        kind = now
    return pieces


def _is_joined(pieces: list[str]) -> bool:
    return bool(pieces) and pieces[-1].endswith(_JOINER)


def _kind(character: str) -> str:
    if character.isspace():
        return "blank"
    code = ord(character)
    category = unicodedata.category(character)
    if category[0] == "M" or category == "Cf" or 0x1F3FB <= code <= 0x1F3FF:  # the last: tones of skin
        return "mark"
    if code >= _UNBROKEN[0][0] and any(first <= code <= last for first, last in _UNBROKEN):
        return "sign"
    return "letter" if category[0] in "LN" or category == "Pc" else "sign"
