"""Documents as part of a message: they stand before what is asked, always in the same words.

The message that is stored, shown, counted and sent is one text, so that nothing about a chat has to know of documents
but what writes such a text and what takes it apart again.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_NAME_CHARS = 120

_HEAD = re.compile(r'<(document(?:-[0-9]{1,6})?) name="([^"\n<>]{1,' + str(MAX_NAME_CHARS) + r'})">\n')
_UNNAMABLE = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028\u2029"<>]+')


class Document(NamedTuple):
    """A text with a name, as `document` makes it."""

    name: str
    text: str


def document(name: str, text: str) -> Document:
    """Return a document whose name can stand in a message."""
    cleaned = " ".join(_UNNAMABLE.sub(" ", name).split())
    if len(cleaned) > MAX_NAME_CHARS:
        half = MAX_NAME_CHARS // 2
        cleaned = f"{cleaned[: half - 1]}…{cleaned[-half:]}"
    return Document(cleaned or "document", text)


def join_documents(documents: Iterable[Document], text: str) -> str:
    """Return a message of documents and what is asked about them."""
    return "".join(map(_block, documents)) + text


def split_documents(content: str) -> tuple[tuple[Document, ...], str]:
    """Return the documents at the beginning of a message, and the rest; joined they are the message again."""
    documents: list[Document] = []
    place = 0
    while (head := _HEAD.match(content, place)) is not None:
        end = f"\n</{head[1]}>\n\n"
        found = content.find(end, head.end())
        if found < 0:
            break
        read = document(head[2], content[head.end() : found])
        if _block(read) != content[place : found + len(end)]:
            break  # nobody but `join_documents` is believed
        documents.append(read)
        place = found + len(end)
    return tuple(documents), content[place:]


def summary_of(content: str) -> str:
    """Return a message with the names of its documents in the place of their texts."""
    documents, words = split_documents(content)
    return " · ".join(part for part in (names_of(documents), words) if part)


def is_document(text: str) -> bool:
    """Tell whether a text is one document and nothing else, by how it begins and ends."""
    head = _HEAD.match(text)
    return head is not None and text.endswith(f"\n</{head[1]}>\n\n")


def beginning_of(text: str, num_chars: int) -> Document | None:
    """Return a text that is one document and nothing else with so many of its characters, None for any other text.

    Takes next to no time where `split_documents` would make copies of megabytes.
    """
    head = _HEAD.match(text)
    if head is None or not is_document(text):
        return None
    if head[1] != "document":  # its text has the marks of others in it
        documents, rest = split_documents(text)
        return documents[0]._replace(text=documents[0].text[:num_chars]) if len(documents) == 1 and not rest else None
    end = f"\n</{head[1]}>\n\n"
    last = len(text) - len(end)
    is_one = text.find(end[1:-2], head.end()) == last + 1 and document(head[2], "").name == head[2]
    return Document(head[2], text[head.end() : min(head.end() + num_chars, last)]) if is_one else None


def names_of(documents: Sequence[Document]) -> str:
    """Return what several documents are called together."""
    names = ", ".join(item.name for item in documents)
    return names if len(names) <= MAX_NAME_CHARS else f"{names[: MAX_NAME_CHARS - 1]}…"


def _block(item: Document) -> str:
    """Return a document between marks that its text does not hold."""
    tag, number = "document", 1
    while f"</{tag}>" in item.text:
        number += 1
        tag = f"document-{number}"
    return f'<{tag} name="{item.name}">\n{item.text}\n</{tag}>\n\n'
