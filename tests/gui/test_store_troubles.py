"""Chats that cannot be written for a while: the user hears of it once, and nothing that was said is lost."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.errors import AppError
from app.store import Chat, ChatStore
from app.store import store as store_module
from app.store.opening import open_file
from engine import Generate
from tests.gui.scripted_engine import Desk

FILE = "chats.sqlite3"


@pytest.fixture
def open_desk(make_desk: Callable[..., Desk], tmp_path: Path) -> Iterator[Callable[[], Desk]]:
    """Open a window on chats in a folder."""

    def open_one() -> Desk:
        desk = make_desk()
        with desk.qtbot.waitSignal(desk.parts.keeping.opened):
            desk.parts.keeping.open(tmp_path / FILE, retention_days=30)
        desk.load()
        return desk

    yield open_one
    QApplication.processEvents()


def store_of(desk: Desk) -> ChatStore:
    store = desk.parts.chats.recorder.store
    assert store is not None
    return store


def limit_pages(desk: Desk, room: int | None) -> None:
    """Let the file of chats grow by so many pages, as a disk that is nearly full; None makes room again."""

    def limit(connection: sqlite3.Connection) -> None:
        wanted = 1 << 30
        if room is not None:
            wanted = connection.execute("PRAGMA page_count").fetchone()[0] + room
        connection.execute(f"PRAGMA max_page_count = {wanted}")

    store_of(desk)._writer.submit(limit).result()


def press(desk: Desk, key: str, label: str) -> None:
    """Press a button of a notice."""
    button = desk.window.notices.button(key, label)
    assert button is not None
    button.click()


def settle(desk: Desk) -> None:
    """Wait until the store has answered all writes."""
    desk.qtbot.waitUntil(lambda: not desk.parts.chats.recorder._open, timeout=10_000)


def saved(path: Path) -> list[Chat]:
    store, _ = ChatStore.open(path)
    chats = [chat for row in store.list_chats() if (chat := store.load_chat(row.id)) is not None]
    store.close()
    return chats


def texts(chat: Chat) -> list[str]:
    return [node.content for node in chat.shown_path()]


def store_notices(desk: Desk) -> list[str]:
    return [notice.text for notice in desk.window.notices.notices if notice.key == "store"]


LONG = "word " * 4000


@pytest.mark.allow_log("a chat could not be saved")
@pytest.mark.parametrize("how", ["next message", "try again", "close"])
def test_what_was_said_on_a_full_disk_is_saved_when_there_is_room(
    open_desk: Callable[[], Desk], tmp_path: Path, how: str
) -> None:
    desk = open_desk()
    said: list[str] = []
    desk.window.announce = said.append  # type: ignore[assignment]
    limit_pages(desk, 0)
    desk.reply("one " + LONG, "first")
    desk.parts.conversation.rename("A name")
    desk.reply("two " + LONG, "second")
    settle(desk)
    assert len(store_notices(desk)) == 1
    assert said.count(store_notices(desk)[0]) == 1
    limit_pages(desk, None)
    expected = ["one " + LONG, "first", "two " + LONG, "second"]
    if how == "next message":
        desk.reply("three", "third")
        expected += ["three", "third"]
    elif how == "try again":
        press(desk, "store", "Try again")
    if how != "close":
        settle(desk)
        assert store_notices(desk) == []
    desk.parts.close()
    [chat] = saved(tmp_path / FILE)
    assert texts(chat) == expected
    assert chat.row.title == "A name"
    assert chat.model == "starter"


@pytest.mark.parametrize("how", ["next message", "close"])
@pytest.mark.allow_log("a chat could not be saved", "a job of the chat store failed")
def test_draft_typed_on_a_full_disk_is_saved_when_there_is_room(
    open_desk: Callable[[], Desk], tmp_path: Path, how: str
) -> None:
    desk = open_desk()
    desk.reply("one", "first")
    settle(desk)
    chat_id = desk.parts.conversation.chat.id
    limit_pages(desk, 0)
    desk.composer.set_text("")
    desk.parts.conversation.save_draft("draft " + LONG)
    if how == "next message":
        desk.parts.conversation.submit("two " + LONG)
        desk.finish(desk.client.last(Generate).request_id, "second")
    settle(desk)
    limit_pages(desk, None)
    if how == "next message":
        desk.parts.conversation.submit("three")
        desk.finish(desk.client.last(Generate).request_id, "third")
        settle(desk)
        store_of(desk).flush()
        assert store_of(desk).load_draft(chat_id) == "draft " + LONG
    desk.parts.close()
    store, _ = ChatStore.open(tmp_path / FILE)
    draft = store.load_draft(chat_id)
    store.close()
    assert draft == "draft " + LONG


@pytest.mark.allow_log("a chat could not be saved")
def test_chat_said_on_a_full_disk_is_there_when_it_is_opened_again(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    desk.reply("other", "chat")
    other = desk.parts.conversation.chat.id
    desk.parts.actions.new_chat()
    limit_pages(desk, 0)
    desk.reply("one " + LONG, "first")
    chat_id = desk.parts.conversation.chat.id
    desk.parts.chats.open(other)
    desk.qtbot.waitUntil(lambda: desk.parts.conversation.chat.id == other)
    settle(desk)
    desk.parts.chats.open(chat_id)
    assert [turn.text for turn in desk.parts.conversation.turns] == ["one " + LONG, "first"]
    limit_pages(desk, None)


@pytest.mark.allow_log("a chat could not be saved")
def test_write_that_can_never_succeed_does_not_keep_others_back(open_desk: Callable[[], Desk], tmp_path: Path) -> None:
    desk = open_desk()
    desk.reply("one", "first")
    settle(desk)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("DELETE FROM nodes")
        connection.commit()
    desk.reply("two", "second")
    settle(desk)
    assert len(store_notices(desk)) == 1
    desk.parts.actions.new_chat()
    for number in range(4):
        desk.reply(f"question {number}", f"answer {number}")
        settle(desk)
    assert desk.parts.chats.recorder.is_up_to_date
    desk.parts.close()
    chats = saved(tmp_path / FILE)
    assert len(texts(next(chat for chat in chats if chat.row.title == "question 0"))) == 8


@pytest.fixture
def short_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a lock be told after a moment."""
    real = ChatStore.open

    def open_soon(path: Path, **options: object) -> tuple[ChatStore, tuple[str, ...]]:
        return real(path, lock_timeout_s=0.2, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ChatStore, "open", staticmethod(open_soon))


@pytest.mark.usefixtures("short_locks")
def test_message_said_while_another_program_holds_a_lock_is_saved_afterwards(
    open_desk: Callable[[], Desk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.desktop.session.chat_listing._FLUSH_S", 0.3)
    desk = open_desk()
    desk.reply("other", "chat")
    settle(desk)
    other = desk.parts.conversation.chat.id
    desk.parts.actions.new_chat()
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        desk.reply("one", "first")
        desk.qtbot.waitUntil(lambda: store_notices(desk) == ["Another program holds the chats locked."])
        desk.qtbot.wait(600)  # the list of chats is read meanwhile
        assert store_notices(desk) == ["Another program holds the chats locked."]
        chat_id = desk.parts.conversation.chat.id
        desk.parts.chats.open(other)
        desk.qtbot.waitUntil(lambda: desk.parts.conversation.chat.id == other)
        assert [turn.text for turn in desk.parts.conversation.turns] == ["other", "chat"]
        desk.parts.chats.open(chat_id)
        assert [turn.text for turn in desk.parts.conversation.turns] == ["one", "first"]
        connection.execute("ROLLBACK")
    settle(desk)
    assert store_notices(desk) == []
    desk.parts.close()
    assert [texts(chat) for chat in saved(tmp_path / FILE)] == [["one", "first"], ["other", "chat"]]


@pytest.mark.usefixtures("short_locks")
def test_chats_locked_at_the_start_are_opened_when_the_lock_is_gone(
    make_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    ChatStore.open(tmp_path / FILE)[0].close()
    desk = make_desk()
    desk.load()
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        desk.parts.keeping.open(tmp_path / FILE, retention_days=30)
        desk.qtbot.waitUntil(lambda: store_notices(desk) == ["Another program holds the chats locked."])
        desk.reply("one", "first")
        with desk.qtbot.waitSignal(desk.parts.keeping.opened):
            connection.execute("ROLLBACK")
    assert store_notices(desk) == []
    desk.parts.close()
    assert [texts(chat) for chat in saved(tmp_path / FILE)] == [["one", "first"]]


@pytest.mark.parametrize("kind", ["newer", "none"])
def test_chats_are_kept_once_they_can_be_opened_by_try_again(
    make_desk: Callable[..., Desk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / FILE
    ChatStore.open(path)[0].close()
    newer = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("UPDATE facts SET value = 99 WHERE name = 'schema'")
        connection.execute("PRAGMA user_version = 99")
        connection.commit()
    assert version
    if kind == "none":
        path.write_bytes(newer)

        def fail(*_: object, **__: object) -> None:
            raise AppError("There is no place to keep chats.", "Make room on the disk.")

        monkeypatch.setattr(store_module, "open_file", fail)
    desk = make_desk()
    desk.load()
    desk.parts.keeping.open(path, retention_days=30)
    desk.qtbot.waitUntil(lambda: len(store_notices(desk)) == 1)
    desk.reply("one", "first")
    monkeypatch.undo()
    path.write_bytes(newer)
    with desk.qtbot.waitSignal(desk.parts.keeping.opened):
        press(desk, "store", "Try again")
    assert store_notices(desk) == []
    desk.parts.close()
    assert [texts(chat) for chat in saved(path)] == [["one", "first"]]


def test_closing_while_the_chats_are_opened_keeps_what_was_said_and_frees_the_file(
    make_desk: Callable[..., Desk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_begun = open_file, threading.Event()

    def open_slowly(path: Path, *, lock_timeout_s: float) -> object:
        is_begun.set()
        time.sleep(0.3)
        return real(path, lock_timeout_s=lock_timeout_s)

    monkeypatch.setattr(store_module, "open_file", open_slowly)
    desk = make_desk()
    desk.load()
    desk.parts.keeping.open(tmp_path / FILE, retention_days=30)
    request_id = desk.say("one")
    desk.delta(request_id, "half")
    assert is_begun.wait(5)
    desk.parts.close()
    monkeypatch.undo()
    assert [thread.name for thread in threading.enumerate() if thread.name == "chat-store-writer"] == []
    assert [texts(chat) for chat in saved(tmp_path / FILE)] == [["one", "half"]]
    assert desk.client.count(Generate) == 1


@pytest.mark.allow_log("a chat could not be saved")
def test_file_that_is_damaged_while_it_is_used_is_mended_with_all_that_was_said(
    open_desk: Callable[[], Desk], tmp_path: Path
) -> None:
    desk = open_desk()
    desk.reply("one", "first")
    desk.parts.conversation.retry()
    desk.finish(desk.client.last(Generate).request_id, "second")
    reply = desk.parts.conversation.last_reply
    assert reply is not None
    desk.parts.conversation.edit(reply.turn_id, "edited")
    settle(desk)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("DROP TABLE nodes")
        connection.commit()
    request_id = desk.say("two")
    with desk.qtbot.waitSignal(desk.parts.keeping.opened):
        desk.delta(request_id, "thi")
    desk.finish(request_id, "third")
    settle(desk)
    notices = [notice.text for notice in desk.window.notices.notices]
    assert len(notices) == 1
    assert "damaged" in notices[0]
    turns = [(turn.text, turn.is_deleted) for turn in desk.parts.conversation.chat.turns]
    desk.parts.close()
    [chat] = saved(tmp_path / FILE)
    assert texts(chat) == ["one", "edited", "two", "third"]
    assert [(node.content, node.is_deleted) for node in chat.nodes] == turns
