"""The composer: what is sent, when, and that no text is ever lost."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.composer_text import MAX_PASTE_CHARS
from app.desktop.widgets.key_names import key_name
from app.settings import SendKey
from tests.gui.staged_composer import compose, paste, stage


@pytest.fixture
def composer(theme: Theme, qtbot: QtBot) -> Iterator[Composer]:
    yield from stage(theme, qtbot)


@pytest.fixture
def sent(composer: Composer) -> list[str]:
    sent: list[str] = []
    composer.submitted.connect(sent.append)
    return sent


def test_enter_sends_and_clears(composer: Composer, sent: list[str]) -> None:
    QTest.keyClicks(composer.text_edit, "hello")
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return)
    assert sent == ["hello"]
    assert composer.text == ""


def test_keypad_enter_sends(composer: Composer, sent: list[str]) -> None:
    QTest.keyClicks(composer.text_edit, "hello")
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Enter, Qt.KeyboardModifier.KeypadModifier)
    assert sent == ["hello"]


def test_shift_enter_adds_a_line(composer: Composer, sent: list[str]) -> None:
    QTest.keyClicks(composer.text_edit, "a")
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(composer.text_edit, "b")
    assert composer.text == "a\nb"
    assert sent == []


def test_return_while_composing_is_left_to_the_input_method(composer: Composer, sent: list[str]) -> None:
    compose(composer, "にほん")
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return)
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Enter)
    assert sent == []
    compose(composer, "", "日本")
    assert sent == []
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return)
    assert sent == ["日本"]


def test_composed_text_survives_loss_of_focus(composer: Composer, qtbot: QtBot, sent: list[str]) -> None:
    compose(composer, "にほん")
    composer.button.setFocus()
    composer.text_edit.clearFocus()
    qtbot.waitUntil(lambda: not composer.text_edit.hasFocus())
    assert composer.text == "にほん"
    assert sent == []


def test_shift_enter_while_composing_is_left_to_the_input_method(composer: Composer, sent: list[str]) -> None:
    compose(composer, "にほん")
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    compose(composer, "", "日本")
    assert composer.text == "日本"
    assert sent == []


@pytest.mark.parametrize("key", [Qt.Key.Key_Up, Qt.Key.Key_Down], ids=["up", "down"])
@pytest.mark.parametrize("modifier", [Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.AltModifier])
def test_arrows_while_composing_are_left_to_the_input_method(
    composer: Composer, key: Qt.Key, modifier: Qt.KeyboardModifier
) -> None:
    asked: list[bool] = []
    composer.edit_last_requested.connect(lambda: asked.append(True))
    composer.set_history(["one"])
    compose(composer, "にほん")
    QTest.keyClick(composer.text_edit, key, modifier)
    compose(composer, "", "日本")
    assert composer.text == "日本"
    assert asked == []


def test_click_on_send_takes_what_is_composed_along(composer: Composer, sent: list[str]) -> None:
    QTest.keyClicks(composer.text_edit, "to ")
    compose(composer, "にほん")
    composer.button.click()
    assert sent == ["to にほん"]
    assert composer.text == ""


@pytest.mark.parametrize(
    ("setting", "key", "modifier", "is_sent"),
    [
        (SendKey.ENTER, Qt.Key.Key_Return, Qt.KeyboardModifier.NoModifier, True),
        (SendKey.ENTER, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier, True),
        (SendKey.ENTER, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier, False),
        (SendKey.ENTER, Qt.Key.Key_Enter, Qt.KeyboardModifier.KeypadModifier, True),
        (SendKey.MOD_ENTER, Qt.Key.Key_Return, Qt.KeyboardModifier.NoModifier, False),
        (SendKey.MOD_ENTER, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier, False),
        (SendKey.MOD_ENTER, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier, True),
        (SendKey.MOD_ENTER, Qt.Key.Key_Enter, Qt.KeyboardModifier.KeypadModifier, False),
        (
            SendKey.MOD_ENTER,
            Qt.Key.Key_Enter,
            Qt.KeyboardModifier.KeypadModifier | Qt.KeyboardModifier.ControlModifier,
            True,
        ),
        (
            SendKey.MOD_ENTER,
            Qt.Key.Key_Return,
            Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.ControlModifier,
            False,
        ),
    ],
)
def test_send_key_is_the_chosen_one(
    composer: Composer,
    sent: list[str],
    setting: SendKey,
    key: Qt.Key,
    modifier: Qt.KeyboardModifier,
    is_sent: bool,
) -> None:
    composer.set_send_key(setting)
    QTest.keyClicks(composer.text_edit, "hello")
    QTest.keyClick(composer.text_edit, key, modifier)
    assert sent == (["hello"] if is_sent else [])
    assert composer.text == ("" if is_sent else "hello\n")


@pytest.mark.parametrize("setting", list(SendKey), ids=[key.value for key in SendKey])
def test_send_key_while_composing_is_left_to_the_input_method(
    composer: Composer, sent: list[str], setting: SendKey
) -> None:
    composer.set_send_key(setting)
    compose(composer, "にほん")
    for modifier in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier):
        QTest.keyClick(composer.text_edit, Qt.Key.Key_Return, modifier)
    assert sent == []
    compose(composer, "", "日本")
    assert composer.text == "日本"


def test_button_tells_the_send_key(composer: Composer) -> None:
    composer.set_send_key(SendKey.MOD_ENTER)
    assert composer.button.toolTip() == f"Send ({key_name('Ctrl+Return')})"


def test_placeholder_is_the_given_one(composer: Composer) -> None:
    composer.set_placeholder("Message — sent when the model is loaded")
    assert composer.text_edit.placeholderText() == "Message — sent when the model is loaded"


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\u200b", "\u200b\u00a0\n\u2060"])
def test_blank_text_cannot_be_sent(composer: Composer, sent: list[str], text: str) -> None:
    composer.text_edit.setPlainText(text)
    assert not composer.button.isEnabled()
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return)
    assert sent == []


@pytest.mark.parametrize(
    "text",
    [
        "line1\nline2\n    four blanks\n* star\n1. one\n\\<b\\>\na__b__c\nno\u00a0break and\ttab",
        "a\u0000b",
        "e\u0301",
        "\u202eabc",
        "one\u2028line",
        "  both ends  ",
    ],
)
def test_text_is_sent_exactly_as_pasted(composer: Composer, sent: list[str], text: str) -> None:
    paste(composer, text)
    composer.submit()
    assert sent == [text]


def test_lone_surrogate_does_not_get_through(composer: Composer, sent: list[str]) -> None:
    paste(composer, "a\ud83d b")
    composer.submit()
    assert sent[0].encode()
    assert sent[0].startswith("a")


def test_it_grows_to_its_limit(composer: Composer) -> None:
    composer.set_max_height(280)
    small = composer.height()
    composer.text_edit.setPlainText("\n".join("line" for _ in range(6)))
    grown = composer.height()
    composer.text_edit.setPlainText("\n".join("line" for _ in range(200)))
    assert small < grown < composer.height() <= 280
    assert (composer.text_edit.height() - 2) % composer.text_edit.fontMetrics().lineSpacing() == 0  # no line is cut


def test_refused_text_comes_back_above_the_draft(composer: Composer) -> None:
    composer.text_edit.setPlainText("new draft")
    composer.give_back("refused")
    assert composer.text == "refused\n\nnew draft"


def test_dropped_files_are_not_taken_as_text(composer: Composer) -> None:
    data = QMimeData()
    data.setUrls([QUrl("file:///tmp/a.gguf")])
    assert not composer.text_edit.canInsertFromMimeData(data)


def test_local_files_and_text_together_are_not_taken(composer: Composer) -> None:
    data = QMimeData()
    data.setUrls([QUrl("file:///tmp/a.txt")])
    data.setText("file:///tmp/a.txt")
    assert not composer.text_edit.canInsertFromMimeData(data)


def test_link_of_a_browser_is_taken_as_text(composer: Composer) -> None:
    data = QMimeData()
    data.setUrls([QUrl("https://example.org/")])
    data.setText("https://example.org/")
    assert composer.text_edit.canInsertFromMimeData(data)
    composer.text_edit.insertFromMimeData(data)
    assert composer.text == "https://example.org/"


def test_dropped_text_is_inserted(composer: Composer) -> None:
    data = QMimeData()
    data.setText("dropped text")
    place = composer.text_edit.viewport().rect().center()
    action, button, modifier = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    viewport = composer.text_edit.viewport()
    QApplication.sendEvent(viewport, QDragEnterEvent(place, action, data, button, modifier))
    QApplication.sendEvent(viewport, QDropEvent(place.toPointF(), action, data, button, modifier))
    assert composer.text == "dropped text"


def test_height_is_that_of_all_wrapped_lines_after_a_paste(composer: Composer) -> None:
    composer.set_max_height(600)
    paste(composer, "\n".join(["many words that wrap " * 10] * 3))
    line = composer.text_edit.fontMetrics().lineSpacing()
    num_lines = composer.text_edit.num_visual_lines(100)
    assert num_lines > 6
    assert composer.text_edit.height() == num_lines * line + 2
    composer.resize(300, composer.height())
    QApplication.processEvents()
    assert composer.text_edit.num_visual_lines(100) > num_lines
    assert composer.text_edit.height() == composer.text_edit.num_visual_lines(100) * line + 2
    assert composer.text_edit.verticalScrollBar().maximum() == 0


def test_height_is_right_when_the_composer_is_shown_with_a_text(theme: Theme, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    composer = Composer(theme, QWidget(), window)
    composer.set_max_height(600)
    composer.set_text("many words that wrap " * 30)
    composer.resize(500, composer.height())
    window.resize(640, 500)
    window.show()
    QApplication.processEvents()
    line = composer.text_edit.fontMetrics().lineSpacing()
    assert composer.text_edit.height() == composer.text_edit.num_visual_lines(100) * line + 2
    assert composer.text_edit.verticalScrollBar().maximum() == 0


def test_undo_and_redo_go_back_and_forth_in_the_order_of_what_was_done(composer: Composer) -> None:
    states = [composer.draft]
    QTest.keyClicks(composer.text_edit, "before")
    states.append(composer.draft)
    paste(composer, "x y\n" * MAX_PASTE_CHARS)
    states.append(composer.draft)
    QTest.keyClicks(composer.text_edit, "after")
    states.append(composer.draft)
    paste(composer, "z z\n" * MAX_PASTE_CHARS)
    states.append(composer.draft)
    for state in reversed(states[:-1]):
        QTest.keySequence(composer.text_edit, "Ctrl+Z")
        assert composer.draft == state
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    assert composer.draft == ""
    for state in states[1:]:
        QTest.keySequence(composer.text_edit, "Ctrl+Shift+Z")
        assert composer.draft == state
    QTest.keySequence(composer.text_edit, "Ctrl+Shift+Z")
    assert composer.draft == states[-1]


def test_nothing_is_redone_after_something_new(composer: Composer) -> None:
    paste(composer, "x y\n" * MAX_PASTE_CHARS)
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    QTest.keyClicks(composer.text_edit, "new")
    QTest.keySequence(composer.text_edit, "Ctrl+Shift+Z")
    assert composer.text == "new"
