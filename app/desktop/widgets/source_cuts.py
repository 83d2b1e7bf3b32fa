"""Where the source of a long reply can be cut, so that each part is parsed alone and the visible one first.

A cut is made only where a new top-level block begins whatever stands before it: the parts give the blocks of the whole.
"""

import re
from collections.abc import Iterator

from app.desktop.rendering.blocks import BlockParser

CUT_CHARS = 1_500

# A line after a blank one that begins at the margin with what can neither go on with a list nor close a fence.
_CANDIDATE = re.compile(r"\n[ \t]*\n(?![ \t\n`~$\\>|:]|[-+*](?:[ \t\n]|\Z)|\d{1,9}[.)])(?=.)")
# Only these open or close something that holds blank lines and lines at the margin.
_MARK = re.compile(r"`{3}|~{3}|\$\$|\\[\[\]]")
# A link definition can stand after its use, in another part.
_DEFINITION = re.compile(r"^[ \t>*+\-\d.)]*\[[^\]\n]+\]:", re.MULTILINE)


def has_definitions(source: str) -> bool:
    """Tell whether `source` may define targets of links."""
    return _DEFINITION.search(source) is not None


def cut_ends(source: str, begin: int, end: int, parser: BlockParser) -> Iterator[int]:
    """Give where the parts of normalized `source` between `begin` and `end` end, the last being `end`."""
    position = begin + CUT_CHARS
    num_misses = 0
    while position < end and (match := _CANDIDATE.search(source, position, end)):
        cut = match.end()
        if _is_border(source, begin, cut, parser):
            yield cut
            begin, position, num_misses = cut, cut + CUT_CHARS, 0
            continue
        position, num_misses = _after_marks(source, cut, end, 2 ** max(0, num_misses - 3)), num_misses + 1
    yield end


def _is_border(source: str, begin: int, cut: int, parser: BlockParser) -> bool:
    if _MARK.search(source, begin, cut) is None:
        return True
    line_end = source.find("\n", cut)
    line = source[cut:] if line_end < 0 else source[cut:line_end]
    return parser.last_block_start(f"{source[begin:cut]}{line}\n", {}) == cut - begin


def _after_marks(source: str, position: int, end: int, count: int) -> int:
    """Return the place after `count` further marks: before them the state at `position` lasts."""
    for _ in range(count):
        mark = _MARK.search(source, position, end)
        if mark is None:
            return end
        position = mark.end()
    return position
