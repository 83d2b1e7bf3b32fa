"""The blocks of a reply, and what makes them from its text; loads no parser."""

import dataclasses
import enum
from collections.abc import MutableMapping
from typing import Any, Protocol

Env = MutableMapping[str, Any]


class BlockKind(enum.Enum):
    """What kind of widget shows a block."""

    TEXT = "text"
    TABLE = "table"
    CODE = "code"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """One top-level block of a reply.

    Attributes:
        size: characters of its source.
        html: of a text or table; without colours.
        code: exact text of a code block, without the line break before the closing fence.
        language: as the fence names it, may be empty.
    """

    kind: BlockKind
    size: int
    html: str = ""
    code: str = ""
    language: str = ""


# Follows a line of which only the beginning is shown; the widget says so in words.
CUT_LINE = Block(kind=BlockKind.TEXT, size=1, html='<p class="cut"></p>')


def normalized(text: str) -> str:
    """Return `text` with the line breaks and characters that the parser works with."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd") if "\0" in text else text


class BlockParser(Protocol):
    """Makes blocks of Markdown; see Renderer."""

    def blocks(self, source: str, env: Env | None = None, *, is_open: bool = False) -> list[Block]:
        """Return the blocks of normalized `source`."""

    def last_block_start(self, source: str, env: Env) -> int:
        """Return where the last top-level block begins that may still change."""
