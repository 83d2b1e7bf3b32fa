"""The card of a dead engine says what happened and what to do, in plain text, and offers the ways on."""

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.crash_card import CrashCard
from app.desktop.widgets.notices import Notice, NoticeArea
from app.settings import Settings
from engine import ErrorInfo

ERROR = ErrorInfo("EngineDied", "The engine stopped unexpectedly.", "Load the model again.", "step 4")


@pytest.fixture
def host(qtbot: QtBot) -> QWidget:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(700, 500)
    host.show()
    return host


@pytest.fixture
def area(theme: Theme, host: QWidget) -> NoticeArea:
    return NoticeArea(theme, host)


@pytest.fixture
def card(theme: Theme, area: NoticeArea) -> CrashCard:
    card = CrashCard(theme)
    area.add_card(card)
    return card


def texts(card: CrashCard) -> str:
    return "\n".join(label.text() for label in card.findChildren(QLabel) if label.isVisible())


def test_area_takes_no_place_until_the_engine_dies(card: CrashCard, area: NoticeArea) -> None:
    assert area.isHidden()
    card.show_death(ERROR, -9, ())
    assert area.isVisible()
    assert area.notices == []
    QTest.mouseClick(card.close_button, Qt.MouseButton.LeftButton)
    assert area.isHidden()


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (-9, "Ended by signal 9 (SIGKILL)"),
        (-11, "Ended by signal 11 (SIGSEGV)"),
        (-250, "Ended by signal 250"),
        (3221225477, "Exit code 3221225477"),
        (1, "Exit code 1"),
    ],
)
def test_death_is_told_with_its_cause(card: CrashCard, exit_code: int, words: str) -> None:
    card.show_death(ERROR, exit_code, ())
    assert texts(card).splitlines() == [ERROR.message, f"Your text is kept. {ERROR.hint}", words]
    assert card.text == f"{ERROR.message} Your text is kept. {ERROR.hint}"


def test_unknown_exit_code_is_left_out(card: CrashCard) -> None:
    card.show_death(ERROR, None, ())
    assert len(texts(card).splitlines()) == 2


def test_both_ways_to_load_are_offered(card: CrashCard, qtbot: QtBot) -> None:
    card.show_death(ERROR, -9, ())
    for button, is_safe in ((card.load_button, False), (card.safer_button, True)):
        with qtbot.waitSignal(card.load_requested) as caught:
            button.setFocus()
            QTest.keyClick(button, Qt.Key.Key_Space)
        assert caught.args == [is_safe]


def test_details_hold_everything_that_helps(card: CrashCard) -> None:
    lines = ("loading\n", "ggml: <b>out of memory</b>")
    card.show_death(ERROR, -9, lines)
    QTest.mouseClick(card.copy_button, Qt.MouseButton.LeftButton)
    copied = QGuiApplication.clipboard().text().splitlines()
    assert copied == [
        ERROR.message,
        ERROR.hint,
        "Ended by signal 9 (SIGKILL)",
        "step 4",
        "loading",
        "ggml: <b>out of memory</b>",
    ]
    assert card.copy_button.text() == "Copied"
    card.show_death(ERROR, -9, ())
    assert card.copy_button.text() == "Copy details"


def test_log_is_folded_until_it_is_asked_for(card: CrashCard) -> None:
    card.show_death(ERROR, -9, ("one", "two"))
    log = card._log
    assert not log.isVisible()
    QTest.mouseClick(card.log_button, Qt.MouseButton.LeftButton)
    assert log.isVisible()
    assert log.toPlainText() == "one\ntwo"
    card.show_death(ERROR, -9, ())
    assert not card.log_button.isVisible()
    assert not log.isVisible()


def test_hostile_text_is_plain_and_bounded(card: CrashCard) -> None:
    text = "<img src='file:///etc/hostname'><b>x</b>"
    card.show_death(ErrorInfo("EngineDied", text * 100, text * 100), -9, ["y" * 10_000] * 5_000)
    labels = card.findChildren(QLabel)
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in labels)
    assert all(len(label.text()) < 700 for label in labels)
    assert card._log.blockCount() == 200


@pytest.mark.parametrize("zoom", [1.0, 2.0])
@pytest.mark.parametrize("width", [360, 700])
def test_no_button_is_cut_off(card: CrashCard, area: NoticeArea, theme: Theme, zoom: float, width: int) -> None:
    theme.set_zoom(zoom)
    card.show_death(ERROR, -9, ("line",))
    area.resize(width, area.height_for(width))
    QApplication.processEvents()
    for button in (card.load_button, card.safer_button, card.copy_button, card.close_button, card.log_button):
        place = button.mapTo(area, button.rect().bottomRight())
        assert place.x() < width
        assert place.y() < area.height()
        assert button.width() >= min(button.sizeHint().width(), button.minimumSizeHint().width())


def test_area_asks_for_more_height_when_the_log_opens(card: CrashCard, area: NoticeArea, qtbot: QtBot) -> None:
    card.show_death(ERROR, -9, ("line",))
    before = area.height_for(600)
    with qtbot.waitSignal(area.height_changed):
        card.log_button.click()
    assert area.height_for(600) > before + 100


def test_card_stands_above_the_notices(card: CrashCard, area: NoticeArea) -> None:
    area.show_notice(Notice(key="x", text="A notice"))
    card.show_death(ERROR, -9, ())
    area.resize(600, area.height_for(600))
    QApplication.processEvents()
    notice = next(label for label in area.findChildren(QLabel) if label.text() == "A notice")
    assert card.mapTo(area, card.rect().bottomLeft()).y() < notice.mapTo(area, notice.rect().topLeft()).y()
    area.dismiss("x")
    assert area.isVisible()


def sentences(desk: Any) -> list[str]:
    """Return every label in the window that says how the engine ended."""
    labels = (label for label in desk.window.findChildren(QLabel) if label.isVisible())
    return [label.text() for label in labels if "stopped unexpectedly" in label.text()]


@pytest.mark.allow_log("the engine died")
def test_death_is_told_once_and_the_reply_has_only_what_helps(desk: Any) -> None:
    request_id = desk.say("one")
    desk.delta(request_id, "half")
    desk.die(request_id)
    row = desk.view.rows[-1]
    desk.qtbot.waitUntil(lambda: desk.parts.crash_card.isVisible())
    assert len(sentences(desk)) == 1
    buttons = (row.error.load_button, row.error.retry_button, row.error.copy_button)
    assert [button.isVisible() for button in buttons] == [True, False, False]
    assert row.meta_text.startswith("Incomplete")
    QTest.mouseClick(desk.parts.crash_card.close_button, Qt.MouseButton.LeftButton)
    assert row.error.message in sentences(desk)
    assert len(sentences(desk)) == 1
    assert row.error.load_button.isVisible()


@pytest.mark.allow_log("the engine died")
def test_error_of_an_earlier_reply_is_still_told_beside_the_card(desk: Any) -> None:
    desk.fail(desk.say("one"), ErrorInfo("DecodeFailed", "The model could not compute a step.", "Try again."))
    desk.die(desk.say("two"))
    messages = [row.error.message for row in desk.view.rows if hasattr(row, "error")]
    assert messages == ["The model could not compute a step.", ""]


def test_first_run_is_explained_until_the_first_message(desk: Any) -> None:
    empty = desk.view.empty_state
    empty.set_first_run(True)
    assert "knows little" in empty.text
    desk.reply("one", "answer")
    desk.parts.actions.new_chat()
    assert empty.isVisible()
    assert "knows little" not in empty.text
    empty.set_first_run(True)
    assert "knows little" not in empty.text


def test_first_run_is_not_explained_to_others(desk: Any) -> None:
    assert "knows little" not in desk.view.empty_state.text
    assert Settings().zoom == 1.0
