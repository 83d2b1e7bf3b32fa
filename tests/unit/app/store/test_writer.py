"""Writer: what a lock, a full disk or a fault of a job does to the one thread that writes."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from app.errors import StoreError, StoreFull, StoreLocked
from app.store import ChatStore, NewChat, NewNode, Partial, ReplyEnd
from engine import Role
from tests.unit.app.store.conftest import OpenStore
from tests.unit.app.store.samples import add_chat, begin_reply, shown


@pytest.fixture
def locker(store: ChatStore) -> Iterator[sqlite3.Connection]:
    """Return another connection to the same file."""
    with closing(sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)) as connection:
        yield connection


@pytest.fixture
def store(open_store: OpenStore, heard: threading.Event, troubles: list[StoreError]) -> ChatStore:
    """Return a store that speaks of a lock after a quarter of a second."""
    store = open_store(lock_timeout_s=0.25)
    report = store._writer._on_trouble

    def on_trouble(error: StoreError) -> None:
        report(error)
        heard.set()

    store._writer._on_trouble = on_trouble
    return store


@pytest.fixture
def heard() -> threading.Event:
    """Return what is set when a trouble was told."""
    return threading.Event()


def test_write_is_told_as_waiting_and_saved_when_a_lock_is_gone(
    store: ChatStore, locker: sqlite3.Connection, heard: threading.Event, troubles: list[StoreError]
) -> None:
    chat_id, ids = add_chat(store, "q")
    reply = begin_reply(store, chat_id, ids[0])
    locker.execute("BEGIN IMMEDIATE")
    started_at = time.monotonic()
    store.save_partial(Partial(node_id=reply, content="a"))
    done = store.finish_reply(ReplyEnd(node_id=reply, content="all of it"))
    assert time.monotonic() - started_at < 0.2
    assert heard.wait(30)
    assert not done.done()
    locker.execute("COMMIT")
    done.result(30)
    assert shown(store, chat_id) == ["q", "all of it"]
    assert {type(trouble) for trouble in troubles} == {StoreLocked}
    troubles.clear()


def test_reading_goes_on_while_a_lock_keeps_writes_out(store: ChatStore, locker: sqlite3.Connection) -> None:
    add_chat(store, "a harbour")
    locker.execute("BEGIN IMMEDIATE")
    store.add_chat(NewChat())
    assert len(store.search("harbour")) == len(store.list_chats()) == 1
    locker.execute("COMMIT")


def test_write_fails_when_the_store_closes_before_the_lock_is_gone(
    store: ChatStore, locker: sqlite3.Connection, troubles: list[StoreError]
) -> None:
    locker.execute("BEGIN IMMEDIATE")
    writes = [store.add_chat(NewChat()) for _ in range(2)]
    store.close(timeout_s=0.1)
    assert [type(write.exception(0)) for write in writes] == [StoreLocked, StoreLocked]
    assert {type(trouble) for trouble in troubles} == {StoreLocked}
    troubles.clear()


def test_latest_counts_when_saves_pile_up(store: ChatStore, locker: sqlite3.Connection) -> None:
    chat_id, ids = add_chat(store, "q")
    reply = begin_reply(store, chat_id, ids[0])
    locker.execute("BEGIN IMMEDIATE")
    store.add_chat(NewChat())
    for number in range(1000):
        store.save_partial(Partial(node_id=reply, content="x" * number))
    assert store._writer._queue.qsize() <= 2
    locker.execute("COMMIT")
    assert shown(store, chat_id) == ["q", "x" * 999]


def test_full_disk_is_told_and_what_was_there_stays(store: ChatStore, troubles: list[StoreError]) -> None:
    chat_id, ids = add_chat(store, "q")
    store._writer.submit(lambda connection: connection.execute("PRAGMA max_page_count = 40")).result(30)
    node = NewNode(chat_id=chat_id, parent_id=ids[0], role=Role.ASSISTANT, content="x" * 1_000_000)
    with pytest.raises(StoreFull, match="full"):
        store.add_node(node).result(30)
    assert [type(trouble) for trouble in troubles] == [StoreFull]
    troubles.clear()
    assert shown(store, chat_id) == ["q"]
    store._writer.submit(lambda connection: connection.execute("PRAGMA max_page_count = 100000")).result(30)
    store.add_node(node).result(30)
    assert shown(store, chat_id) == ["q", "x" * 1_000_000]


def test_failed_write_leaves_nothing_half_done(store: ChatStore, troubles: list[StoreError]) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO chats (id) VALUES ('half')")
        raise StoreError("No.")

    with pytest.raises(StoreError):
        store._writer.submit(fail).result(30)
    troubles.clear()
    assert store.list_chats() == []


@pytest.mark.allow_log("ERROR app.store.writer: a job of the chat store failed.*")
def test_writing_goes_on_when_a_job_has_a_fault(store: ChatStore) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store._writer.submit(fail).result(30)
    add_chat(store, "q")


@pytest.mark.allow_log("ERROR app.store.writer: a listener of the chat store failed.*")
def test_writing_goes_on_when_a_listener_has_a_fault(store: ChatStore, troubles: list[StoreError]) -> None:
    def listen(error: StoreError) -> None:
        raise ZeroDivisionError

    store._writer._on_trouble = listen
    node = NewNode(chat_id="0" * 32, parent_id=None, role=Role.USER)
    assert isinstance(store.add_node(node).exception(30), StoreError)
    add_chat(store, "q")


def test_cancelled_write_is_not_done(store: ChatStore, locker: sqlite3.Connection) -> None:
    locker.execute("BEGIN IMMEDIATE")
    first = store.add_chat(NewChat(title="first"))
    second = store.add_chat(NewChat(title="second"))
    assert second.cancel()
    locker.execute("COMMIT")
    first.result(30)
    store.flush(30)
    assert [row.title for row in store.list_chats()] == ["first"]


@pytest.mark.parametrize("partial", [True, False], ids=["partial", "final"])
def test_sync_is_full_for_what_is_final(store: ChatStore, partial: bool) -> None:
    levels: list[int] = []

    def read(connection: sqlite3.Connection) -> None:
        levels.append(connection.execute("PRAGMA synchronous").fetchone()[0])

    if partial:
        store._writer.submit_latest("k", read)
    else:
        store._writer.submit(read)
    store.flush(30)
    assert levels == [1 if partial else 2]


def test_saving_costs_the_caller_next_to_nothing(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q")
    reply = begin_reply(store, chat_id, ids[0])
    partial = Partial(node_id=reply, content="word " * 10_000)
    started_at = time.thread_time()
    for _ in range(200):
        store.save_partial(partial)
    assert (time.thread_time() - started_at) / 200 < 0.001
