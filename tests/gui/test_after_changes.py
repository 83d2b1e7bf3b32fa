"""What is on the screen after the zoom or the model has changed."""

import itertools

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QScrollArea

from app.desktop.widgets.shortcuts import ShortcutList
from tests.gui.scripted_engine import Desk


@pytest.mark.parametrize("zoom", [0.8, 2.0])
def test_buttons_of_a_message_are_whole_and_apart_at_another_zoom(desk: Desk, zoom: float) -> None:
    desk.reply("one", "first")
    desk.parts.theme.set_zoom(zoom)
    QApplication.processEvents()
    row = desk.view.rows[-1]
    bar = row.actions_bar
    buttons = [button for button in (bar.copy, bar.retry, bar.edit, bar.more) if button.isVisible()]
    assert len(buttons) == 4
    assert row.rect().contains(bar.geometry())
    for button in buttons:
        assert button.height() == desk.parts.theme.px(26)
        assert bar.rect().contains(button.geometry())
    for left, right in itertools.pairwise(buttons):
        assert left.geometry().right() < right.geometry().left()


def test_context_of_the_shown_chat_is_told_when_its_model_is_loaded_again(desk: Desk) -> None:
    desk.reply("one", "first")
    before = desk.parts.readouts.context
    assert before.startswith("41 ")
    desk.load()
    assert desk.parts.readouts.context == before


@pytest.mark.qt_log_ignore("propagateSizeHints")
def test_each_key_of_the_list_stands_in_its_own_line(desk: Desk) -> None:
    dialog = ShortcutList(desk.parts.theme, desk.parts.actions.shortcuts, desk.window)
    dialog.show()
    desk.qtbot.waitExposed(dialog)
    labels = dialog.findChildren(QLabel)
    caps = {label.height() for label in labels if label.objectName() == "keyCap"}
    assert len(caps) == 1
    names = [label for label in labels if label.wordWrap()]
    assert all(label.height() <= 2 * label.fontMetrics().lineSpacing() + 2 for label in names)
    dialog.close()


@pytest.mark.qt_log_ignore("propagateSizeHints")
def test_list_of_keys_is_not_wider_than_a_narrow_window(desk: Desk) -> None:
    desk.window.resize(420, 700)
    dialog = ShortcutList(desk.parts.theme, desk.parts.actions.shortcuts, desk.window)
    dialog.show()
    desk.qtbot.waitExposed(dialog)
    area = dialog.findChild(QScrollArea)
    assert area is not None
    assert area.horizontalScrollBar().maximum() == 0
    dialog.close()


def test_edited_text_is_seen_from_its_first_letter_on(desk: Desk) -> None:
    desk.reply("Name three colours and say at some length why you like each of them. " * 4, "first")
    desk.view.begin_edit(desk.parts.conversation.turns[0].turn_id)
    editor = desk.view.rows[0].editor
    assert editor is not None
    QApplication.processEvents()
    first = editor.text_edit.document().begin()
    assert editor.text_edit.blockBoundingGeometry(first).translated(editor.text_edit.contentOffset()).left() >= 0
    assert editor.text_edit.textCursor().atEnd()


@pytest.mark.allow_log("the engine died")
def test_composer_says_which_model_a_message_loads_by_the_name_a_person_knows(desk: Desk) -> None:
    desk.reply("one", "first")
    desk.die()
    assert desk.composer.text_edit.placeholderText() == "Message. Starter model is loaded when you send it."
    desk.parts.actions.choose_model(None)
    assert desk.composer.text_edit.placeholderText() == "Message"


@pytest.mark.parametrize(
    ("title", "shown"), [("a title", "a title – Fireside"), ("[*] a\nb", "[*][*] a – Fireside")], ids=["plain", "odd"]
)
def test_window_is_called_like_its_chat(desk: Desk, title: str, shown: str) -> None:
    assert desk.window.windowTitle() == "Fireside"
    desk.reply(title, "first")
    assert desk.window.windowTitle() == shown
    desk.parts.actions.new_chat()
    assert desk.window.windowTitle() == "Fireside"


def test_find_bar_is_as_wide_as_the_conversation_when_it_opens(desk: Desk) -> None:
    desk.composer.text_edit.setFocus()
    QTest.keyClick(desk.composer.text_edit, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    bar = desk.parts.find_bar
    assert bar.isVisible()
    assert bar.width() == desk.view.width()
    assert bar.width() - bar.close_button.geometry().right() < 20
