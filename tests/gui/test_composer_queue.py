"""Messages written while a reply is in progress: they are queued, shown, and taken back."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.session.message_queue import QueuedMessage
from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.elided_label import ElidedLabel
from tests.gui.staged_composer import compose, stage

_THREE = [QueuedMessage("a", "first"), QueuedMessage("b", "second"), QueuedMessage("c", "third")]


@pytest.fixture
def composer(theme: Theme, qtbot: QtBot) -> Iterator[Composer]:
    for composer in stage(theme, qtbot):
        composer.set_busy(True)
        yield composer


@pytest.fixture
def heard(composer: Composer) -> list[tuple[str, str]]:
    heard: list[tuple[str, str]] = []
    composer.submitted.connect(lambda text: heard.append(("submit", text)))
    composer.stop_requested.connect(lambda: heard.append(("stop", "")))
    composer.queued_edit_requested.connect(lambda message_id: heard.append(("edit", message_id)))
    composer.queued_drop_requested.connect(lambda message_id: heard.append(("drop", message_id)))
    return heard


def button(composer: Composer, label: str, text: str) -> QPushButton:
    return next(
        button
        for button in composer.queue.findChildren(QPushButton)
        if button.text() == label and button.accessibleName().endswith(text) and button.isVisible()
    )


def focused() -> QWidget:
    widget = QApplication.focusWidget()
    assert widget is not None
    return widget


def test_blank_composer_stops(composer: Composer, heard: list[tuple[str, str]]) -> None:
    assert composer.button.text() == "Stop"
    assert not composer.stop_button.isVisible()
    QTest.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    assert heard == [("stop", "")]
    assert composer.text_edit.hasFocus()


def test_text_is_queued_and_stop_stands_beside(composer: Composer, heard: list[tuple[str, str]]) -> None:
    QTest.keyClicks(composer.text_edit, "next")
    assert composer.button.text() == "Queue"
    assert composer.stop_button.isVisible()
    QTest.mouseClick(composer.stop_button, Qt.MouseButton.LeftButton)
    assert heard == [("stop", "")]
    assert composer.text == "next"
    QTest.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    assert heard[1:] == [("submit", "next")]
    assert composer.text == ""
    assert composer.button.text() == "Stop"


def test_composed_text_is_queued_by_the_button(composer: Composer, heard: list[tuple[str, str]]) -> None:
    compose(composer, "にほん")
    assert composer.button.text() == "Queue"
    QTest.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    assert heard == [("submit", "にほん")]


def test_composed_text_stays_when_the_reply_is_stopped(composer: Composer, heard: list[tuple[str, str]]) -> None:
    compose(composer, "にほん")
    QApplication.processEvents()
    QTest.mouseClick(composer.stop_button, Qt.MouseButton.LeftButton)
    assert heard == [("stop", "")]
    assert composer.text == "にほん"


def test_enter_submits_while_busy(composer: Composer, heard: list[tuple[str, str]]) -> None:
    QTest.keyClicks(composer.text_edit, "next")
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return)
    assert heard == [("submit", "next")]


def test_enter_on_blank_text_does_not_stop(composer: Composer, heard: list[tuple[str, str]]) -> None:
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return)
    assert heard == []


def test_send_is_back_at_the_end_of_the_reply(composer: Composer) -> None:
    QTest.keyClicks(composer.text_edit, "next")
    composer.set_busy(False)
    assert composer.button.text() == "Send"
    assert not composer.stop_button.isVisible()


def test_main_button_stays_in_place_whatever_it_says(composer: Composer) -> None:
    QApplication.processEvents()
    places = [composer.button.mapTo(composer, composer.button.rect().topRight())]
    widths = [composer.button.width()]
    for is_busy in (True, False):
        QTest.keyClicks(composer.text_edit, "next")
        composer.set_busy(is_busy)
        QApplication.processEvents()
        places.append(composer.button.mapTo(composer, composer.button.rect().topRight()))
        widths.append(composer.button.width())
    assert len(set(widths)) == 1
    assert len({place.x() for place in places}) == 1


def test_queue_is_seen_and_counts_in_the_height(composer: Composer) -> None:
    before = composer.height()
    composer.set_queue(_THREE[:2])
    QApplication.processEvents()
    shown = [label.text() for label in composer.queue.findChildren(ElidedLabel)]
    assert shown == ["first", "second"]
    assert composer.queue.isVisible()
    assert composer.height() == before + composer.queue.height() + 8
    composer.set_queue([])
    assert composer.height() == before
    assert not composer.queue.isVisible()


def test_edit_and_drop_tell_the_message(composer: Composer, heard: list[tuple[str, str]]) -> None:
    composer.set_queue(_THREE)
    QApplication.processEvents()
    QTest.mouseClick(button(composer, "Edit", "second"), Qt.MouseButton.LeftButton)
    QTest.mouseClick(button(composer, "Drop", "third"), Qt.MouseButton.LeftButton)
    assert heard == [("edit", "b"), ("drop", "c")]


def test_only_three_are_seen_and_the_others_are_told(composer: Composer) -> None:
    composer.set_queue(_THREE)
    height = composer.height()
    composer.set_queue([*_THREE, QueuedMessage("d", "fourth"), QueuedMessage("e", "fifth")])
    assert composer.queue.more_text == "and 2 more"
    assert composer.height() < height + 30
    last = button(composer, "Drop", "fifth")
    QApplication.processEvents()
    assert last.visibleRegion().isEmpty()
    composer.text_edit.setFocus()
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Backtab)
    assert last.hasFocus()
    assert not last.visibleRegion().isEmpty()


def test_fewer_are_seen_in_a_low_window(composer: Composer) -> None:
    composer.set_max_height(160)
    composer.set_queue(_THREE)
    assert composer.height() <= 162
    assert composer.queue.more_text == "and 2 more"


def test_queue_is_reached_and_used_by_keyboard(composer: Composer, heard: list[tuple[str, str]]) -> None:
    composer.set_queue(_THREE)
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Backtab)
    for _ in range(5):
        QTest.keyClick(focused(), Qt.Key.Key_Backtab)
    assert focused() is button(composer, "Edit", "first")
    QTest.keyClick(focused(), Qt.Key.Key_Tab)
    QTest.keyClick(focused(), Qt.Key.Key_Space)
    assert heard == [("drop", "a")]
    composer.set_queue(_THREE[1:])
    assert focused() is button(composer, "Drop", "second")
    composer.set_queue(_THREE[1:2])
    composer.set_queue([])
    assert composer.text_edit.hasFocus()


def test_queue_stands_before_the_text_in_the_order_of_the_window(composer: Composer, theme: Theme) -> None:
    before = QPushButton("before", composer.window())
    before.show()
    QWidget.setTabOrder(before, composer.text_edit)
    for change in (lambda: composer.set_queue(_THREE), theme.zoom_in):
        change()
        before.setFocus()
        QTest.keyClick(before, Qt.Key.Key_Tab)
        assert focused() is button(composer, "Edit", "first")
        composer.text_edit.setFocus()
        QTest.keyClick(composer.text_edit, Qt.Key.Key_Backtab)
        assert focused() is button(composer, "Drop", "third")


def test_queue_is_named_for_screen_readers(composer: Composer) -> None:
    composer.set_queue(_THREE)
    names = [label.accessibleName() for label in composer.queue.findChildren(ElidedLabel)]
    assert names[1] == "Queued message 2 of 3: second"
    assert button(composer, "Drop", "second").accessibleName() == "Drop the queued message: second"


def test_queued_text_is_shown_literally_in_one_line(composer: Composer) -> None:
    composer.set_queue([QueuedMessage("a", "<b>bold</b>\nand \u202emore " + "x" * 2_000_000)])
    label = composer.queue.findChildren(ElidedLabel)[0]
    assert label.whole.startswith("\u2068<b>bold</b> and \u202emore ")
    assert len(label.whole) < 400
    assert "&lt;b&gt;" in label.toolTip()


def test_queued_message_comes_back_in_its_parts(composer: Composer) -> None:
    composer.set_text("", ["a long text " * 5000])
    QTest.keyClicks(composer.text_edit, "Summarise this")
    text = composer.text
    composer.submit()
    QTest.keyClicks(composer.text_edit, "another")
    composer.submit()
    composer.give_back(text)
    assert composer.text_edit.text == "Summarise this"
    assert composer.pasted_texts == ("a long text " * 5000,)
