"""Search: every fragment is found letter by letter, and nothing in it is an operator."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store import ChatStore, NewNode, NodeState, Partial, ReplyEnd, find_places
from app.store.schema import create_tables
from app.store.search import forget_row, grams_of, index_row, search
from engine import Role
from tests.unit.app.store.samples import add_chat, begin_reply, node_of

TEXT = "the multi-agent test don't 日本語テスト C++ a\"b 50% x_y"
FRAGMENTS = [
    "don't",
    "multi-agent",
    "C++",
    'a"b',
    "日本",
    "50%",
    "_",
    "本語テ",
    "日",
    "%",
    '"',
    "x_y",
    TEXT,
    "THE MULTI",
    "c+",
]
ABSENT = [
    "AND",
    "*",
    "(x",
    "NEAR(",
    "x" * 10_000,
    "5_%",
    "x%y",
    "dont",
    "日語",
    "OR",
    "NOT test",
    "held:the",
    "^the",
    "\0",
]


@pytest.fixture
def searched(store: ChatStore) -> ChatStore:
    """Return a store with one message."""
    add_chat(store, TEXT)
    return store


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_fragment_is_found_once(searched: ChatStore, fragment: str) -> None:
    (hit,) = searched.search(fragment)
    assert hit.field == "content"
    assert [hit.excerpt[start : start + length].lower() for start, length in hit.spans[:1]] == [
        fragment.lower()[: hit.spans[0][1]]
    ]


@pytest.mark.parametrize("absent", ABSENT, ids=lambda text: ascii(text[:10]))
def test_nothing_is_found_of_what_is_not_there(searched: ChatStore, absent: str) -> None:
    assert searched.search(absent) == []


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u00a0"], ids=ascii)
def test_blank_text_has_no_hits(searched: ChatStore, blank: str) -> None:
    assert searched.search(blank) == []


def test_ten_thousand_characters_are_found_when_they_are_there(store: ChatStore) -> None:
    text = "".join(chr(0x4E00 + number % 5000) for number in range(10_000))
    add_chat(store, "before " + text + " behind")
    assert len(store.search(text)) == 1
    assert store.search(text[::-1]) == []


def test_text_behind_a_nul_is_found(store: ChatStore) -> None:
    add_chat(store, "before\0behind")
    assert [len(store.search(text)) for text in ("behind", "e\0b", "before")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("stored", "sought"),
    [("ÄRGER", "ärger"), ("straße", "STRAßE"), ("ΟΔΟΣ", "οδος"), ("İstanbul", "STANBUL"), ("İx", "İX"), ("Дом", "дОМ")],
)
def test_capitals_make_no_difference(store: ChatStore, stored: str, sought: str) -> None:
    add_chat(store, stored)
    assert len(store.search(sought)) == 1


def test_titles_come_first_then_the_newest_messages(store: ChatStore) -> None:
    _, old = add_chat(store, "an old harbour")
    titled, _ = add_chat(store, "x", title="The harbour")
    _, new = add_chat(store, "a new harbour")
    hits = store.search("harbour")
    assert [(hit.field, hit.node_id) for hit in hits] == [("title", None), ("content", new[0]), ("content", old[0])]
    assert (hits[0].chat_id, hits[0].title) == (titled, "The harbour")
    assert len(store.search("harbour", num_hits=2)) == 2


def test_hidden_branch_and_thinking_are_found_and_can_be_shown(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q", "a first answer")
    second = node_of(store, chat_id, ids[1]).variant("another", thinking="a secret thought")
    store.add_node(second).result(30)
    (hit,) = store.search("first answer")
    assert hit.node_id == ids[1]
    store.show_node(hit.node_id).result(30)
    assert [hit.field for hit in store.search("secret thought")] == ["thinking"]


def test_reply_is_found_only_once_it_is_final(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q")
    reply = begin_reply(store, chat_id, ids[0])
    store.save_partial(Partial(node_id=reply, content="a nightingale"))
    store.flush(30)
    assert store.search("nightingale") == []
    store.finish_reply(ReplyEnd(node_id=reply, content="a nightingale sang")).result(30)
    assert len(store.search("nightingale")) == 1


def test_trash_is_left_out_unless_asked_for(store: ChatStore) -> None:
    chat_id, _ = add_chat(store, "a walrus", title="Walrus")
    _, ids = add_chat(store, "one more walrus")
    store.trash_chat(chat_id)
    store.delete_node(ids[0]).result(30)
    assert store.search("walrus") == []
    assert len(store.search("walrus", includes_trash=True)) == 3
    store.restore_chat(chat_id)
    store.restore_node(ids[0]).result(30)
    assert len(store.search("walrus")) == 3


def test_purged_text_is_in_no_file(store: ChatStore) -> None:
    chat_id, _ = add_chat(store, "a walrus", title="walruses")
    store.trash_chat(chat_id)
    assert store.purge_chat(chat_id).result(30)
    assert store.search("walrus", includes_trash=True) == []
    store.close()
    assert b"walrus" not in store.path.read_bytes()


def test_excerpt_shows_all_places_on_one_line(store: ChatStore) -> None:
    add_chat(store, "x" * 100 + "\nneedle one\n\nneedle two " + "y" * 1000 + " needle three")
    (hit,) = store.search("needle")
    assert "\n" not in hit.excerpt
    assert len(hit.excerpt) <= 200
    assert [hit.excerpt[start : start + length] for start, length in hit.spans] == ["needle", "needle"]


@given(st.text(max_size=40), st.text(min_size=1, max_size=6))
def test_places_are_those_of_the_text_itself(text: str, sought: str) -> None:
    whole = text + sought + text
    places = find_places(whole, sought)
    assert bool(places) == bool(sought.strip())
    assert all(0 <= start <= len(whole) - length and length == len(sought) for start, length in places)


LETTERS = st.text(st.sampled_from("aAbBßİıςΣσ日本 '\"%_*-()\0\ue041é\u0301👍"), max_size=12)


@given(st.lists(LETTERS, min_size=1, max_size=5), st.data())
def test_index_finds_what_looking_through_all_finds(texts: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(chosen)))
    sought = data.draw(st.one_of(LETTERS, st.just(chosen[start : start + data.draw(st.integers(0, 5))])))
    with closing(sqlite3.connect(":memory:")) as connection:
        create_tables(connection)
        connection.execute("INSERT INTO chats (id) VALUES ('c')")
        for number, text in enumerate(texts, 1):
            connection.execute(
                "INSERT INTO nodes (seq, id, chat_id, content) VALUES (?, ?, 'c', ?)", (number, str(number), text)
            )
            index_row(connection, number, text)
        found = {hit.node_id for hit in search(connection, sought)}
        assert found == {str(number) for number, text in enumerate(texts, 1) if find_places(text, sought.strip())}
        for number, text in enumerate(texts, 1):
            forget_row(connection, number, text)
        assert connection.execute("SELECT COUNT(*) FROM grams WHERE grams MATCH 'a OR b'").fetchone() == (0,)


def test_grams_hold_nothing_the_index_would_split() -> None:
    every = "".join(map(chr, range(0x300)))
    assert all(c.isalnum() or ord(c) > 127 for gram in grams_of(every).split(" ") for c in gram)


def test_open_message_of_a_new_chat_is_not_indexed_twice(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q")
    node = NewNode(chat_id=chat_id, parent_id=ids[0], role=Role.ASSISTANT, content="begun", state=NodeState.OPEN)
    store.add_node(node)
    store.finish_reply(ReplyEnd(node_id=node.id, content="begun and ended")).result(30)
    assert len(store.search("begun")) == 1
