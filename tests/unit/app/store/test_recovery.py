"""Recovery: of a damaged file everything is saved that is still there, and the damaged file stays as it was."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.store import ChatStore, NewNode, NodeState, Partial, ReplyEnd
from app.store.migrations import migrate
from app.store.opening import mark_damaged
from app.store.pages import PageFile
from app.store.recovery import recover
from app.store.schema import connect_to_write
from engine import Role
from tests.support.stored_messages import stored_messages
from tests.unit.app.store.conftest import OpenStore
from tests.unit.app.store.samples import add_chat, begin_reply, load, shown

PAGE = 4096
NUM_CHATS = 30


def texts_of(number: int) -> list[str]:
    """Return the messages of a chat: short ones, one of several pages, odd characters."""
    return [f"question {number} 日本\0", f"answer {number} " * (1 + 300 * (number % 5 == 0)), f"more {number}"]


@pytest.fixture(scope="module")
def sound_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with chats, wholly written."""
    path = tmp_path_factory.mktemp("sound") / "chats.sqlite3"
    store, _ = ChatStore.open(path)
    for number in range(NUM_CHATS):
        add_chat(store, *texts_of(number), title=f"chat {number}")
    store.close()
    return path


@pytest.fixture
def damaged_file(path: Path, sound_file: Path) -> Callable[[Callable[[bytearray], object]], bytes]:
    """Return a function that puts a file with chats in place, damaged by another one, and returns what it holds."""

    def damage(change: Callable[[bytearray], object]) -> bytes:
        content = bytearray(sound_file.read_bytes())
        change(content)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        mark_damaged(path)
        return bytes(content)

    return damage


def contents_of(store: ChatStore) -> set[str]:
    """Return the texts of all messages."""
    return {node.content for node in stored_messages(store)}


ALL_TEXTS = {text for number in range(NUM_CHATS) for text in texts_of(number)}


def blank(content: bytearray, start: int, size: int) -> None:
    """Put NULs into a file."""
    content[start : start + size] = bytes(size)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: blank(content, 0, 16),
        lambda content: blank(content, 0, 100),
        lambda content: blank(content, 0, PAGE),
        lambda content: blank(content, 100, 8),
    ],
    ids=["magic", "header", "first page", "root of the schema"],
)
def test_all_is_saved_when_the_beginning_is_damaged(
    damaged_file: Callable[..., bytes], open_store: OpenStore, path: Path, change: Callable[[bytearray], object]
) -> None:
    before = damaged_file(change)
    store = open_store()
    assert contents_of(store) == ALL_TEXTS
    assert [row.title for row in store.list_chats()] == [f"chat {number}" for number in reversed(range(NUM_CHATS))]
    for row in store.list_chats():
        assert shown(store, row.id) == texts_of(int(row.title.removeprefix("chat ")))
    assert len(store.search("question 7 日本")) == 1
    (aside,) = (part for part in path.parent.glob("*.damaged-*") if not part.name.endswith(("-shm", "-wal")))
    assert aside.read_bytes() == before
    assert aside.name in store.notices[0]  # type: ignore[attr-defined]


def test_nothing_is_set_aside_when_sqlite_itself_mends_it(
    damaged_file: Callable[..., bytes], open_store: OpenStore
) -> None:
    damaged_file(lambda content: blank(content, 28, 4))  # the number of pages, which the size of the file tells too
    store = open_store()
    assert store.notices == ()  # type: ignore[attr-defined]
    assert contents_of(store) == ALL_TEXTS


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
def test_what_lies_before_a_cut_is_saved(
    damaged_file: Callable[..., bytes], open_store: OpenStore, share: float
) -> None:
    content = damaged_file(lambda content: content.__delitem__(slice(int(len(content) * share), None)))
    store = open_store()
    left = {text for text in ALL_TEXTS if len(text) < 100 and text.encode() in content}
    assert left <= contents_of(store) <= ALL_TEXTS | {""}
    assert share < 0.8 or left
    chat_id, _ = add_chat(store, "goes on")
    assert shown(store, chat_id) == ["goes on"]


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nothing_but_what_was_overwritten_is_lost(
    sound_file: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    sound = sound_file.read_bytes()
    content = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content) - 1))
        noise = data.draw(st.one_of(st.binary(min_size=1, max_size=64), st.just(bytes(PAGE)), st.just(b"\xff" * 512)))
        content[start : start + len(noise)] = noise[: len(content) - start]
    hit = {
        number
        for number in range(len(sound) // PAGE)
        if sound[number * PAGE :][:PAGE] != content[number * PAGE :][:PAGE]
    }
    damaged = tmp_path_factory.mktemp("damaged") / "chats.sqlite3"
    damaged.write_bytes(content)
    new = damaged.with_name("new.sqlite3")
    new.touch()
    with closing(connect_to_write(new)) as connection:
        migrate(connection, new)
        recover(damaged, connection)
        found = {text for (text,) in connection.execute("SELECT content FROM nodes")}
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    untouched = {
        text
        for text in ALL_TEXTS
        if len(text) < 100
        for place in [sound.find(text.encode())]
        if place // PAGE not in hit and (place + 100) // PAGE not in hit
    }
    assert untouched <= found
    assert damaged.read_bytes() == content


def test_messages_above_lost_ones_can_be_reached(path: Path, open_store: OpenStore) -> None:
    store = open_store()
    chat_id, ids = add_chat(store, "q1", "a1", "q2", "a2")
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM nodes WHERE id = ?", (ids[1],))
        connection.execute("UPDATE chats SET active_leaf = ?", (ids[1],))
        connection.execute("DROP TABLE facts")
    store = open_store()
    chat = load(store, chat_id)
    assert [node.content for node in chat.children(None)] == ["q1", "q2"]
    assert shown(store, chat_id) == ["q2", "a2"]


def test_reply_in_progress_and_draft_are_saved(path: Path, open_store: OpenStore) -> None:
    store = open_store()
    chat_id, ids = add_chat(store, "q1")
    reply = begin_reply(store, chat_id, ids[0])
    store.save_partial(Partial(node_id=reply, content="half of it"))
    store.save_draft(chat_id, "draft")
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE facts")
    store = open_store()
    chat = load(store, chat_id)
    assert (chat.by_id[reply].state, chat.by_id[reply].content) == (NodeState.INTERRUPTED, "half of it")
    assert store.load_draft(chat_id) == "draft"


def test_log_is_read_before_the_file(path: Path, open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    add_chat(store, "q1", "a1" * 5000)
    copy = tmp_path / "copy.sqlite3"
    copy.write_bytes(path.read_bytes())
    copy.with_name("copy.sqlite3-wal").write_bytes(path.with_name(f"{path.name}-wal").read_bytes())
    assert b"a1a1a1" not in copy.read_bytes()
    with closing(PageFile(copy)) as pages:
        assert {"q1", "a1" * 5000} <= {value for row in pages.rows() for value in row.values}


def test_every_kind_of_value_is_read_from_raw_pages(path: Path, open_store: OpenStore) -> None:
    store = open_store()
    chat_id, ids = add_chat(store, "q1")
    reply = begin_reply(store, chat_id, ids[0])
    end = ReplyEnd(node_id=reply, content="a" * 100_000, token_ids=range(70_000), error={"e": "日"}, metrics={"t": 0.5})
    store.finish_reply(end).result(30)
    store.delete_node(ids[0])
    expected = load(store, chat_id)
    store.close()
    content = bytearray(path.read_bytes())
    blank(content, 0, PAGE)
    path.write_bytes(content)
    found = load(open_store(), chat_id)
    assert found.nodes == expected.nodes
    assert found.row == expected.row


@given(st.binary(max_size=3 * 4096), st.booleans(), st.binary(max_size=2000))
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_any_bytes_can_be_looked_through(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, looks_like_leaf: bool, log: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.sqlite3"
    header = b"SQLite format 3\0\x02\x00" + bytes(82) if looks_like_leaf else b""
    file.write_bytes(header + (b"\x0d" if looks_like_leaf else b"") + content)
    file.with_name("any.sqlite3-wal").write_bytes(log)
    with closing(PageFile(file)) as pages:
        assert all(isinstance(row.number, int) for row in pages.rows())
    file.with_name("any.sqlite3-wal").unlink()


def test_pages_that_point_at_each_other_end(tmp_path: Path) -> None:
    page = bytearray(512)
    page[0:8] = b"\x0d\0\0\0\x01\0\0\0"
    page[8:10] = (100).to_bytes(2, "big")
    page[100:104] = b"\xff\xff\x7f\x01"  # a row that is said to be two million bytes long
    page[508:512] = (2).to_bytes(4, "big")
    file = tmp_path / "loop.sqlite3"
    file.write_bytes(b"SQLite format 3\0\x02\x00" + bytes(494) + bytes(page))
    with closing(PageFile(file)) as pages:
        assert list(pages.rows()) == []


def test_new_message_after_recovery_has_the_greatest_number(
    damaged_file: Callable[..., bytes], open_store: OpenStore
) -> None:
    damaged_file(lambda content: blank(content, 0, PAGE))
    store = open_store()
    numbers = [node.number for node in stored_messages(store)]
    row = store.list_chats()[0]
    node = NewNode(chat_id=row.id, parent_id=load(store, row.id).active_leaf, role=Role.USER, content="new")
    store.add_node(node)
    assert load(store, row.id).by_id[node.id].number > max(numbers)
