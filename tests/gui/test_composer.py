"""The composer: what is sent, when, and that no text is ever lost."""

import itertools
import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QMimeData, Qt, QTimer, QUrl
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.composer_text import MAX_PASTE_CHARS


@pytest.fixture
def composer(theme: Theme, qtbot: QtBot) -> Iterator[Composer]:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(640, 500)
    composer = Composer(theme, QWidget(), window)
    composer.resize(600, 100)
    window.show()
    window.activateWindow()
    composer.text_edit.setFocus()
    qtbot.waitUntil(composer.text_edit.hasFocus)
    yield composer


@pytest.fixture
def sent(composer: Composer) -> Iterator[list[str]]:
    sent: list[str] = []
    composer.submitted.connect(sent.append)
    yield sent


def paste(composer: Composer, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    composer.text_edit.insertFromMimeData(data)


def compose(composer: Composer, preedit: str, commit: str = "") -> None:
    event = QInputMethodEvent(preedit, [])
    if commit:
        event.setCommitString(commit)
    QApplication.sendEvent(composer.text_edit, event)


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


def test_send_becomes_stop_and_enter_keeps_the_draft(composer: Composer, sent: list[str], qtbot: QtBot) -> None:
    composer.text_edit.setPlainText("draft")
    composer.set_busy(True)
    assert composer.button.text() == "Stop"
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return)
    assert sent == []
    assert composer.text == "draft"
    with qtbot.waitSignal(composer.stop_requested):
        composer.button.click()
    composer.set_busy(False)
    assert composer.button.text() == "Send"


def test_it_grows_to_its_limit(composer: Composer) -> None:
    composer.set_max_height(280)
    small = composer.height()
    composer.text_edit.setPlainText("\n".join("line" for _ in range(6)))
    grown = composer.height()
    composer.text_edit.setPlainText("\n".join("line" for _ in range(200)))
    assert small < grown < composer.height() <= 282


@pytest.mark.parametrize(
    "text",
    ["\n".join(f"line {n} of a long list" for n in range(20_000)), "word " * 400_000, "a" * 200_000],
    ids=["20,000 lines", "2 MB of prose", "one long word"],
)
def test_huge_paste_does_not_freeze(composer: Composer, sent: list[str], qtbot: QtBot, text: str) -> None:
    beats: list[float] = []
    timer = QTimer()
    timer.timeout.connect(lambda: beats.append(time.perf_counter()))
    timer.start(5)
    qtbot.wait(20)
    paste(composer, text)
    qtbot.wait(20)
    QTest.keyClicks(composer.text_edit, "see above")
    qtbot.wait(20)
    assert composer.text == f"see above\n\n{text}"
    composer.submit()
    qtbot.wait(20)
    timer.stop()
    assert max(b - a for a, b in itertools.pairwise(beats)) < 0.5
    assert sent == [f"see above\n\n{text}"]


def test_huge_paste_can_be_undone_and_redone(composer: Composer) -> None:
    text = "x y\n" * MAX_PASTE_CHARS
    paste(composer, text)
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    assert composer.text == ""
    QTest.keySequence(composer.text_edit, "Ctrl+Shift+Z")
    assert composer.text == text


def test_ordinary_paste_can_be_undone_and_redone(composer: Composer) -> None:
    paste(composer, "one\ntwo")
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    assert composer.text == ""
    QTest.keySequence(composer.text_edit, "Ctrl+Shift+Z")
    assert composer.text == "one\ntwo"


def test_refused_text_comes_back_above_the_draft(composer: Composer) -> None:
    composer.text_edit.setPlainText("new draft")
    composer.give_back("refused")
    assert composer.text == "refused\n\nnew draft"


def test_dropped_files_are_not_taken_as_text(composer: Composer) -> None:
    data = QMimeData()
    data.setUrls([QUrl("file:///tmp/a.gguf")])
    assert not composer.text_edit.canInsertFromMimeData(data)
