"""Where the keys are after something was done, and who gets a key that means two things."""

import functools

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.desktop.session.turns import TurnAction
from engine import Generate
from tests.gui.scripted_engine import Desk


def focus_composer(desk: Desk) -> None:
    desk.composer.text_edit.setFocus()
    desk.qtbot.waitUntil(lambda: QApplication.focusWidget() is desk.composer.text_edit)


def long_chat(desk: Desk) -> None:
    for number in range(4):
        desk.reply(f"question {number}", "answer\n\n" * 20)
    focus_composer(desk)


def test_keys_are_in_the_composer_when_an_edited_message_is_sent(desk: Desk) -> None:
    desk.reply("one", "answer")
    focus_composer(desk)
    QTest.keyClick(desk.composer.text_edit, Qt.Key.Key_Up)
    num_before = desk.client.count(Generate)
    editor = QApplication.focusWidget()
    assert editor is not None
    QTest.keyClicks(editor, " more")
    QTest.keyClick(editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    desk.qtbot.waitUntil(lambda: desk.client.count(Generate) > num_before)
    assert QApplication.focusWidget() is desk.composer.text_edit


@pytest.mark.parametrize(("draft", "is_moved"), [("", True), ("a draft", False)], ids=["empty", "with text"])
def test_control_home_goes_to_the_first_message_while_nothing_is_written(
    desk: Desk, draft: str, is_moved: bool
) -> None:
    long_chat(desk)
    QTest.keyClicks(desk.composer.text_edit, draft)
    bar = desk.view.verticalScrollBar()
    end = bar.value()
    assert end > 0
    QTest.keyClick(desk.composer.text_edit, Qt.Key.Key_Home, Qt.KeyboardModifier.ControlModifier)
    assert bar.value() == (0 if is_moved else end)
    QTest.keyClick(desk.composer.text_edit, Qt.Key.Key_End, Qt.KeyboardModifier.ControlModifier)
    assert bar.value() == bar.maximum()


def is_asked_after(desk: Desk, before: Generate) -> bool:
    return desk.client.last(Generate) is not before


def ask_again(desk: Desk, *texts: str) -> None:
    for text in texts:
        before = desk.client.last(Generate)
        QTest.keyClick(desk.window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
        desk.qtbot.waitUntil(functools.partial(is_asked_after, desk, before))
        request_id = desk.client.last(Generate).request_id
        desk.delta(request_id, text)
        desk.finish(request_id, text)


def press(key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, key, modifiers)


def shown_reply(desk: Desk) -> str:
    return desk.parts.conversation.turns[-1].text


@pytest.mark.parametrize("begins_with", ["arrow", "row", "text"])
def test_versions_are_stepped_with_keys_again_and_again(desk: Desk, begins_with: str) -> None:
    desk.reply("one", "first")
    ask_again(desk, "second", "third", "fourth")
    row = desk.view.rows[-1]
    alt, left, right = Qt.KeyboardModifier.AltModifier, Qt.Key.Key_Left, Qt.Key.Key_Right
    if begins_with == "arrow":
        QTest.mouseClick(row.actions_bar.previous, Qt.MouseButton.LeftButton)
    elif begins_with == "row":
        row.setFocus()
        press(left, alt)
    else:
        text = next(text for _, text in row.texts())
        QTest.mouseClick(text.viewport(), Qt.MouseButton.LeftButton)
        press(left, alt)
    assert shown_reply(desk) == "third"
    press(left, alt)
    assert shown_reply(desk) == "second"
    press(right, alt)
    press(right, alt)
    assert shown_reply(desk) == "fourth"


def test_keys_stay_in_the_conversation_when_a_message_is_deleted(desk: Desk) -> None:
    desk.reply("one", "first")
    desk.reply("two", "second")
    row = desk.view.rows[1]
    row.setFocus()
    desk.view.action_requested.emit(TurnAction.DELETE, row.turn.turn_id)
    assert QApplication.focusWidget() is desk.view.rows[1]


def test_keys_are_in_the_composer_when_a_reply_is_asked_for_again_with_its_button(desk: Desk) -> None:
    desk.reply("one", "first")
    desk.press(desk.view.rows[-1].actions_bar.retry)
    assert QApplication.focusWidget() is desk.composer.text_edit


def test_keys_are_in_the_composer_when_the_chat_is_left_from_a_message(desk: Desk) -> None:
    desk.reply("one", "first")
    desk.view.rows[-1].setFocus()
    press(Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.focusWidget() is desk.composer.text_edit
