"""The real window with the real model and the real store, through a whole conversation: keys and mouse alone."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.settings import Settings
from app.settings import Theme as ThemeMode
from engine import FinishReason
from tests.support.accessibility_tree import dump
from tests.support.kept_engine import KeptEngine
from tests.support.person import Person, own_texts
from tests.support.real_window import RealWindows

# Menus: the platform of the tests cannot do all that a desktop does.
pytestmark = pytest.mark.qt_log_ignore("plugin does not support", "propagateSizeHints")

Key = Qt.Key
LONG = "Tell me a long story about the sea."
# One thread: with more, each token waits for the slowest of them on a machine that has other work.
SETTINGS = Settings(
    load_params={"starter": {"n_ctx": 2048, "n_threads": 1}}, sampling={"max_tokens": 12}, theme=ThemeMode.LIGHT
)


@pytest.fixture(scope="module")
def engine(starter_path: Path) -> Iterator[KeptEngine]:
    engine = KeptEngine()
    engine.load(starter_path)
    yield engine
    engine.end()


@pytest.fixture(scope="module")
def _one_theme(qapp: QApplication) -> Theme:
    return Theme(qapp, ThemeMode.LIGHT, family="DejaVu Sans")


@pytest.fixture
def open_window(engine: KeptEngine, _one_theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[Callable[..., Person]]:
    """Start the program, again and again on the same data, as its start does."""
    windows = RealWindows(qtbot, _one_theme, tmp_path, SETTINGS)

    def open_one() -> Person:
        parts = windows.show(engine, size=None if windows.settings.window else (1300, 1500))
        windows.open_chats(parts)
        person = windows.load(parts)
        person.wait(lambda: QApplication.focusWidget() is person.composer.text_edit)
        return person

    yield open_one
    windows.close()
    _one_theme.set_mode(ThemeMode.LIGHT)
    _one_theme.reset_zoom()


@pytest.fixture
def person(open_window: Callable[..., Person]) -> Person:
    return open_window()


def test_reply_grows_is_stopped_goes_on_and_is_asked_for_again(person: Person) -> None:
    person.set_number("max_tokens", "300")
    person.click(person.composer.text_edit)
    person.send(LONG)
    assert person.texts[0] == LONG
    person.wait(lambda: any(word.isalpha() for word in person.seen(-1).split()[:-1]))
    first = person.seen(-1)
    known = next(word for word in first.split() if word.isalpha())  # a number before it may turn out to be a list's
    person.wait(lambda: len(person.seen(-1)) > len(first))
    assert known in person.seen(-1)
    assert person.composer.button.text() == "Stop"
    person.press(Key.Key_Escape)
    person.wait_for_reply()
    stopped = person.last_reply
    assert stopped.finish_reason is FinishReason.ABORT
    assert person.composer.button.text() == "Send"

    person.set_number("max_tokens", "8")
    person.click(person.row(-1).actions_bar.continue_button)
    person.wait_for_reply()
    longer = person.last_reply
    assert longer.text.startswith(stopped.text)
    assert len(longer.text) > len(stopped.text)
    assert QApplication.focusWidget() is person.composer.text_edit

    person.control(Key.Key_R)
    person.wait_for_reply()
    bar = person.row(-1).actions_bar
    assert bar.number.text() == "3 / 3"
    person.click(bar.previous)
    assert person.last_reply.text == longer.text
    person.click(person.row(-1).actions_bar.previous)
    assert person.last_reply.text == stopped.text
    person.press(Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert person.last_reply.text == longer.text
    person.press(Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    assert person.seen(-1).split()[:3] == stopped.text.split()[:3]


def test_messages_are_edited_deleted_brought_back_and_branched_from(person: Person) -> None:
    person.say("Name a colour.")
    person.say("Name a fruit.")
    person.press(Key.Key_Up)
    person.replace("Name an animal.")
    person.control(Key.Key_Return)
    person.wait_for_reply()
    assert own_texts(person) == ["Name a colour.", "Name an animal."]
    assert person.row(-2).actions_bar.number.text() == "2 / 2"
    assert QApplication.focusWidget() is person.composer.text_edit

    person.point_at(person.row(-1))
    person.click(person.row(-1).actions_bar.edit)
    person.replace("A cat of mine")
    editor = person.row(-1).editor
    assert editor is not None
    person.click(editor.submit_button)
    assert person.seen(-1) == "A cat of mine"

    person.act(0, "Delete")
    assert own_texts(person) == ["Name an animal."]
    person.press_notice("undo", "Undo")
    assert own_texts(person) == ["Name a colour.", "Name an animal."]

    person.act(1, "Branch from here")
    assert len(person.texts) == 2
    person.say("Name a tree.")
    assert own_texts(person) == ["Name a colour.", "Name a tree."]
    assert person.row(-2).actions_bar.number.text() == "3 / 3"


def test_message_typed_meanwhile_waits_and_can_be_edited_and_dropped(person: Person) -> None:
    person.set_number("max_tokens", "300")
    person.click(person.composer.text_edit)
    person.send(LONG)
    person.wait(lambda: person.seen(-1))
    person.send("one more thing")
    person.send("and another")
    queue = person.composer.queue
    assert person.queued == ["one more thing", "and another"]
    person.click(queue.rows.buttons[3])
    assert person.queued == ["one more thing"]
    person.click(queue.rows.buttons[0])
    assert person.queued == []
    person.replace("Say hello.")
    person.press(Key.Key_Return)
    assert person.queued == ["Say hello."]
    person.set_number("max_tokens", "8")
    person.press(Key.Key_Escape)
    assert person.queued == []
    assert person.composer.text == "Say hello."
    person.press(Key.Key_Return)
    person.wait(lambda: own_texts(person) == [LONG, "Say hello."])
    person.wait_for_reply()
    assert person.last_reply.text


def test_two_chats_write_at_once_and_each_keeps_its_draft(person: Person) -> None:
    person.set_number("max_tokens", "300")
    person.click(person.composer.text_edit)
    person.send(LONG)
    person.wait(lambda: person.seen(-1))
    person.type("a thought for later")
    person.control(Key.Key_N)
    assert person.composer.text == ""
    person.set_number("max_tokens", "300")
    person.click(person.composer.text_edit)
    person.send("Count from one to a hundred.")
    person.wait(lambda: person.seen(-1))
    assert len(person.parts.chats.busy) == 2
    person.wait(lambda: len(person.titles()) == 2)

    person.control(Key.Key_PageDown)
    person.wait(lambda: own_texts(person) == [LONG])
    assert person.composer.text == "a thought for later"
    before = len(person.seen(-1))
    person.wait(lambda: len(person.seen(-1)) > before)
    person.press(Key.Key_Escape)
    person.wait_for_reply()
    person.control(Key.Key_PageUp)
    person.wait(lambda: own_texts(person) == ["Count from one to a hundred."])
    assert person.parts.conversation.is_busy or person.last_reply.text
    person.click(person.composer.text_edit)
    person.press(Key.Key_Escape)
    person.wait_for_reply()


def test_chat_is_renamed_pinned_found_deleted_and_brought_back(person: Person) -> None:
    sidebar = person.parts.sidebar
    person.say("My zebra is called Zoltan.")
    person.control(Key.Key_N)
    person.say("What is a lighthouse?")
    person.wait(lambda: len(person.titles()) == 2)

    person.press(Key.Key_F2)
    person.replace("Towers")
    person.press(Key.Key_Return)
    person.wait(lambda: "Towers" in person.titles())
    assert person.window.top_bar.title == "Towers"

    person.click_line(sidebar.chats, "My zebra", button=Qt.MouseButton.RightButton)
    person.choose("Pin")
    person.wait(lambda: person.titles() == ["My zebra is called Zoltan.", "Towers"])

    person.control(Key.Key_K)
    person.type("zoltan")
    person.wait(lambda: sidebar.is_searching)
    assert sidebar.summary == "2 hits" or "hit" in sidebar.summary
    person.press(Key.Key_Return)
    person.wait(lambda: QApplication.focusWidget() is sidebar.hits)
    person.press(Key.Key_Down)
    person.press(Key.Key_Return)
    person.wait(lambda: own_texts(person) == ["My zebra is called Zoltan."])
    bar = person.parts.find_bar
    assert bar.isVisible()
    assert bar.field.text() == "zoltan"

    person.press(Key.Key_Escape)
    assert not bar.isVisible()
    person.control(Key.Key_F)
    person.replace("a")
    person.wait(lambda: bar.summary.startswith("1 of"))
    person.press(Key.Key_F3)
    assert bar.summary.startswith("2 of")
    person.press(Key.Key_F3, Qt.KeyboardModifier.ShiftModifier)
    assert bar.summary.startswith("1 of")
    person.press(Key.Key_Escape)

    person.press(Key.Key_Backspace, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    person.wait(lambda: person.texts == [])
    person.click(sidebar.trash)
    trash = person.parts.trash
    person.wait(lambda: trash.restore.isVisible())
    assert QApplication.focusWidget() is trash.list
    person.click(trash.restore)
    person.wait(lambda: not trash.restore.isVisible())
    person.press(Key.Key_Escape)
    assert person.window.page is None
    if sidebar.is_searching:
        person.control(Key.Key_K)
        person.press(Key.Key_Escape)
    person.wait(lambda: len(person.titles()) == 2)
    person.click_line(sidebar.chats, "My zebra")
    person.wait(lambda: own_texts(person) == ["My zebra is called Zoltan."])


def test_settings_of_a_chat_are_used_without_loading_anew(person: Person, engine: KeptEngine) -> None:
    num_loads = engine.num_loads()
    head = person.window.inspector.section("system_prompt").head
    if not head.isChecked():
        person.click(head)
    person.click(person.parts.system_prompt.edit)
    person.type("You only ever say: yes.")
    person.set_number("temperature", "0.2")
    person.click(person.composer.text_edit)
    person.say("Is water wet?")
    asked = person.last_reply.settings
    assert asked["system_prompt"] == "You only ever say: yes."
    assert asked["sampling"]["temperature"] == 0.2
    person.click(person.parts.sampling.pin_button)
    first = person.last_reply
    assert first.metrics is not None
    person.control(Key.Key_R)
    person.wait_for_reply()
    second = person.last_reply
    assert second.metrics is not None
    assert second.metrics.seed == first.metrics.seed
    assert second.turn_id != first.turn_id
    assert engine.num_loads() == num_loads


def test_closed_window_opens_as_it_was(open_window: Callable[..., Person]) -> None:
    person = open_window()
    person.say("Name three colours.")
    person.press(Key.Key_F2)
    person.replace("Colours")
    person.press(Key.Key_Return)
    person.wait(lambda: person.window.top_bar.title == "Colours")
    person.click(person.composer.text_edit)
    person.say("\n".join(["word"] * 2) + " again and again. " * 8)
    texts = person.texts
    person.type("not sent yet")

    again = open_window()
    again.wait(lambda: again.texts == texts)
    assert again.window.top_bar.title == "Colours"
    assert again.composer.text == "not sent yet"
    assert QApplication.focusWidget() is again.composer.text_edit
    again.replace("Go on.")
    again.press(Key.Key_Return)
    again.wait_for_reply()
    assert again.texts[:-2] == texts


def test_place_in_a_long_chat_is_found_again(open_window: Callable[..., Person]) -> None:
    person = open_window()
    person.window.resize(1300, 380)
    QGuiApplication.clipboard().setText("First. " + "A long line of words. " * 25)
    person.control(Key.Key_V)
    person.say("")
    person.say("Second.")
    person.control(Key.Key_Home)
    bar = person.view.verticalScrollBar()
    person.wait(lambda: bar.value() == 0 and bar.maximum() > 0)
    again = open_window()
    again.wait(lambda: len(again.texts) == 4)
    again.wait(lambda: again.view.verticalScrollBar().maximum() > 0)
    assert again.view.verticalScrollBar().value() == 0


def test_look_of_the_window_follows_keys_and_menu(person: Person) -> None:
    person.say("Say hello.")
    theme = person.parts.theme
    width = person.composer.button.width()
    person.control(Key.Key_Equal)
    person.control(Key.Key_Equal)
    assert theme.zoom == 1.25
    assert person.composer.button.width() > width
    person.control(Key.Key_0)
    assert theme.zoom == 1.0
    person.click(person.window.top_bar.menu_button)
    person.choose("Theme")
    person.choose("Dark")
    assert person.window.grab().toImage().pixelColor(650, 300).lightness() < 60
    assert person.parts.settings.now.theme is ThemeMode.DARK


def test_settings_page_is_opened_used_and_left_with_keys(person: Person) -> None:
    person.type("a draft")
    person.control(Key.Key_Comma)
    page = person.window.page
    assert page is not None
    assert page.isVisible()
    assert not person.composer.isVisible()
    person.press(Key.Key_Tab)
    theme = QApplication.focusWidget()
    assert theme is not None
    assert theme.accessibleName() == "Theme"
    person.press(Key.Key_End)
    person.wait(lambda: person.parts.settings.now.theme is ThemeMode.DARK)
    person.press(Key.Key_Escape)
    assert person.window.page is None
    assert QApplication.focusWidget() is person.composer.text_edit
    assert person.composer.text == "a draft"


def test_reply_in_another_chat_is_marked_until_it_is_seen(person: Person) -> None:
    person.send("Say hello.")
    person.control(Key.Key_N)
    person.wait(lambda: person.parts.chats.unread)
    person.wait(lambda: person.titles() == ["Say hello."])
    marks = person.parts.sidebar.chats.chats
    [chat_id] = [entry.chat_id for entry in marks.entries if entry.chat_id]
    assert marks.is_unread(chat_id)
    person.click_line(person.parts.sidebar.chats, "Say hello")
    person.wait(lambda: own_texts(person) == ["Say hello."])
    assert not marks.is_unread(chat_id)
    assert person.seen(-1)


def test_reply_is_copied_with_keys(person: Person) -> None:
    person.say("Say hello.")
    person.press(Key.Key_C, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    assert QGuiApplication.clipboard().text() == person.last_reply.text


def test_screen_reader_is_told_of_a_conversation(person: Person) -> None:
    for question in ("Name a colour.", "Name a fruit."):
        person.say(question)
    lines = [line.strip() for line in dump(person.window).splitlines()]
    assert not [line for line in lines if "NO NAME" in line]
    begin = next(number for number, line in enumerate(lines) if line.startswith('Client "Conversation"'))
    speakers = [line.split('"')[1] for line in lines[begin:] if line.startswith("Client ") and '"' in line][1:5]
    model = person.last_reply.model_name
    assert speakers == ["You", model, "You", model]
    told = "\n".join(lines[begin:])
    words = re.findall("[A-Za-z]+", person.parts.conversation.turns[1].text)
    first = max(words, key=len)  # the number of a list is told in another way
    assert told.index("text='Name a colour.'") < told.index(first) < told.index("text='Name a fruit.'")
    for name in ("Copy reply", "Ask again", "Edit", "More"):
        assert f'Button "{name}"' in told
    assert any(line.startswith('EditableText "Message"') for line in lines)
