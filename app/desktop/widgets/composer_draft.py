"""Draft: what stands in the composer, typed and pasted, and the one string that keeps it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from app.document_text import is_document, join_documents, split_documents

# Beyond these, laying a text out or changing it takes longer than a frame. Bytes of UTF-8 stand for the work of a line:
# scripts with larger codes cost more for each character.
MAX_EDIT_CHARS = 200_000
MAX_EDIT_LINES = 5_000
MAX_EDIT_LINE_BYTES = 8_000

# Nobody types a unit separator, so a plain text is hardly ever mistaken for the written form.
_HEAD = "\x1fdraft"
_HEAD_LINE = re.compile(_HEAD + "1((?: [0-9]{1,12})+)\n")


class Draft(NamedTuple):
    """A message that is being written.

    Attributes:
        typed: what stands in the text edit.
        pasted: long texts that are kept beside it, and documents, each as it stands in a message.
    """

    typed: str = ""
    pasted: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The message as it would be sent: the documents first."""
        documents = [part for part in self.pasted if is_document(part)]
        beside = [part for part in self.pasted if not is_document(part)]
        return "".join(documents) + "\n\n".join(part for part in (self.typed, *beside) if part)

    @property
    def documents(self) -> tuple[str, ...]:
        """The documents in it, each as it stands in a message."""
        return tuple(part for part in self.pasted if is_document(part))

    @property
    def written(self) -> str:
        """The string that `read_draft` reads; the text itself where there is nothing but text."""
        if not self.pasted and not self.typed.startswith(_HEAD):
            return self.typed
        parts = (self.typed, *self.pasted)
        return f"{_HEAD}1 {' '.join(str(len(part)) for part in parts)}\n{''.join(parts)}"

    def fitted(self) -> "Draft":
        """Return the draft with documents, and a text that is too long to be edited, put beside."""
        documents, typed = split_documents(self.typed)
        beside = (*(join_documents([item], "") for item in documents), *self.pasted)
        return Draft(typed, beside) if can_be_edited(typed) else Draft("", (typed, *beside))

    def above(self, other: "Draft") -> "Draft":
        """Return both drafts as one, this one first."""
        typed = "\n\n".join(part for part in (self.typed, other.typed) if part)
        if can_be_edited(typed):
            return Draft(typed, (*self.pasted, *other.pasted))
        return Draft(other.typed, (self.typed, *self.pasted, *other.pasted))


def text_of_all(texts: Sequence[str]) -> str:
    """Return several messages as one."""
    whole = Draft()
    for text in reversed(texts):
        whole = Draft(text).fitted().above(whole)
    return whole.text


def read_draft(written: str) -> Draft:
    """Return what `Draft.written` was made of; any other string is a typed text."""
    head = _HEAD_LINE.match(written)
    sizes = [int(size) for size in head[1].split()] if head is not None else []
    if head is None or sum(sizes) != len(written) - head.end():
        return Draft(written)
    parts, start = [], head.end()
    for size in sizes:
        parts.append(written[start : start + size])
        start += size
    return Draft(parts[0], tuple(parts[1:]))


def can_be_edited(text: str) -> bool:
    """Tell whether a text may stand in the text edit."""
    if len(text) > MAX_EDIT_CHARS:
        return False
    lines = text.split("\n")
    return len(lines) <= MAX_EDIT_LINES and longest_line_bytes(lines) <= MAX_EDIT_LINE_BYTES


def longest_line_bytes(lines: Sequence[str]) -> int:
    """Return the largest number of bytes of UTF-8 in a line."""
    return max((len(line.encode("utf-8", "surrogatepass")) for line in lines), default=0)
