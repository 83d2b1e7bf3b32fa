"""Where the letters of a rendered text stand in its source, which holds the same words with marks between them."""

import re

_WORDLY = re.compile(r"[^\W_]")
_NEAR = 300  # characters of marks at most: the line below the head of a table
_CONTEXT = 3  # letters that have to agree where more than marks was passed over
_FAR = 2_000  # characters that are passed over at most: a link's target
_BLANKS = dict.fromkeys(map(ord, "\n\t\u00a0\u2028\u2029\ufdd0\ufdd1"), " ")


def source_places(shown: str, source: str) -> list[int]:
    """Return for each character of `shown` where it stands in `source`, -1 for one that rendering has made.

    The places rise. Marks in the source are passed over, and the target of a link as far as the next letters that
    agree; what is not found, as a break between blocks or the picture of a formula, has no place.
    """
    shown, source = shown.translate(_BLANKS), source.translate(_BLANKS)
    places: list[int] = []
    position = 0
    for index, letter in enumerate(shown):
        if source.startswith(letter, position):
            found = position
        elif letter == " ":
            found = -1  # the next word says where it goes on
        else:
            found = _behind_marks(letter, source, position)
            if found < 0:
                context = shown[index : index + _CONTEXT].rstrip(" ")
                found = source.find(context, position, position + _FAR)
        places.append(found)
        if found >= 0:
            position = found + 1
    return places


def _behind_marks(letter: str, source: str, position: int) -> int:
    """Return where `letter` comes next with nothing before it that is a letter or a figure, else -1."""
    found = source.find(letter, position, position + _NEAR)
    return -1 if found >= 0 and _WORDLY.search(source, position, found) else found
