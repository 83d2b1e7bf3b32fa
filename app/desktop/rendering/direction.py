"""Writing direction of a paragraph: the first strong letter decides, code does not count."""

import unicodedata
from collections.abc import Sequence

from markdown_it.token import Token


def direction_of(text: str) -> str | None:
    """Return "rtl" or "ltr" by the first strong letter, None where there is none."""
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind == "L":
            return "ltr"
        if kind in ("R", "AL"):
            return "rtl"
    return None


def inline_direction(inline: Token) -> str | None:
    """Return the direction of an inline token's words."""
    for child in inline.children or ():
        if child.type in ("text", "image") and (found := direction_of(child.content)):
            return found
    return None


def following_direction(tokens: Sequence[Token], index: int) -> str | None:
    """Return the direction of the first paragraph inside the block that opens at `index`."""
    level = tokens[index].level
    for token in tokens[index + 1 :]:
        if token.level <= level:
            return None
        if token.type == "inline":
            return inline_direction(token)
    return None
