"""A reply while it grows: what is settled and what the next piece may still change.

The settled part is parsed once. Whatever the sizes of the pieces, the blocks at the end are those of the whole text.
"""

import dataclasses
import re
from collections.abc import Sequence

from app.desktop.rendering.blocks import Block, BlockKind, BlockParser, Env, normalized

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

    def __init__(self, parser: BlockParser) -> None:
        self._parser = parser
        self._env: Env = {}
        self._pieces: list[str] = []
        self._tail = ""
        self._held = ""  # a carriage return whose line feed may be in the next piece
        self._fence: _OpenFence | None = None

    def append(self, text: str) -> Growth:
        """Take in a piece of the reply."""
        self._pieces.append(text)
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        self._tail = (self._tail + normalized(text.removesuffix("\r"))).lstrip("\n")
        return self._grow(text)

    def finish(self) -> Sequence[Block]:
        """Return the blocks of the whole reply; call once, after the last piece."""
        return self._parser.blocks(normalized("".join(self._pieces)))

    def finish_tail(self) -> Growth | None:
        """Return what the end of the reply settles, or None where the whole reply has to be read again.

        A link definition may stand after its use, which only the whole text tells.
        """
        self._tail += "\n" if self._held else ""
        blocks = self._parser.blocks(self._tail, self._env)
        return None if self._env.get("references") else Growth(blocks, ())

    def _grow(self, text: str) -> Growth:
        settled: list[Block] = []
        if "\n" in text or self._fence is not None:
            while (end := self._settled_end()) > 0:
                settled += self._parser.blocks(self._tail[:end], self._env)
                self._tail = self._tail[end:]
        if self._fence is not None:
            return Growth(settled, (self._fence.block(self._tail),))
        scratch: Env = {"references": dict(self._env.get("references", {}))}
        return Growth(settled, self._parser.blocks(self._tail, scratch, is_open=True))

    def _settled_end(self) -> int:
        """Return how much of the tail is settled. Only complete lines count: half a line can still mean anything."""
        if self._fence is None and (opening := _FENCE_OPENING.match(self._tail)):
            self._fence = _OpenFence(opening)
        if self._fence is not None:
            end = self._fence.closed_end(self._tail)
            if end:
                self._fence = None
            return end
        complete = self._tail[: self._tail.rfind("\n") + 1]
        return self._parser.last_block_start(complete, self._env) if complete else 0


class _OpenFence:
    """A code fence at the head of the tail, followed line by line without parsing it again and again."""

    def __init__(self, opening: re.Match[str]) -> None:
        indent, marks, info = opening.groups()
        self._content_start = opening.end()
        self._scanned = opening.end()
        self._info = info
        self._indent = re.compile(rf"^ {{1,{len(indent)}}}", re.MULTILINE) if indent else None
        self._closing = re.compile(rf" {{0,3}}{re.escape(marks[0])}{{{len(marks)},}}[ \t]*\n")
        self._size = 0

    def closed_end(self, tail: str) -> int:
        """Return where the line after the closing fence begins, 0 while it is open."""
        while (line_end := tail.find("\n", self._scanned)) != -1:
            if self._closing.match(tail, self._scanned):
                return line_end + 1
            self._scanned = line_end + 1
        return 0

    def block(self, tail: str) -> Block:
        """Return the code so far."""
        code = tail[self._content_start :]
        if self._indent is not None:
            code = self._indent.sub("", code)
        language = self._info.split(maxsplit=1)[0] if self._info.strip() else ""
        return Block(kind=BlockKind.CODE, size=len(tail), code=code.removesuffix("\n"), language=language)
