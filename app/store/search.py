"""Finding text: which rows hold which grams, and the places of a text in another.

A gram is a run of one, two or three characters. Each text is indexed as the set of its grams, so a text of two Chinese
characters is found as fast as an English word. Rows that hold all grams of what is sought are candidates; each is then
looked through for the text itself, letter by letter, so that nothing in it can act as an operator.
"""

import operator
import sqlite3
from collections.abc import Iterator

from app.store.records import Hit
from engine import clean_text

MAX_GRAM = 3
NUM_HITS = 200

_MAX_GRAMS_ASKED = 48  # enough to narrow any text down; the candidates are looked through anyway
_EXCERPT_BEFORE = 40
_EXCERPT_LENGTH = 200
# The ascii tokenizer splits at these; private characters stand in, and a text that holds one is but one more candidate.
_STAND_INS = {code: chr(0xE000 + code) for code in range(128) if not chr(code).isalnum()}
_Candidate = tuple[str, str | None, tuple[tuple[str, str], ...]]  # chat, message, its texts by field


def fold(text: str) -> str:
    """Return `text` without the difference of capitals, each character at its place."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few capitals become two characters
        lowered = "".join(small if len(small := character.lower()) == 1 else character for character in text)
    return lowered if lowered.isascii() else lowered.replace("ς", "σ")


def find_places(text: str, sought: str) -> list[tuple[int, int]]:
    """Return start and length of each place where `text` holds `sought`, capitals or not; a blank text has none."""
    return _places(fold(text), fold(sought)) if sought.strip() else []


def count_places(text: str, sought: str) -> int:
    """Return how many places `find_places` would find, however many those are."""
    return fold(text).count(fold(sought)) if sought.strip() else 0


def _places(folded: str, needle: str) -> list[tuple[int, int]]:
    places = []
    start = folded.find(needle)
    while start >= 0:
        places.append((start, len(needle)))
        start = folded.find(needle, start + len(needle))
    return places


def grams_of(*texts: str) -> str:
    """Return the grams of some texts in the form in which they are indexed and taken out again."""
    grams: set[str] = set()
    for text in texts:
        coded = fold(text).translate(_STAND_INS)
        pairs = list(map(operator.add, coded, coded[1:]))
        grams.update(coded, pairs, map(operator.add, pairs, coded[2:]))
    return " ".join(grams)


def index_row(connection: sqlite3.Connection, row: int, *texts: str) -> None:
    """Make a row findable; chats are indexed by their negative number, messages by theirs."""
    connection.execute("INSERT INTO grams(rowid, held) VALUES (?, ?)", (row, grams_of(*texts)))


def forget_row(connection: sqlite3.Connection, row: int, *texts: str) -> None:
    """Take a row out of the index, given the texts it was indexed with."""
    connection.execute("INSERT INTO grams(grams, rowid, held) VALUES ('delete', ?, ?)", (row, grams_of(*texts)))


def index_all(connection: sqlite3.Connection) -> None:
    """Build the index anew."""
    connection.execute("INSERT INTO grams(grams) VALUES ('delete-all')")
    for number, title in connection.execute("SELECT seq, title FROM chats"):
        index_row(connection, -number, title)
    for number, content, thinking in connection.execute(
        "SELECT seq, content, thinking FROM nodes WHERE state <> 'open'"
    ):
        index_row(connection, number, content, thinking)


def search(
    connection: sqlite3.Connection, text: str, *, num_hits: int = NUM_HITS, includes_trash: bool = False
) -> list[Hit]:
    """Return where titles, messages and their thinking hold `text`: titles first, then the newest messages first."""
    sought = clean_text(text).strip()
    if not sought:
        return []
    needle = fold(sought)
    query = _query_of(needle)
    hits: list[Hit] = []
    for candidates in (_titles(connection, query), _messages(connection, query, includes_trash)):
        for chat_id, node_id, texts in candidates:
            found = [(field, whole, places) for field, whole in texts if (places := _places(fold(whole), needle))]
            if not found:
                continue
            title, deleted_at = connection.execute(
                "SELECT title, deleted_at FROM chats WHERE id = ?", (chat_id,)
            ).fetchone()
            if deleted_at is None or includes_trash:
                hits += [Hit(chat_id, title, node_id, field, *_excerpt(whole, at)) for field, whole, at in found]
            if len(hits) >= num_hits:
                return hits[:num_hits]
    return hits


def _query_of(needle: str) -> str:
    coded = needle.translate(_STAND_INS)
    length = min(MAX_GRAM, len(coded))
    grams = sorted({coded[start : start + length] for start in range(len(coded) - length + 1)})
    step = -(-len(grams) // _MAX_GRAMS_ASKED)
    return " AND ".join(f'"{gram}"' for gram in grams[::step])


def _titles(connection: sqlite3.Connection, query: str) -> Iterator[_Candidate]:
    for chat_id, title in connection.execute(
        """SELECT chats.id, chats.title FROM grams CROSS JOIN chats ON chats.seq = -grams.rowid
        WHERE grams MATCH ? AND grams.rowid < 0 ORDER BY grams.rowid""",
        (query,),
    ):
        yield chat_id, None, (("title", title),)


def _messages(connection: sqlite3.Connection, query: str, includes_trash: bool) -> Iterator[_Candidate]:
    for chat_id, node_id, content, thinking in connection.execute(
        f"""SELECT nodes.chat_id, nodes.id, nodes.content, nodes.thinking
        FROM grams CROSS JOIN nodes ON nodes.seq = grams.rowid
        WHERE grams MATCH ? AND grams.rowid > 0 {"" if includes_trash else "AND nodes.deleted_at IS NULL"}
        ORDER BY grams.rowid DESC""",
        (query,),
    ):
        yield chat_id, node_id, (("content", content), ("thinking", thinking))


def _excerpt(text: str, places: list[tuple[int, int]]) -> tuple[str, tuple[tuple[int, int], ...]]:
    start = max(0, places[0][0] - _EXCERPT_BEFORE)
    end = start + _EXCERPT_LENGTH
    excerpt = text[start:end].translate({ord(mark): " " for mark in "\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029"})
    spans = tuple((place - start, min(length, end - place)) for place, length in places if place < end)
    return excerpt, spans
