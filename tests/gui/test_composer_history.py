"""The way back through sent messages, by keyboard."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.composer_text import MAX_PASTE_CHARS
from tests.gui.staged_composer import paste, stage

_UP, _DOWN = Qt.Key.Key_Up, Qt.Key.Key_Down
_LONG = "x y\n" * MAX_PASTE_CHARS


@pytest.fixture
def composer(theme: Theme, qtbot: QtBot) -> Iterator[Composer]:
    for composer in stage(theme, qtbot):
        composer.set_history(["one", "two", "two", "three\nlines\nhere"])
        yield composer


@pytest.fixture
def asked(composer: Composer) -> list[bool]:
    asked: list[bool] = []
    composer.edit_last_requested.connect(lambda: asked.append(True))
    return asked


def press(composer: Composer, key: Qt.Key, *, alt: bool = False) -> str:
    modifier = Qt.KeyboardModifier.AltModifier if alt else Qt.KeyboardModifier.NoModifier
    # The arrow keys of macOS count as keys of the keypad.
    QTest.keyClick(composer.text_edit, key, modifier | Qt.KeyboardModifier.KeypadModifier)
    return composer.text


def test_up_in_an_empty_composer_asks_for_the_last_message(composer: Composer, asked: list[bool]) -> None:
    press(composer, _UP)
    assert asked == [True]
    assert composer.text == ""


@pytest.mark.parametrize("text", ["a", " "], ids=["text", "blank"])
def test_up_in_a_text_asks_for_nothing(composer: Composer, asked: list[bool], text: str) -> None:
    QTest.keyClicks(composer.text_edit, text)
    press(composer, _UP)
    press(composer, _DOWN)
    assert asked == []
    assert composer.text == text


def test_up_beside_a_chip_asks_for_nothing(composer: Composer, asked: list[bool]) -> None:
    paste(composer, _LONG)
    press(composer, _UP)
    assert asked == []
    assert composer.text == _LONG


def test_alt_up_and_down_walk_and_come_back_to_what_was_typed(composer: Composer) -> None:
    QTest.keyClicks(composer.text_edit, "typed")
    walk = [press(composer, _UP, alt=True) for _ in range(4)]
    assert walk == ["three\nlines\nhere", "two", "one", "one"]
    walk = [press(composer, _DOWN, alt=True) for _ in range(4)]
    assert walk == ["two", "three\nlines\nhere", "typed", "typed"]


def test_plain_arrows_go_on_from_an_unchanged_message(composer: Composer, asked: list[bool]) -> None:
    QTest.keyClicks(composer.text_edit, "typed")
    press(composer, _UP, alt=True)
    walk = [press(composer, _UP) for _ in range(5)]
    assert walk == ["three\nlines\nhere"] * 2 + ["two", "one", "one"]
    assert press(composer, _DOWN) == "two"
    assert press(composer, _DOWN) == "three\nlines\nhere"
    assert press(composer, _DOWN) == "typed"
    assert asked == []


def test_changed_message_is_kept_on_the_walk(composer: Composer) -> None:
    press(composer, _UP, alt=True)
    press(composer, _UP, alt=True)
    QTest.keyClicks(composer.text_edit, " and more")
    assert press(composer, _UP) == "two and more"
    assert press(composer, _UP, alt=True) == "one"
    assert press(composer, _DOWN, alt=True) == "two and more"


def test_walk_can_be_undone(composer: Composer) -> None:
    QTest.keyClicks(composer.text_edit, "typed")
    press(composer, _UP, alt=True)
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    assert composer.text == "typed"


def test_chips_are_put_aside_and_come_back(composer: Composer) -> None:
    QTest.keyClicks(composer.text_edit, "see")
    paste(composer, _LONG)
    assert press(composer, _UP, alt=True) == "three\nlines\nhere"
    assert composer.pasted_texts == ()
    press(composer, _DOWN, alt=True)
    assert composer.text_edit.text == "see"
    assert composer.pasted_texts == (_LONG,)


def test_long_sent_message_comes_as_a_chip(composer: Composer) -> None:
    composer.set_history(["one", "a" * 100_000])
    assert press(composer, _UP, alt=True) == "a" * 100_000
    assert composer.pasted_texts == ("a" * 100_000,)
    assert press(composer, _UP) == "one"


def test_walk_begins_anew_after_sending(composer: Composer) -> None:
    press(composer, _UP, alt=True)
    press(composer, _UP, alt=True)
    sent: list[str] = []
    composer.submitted.connect(sent.append)
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return)
    composer.set_history(["one", "two", "three\nlines\nhere", *sent])
    assert sent == ["two"]
    assert press(composer, _DOWN, alt=True) == ""
    assert press(composer, _UP, alt=True) == "two"
    assert press(composer, _UP, alt=True) == "three\nlines\nhere"


def test_walk_goes_on_when_a_message_is_added_meanwhile(composer: Composer) -> None:
    QTest.keyClicks(composer.text_edit, "typed")
    press(composer, _UP, alt=True)
    composer.set_history(["one", "two", "three\nlines\nhere", "four"])
    assert press(composer, _DOWN, alt=True) == "four"
    assert press(composer, _DOWN, alt=True) == "typed"


def test_alt_up_without_history_keeps_the_text(composer: Composer) -> None:
    composer.set_history([])
    QTest.keyClicks(composer.text_edit, "typed")
    assert press(composer, _UP, alt=True) == "typed"
