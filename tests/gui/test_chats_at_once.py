"""Several chats, models and branches at once: each reply gets its own prompt and model, and no text goes away."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelState
from app.desktop.session.turns import ReplyState, ReplyTurn
from app.store import ChatStore, NodeState
from engine import Abort, EngineDied, ErrorInfo, Failed, FinishReason, Generate, LoadModel, ModelLoaded
from tests.gui.scripted_engine import Choice, Desk, describe, finished

DECODE_FAILED = ErrorInfo("DecodeFailed", "The model could not compute a step.", "Try again.")
TOO_LONG = ErrorInfo("ContextOverflow", "The prompt is too long.", "Shorten it.")
LOAD_FAILED = ErrorInfo("ModelLoadFailed", "The file cannot be loaded.", "Take another one.")


@pytest.fixture
def open_desk(make_desk: Callable[..., Desk], tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Open a window on the same chats, again and again."""

    def open_one(choose: Callable[[str | None], Choice] | None = None) -> Desk:
        desk = make_desk(choose) if choose is not None else make_desk()
        with desk.qtbot.waitSignal(desk.parts.keeping.opened):
            desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
        desk.load()
        return desk

    yield open_one
    QApplication.processEvents()


@pytest.fixture
def kept(open_desk: Callable[..., Desk]) -> Desk:
    """A window whose chats are kept."""
    return open_desk()


def shown(desk: Desk) -> list[str]:
    return [turn.text for turn in desk.parts.conversation.turns]


def queued(desk: Desk) -> list[str]:
    return [message.text for message in desk.parts.conversation.queue]


def prompt(desk: Desk) -> list[str]:
    return [message.content for message in desk.client.last(Generate).messages]


def press(desk: Desk, key: str, label: str) -> None:
    """Press a button of a notice."""
    button = desk.window.notices.button(key, label)
    assert button is not None
    button.click()


def settle(desk: Desk) -> None:
    desk.parts.bridge._drain()
    for _ in range(3):
        QApplication.processEvents()


def send(desk: Desk, text: str) -> None:
    """Send a message, whether or not its model is there."""
    desk.composer.text_edit.setPlainText(text)
    desk.composer.submit()
    settle(desk)


def open_chat(desk: Desk, conversation: Conversation) -> None:
    desk.parts.chats.open(conversation.chat.id)
    desk.qtbot.waitUntil(lambda: desk.parts.conversation.chat.id == conversation.chat.id)


def wait_for_load(desk: Desk, name: str) -> str:
    """Wait until a model is asked for, and return the id of the request."""
    model = desk.parts.model
    desk.qtbot.waitUntil(
        lambda: model.state is ModelState.LOADING and model.chosen is not None and model.chosen.last_model == name
    )
    return desk.client.last(LoadModel).request_id


def loaded(desk: Desk, request_id: str) -> None:
    desk.client.emit(ModelLoaded(request_id=request_id, description=describe()))
    settle(desk)


def open_replies(desk: Desk) -> list[ReplyTurn]:
    return [turn for turn in desk.parts.conversation.chat.turns if isinstance(turn, ReplyTurn) and turn.is_open]


# What waits for the end of a reply


@pytest.mark.parametrize("act", ["retry", "edit", "branch", "undo"])
def test_queued_message_waits_when_the_reply_before_it_is_let_go(kept: Desk, act: str) -> None:
    kept.reply("one", "first")
    conversation = kept.parts.conversation
    conversation.retry()
    kept.delta(kept.client.last(Generate).request_id, "half")
    send(kept, "follow up")
    match act:
        case "retry":
            conversation.retry()
        case "edit":
            conversation.edit(conversation.turns[0].turn_id, "uno")
        case "branch":
            conversation.branch(conversation.turns[0].turn_id)
        case "undo":
            conversation.undo()
    settle(kept)
    assert queued(kept) == ["follow up"]
    assert len(open_replies(kept)) == int(conversation.is_busy)


def test_queued_message_follows_the_reply_that_is_asked_for_instead(kept: Desk) -> None:
    kept.say("one")
    send(kept, "two")
    kept.parts.conversation.retry()
    request_id = kept.client.last(Generate).request_id
    kept.client.emit(finished(request_id, "first"))
    kept.qtbot.waitUntil(lambda: kept.client.last(Generate).request_id != request_id)
    assert shown(kept) == ["one", "first", "two", ""]
    assert prompt(kept) == ["one", "first", "two"]


def test_queued_message_goes_where_it_was_said_when_another_branch_is_looked_at(kept: Desk) -> None:
    kept.reply("one", "first")
    conversation = kept.parts.conversation
    conversation.retry()
    request_id = kept.client.last(Generate).request_id
    kept.delta(request_id, "second")
    send(kept, "about the second")
    conversation.show_variant(conversation.turns[1].turn_id, -1)
    assert shown(kept) == ["one", "first"]
    kept.client.emit(finished(request_id, "second"))
    kept.qtbot.waitUntil(lambda: kept.client.last(Generate).request_id != request_id)
    assert prompt(kept) == ["one", "second", "about the second"]


def test_queued_message_is_answered_by_the_picked_model(kept: Desk) -> None:
    request_id = kept.say("one")
    kept.delta(request_id, "half")
    send(kept, "two")
    num_requests = kept.client.count(Generate)
    kept.parts.actions.choose_model("other")
    load_id = wait_for_load(kept, "other")
    assert kept.client.count(Generate) == num_requests
    loaded(kept, load_id)
    kept.qtbot.waitUntil(lambda: kept.client.count(Generate) == num_requests + 1)
    assert prompt(kept) == ["one", "half", "two"]
    assert kept.parts.conversation.settings.model == "other"


def test_queued_messages_are_a_draft_after_a_restart(kept: Desk, open_desk: Callable[..., Desk]) -> None:
    kept.say("one")
    send(kept, "two")
    send(kept, "three")
    kept.composer.text_edit.setPlainText("fo")
    chat_id = kept.parts.conversation.chat.id
    kept.parts.close()
    again = open_desk()
    again.parts.chats.open(chat_id)
    again.qtbot.waitUntil(lambda: again.parts.conversation.chat.id == chat_id)
    assert again.composer.text == "two\n\nthree\n\nfo"
    assert shown(again) == ["one", ""]


def test_deleting_the_growing_reply_lets_the_queue_go_on(kept: Desk) -> None:
    request_id = kept.say("one")
    kept.delta(request_id, "half")
    send(kept, "two")
    kept.parts.conversation.delete(kept.parts.conversation.turns[1].turn_id)
    settle(kept)
    assert shown(kept) == ["one", "two", ""]
    assert len(open_replies(kept)) == 1


# The prompt of a reply


@pytest.mark.allow_log("the engine died")
def test_waiting_reply_is_asked_with_its_own_branch_when_another_is_looked_at(kept: Desk) -> None:
    kept.reply("one", "first")
    conversation = kept.parts.conversation
    conversation.edit(conversation.turns[0].turn_id, "uno")
    kept.finish(kept.client.last(Generate).request_id, "primo")
    kept.die()
    conversation.retry()
    load_id = wait_for_load(kept, "starter")
    conversation.show_variant(conversation.turns[0].turn_id, -1)
    assert shown(kept) == ["one", "first"]
    loaded(kept, load_id)
    assert prompt(kept) == ["uno"]


# Attempts


@pytest.mark.parametrize("num_attempts", [2, 3])
def test_earlier_reply_comes_back_when_several_attempts_brought_nothing(kept: Desk, num_attempts: int) -> None:
    kept.reply("one", "first")
    conversation = kept.parts.conversation
    for _ in range(num_attempts):
        conversation.retry()
    kept.fail(kept.client.last(Generate).request_id, DECODE_FAILED)
    assert shown(kept) == ["one", "first"]
    assert conversation.turns[1].num_variants == 1


@pytest.mark.parametrize("outcome", ["fails", "is stopped"])
def test_undo_takes_back_what_was_done_before_a_vain_attempt(kept: Desk, outcome: str) -> None:
    kept.reply("one", "first")
    kept.reply("two", "second")
    conversation = kept.parts.conversation
    conversation.delete(conversation.turns[0].turn_id)
    conversation.retry()
    request_id = kept.client.last(Generate).request_id
    if outcome == "fails":
        kept.fail(request_id, DECODE_FAILED)
    else:
        kept.finish(request_id, "", FinishReason.ABORT)
    conversation.undo()
    assert shown(kept) == ["one", "first", "two", "second"]


def test_undo_of_a_deletion_does_not_end_the_reply_in_progress(kept: Desk) -> None:
    kept.reply("one", "first")
    request_id = kept.say("two")
    kept.delta(request_id, "sec")
    conversation = kept.parts.conversation
    conversation.delete(conversation.turns[0].turn_id)
    conversation.undo()
    assert conversation.is_generating
    assert kept.client.count(Abort) == 0
    assert shown(kept) == ["one", "first", "two", "sec"]


# A chat that is not shown


@pytest.mark.parametrize("reason", ["too long", "load cancelled"])
@pytest.mark.allow_log("the engine died")
def test_message_taken_back_in_a_chat_not_shown_is_its_draft(kept: Desk, reason: str) -> None:
    kept.reply("one", "first")
    first = kept.parts.conversation
    if reason == "load cancelled":
        kept.die()
    send(kept, "a long message")
    kept.composer.text_edit.setPlainText("typed")
    kept.parts.actions.new_chat()
    if reason == "too long":
        kept.client.emit(Failed(request_id=kept.client.last(Generate).request_id, error=TOO_LONG))
        settle(kept)
    else:
        wait_for_load(kept, "starter")
        kept.parts.model.cancel()
        settle(kept)
    assert not first.is_busy
    assert kept.composer.text == ""
    open_chat(kept, first)
    assert shown(kept) == ["one", "first"]
    assert kept.composer.text == "a long message\n\ntyped"


@pytest.mark.parametrize("state", ["writing", "waiting"])
@pytest.mark.allow_log("the engine died")
def test_chat_deleted_while_busy_comes_back_with_all_that_waited(kept: Desk, state: str) -> None:
    if state == "waiting":
        kept.die()
        send(kept, "one")
    else:
        kept.delta(kept.say("one"), "half")
    send(kept, "two")
    conversation = kept.parts.conversation
    chats = kept.parts.chats
    num_requests = kept.client.count(Generate)
    chats.delete(conversation.chat.id)
    settle(kept)
    assert kept.parts.conversation is not conversation
    assert kept.client.count(Generate) == num_requests
    press(kept, "chat-deleted", "Undo")
    kept.qtbot.waitUntil(lambda: kept.parts.conversation.chat.id == conversation.chat.id)
    assert shown(kept) == ["one", "half" if state == "writing" else ""]
    assert queued(kept) == ["two"]


def test_chat_in_the_trash_is_not_opened(kept: Desk) -> None:
    kept.reply("one", "first")
    chat_id = kept.parts.conversation.chat.id
    kept.parts.actions.new_chat()
    kept.parts.chats.open(chat_id)  # is still being read when it is deleted
    kept.parts.chats.delete(chat_id)
    kept.parts.chats.open(chat_id)
    kept.qtbot.wait(50)
    kept.qtbot.waitUntil(lambda: not kept.parts.serial._calls.qsize())
    assert kept.parts.conversation.chat.id != chat_id


def test_system_prompt_of_a_chat_not_begun_is_there_after_looking_at_another(kept: Desk) -> None:
    kept.reply("one", "first")
    first = kept.parts.conversation
    kept.parts.actions.new_chat()
    kept.parts.system_prompt.edit.setPlainText("Be brief.")
    open_chat(kept, first)
    assert first.settings.system_prompt == ""
    kept.parts.actions.new_chat()
    assert kept.parts.system_prompt.text == "Be brief."


def test_deleted_chat_comes_back_by_undo_when_nothing_is_kept(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    desk.load()
    desk.reply("one", "first")
    chat_id = desk.parts.conversation.chat.id
    with desk.qtbot.waitSignal(desk.parts.chats.rows_changed, check_params_cb=lambda rows: not rows):
        desk.parts.chats.delete(chat_id)
    press(desk, "chat-deleted", "Undo")
    assert shown(desk) == ["one", "first"]


# Models


def test_each_chat_is_answered_by_its_own_model(kept: Desk) -> None:
    kept.reply("in x", "x1")
    first = kept.parts.conversation
    kept.parts.actions.new_chat()
    kept.parts.actions.choose_model("other")
    loaded(kept, wait_for_load(kept, "other"))
    kept.reply("in y", "y1")
    second = kept.parts.conversation
    assert (first.settings.model, second.settings.model) == ("starter", "other")
    request_id = kept.say("more in y")
    num_loads = kept.client.count(LoadModel)
    open_chat(kept, first)
    assert kept.client.count(LoadModel) == num_loads
    send(kept, "more in x")
    assert kept.client.count(LoadModel) == num_loads  # not while the other chat is answered
    kept.client.emit(finished(request_id, "y2"))
    loaded(kept, wait_for_load(kept, "starter"))
    assert prompt(kept) == ["in x", "x1", "more in x"]
    open_chat(kept, second)
    assert shown(kept) == ["in y", "y1", "more in y", "y2"]


@pytest.mark.allow_log("the engine died")
def test_chat_that_waits_for_another_model_does_not_fail_with_the_one_being_loaded(kept: Desk) -> None:
    kept.reply("in x", "x1")
    first = kept.parts.conversation
    kept.parts.actions.new_chat()
    kept.parts.actions.choose_model("other")
    loaded(kept, wait_for_load(kept, "other"))
    kept.reply("in y", "y1")
    second = kept.parts.conversation
    kept.die()
    send(kept, "more in y")
    load_id = wait_for_load(kept, "other")
    open_chat(kept, first)
    send(kept, "more in x")
    kept.client.emit(Failed(request_id=load_id, error=LOAD_FAILED))
    load_id = wait_for_load(kept, "starter")
    assert kept.parts.conversation.is_busy
    loaded(kept, load_id)
    assert prompt(kept) == ["in x", "x1", "more in x"]
    open_chat(kept, second)
    reply = kept.parts.conversation.last_reply
    assert reply is not None
    assert (reply.state, reply.error) == (ReplyState.FAILED, LOAD_FAILED)


@pytest.mark.allow_log("the engine died")
def test_engine_that_dies_of_one_chat_does_not_fail_another_that_waits_for_its_model(kept: Desk) -> None:
    kept.reply("in x", "x1")
    first = kept.parts.conversation
    kept.parts.actions.new_chat()
    kept.parts.actions.choose_model("other")
    loaded(kept, wait_for_load(kept, "other"))
    request_id = kept.say("in y")
    open_chat(kept, first)
    send(kept, "more in x")
    error = ErrorInfo("EngineDied", "The engine stopped.", "Load the model again.")
    kept.client.emit(Failed(request_id=request_id, error=error), EngineDied(exit_code=-9, log_tail=(), error=error))
    load_id = wait_for_load(kept, "starter")
    assert kept.parts.conversation.is_busy
    loaded(kept, load_id)
    assert prompt(kept) == ["in x", "x1", "more in x"]


@pytest.mark.allow_log("the engine died")
def test_model_that_is_known_by_another_name_is_loaded_once(open_desk: Callable[..., Desk]) -> None:
    def choose(wanted: str | None) -> Choice:
        return Choice(Path("/models/small.gguf"), "Small", "new name" if wanted else "old name")

    desk = open_desk(choose)
    desk.reply("one", "first")
    assert desk.parts.conversation.settings.model == "old name"
    desk.die()
    send(desk, "two")
    loaded(desk, wait_for_load(desk, "new name"))
    desk.qtbot.wait(50)
    assert desk.client.count(LoadModel) == 2
    assert prompt(desk) == ["one", "first", "two"]


def test_cancelling_the_choice_of_a_model_takes_the_waiting_message_back(open_desk: Callable[..., Desk]) -> None:
    import threading

    go = threading.Event()

    def choose(wanted: str | None) -> Choice:
        if wanted == "slow":
            go.wait(5)
        return Choice(Path("/models/small.gguf"), "Small", wanted or "starter")

    desk = open_desk(choose)
    desk.reply("one", "first")
    desk.parts.conversation.use_model("slow")
    send(desk, "two")
    desk.qtbot.waitUntil(lambda: desk.parts.model.state is ModelState.CHOOSING)
    desk.parts.picker.cancel_requested.emit()
    desk.qtbot.wait(50)
    go.set()
    assert desk.parts.model.state is ModelState.READY
    assert not desk.parts.conversation.is_busy
    assert desk.composer.text == "two"


def test_model_picked_for_a_chat_is_kept_when_another_is_opened_meanwhile(kept: Desk) -> None:
    kept.reply("one", "first")
    first = kept.parts.conversation
    kept.parts.actions.new_chat()
    kept.reply("two", "second")
    second = kept.parts.conversation
    kept.parts.actions.choose_model("other")
    load_id = wait_for_load(kept, "other")
    open_chat(kept, first)
    loaded(kept, load_id)
    open_chat(kept, second)
    assert kept.parts.conversation.settings.model == "other"


def test_sampling_of_the_model_counts_for_what_was_said_while_it_was_loaded(
    make_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    desk = make_desk()
    desk.parts.settings.set_entry("model_sampling", "starter", {"temperature": 0.125})
    send(desk, "early")
    desk.load()
    settle(desk)
    request_id = desk.client.last(Generate).request_id
    assert desk.client.last(Generate).sampling.temperature == 0.125
    desk.finish(request_id, "answer")
    chat_id = desk.parts.conversation.chat.id
    with desk.qtbot.waitSignal(desk.parts.keeping.opened):
        desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
    desk.parts.close()
    store, _ = ChatStore.open(tmp_path / "chats.sqlite3")
    chat = store.load_chat(chat_id)
    store.close()
    assert chat is not None
    assert chat.nodes[1].settings["sampling"]["temperature"] == 0.125


# Odd texts


@pytest.mark.parametrize("text", ["a\ud83d b", "a\x00b", "\ufeffhello", "e\u0301", "\u202eabc", "a\u2028b"], ids=ascii)
def test_odd_text_is_sent_and_is_there_after_a_restart(kept: Desk, tmp_path: Path, text: str) -> None:
    conversation = kept.parts.conversation
    conversation.save_draft(text)
    conversation.submit(text)
    conversation.rename(text)
    kept.finish(kept.client.last(Generate).request_id, "answer")
    clean = text.replace("\ud83d", "\ufffd")
    assert prompt(kept) == [clean]
    kept.parts.close()
    store, notices = ChatStore.open(tmp_path / "chats.sqlite3")
    [row] = store.list_chats()
    chat = store.load_chat(row.id)
    store.close()
    assert not notices
    assert chat is not None
    assert [node.content for node in chat.nodes] == [clean, "answer"]
    assert all(node.state is NodeState.DONE for node in chat.nodes)
