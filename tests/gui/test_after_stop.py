"""Stopping, and going on writing, wherever the keys are."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine import Abort, FinishReason, Generate
from tests.gui.scripted_engine import Desk


def test_stop_brings_queued_messages_back_and_nothing_is_sent(desk: Desk) -> None:
    request_id = desk.say("one")
    desk.delta(request_id, "half")
    for text in ("two", "three"):
        desk.composer.text_edit.setPlainText(text)
        desk.composer.submit()
    desk.composer.text_edit.setPlainText("a draft")
    num_asked = desk.client.count(Generate)
    QTest.keyClick(desk.composer.text_edit, Qt.Key.Key_Escape)
    assert desk.client.last(Abort).request_id == request_id
    desk.finish(request_id, "half", FinishReason.ABORT)
    assert desk.client.count(Generate) == num_asked
    assert not desk.parts.conversation.queue
    assert desk.composer.text == "two\n\nthree\n\na draft"


def test_letter_typed_at_a_message_goes_into_the_composer(desk: Desk) -> None:
    desk.reply("one", "answer")
    desk.view.rows[-1].setFocus()
    QTest.keyClick(desk.view.rows[-1], Qt.Key.Key_H)
    assert desk.composer.text == "h"
    assert QApplication.focusWidget() is desk.composer.text_edit


def test_deleted_chat_that_is_not_open_is_told_by_its_title(desk: Desk) -> None:
    desk.parts.lists._on_rows_changed([])
    desk.parts.chats.delete("elsewhere", "A chat elsewhere")
    notice = desk.window.notices.notices[-1]
    assert notice.hint == "A chat elsewhere"
