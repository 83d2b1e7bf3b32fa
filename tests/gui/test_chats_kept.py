"""Chats and the store: what was said is there after the window was closed, whatever happened in between."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.desktop.session.turns import ReplyTurn
from app.desktop.window_state import read_window_state
from app.store import ChatStore, NodeState
from engine import ErrorInfo, FinishReason, Generate
from tests.gui.scripted_engine import Desk, finished

DECODE_FAILED = ErrorInfo("DecodeFailed", "The model could not compute a step.", "Try again.")


@pytest.fixture
def open_desk(make_desk: Callable[..., Desk], tmp_path: Path) -> Iterator[Callable[[], Desk]]:
    """Open a window on the same chats, again and again."""

    def open_one() -> Desk:
        desk = make_desk()
        with desk.qtbot.waitSignal(desk.parts.keeping.opened):
            desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
        desk.load()
        return desk

    yield open_one
    QApplication.processEvents()


def close(desk: Desk) -> None:
    desk.parts.close()


def reopen(desk: Desk, chat_id: str) -> None:
    with desk.qtbot.waitSignal(desk.parts.chats.current_changed):
        desk.parts.chats.open(chat_id)


def shown(desk: Desk) -> list[str]:
    return [turn.text for turn in desk.parts.conversation.turns]


def test_chat_is_there_after_a_restart(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    request_id = desk.say("one")
    desk.delta(request_id, "answer")
    desk.finish(request_id, "answer", token_ids=(5, 6, 7), thinking="hm", thinking_s=1.5)
    chat_id = desk.parts.conversation.chat.id
    close(desk)
    again = open_desk()
    reopen(again, chat_id)
    assert shown(again) == ["one", "answer"]
    reply = again.parts.conversation.last_reply
    assert reply is not None
    assert (tuple(reply.token_ids), reply.thinking, reply.thinking_s) == ((5, 6, 7), "hm", 1.5)
    assert reply.metrics is not None
    assert reply.metrics.num_generated_tokens == 11
    assert reply.finish_reason is FinishReason.STOP
    assert again.window.top_bar.title == "one"
    assert again.parts.conversation.settings.model == "starter"


def test_messages_said_before_the_store_is_open_are_kept(make_desk: Callable[..., Desk], tmp_path: Path) -> None:
    desk = make_desk()
    desk.load()
    desk.reply("early", "bird")
    with desk.qtbot.waitSignal(desk.parts.keeping.opened):
        desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
    close(desk)
    store, _ = ChatStore.open(tmp_path / "chats.sqlite3")
    [row] = store.list_chats()
    chat = store.load_chat(row.id)
    store.close()
    assert chat is not None
    assert [node.content for node in chat.shown_path()] == ["early", "bird"]


def test_closing_while_a_reply_is_written_keeps_it_as_stopped(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    request_id = desk.say("one")
    desk.delta(request_id, "half a rep")
    chat_id = desk.parts.conversation.chat.id
    close(desk)
    again = open_desk()
    reopen(again, chat_id)
    reply = again.parts.conversation.last_reply
    assert reply is not None
    assert (reply.text, reply.finish_reason) == ("half a rep", FinishReason.ABORT)
    assert reply.can_go_on


def test_partial_reply_is_kept_while_it_grows(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    request_id = desk.say("one")
    desk.delta(request_id, "half")
    store = desk.parts.chats.recorder.store
    assert store is not None

    def partial() -> str:
        chat = store.load_chat(desk.parts.conversation.chat.id)
        assert chat is not None and chat.nodes
        assert chat.nodes[-1].state is NodeState.OPEN
        return chat.nodes[-1].content

    desk.qtbot.waitUntil(lambda: partial() == "half", timeout=2000)
    desk.delta(request_id, " more")
    desk.qtbot.waitUntil(lambda: partial() == "half more", timeout=2000)


@pytest.mark.parametrize("outcome", ["fails", "is stopped"])
def test_earlier_reply_and_later_turns_stay_when_asking_again_brings_nothing(
    open_desk: Callable[[], Desk], outcome: str
) -> None:
    desk = open_desk()
    for number in range(3):
        desk.reply(f"question {number}", f"answer {number}")
    before = shown(desk)
    second = desk.parts.conversation.turns[3].turn_id
    desk.parts.conversation.retry(second)
    request_id = desk.client.last(Generate).request_id
    if outcome == "fails":
        desk.fail(request_id, DECODE_FAILED)
        assert desk.window.notices.button("attempt", "Retry") is not None
    else:
        desk.finish(request_id, "", FinishReason.ABORT)
    assert shown(desk) == before
    chat_id = desk.parts.conversation.chat.id
    close(desk)
    again = open_desk()
    reopen(again, chat_id)
    assert shown(again) == before


def test_every_version_can_be_reached_after_a_restart(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    desk.reply("one", "first")
    desk.parts.conversation.retry()
    desk.client.emit(finished(desk.client.last(Generate).request_id, "second"))
    desk.qtbot.waitUntil(lambda: not desk.parts.conversation.is_busy)
    reply = desk.parts.conversation.last_reply
    assert reply is not None
    desk.parts.conversation.edit(reply.turn_id, "second, edited")
    user = desk.parts.conversation.turns[0]
    desk.parts.conversation.edit(user.turn_id, "uno")
    desk.client.emit(finished(desk.client.last(Generate).request_id, "primo"))
    desk.qtbot.waitUntil(lambda: not desk.parts.conversation.is_busy)
    assert shown(desk) == ["uno", "primo"]
    chat_id = desk.parts.conversation.chat.id
    close(desk)
    again = open_desk()
    reopen(again, chat_id)
    conversation = again.parts.conversation
    assert shown(again) == ["uno", "primo"]
    conversation.show_variant(conversation.turns[0].turn_id, -1)
    assert shown(again) == ["one", "second, edited"]
    edited = conversation.turns[1]
    assert isinstance(edited, ReplyTurn)
    assert (edited.is_edited, edited.variant, edited.num_variants) == (True, 2, 3)
    conversation.show_variant(edited.turn_id, -1)
    assert shown(again) == ["one", "second"]
    conversation.show_variant(conversation.turns[1].turn_id, -1)
    assert shown(again) == ["one", "first"]


def test_deleted_message_comes_back_by_undo(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    desk.reply("one", "first")
    desk.reply("two", "second")
    conversation = desk.parts.conversation
    conversation.delete(conversation.turns[1].turn_id)
    assert shown(desk) == ["one", "two", "second"]
    desk.reply("three", "third")
    conversation.undo()
    assert shown(desk) == ["one", "first", "two", "second", "three", "third"]
    chat_id = conversation.chat.id
    close(desk)
    again = open_desk()
    reopen(again, chat_id)
    assert shown(again) == ["one", "first", "two", "second", "three", "third"]


def test_branch_begins_beside_the_old_one_and_both_stay(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    desk.reply("one", "first")
    desk.reply("two", "second")
    conversation = desk.parts.conversation
    conversation.branch(conversation.turns[1].turn_id)
    assert shown(desk) == ["one", "first"]
    conversation.undo()
    assert shown(desk) == ["one", "first", "two", "second"]
    conversation.branch(conversation.turns[1].turn_id)
    desk.reply("other", "way")
    assert shown(desk) == ["one", "first", "other", "way"]
    assert conversation.turns[2].num_variants == 2
    conversation.show_variant(conversation.turns[2].turn_id, -1)
    assert shown(desk) == ["one", "first", "two", "second"]


def test_queued_messages_are_sent_one_after_the_other(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    conversation = desk.parts.conversation
    request_id = desk.say("one")
    conversation.submit("two")
    conversation.submit("three")
    dropped = list(conversation.queue)[1]
    conversation.submit("four")
    assert conversation.queue.take(dropped.id) == "three"
    for answer, question in (("a", "two"), ("b", "four")):
        desk.client.emit(finished(request_id, answer))
        desk.qtbot.waitUntil(lambda before=request_id: desk.client.last(Generate).request_id != before)  # type: ignore[misc]
        request_id = desk.client.last(Generate).request_id
        assert shown(desk)[-2:] == [question, ""]
    desk.finish(request_id, "c")
    assert shown(desk) == ["one", "a", "two", "b", "four", "c"]


def test_queue_waits_while_the_reply_before_it_failed(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    request_id = desk.say("one")
    desk.parts.conversation.submit("two")
    desk.fail(request_id, DECODE_FAILED)
    assert [message.text for message in desk.parts.conversation.queue] == ["two"]
    desk.parts.conversation.retry()
    desk.client.emit(finished(desk.client.last(Generate).request_id, "a"))
    desk.qtbot.waitUntil(lambda: not desk.parts.conversation.queue)
    assert shown(desk) == ["one", "a", "two", ""]


def test_deleted_chat_is_gone_from_the_list_and_can_be_restored(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    desk.reply("one", "first")
    chats = desk.parts.chats
    chat_id = chats.current.chat.id
    with desk.qtbot.waitSignal(chats.rows_changed, check_params_cb=lambda rows: not rows):
        chats.delete(chat_id)
    assert chats.current.chat.id != chat_id
    with desk.qtbot.waitSignal(chats.rows_changed, check_params_cb=lambda rows: len(rows) == 1):
        chats.restore(chat_id)
    reopen(desk, chat_id)
    assert shown(desk) == ["one", "first"]


def test_search_finds_what_a_hidden_branch_says(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    desk.reply("one", "a needle here")
    desk.parts.conversation.retry()
    desk.client.emit(finished(desk.client.last(Generate).request_id, "nothing"))
    desk.qtbot.waitUntil(lambda: not desk.parts.conversation.is_busy)
    chats = desk.parts.chats
    with desk.qtbot.waitSignal(chats.found) as found:
        chats.search("needle")
    [hit] = found.args[1]
    chats.open(hit.chat_id, node_id=hit.node_id)
    assert shown(desk) == ["one", "a needle here"]


@pytest.mark.parametrize("typed", ["before", "while it is read", "not at all"])
def test_last_chat_is_opened_at_the_start_unless_something_is_typed(
    open_desk: Callable[[], Desk], make_desk: Callable[..., Desk], tmp_path: Path, typed: str
) -> None:
    desk = open_desk()
    desk.reply("one", "first")
    chat_id = desk.parts.conversation.chat.id
    desk.parts.actions.new_chat()
    if typed == "not at all":
        desk.composer.text_edit.setPlainText("an earlier draft")
    close(desk)
    again = make_desk()
    again.parts.frame._state = read_window_state({"chat_id": chat_id})
    if typed == "before":
        QTest.keyClicks(again.composer.text_edit, "hello")
    with again.qtbot.waitSignal(again.parts.keeping.opened):
        again.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
    if typed == "while it is read":
        QTest.keyClicks(again.composer.text_edit, "hello")
    with again.qtbot.waitSignal(again.parts.chats.trash_read):
        again.parts.chats.read_trash()  # which comes after the chat
    if typed == "not at all":
        assert shown(again) == ["one", "first"]
        again.parts.actions.new_chat()
        assert again.composer.text == "an earlier draft"
    else:
        assert again.composer.text == "hello"
        assert shown(again) == []


def test_branch_from_an_own_message_lets_it_be_written_anew(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    desk.reply("one", "first")
    desk.reply("two", "second")
    conversation = desk.parts.conversation
    conversation.branch(conversation.turns[2].turn_id)
    assert shown(desk) == ["one", "first"]
    assert desk.composer.text == "two"
    conversation.branch(conversation.turns[0].turn_id)
    assert shown(desk) == []
    conversation.undo()
    conversation.undo()
    assert shown(desk) == ["one", "first", "two", "second"]
