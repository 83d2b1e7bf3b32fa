"""Chats and replies that meet a limit: what the model did not see is told, and a half reply can go on."""

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine import ErrorInfo, FinishReason, Generate, Overflow, PromptMode, Role, TurnsDropped
from tests.gui.scripted_engine import Desk

TOO_LONG = ErrorInfo("ContextOverflow", "The prompt has 900 tokens; the context holds 512.", "Shorten it.")
DECODE_FAILED = ErrorInfo("DecodeFailed", "The model could not compute a step.", "Try again.")


def row_of(desk: Desk) -> Any:
    return desk.view.rows[-1]


def answer_of(desk: Desk) -> str:
    return "".join(block.html for block in row_of(desk).body.shown)


def drop(desk: Desk, request_id: str, num_messages: int, *, is_reply_cut: bool = False) -> None:
    desk.client.emit(
        TurnsDropped(request_id=request_id, num_messages=num_messages, num_tokens=3400, is_reply_cut=is_reply_cut)
    )
    desk.parts.bridge._drain()


def half_reply(desk: Desk, reason: FinishReason = FinishReason.LENGTH, text: str = "One **two") -> None:
    request_id = desk.say("count")
    desk.delta(request_id, text)
    desk.finish(request_id, text, reason)


def test_window_asks_for_the_oldest_turns_to_be_left_out(desk: Desk) -> None:
    desk.say("hi")
    options = desk.client.last(Generate).options
    assert options.overflow is Overflow.DROP_OLDEST
    assert options.mode is PromptMode.CHAT


@pytest.mark.parametrize(
    ("num_messages", "is_reply_cut", "words"),
    [
        (12, False, "12 earlier messages were left out: the context is full"),
        (1, False, "1 earlier message was left out: the context is full"),
        (0, True, "The beginning of this reply was left out: the context is full"),
        (2, True, "2 earlier messages and the beginning of this reply were left out: the context is full"),
    ],
    ids=["some", "one", "reply", "both"],
)
def test_turns_that_were_left_out_are_told_at_the_reply(
    desk: Desk, num_messages: int, is_reply_cut: bool, words: str
) -> None:
    desk.reply("one", "answer")
    request_id = desk.say("two")
    drop(desk, request_id, num_messages, is_reply_cut=is_reply_cut)
    row = row_of(desk)
    assert row.dropped_text == words
    desk.delta(request_id, "text")
    desk.finish(request_id, "text")
    assert row.dropped_text == words
    assert row._dropped.geometry().bottom() < row.body.y()
    assert desk.view.rows[1].dropped_text == ""  # type: ignore[attr-defined]
    chat_id = desk.parts.conversation.chat.id
    desk.parts.actions.new_chat()
    desk.parts.chats.open(chat_id)
    assert row_of(desk).dropped_text == words


def test_line_about_left_out_turns_is_whole_in_a_narrow_window(desk: Desk) -> None:
    drop(desk, desk.say("two"), 12, is_reply_cut=True)
    desk.window.resize(420, 700)
    desk.qtbot.waitUntil(lambda: row_of(desk).width() < 420)
    label = row_of(desk)._dropped
    assert label.height() >= label.heightForWidth(label.width())


def test_line_goes_when_the_reply_is_asked_for_again_and_all_fits(desk: Desk) -> None:
    request_id = desk.say("two")
    drop(desk, request_id, 12)
    desk.delta(request_id, "text")
    desk.finish(request_id, "text")
    desk.parts.conversation.retry()
    again = desk.client.last(Generate).request_id
    desk.delta(again, "new")
    assert row_of(desk).dropped_text == ""
    desk.view.step_variant(-1)
    assert row_of(desk).dropped_text


def test_message_that_is_too_long_alone_comes_back_beside_older_turns(desk: Desk) -> None:
    desk.reply("one", "answer")
    desk.fail(desk.say("word " * 900), TOO_LONG)
    assert desk.composer.text == "word " * 900
    assert len(desk.view.rows) == 2


@pytest.mark.parametrize(
    ("reason", "can_go_on"),
    [
        (FinishReason.LENGTH, True),
        (FinishReason.CONTEXT_FULL, True),
        (FinishReason.ABORT, True),
        (FinishReason.STOP, False),
    ],
)
def test_reply_can_go_on_when_the_model_did_not_end_it(desk: Desk, reason: FinishReason, can_go_on: bool) -> None:
    half_reply(desk, reason)
    assert row_of(desk).continue_button.isVisible() is can_go_on


def test_stopped_reply_without_a_word_cannot_go_on(desk: Desk) -> None:
    desk.finish(desk.say("count"), "", FinishReason.ABORT)
    assert not row_of(desk).continue_button.isVisible()


def test_continued_reply_grows_beside_the_shorter_one(desk: Desk) -> None:
    desk.reply("before", "earlier")
    half_reply(desk)
    row = row_of(desk)
    request_id = desk.press(row.continue_button)
    asked = desk.client.last(Generate)
    assert asked.options.mode is PromptMode.CONTINUE
    assert asked.options.overflow is Overflow.DROP_OLDEST
    assert [(m.role, m.content) for m in asked.messages] == [
        (Role.USER, "before"),
        (Role.ASSISTANT, "earlier"),
        (Role.USER, "count"),
        (Role.ASSISTANT, "One **two"),
    ]
    row = row_of(desk)
    assert not row.continue_button.isVisible()
    assert answer_of(desk) == '<p dir="ltr">One **two</p>'
    desk.delta(request_id, " three")
    desk.delta(request_id, "** four.\n\n- five")
    desk.finish(request_id, " three** four.\n\n- five", num_generated_tokens=7, ttft_s=0.1)
    assert len(desk.view.rows) == 4
    assert row_of(desk) is row
    assert desk.parts.conversation.last_reply.text == "One **two three** four.\n\n- five"  # type: ignore[union-attr]
    streamed = list(row.body.shown)
    chat_id = desk.parts.conversation.chat.id
    desk.parts.actions.new_chat()
    desk.parts.chats.open(chat_id)
    row = row_of(desk)
    assert streamed == list(row.body.shown)
    assert row.meta_text.startswith("7 tokens")
    assert not row.continue_button.isVisible()
    desk.say("next")
    assert desk.client.last(Generate).messages[3].content == "One **two three** four.\n\n- five"
    desk.finish(desk.client.last(Generate).request_id, "")
    desk.parts.conversation.show_variant(desk.parts.conversation.turns[3].turn_id, -1)
    assert answer_of(desk) == '<p dir="ltr">One **two</p>'


def test_code_that_was_cut_off_goes_on_in_its_block(desk: Desk) -> None:
    half_reply(desk, text="Code:\n\n```python\nx = ")
    request_id = desk.press(row_of(desk).continue_button)
    desk.delta(request_id, "1\ny = 2\n```\n")
    desk.finish(request_id, "1\ny = 2\n```\n")
    assert [block.code for block in row_of(desk).body.code_blocks] == ["x = 1\ny = 2"]


def test_thinking_that_was_cut_off_goes_on_and_its_time_adds_up(desk: Desk) -> None:
    request_id = desk.say("count")
    desk.think(request_id, "one, ")
    desk.finish(request_id, "", FinishReason.LENGTH, thinking="one, ", thinking_s=2.0)
    row = row_of(desk)
    assert row.fold.is_open
    request_id = desk.press(row.continue_button)
    sent = desk.client.last(Generate).messages[-1]
    assert (sent.content, sent.thinking) == ("", "one, ")
    row = row_of(desk)
    row.fold.set_open(True)
    desk.think(request_id, "two")
    assert row.fold.text_widgets[0].document().toPlainText() == "one, two"
    desk.delta(request_id, "Two.")
    desk.finish(request_id, "Two.", thinking="two", thinking_s=1.5)
    reply = desk.parts.conversation.last_reply
    assert reply is not None
    assert (reply.thinking, reply.text) == ("one, two", "Two.")
    assert row.fold.head.text() == "Thought for 3.5 s"


def test_half_answer_turns_out_to_be_thinking_when_it_goes_on(desk: Desk) -> None:
    half_reply(desk, text="Let me ")
    request_id = desk.press(row_of(desk).continue_button)
    desk.delta(request_id, "see.")
    desk.delta(request_id, "Four.", was_thinking=True)
    desk.finish(request_id, "Four.", thinking="see.", thinking_s=1.0)
    reply = desk.parts.conversation.last_reply
    assert reply is not None
    assert (reply.thinking, reply.text) == ("Let me see.", "Four.")
    assert answer_of(desk) == '<p dir="ltr">Four.</p>'


@pytest.mark.parametrize("error", [DECODE_FAILED, TOO_LONG], ids=["failed", "too long"])
def test_failed_continuation_keeps_the_text_and_can_be_tried_again(desk: Desk, error: ErrorInfo) -> None:
    half_reply(desk)
    row = row_of(desk)
    desk.fail(desk.press(row.continue_button), error)
    assert desk.window.notices.notices[-1].text == error.message
    assert answer_of(desk) == '<p dir="ltr">One **two</p>'
    assert desk.composer.text == ""
    retry = desk.window.notices.button("attempt", "Retry")
    assert retry is not None
    request_id = desk.press(retry)
    asked = desk.client.last(Generate)
    assert asked.options.mode is PromptMode.CONTINUE
    assert asked.messages[-1].content == "One **two"
    desk.delta(request_id, "**")
    desk.finish(request_id, "**")
    assert answer_of(desk) == '<p dir="ltr">One <strong>two</strong></p>'


def test_reply_can_be_asked_for_anew_when_its_continuation_failed(desk: Desk) -> None:
    half_reply(desk)
    desk.fail(desk.press(row_of(desk).continue_button), DECODE_FAILED)
    request_id = desk.press(row_of(desk)._retry)
    asked = desk.client.last(Generate)
    assert asked.options.mode is PromptMode.CHAT
    assert [m.content for m in asked.messages] == ["count"]
    desk.delta(request_id, "anew")
    desk.finish(request_id, "anew")
    assert answer_of(desk) == '<p dir="ltr">anew</p>'


@pytest.mark.parametrize("more", ["", " three"], ids=["before a word", "after a word"])
def test_continuation_that_is_stopped_keeps_everything_and_can_go_on(desk: Desk, more: str) -> None:
    half_reply(desk)
    request_id = desk.press(row_of(desk).continue_button)
    if more:
        desk.delta(request_id, more)
    QTest.keyClick(desk.window, Qt.Key.Key_Escape)
    desk.finish(request_id, more, FinishReason.ABORT)
    assert desk.parts.conversation.last_reply.text == "One **two" + more  # type: ignore[union-attr]
    assert row_of(desk).continue_button.isVisible()
    desk.press(row_of(desk).continue_button)
    assert desk.client.last(Generate).messages[-1].content == "One **two" + more


@pytest.mark.allow_log("the engine died")
def test_continuation_waits_for_a_dead_engine_and_is_kept_when_given_up(desk: Desk) -> None:
    half_reply(desk)
    desk.die()
    row_of(desk).continue_button.click()
    assert desk.parts.conversation.is_busy
    QTest.keyClick(desk.window, Qt.Key.Key_Escape)
    assert not desk.parts.conversation.is_busy
    assert len(desk.view.rows) == 2
    assert answer_of(desk) == '<p dir="ltr">One **two</p>'
    assert row_of(desk).continue_button.isVisible()


def test_only_the_last_reply_can_go_on_and_none_while_one_is_written(desk: Desk) -> None:
    half_reply(desk)
    first = row_of(desk)
    request_id = desk.say("next")
    assert not first.continue_button.isVisible()
    desk.delta(request_id, "half")
    assert not row_of(desk).continue_button.isVisible()
    before = desk.client.count(Generate)
    desk.parts.presenter.continue_reply()
    assert desk.client.count(Generate) == before
    desk.finish(request_id, "half", FinishReason.ABORT)
    assert not first.continue_button.isVisible()
    assert row_of(desk).continue_button.isVisible()


def test_reply_goes_on_with_the_keyboard(desk: Desk) -> None:
    half_reply(desk)
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    QTest.keyClick(desk.window, Qt.Key.Key_R, both)
    assert desk.client.last(Generate).options.mode is PromptMode.CONTINUE
    assert QApplication.focusWidget() is desk.composer.text_edit
