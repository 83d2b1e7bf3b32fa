"""A private chat is a chat like any other, but for its marks, and that no store and no file ever knows of it."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.desktop.itemmodels.chat_list import Entry, chat_entries
from app.desktop.window_state import read_window_state
from app.store import ChatStore
from engine import ForgetChats, Generate, OpenChat
from tests.gui.scripted_engine import Desk


@pytest.fixture
def kept_desk(make_desk: Callable[..., Desk], tmp_path: Path) -> Desk:
    """A window whose chats are kept, with a loaded model."""
    desk = make_desk()
    with desk.qtbot.waitSignal(desk.parts.keeping.opened):
        desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
    desk.load()
    return desk


def store_of(desk: Desk) -> ChatStore:
    store = desk.parts.chats.recorder.store
    assert store is not None
    store.flush(10)
    return store


def begin_private(desk: Desk, question: str = "a secret", answer: str = "kept") -> str:
    QTest.keyClick(desk.window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    desk.reply(question, answer)
    return desk.parts.conversation.chat.id


def entries(desk: Desk) -> list[Entry]:
    return list(desk.parts.sidebar.chats.chats.entries)


def wait_for_entries(desk: Desk, expected: Callable[[list[Entry]], bool]) -> None:
    desk.qtbot.waitUntil(lambda: expected(entries(desk)))


def press_notice(desk: Desk, key: str) -> None:
    notice = next(notice for notice in desk.window.notices.notices if notice.key == key)
    notice.actions[0][1]()


def test_no_store_knows_of_it_and_the_engine_writes_nothing(kept_desk: Desk) -> None:
    chat_id = begin_private(kept_desk)
    assert kept_desk.client.last(Generate).is_private
    kept_desk.parts.chats.rename(chat_id, "another secret")
    kept_desk.parts.chats.set_pinned(chat_id, is_pinned=True)
    kept_desk.composer.text_edit.setPlainText("a secret draft")
    kept_desk.composer.flush_draft()
    store = store_of(kept_desk)
    assert store.list_chats() == []
    assert store.load_chat(chat_id) is None
    assert store.load_draft(chat_id) == ""
    assert store.search("secret") == []


def test_chats_beside_it_are_kept_as_ever(kept_desk: Desk) -> None:
    begin_private(kept_desk)
    kept_desk.parts.actions.new_chat()
    assert not kept_desk.parts.conversation.chat.is_private
    kept_desk.reply("for all to see", "answer")
    assert not kept_desk.client.last(Generate).is_private
    assert [row.title for row in store_of(kept_desk).list_chats()] == ["for all to see"]


def test_it_is_marked_while_it_is_shown_and_not_after(kept_desk: Desk) -> None:
    bar, empty = kept_desk.window.top_bar, kept_desk.view.empty_state
    assert (bar.is_private, bar.title) == (False, "New chat")
    kept_desk.parts.actions.new_private_chat()
    assert (bar.is_private, bar.title) == (True, "New chat")
    assert "gone when you close it" in empty.text
    assert "memory only" in kept_desk.composer.text_edit.placeholderText()
    kept_desk.reply("a secret", "kept")
    assert (bar.is_private, bar.title) == (True, "a secret")
    assert kept_desk.window.windowTitle() == "Private chat – Fireside", "others see what windows are called"
    kept_desk.parts.actions.new_chat()
    assert (bar.is_private, bar.title) == (False, "New chat")
    assert "private" not in empty.text
    assert "private" not in kept_desk.composer.text_edit.placeholderText()


def test_it_is_listed_at_the_top_and_opened_from_memory_when_another_was_shown(kept_desk: Desk) -> None:
    kept_desk.reply("first", "answer")
    chat_id = begin_private(kept_desk)
    kept_desk.composer.text_edit.setPlainText("half a secret")
    kept_desk.composer.flush_draft()
    wait_for_entries(kept_desk, lambda found: len(found) == 4)
    found = entries(kept_desk)
    assert [entry.text for entry in found[:2]] == ["Private, in memory only", "a secret"]
    assert (found[1].is_private, found[1].chat_id) == (True, chat_id)
    assert not found[3].is_private
    kept_desk.parts.actions.new_chat()
    kept_desk.parts.chats.open(chat_id)
    assert [turn.text for turn in kept_desk.parts.conversation.turns] == ["a secret", "kept"]
    assert kept_desk.composer.text_edit.toPlainText() == "half a secret"
    assert kept_desk.client.count(OpenChat) == 0 or kept_desk.client.last(OpenChat).chat_id != chat_id


def test_it_is_asked_before_it_is_closed_and_is_gone_then(kept_desk: Desk) -> None:
    chat_id = begin_private(kept_desk)
    wait_for_entries(kept_desk, lambda found: len(found) == 2)
    kept_desk.parts.lists.delete_current()
    assert kept_desk.parts.conversation.chat.id == chat_id, "nothing happens yet"
    press_notice(kept_desk, "chat-private")
    assert kept_desk.parts.conversation.chat.id != chat_id
    assert not kept_desk.parts.conversation.chat.is_private
    assert kept_desk.client.last(ForgetChats).chat_ids == (chat_id,)
    wait_for_entries(kept_desk, lambda found: found == [])
    store = store_of(kept_desk)
    assert store.list_chats(trashed=True) == []
    assert store.list_purged() == []


def test_reply_in_progress_ends_when_its_private_chat_is_closed(kept_desk: Desk) -> None:
    kept_desk.parts.actions.new_private_chat()
    request_id = kept_desk.say("a secret")
    kept_desk.delta(request_id, "par")
    chat_id = kept_desk.parts.conversation.chat.id
    kept_desk.parts.chats.close_private(chat_id)
    assert kept_desk.parts.chats.busy == frozenset()
    assert chat_id not in kept_desk.parts.chats.unread


def test_empty_one_is_left_without_a_word(kept_desk: Desk) -> None:
    kept_desk.parts.actions.new_private_chat()
    kept_desk.parts.lists.delete_current()
    assert not kept_desk.parts.conversation.chat.is_private
    assert not any(notice.key == "chat-private" for notice in kept_desk.window.notices.notices)
    kept_desk.parts.actions.new_private_chat()
    kept_desk.parts.actions.new_chat()
    assert not kept_desk.parts.conversation.chat.is_private


def test_menu_offers_what_a_private_chat_has(kept_desk: Desk) -> None:
    chat_id = begin_private(kept_desk)
    wait_for_entries(kept_desk, lambda found: len(found) == 2)
    menu = kept_desk.parts.sidebar.menu(chat_id)
    assert [action.text().split("\t")[0] for action in menu.actions() if action.text()] == ["Rename", "Close for good"]
    menu.close()


def test_draft_of_the_chat_not_begun_stays_its_own(kept_desk: Desk) -> None:
    kept_desk.composer.text_edit.setPlainText("for the usual chat")
    kept_desk.composer.flush_draft()
    begin_private(kept_desk)
    assert store_of(kept_desk).load_draft("") == "for the usual chat"
    kept_desk.parts.actions.new_chat()
    assert kept_desk.composer.text_edit.toPlainText() == "for the usual chat"


def test_stored_draft_does_not_come_into_a_private_chat(
    make_desk: Callable[..., Desk], kept_desk: Desk, tmp_path: Path
) -> None:
    kept_desk.composer.text_edit.setPlainText("typed before")
    kept_desk.composer.flush_draft()
    kept_desk.parts.close()
    again = make_desk()
    again.parts.actions.new_private_chat()
    with again.qtbot.waitSignal(again.parts.keeping.opened):
        again.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
    store_of(again)
    again.qtbot.waitUntil(lambda: again.parts.chats.recorder.is_up_to_date)
    assert again.composer.text_edit.toPlainText() == ""


def test_next_start_knows_nothing_of_it(make_desk: Callable[..., Desk], kept_desk: Desk, tmp_path: Path) -> None:
    kept_desk.reply("first", "answer")
    begin_private(kept_desk)
    kept_desk.parts.close()
    tables: list[Any] = [value for name, value in kept_desk.saved if name == "window"]
    assert all(read_window_state(table).chat_id is None for table in tables[-1:])
    again = make_desk()
    with again.qtbot.waitSignal(again.parts.chats.rows_changed):
        again.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
    wait_for_entries(again, bool)
    assert [entry.text for entry in entries(again) if entry.chat_id] == ["first"]


def test_chats_are_private_for_the_engine_and_stay_usual_ones_when_no_store_is_there(desk: Desk) -> None:
    desk.reply("first", "answer")
    begin_private(desk)
    wait_for_entries(desk, lambda found: len(found) == 4)
    assert [entry.is_private for entry in entries(desk) if entry.chat_id] == [True, False]


def test_mended_store_is_told_nothing_of_it(kept_desk: Desk) -> None:
    begin_private(kept_desk)
    store = store_of(kept_desk)
    kept_desk.parts.chats.set_store(store, is_mended=True)
    kept_desk.parts.chats.save_drafts()
    assert store_of(kept_desk).list_chats() == []


def test_private_rows_stand_in_a_group_of_their_own(kept_desk: Desk) -> None:
    begin_private(kept_desk)
    row = kept_desk.parts.conversation.chat.row()
    now = datetime.datetime.now().astimezone()
    assert chat_entries([row], now, frozenset({row.id}))[1].is_private
    assert not chat_entries([row], now)[1].is_private
