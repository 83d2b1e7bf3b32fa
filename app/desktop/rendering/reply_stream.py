"""A reply while it grows: what is settled and what the next piece may still change.

The settled part is parsed once. Whatever the sizes of the pieces, the blocks at the end are those of the whole text.
"""

import dataclasses
import re
from collections.abc import Sequence

from app.desktop.rendering.blocks import CUT_LINE, Block, BlockKind, BlockParser, Env, normalized

# Of what is parsed and laid out in one go; a longer block goes on as another one.
MAX_BLOCK_CHARS = 5_000
MAX_BLOCK_LINES = 200

# A line that begins at the margin: where a long list or quote is best cut.
_AT_MARGIN = re.compile(r"\n(?=\S)")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")
_TABLE_HEAD = re.compile(r"[^\n]*\|[^\n]*\n[ \t]{0,3}\|?(?:[ \t]*:?-+:?[ \t]*\|?)+[ \t]*\n")
_FENCE_OPENING = re.compile(r"( {0,3})(`{3,}(?=[^`\n]*\n)|~{3,}(?=[^\n]*\n))([^\n]*)\n")


@dataclasses.dataclass(frozen=True)
class Growth:
    """What one piece of text did.

    Attributes:
        settled: blocks that follow the settled ones of before and will not change.
        tail: blocks after them, to be shown until the next piece.
    """

    settled: Sequence[Block]
    tail: Sequence[Block]


class ReplyStream:
    """Splits one reply; `append` costs what the open end costs, not what the reply costs."""

    def __init__(self, parser: BlockParser, env: Env | None = None) -> None:
        self._parser = parser
        self._env: Env = {} if env is None else env
        self._pieces: list[str] = []
        self._tail = ""
        self._held = ""  # a carriage return whose line feed may be in the next piece
        self._fence: _OpenFence | None = None
        self._is_cut = False  # the block before goes on
        self._is_skipping = False  # the rest of a line that is too long

    def append(self, text: str) -> Growth:
        """Take in a piece of the reply."""
        self._pieces.append(text)
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        self._tail += normalized(text.removesuffix("\r"))
        self._skip()
        return self._grow(text)

    def finish(self) -> Sequence[Block]:
        """Return the blocks of the whole reply; call once, after the last piece."""
        return whole_blocks(self._parser, normalized("".join(self._pieces)))

    def finish_tail(self) -> Growth | None:
        """Return what the end of the reply settles, or None where the whole reply has to be read again.

        A link definition may stand after its use, which only the whole text tells.
        """
        self._tail += "\n" if self._held else ""
        blocks = (self._settle() if _is_long(self._tail) else []) + self._last_blocks()
        return None if self._env.get("references") else Growth(blocks, ())

    def _last_blocks(self) -> list[Block]:
        if self._fence is not None and len(self._tail) > MAX_BLOCK_CHARS:
            return [self._fence.block(self._tail)]
        return self._parser.blocks(self._tail, self._env)

    def _grow(self, text: str) -> Growth:
        settled: list[Block] = []
        if "\n" in text or self._fence is not None or _is_long(self._tail):
            settled = self._settle()
        if self._fence is not None:
            return Growth(settled, (self._fence.block(self._tail),))
        scratch: Env = {"references": dict(self._env.get("references", {}))}
        return Growth(settled, self._parser.blocks(self._tail, scratch, is_open=True))

    def _settle(self) -> list[Block]:
        settled: list[Block] = []
        while True:
            self._skip()
            if self._fence is None:
                self._fence = _OpenFence.at_head_of(self._tail)
            fence = self._fence
            self._is_cut = False
            end = self._settled_end()
            if not end:
                return settled
            if fence is not None and end > MAX_BLOCK_CHARS:
                settled.append(fence.closed_block(self._tail[:end]))
            else:
                settled += self._parser.blocks(self._tail[:end], self._env)
            if self._is_skipping:
                settled.append(CUT_LINE)
            head = _TABLE_HEAD.match(self._tail, 0, end // 4) if self._is_cut else None
            self._tail = (head.group() if head else "") + self._tail[end:]

    def _skip(self) -> None:
        """Drop the rest of a line that is too long, and blank lines before the next block."""
        if self._is_skipping:
            line_end = self._tail.find("\n")
            self._is_skipping = line_end == -1
            self._tail = "" if self._is_skipping else self._tail[line_end + 1 :]
        if self._fence is None and (blank := _BLANK_LINES.match(self._tail)):
            self._tail = self._tail[blank.end() :]

    def _settled_end(self) -> int:
        """Return how much of the tail is settled. Only complete lines count: half a line can still mean anything."""
        if self._fence is not None:
            end = self._fence.closed_end(self._tail)
            if end:
                self._fence = None
            return end
        is_long = _is_long(self._tail)
        window = self._tail[:MAX_BLOCK_CHARS]
        lines = window.split("\n", MAX_BLOCK_LINES)
        complete = window[: len(window) - len(lines[-1])]
        end = self._parser.last_block_start(complete, self._env) if complete else 0
        if end or not is_long:
            return end
        self._is_cut = True
        self._is_skipping = not complete
        margins = [match.end() for match in _AT_MARGIN.finditer(complete, len(complete) // 2, len(complete) - 1)]
        return margins[-1] if margins else len(complete or window)


def _is_long(text: str) -> bool:
    return len(text) > MAX_BLOCK_CHARS or text.count("\n") > MAX_BLOCK_LINES


def whole_blocks(parser: BlockParser, source: str) -> list[Block]:
    """Return the blocks of a whole normalized reply of any length."""
    if not _is_long(source):
        return parser.blocks(source, {})
    env: Env = {}
    blocks = _pass(parser, source, env)
    # A link definition may stand after its use.
    return _pass(parser, source, env) if env.get("references") else blocks


def _pass(parser: BlockParser, source: str, env: Env) -> list[Block]:
    stream = ReplyStream(parser, env)
    stream._tail = source
    return stream._settle() + stream._last_blocks()


class _OpenFence:
    """A code fence at the head of the tail, followed line by line without parsing it again and again."""

    @classmethod
    def at_head_of(cls, text: str) -> "_OpenFence | None":
        """Return the fence that the first line opens, None where there is none or its line is not complete."""
        opening = _FENCE_OPENING.match(text) if "\n" in text else None
        return None if opening is None else cls(opening)

    def __init__(self, opening: re.Match[str]) -> None:
        indent, marks, info = opening.groups()
        self._content_start = opening.end()
        self._scanned = opening.end()
        self._info = info
        self._indent = re.compile(rf"^ {{1,{len(indent)}}}", re.MULTILINE) if indent else None
        closing = rf"^ {{0,3}}{re.escape(marks[0])}{{{len(marks)},}}[ \t]*\n"
        self._closing = re.compile(closing, re.MULTILINE)
        self._closing_start = 0

    def closed_end(self, tail: str) -> int:
        """Return where the line after the closing fence begins, 0 while it is open."""
        closing = self._closing.search(tail, self._scanned)
        if closing is not None:
            self._closing_start = closing.start()
            return closing.end()
        self._scanned = max(self._scanned, tail.rfind("\n") + 1)
        return 0

    def block(self, tail: str) -> Block:
        """Return the code so far."""
        return self._block(tail, len(tail))

    def closed_block(self, source: str) -> Block:
        """Return the code of a closed fence."""
        return self._block(source, self._closing_start)

    def _block(self, source: str, end: int) -> Block:
        code = source[self._content_start : end]
        if self._indent is not None:
            code = self._indent.sub("", code)
        language = self._info.split(maxsplit=1)[0] if self._info.strip() else ""
        return Block(kind=BlockKind.CODE, size=len(source), code=code.removesuffix("\n"), language=language)
