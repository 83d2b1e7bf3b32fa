"""Where the keys are after something was done, and who gets a key that means two things."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

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
