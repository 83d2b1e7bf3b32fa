"""What stands around the conversation: chats, readouts, inspector, keys, menus, announcements."""

import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, Qt, QTimer, QUrl
from PySide6.QtGui import QAccessible, QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel

from app.desktop.session.turns import ReplyState
from engine import (
    Abort,
    CacheMissCause,
    ErrorInfo,
    Generate,
    LoadModel,
)
from tests.gui.scripted_engine import finished

DECODE_FAILED = ErrorInfo("DecodeFailed", "The model could not compute a step.", "Try again.")


def test_earlier_chat_can_be_opened_again(desk: Any) -> None:
    desk.reply("one", "answer")
    QTest.keySequence(desk.composer.text_edit, "Ctrl+N")
    assert desk.view.rows == []
    assert desk.window.top_bar.title == "New chat"
    first = desk.client.last(Generate).chat_id
    desk.parts.chats.open(first)
    assert len(desk.view.rows) == 2
    assert desk.window.top_bar.title == "one"
    desk.say("two")
    assert desk.client.last(Generate).chat_id == first


def test_reply_goes_on_while_another_chat_is_shown(desk: Any) -> None:
    request_id = desk.say("one")
    desk.delta(request_id, "half")
    first = desk.parts.conversation
    desk.parts.actions.new_chat()
    assert desk.view.rows == []
    second_id = desk.say("two")
    desk.delta(request_id, " and more")
    desk.delta(second_id, "other")
    assert desk.parts.chats.busy == {first.chat.id, desk.parts.conversation.chat.id}
    desk.client.emit(finished(request_id, "half and more"))
    desk.qtbot.waitUntil(lambda: not first.is_busy)
    assert desk.parts.chats.unread == {first.chat.id}
    assert [block.html for block in desk.view.rows[-1].body.shown] == ['<p dir="ltr">other</p>']
    desk.parts.chats.open(first.chat.id)
    assert desk.parts.chats.unread == set()
    assert [block.html for block in desk.view.rows[-1].body.shown] == ['<p dir="ltr">half and more</p>']
    desk.parts.conversation.stop()
    assert desk.client.count(Abort) == 0


def test_title_is_isolated_and_plain(desk: Any) -> None:
    desk.say("\u202eabc <b>x</b>\nsecond line")
    assert desk.window.top_bar.title == "\u2068\u202eabc <b>x</b>\u2069"
    assert desk.window.top_bar._title.textFormat() == Qt.TextFormat.PlainText


def test_readouts_tell_the_numbers_of_the_reply(desk: Any) -> None:
    request_id = desk.say("one")
    desk.delta(request_id, "text")
    desk.finish(request_id, "text", num_prompt_tokens=1228, num_cached_tokens=1180, prefill_s=0.2, decode_s=0.25)
    readouts = desk.parts.readouts
    assert readouts.rate == "40.0"
    assert readouts.value("ttft") == "250 ms"
    assert readouts.value("prompt") == "48 tokens · 240 tok/s"
    assert readouts.value("reused") == "1,180 of 1,228"
    assert readouts.value("generated") == "11 tokens · 250 ms"
    assert readouts.context == "1,239 / 4,096 (30 %)"
    assert readouts.value("memory") == "1 of 4 MiB · f16"


def test_cause_of_reading_again_is_named(desk: Any) -> None:
    request_id = desk.say("one")
    desk.finish(request_id, "text", cache_miss_cause=CacheMissCause.EDITED)
    assert desk.parts.readouts.cause == "Read again because an earlier message changed."
    request_id = desk.say("two")
    desk.finish(request_id, "text", cache_miss_cause=CacheMissCause.FIRST_USE)
    assert desk.parts.readouts.cause == ""


def test_inspector_follows_the_width_until_the_user_decides(desk: Any) -> None:
    for width, expected in ((1300, True), (900, False)):
        desk.window.resize(width, 700)
        QApplication.processEvents()
        assert desk.window.inspector.isVisible() is expected
    QTest.keySequence(desk.composer.text_edit, "Ctrl+I")
    assert desk.window.inspector.isVisible()
    desk.window.resize(480, 700)
    QApplication.processEvents()
    assert desk.window.inspector.isVisible()
    assert desk.view.width() == 480


def test_zoom_keys(desk: Any, theme: Any) -> None:
    QTest.keySequence(desk.composer.text_edit, "Ctrl++")
    assert theme.zoom == 1.1
    QTest.keySequence(desk.composer.text_edit, "Ctrl+-")
    QTest.keySequence(desk.composer.text_edit, "Ctrl+-")
    assert theme.zoom == 0.9
    QTest.keySequence(desk.composer.text_edit, "Ctrl+0")
    assert theme.zoom == 1.0


@pytest.mark.qt_log_ignore("propagateSizeHints")
def test_shortcut_list_shows_every_key(desk: Any) -> None:
    QTest.keySequence(desk.composer.text_edit, "Ctrl+/")
    dialog = next(w for w in QApplication.topLevelWidgets() if w.windowTitle() == "Keyboard shortcuts")
    texts = {label.text() for label in dialog.findChildren(QLabel)}
    assert {"Send", "Stop the reply", "Esc", "Ctrl+N"} <= texts
    dialog.close()


def test_model_menu_offers_starter_recent_files_and_a_dialog(desk: Any) -> None:
    desk.parts.picker.remember("/models/a & b.gguf")
    menu = desk.parts.picker.menu()
    texts = [action.text() for action in menu.actions() if not action.isSeparator()]
    assert texts == ["Starter model  (starter)", "a && b", "All models …", "Open a file …"]
    with desk.qtbot.waitSignal(desk.parts.picker.model_chosen) as caught:
        menu.actions()[2].trigger()
    assert caught.args == ["/models/a & b.gguf"]
    menu.deleteLater()


def test_every_icon_button_has_a_name_and_a_tool_tip(desk: Any) -> None:
    desk.reply("one", "```\ncode\n```")
    for button in desk.window.findChildren(QAbstractButton):
        assert button.text() or button.accessibleName(), button
        if not button.text():
            assert button.toolTip(), button


def test_replies_are_announced_but_not_each_token(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(desk.window, "announce", said.append)
    request_id = desk.say("one")
    for _ in range(5):
        desk.delta(request_id, "word ")
    desk.finish(request_id, "word " * 5)
    assert said == ["Reply started", "Reply finished"]
    request_id = desk.say("two")
    desk.fail(request_id, DECODE_FAILED)
    assert said[-1] == DECODE_FAILED.message


def test_announcement_event_is_accepted_by_qt(desk: Any) -> None:
    desk.window.announce("Reply finished")
    interface = QAccessible.queryAccessibleInterface(desk.composer.text_edit)
    assert interface is not None
    assert interface.text(QAccessible.Text.Name) == "Message"


def test_model_file_can_be_dropped(desk: Any, tmp_path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "m.gguf"))])
    event = QDropEvent(
        desk.window.rect().center().toPointF(),
        Qt.DropAction.CopyAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    desk.window.dropEvent(event)
    desk.qtbot.waitUntil(lambda: desk.client.count(LoadModel) == 2)


def test_sending_a_huge_text_does_not_freeze(desk: Any) -> None:
    beats: list[float] = []
    timer = QTimer()
    timer.timeout.connect(lambda: beats.append(time.perf_counter()))
    timer.start(5)
    desk.qtbot.wait(20)
    text = "\n".join(f"line {n} of a long list" for n in range(20_000))
    desk.composer.give_back(text)
    desk.qtbot.wait(20)
    desk.composer.submit()
    desk.qtbot.wait(20)
    row = desk.view.rows[0]
    row._unfold.click()
    desk.qtbot.wait(20)
    timer.stop()
    assert max(b - a for a, b in itertools.pairwise(beats)) < 0.5
    assert desk.client.last(Generate).messages[-1].content == text
    row.copy()
    assert QGuiApplication.clipboard().text() == text


def test_state_after_everything_is_consistent(desk: Any) -> None:
    desk.reply("one", "answer")
    assert desk.parts.conversation.turns[-1].state is ReplyState.DONE
    assert not desk.parts.bridge.is_ticking
