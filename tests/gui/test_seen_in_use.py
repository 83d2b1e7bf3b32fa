"""What a person meets who uses the window for a while: nothing slips away from under the hand."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QCursor, QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.crash_card import CrashCard
from app.desktop.widgets.figures import share_text
from app.desktop.widgets.focus_ring import FocusRing
from app.desktop.widgets.key_names import key_name
from app.desktop.widgets.message_editor import MessageEditor
from app.desktop.widgets.models_head import ModelsHead
from app.desktop.widgets.typed_key import is_typed
from app.reply_records import title_of
from engine import DrafterStats, DraftState, ErrorInfo, Generate, SpeculativeStats, ThreadsChanged, ThreadsReason
from tests.gui.compare_hand import CompareHand
from tests.gui.scripted_engine import Desk

# Of the platform without a screen, about any window of its own.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
SHIFT, CONTROL = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier
ALT, GROUP = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.GroupSwitchModifier
NEIGHBOUR = ThreadsChanged(num_threads=1, num_prefill_threads=1, num_available=2, reason=ThreadsReason.NEIGHBOUR)


def test_capital_typed_at_a_message_goes_into_the_composer(desk: Desk) -> None:
    desk.reply("one", "answer")
    desk.view.rows[-1].setFocus()
    QTest.keyClicks(desk.view.rows[-1], "N", SHIFT)
    assert desk.composer.text == "N"
    assert QApplication.focusWidget() is desk.composer.text_edit


@pytest.mark.parametrize(
    ("modifiers", "text", "is_one"),
    [
        (Qt.KeyboardModifier.NoModifier, "x", True),
        (SHIFT, "Ä", True),
        (GROUP, "@", True),
        (CONTROL | ALT, "€", True),
        (CONTROL, "x", False),
        (ALT, "x", False),
        (SHIFT, "", False),
        (SHIFT, " ", False),
        (Qt.KeyboardModifier.NoModifier, "\r", False),
    ],
    ids=["letter", "capital", "AltGr", "AltGr of Windows", "shortcut", "menu key", "Shift alone", "blank", "Enter"],
)
def test_typed_letter_is_told_from_other_keys(modifiers: Qt.KeyboardModifier, text: str, is_one: bool) -> None:
    event = QKeyEvent(QKeyEvent.Type.KeyPress, Qt.Key.Key_X, modifiers, text)
    assert is_typed(event) is is_one


@pytest.fixture
def wide(desk: Desk) -> Desk:
    """A window with room for the inspector."""
    desk.window.resize(1300, 800)
    desk.qtbot.waitUntil(lambda: desk.window.inspector.isVisible())
    return desk


def top_of(desk: Desk, widget: QWidget) -> int:
    """Return where a widget of the inspector is seen."""
    QApplication.processEvents()
    return widget.mapTo(desk.window.inspector.area.viewport(), QPoint()).y()


def test_number_of_threads_moves_nothing_when_it_changes(wide: Desk) -> None:
    readouts, slider = wide.parts.readouts, wide.window.inspector.section("sampling")
    before = top_of(wide, slider)
    wide.client.emit(NEIGHBOUR)
    wide.qtbot.waitUntil(lambda: readouts.value("threads") == "1 of 2 · busy computer")
    assert readouts.tip("threads") == "1 of 2 threads: another program is using the processor"
    assert top_of(wide, slider) == before


def test_threads_are_told_as_soon_as_a_model_is_loaded(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    readouts = desk.parts.readouts
    assert readouts.value("threads") == "–"
    desk.load(n_threads=6)
    assert readouts.value("threads") == "6"


def test_conversation_shows_that_the_keys_are_there(desk: Desk) -> None:
    desk.reply("one", "answer")
    rings = desk.view.findChildren(FocusRing)
    desk.view.setFocus(Qt.FocusReason.MouseFocusReason)
    assert not any(ring.isVisible() for ring in rings)
    desk.composer.text_edit.setFocus()
    desk.view.setFocus(Qt.FocusReason.TabFocusReason)
    (shown,) = [ring for ring in rings if ring.isVisible()]
    assert desk.view.viewport().geometry().contains(shown.geometry())
    QTest.keyClick(desk.view, Qt.Key.Key_Down)
    assert [ring.isVisible() for ring in rings].count(True) == 1
    assert not shown.isVisible(), "the message has them now"


def test_frame_of_the_first_message_is_around_it_alone(desk: Desk) -> None:
    for question in ("Repeat three times: The quick", "Write a long"):
        desk.reply(question, "answer")
    desk.view.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(desk.view, Qt.Key.Key_Down)
    assert desk.view.focused_number == 0
    for above, below in itertools.pairwise(desk.view.rows):
        assert above.geometry().bottom() < below.geometry().top()


def test_entries_of_a_message_show_their_keys_where_these_do_the_same(desk: Desk) -> None:
    for number in range(2):
        desk.reply(f"question {number}", "answer")
    shown = []
    for row in (desk.view.rows[1], desk.view.rows[-1]):
        menu = row.menu()
        shown.append([action.text() for action in menu.actions()])
        menu.deleteLater()
    assert "Copy reply" in shown[0]
    assert "Ask again" in shown[0]
    assert f"Copy reply\t{key_name('Ctrl+Shift+C')}" in shown[1]
    assert f"Ask again\t{key_name('Ctrl+R')}" in shown[1]


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(118, 180, "118 of 180 MiB"), (0, 180, "0 B of 180 MiB"), (900, 2048, "900 MiB of 2.0 GiB")],
    ids=["same unit", "nothing yet", "other unit"],
)
def test_size_of_a_part_has_its_unit_once(part: int, whole: int, text: str) -> None:
    assert share_text(part * 2**20, whole * 2**20) == text


@pytest.mark.parametrize("way", ["pointer", "focus"])
def test_setting_in_hand_stays_where_it_is_when_numbers_above_it_come(wide: Desk, way: str) -> None:
    inspector = wide.window.inspector
    readouts, section = wide.parts.readouts, inspector.section("sampling")
    top_of(wide, section)
    if way == "pointer":
        QCursor.setPos(section.mapToGlobal(QPoint(40, 40)))
    else:
        QCursor.setPos(wide.window.mapToGlobal(QPoint(-50, -50)))
        section.head.setFocus()
    before = top_of(wide, section)
    readouts.show_total(12.0)
    wide.qtbot.waitUntil(lambda: inspector.area.verticalScrollBar().value() > 0)
    assert top_of(wide, section) == before
    readouts.show_total(None)
    wide.qtbot.waitUntil(lambda: inspector.area.verticalScrollBar().value() == 0)
    assert top_of(wide, section) == before


def test_settings_at_the_end_stay_in_place_while_numbers_come_and_go(wide: Desk) -> None:
    inspector = wide.window.inspector
    inspector.set_collapsed(())
    QCursor.setPos(wide.window.mapToGlobal(QPoint(-50, -50)))
    QApplication.processEvents()
    bar = inspector.area.verticalScrollBar()
    bar.setValue(bar.maximum())
    before = top_of(wide, inspector.section("model"))
    for total in (12.0, None, 11.0, None):
        wide.parts.readouts.show_total(total)
        assert top_of(wide, inspector.section("model")) == before


def test_lines_of_drafting_stay_while_the_next_reply_begins(wide: Desk) -> None:
    readouts = wide.parts.readouts
    drafter = DrafterStats(drafter="ngram", num_drafts=10, num_drafted_tokens=20, num_accepted_tokens=13)
    stats = SpeculativeStats(state=DraftState.ON, drafters=(drafter,))
    first = wide.say("one")
    wide.finish(first, "a", speculative=stats)
    assert readouts.has_row("drafts")
    second = wide.say("two")
    wide.delta(second, "b")
    assert (readouts.has_row("drafts"), readouts.value("drafts")) == (True, "–")
    wide.finish(second, "b")
    assert not readouts.has_row("drafts")


def test_numbers_stay_in_view_when_they_grow_and_nobody_is_at_the_settings(wide: Desk) -> None:
    inspector = wide.window.inspector
    QCursor.setPos(wide.window.mapToGlobal(QPoint(-50, -50)))
    wide.composer.text_edit.setFocus()
    before = top_of(wide, inspector.section("sampling"))
    wide.parts.readouts.show_total(12.0)
    assert top_of(wide, inspector.section("sampling")) > before
    assert inspector.area.verticalScrollBar().value() == 0


def test_numbers_and_seed_are_those_of_the_version_that_is_shown(desk: Desk) -> None:
    first = desk.say("one")
    desk.finish(first, "a", num_generated_tokens=11, seed=101)
    before = desk.client.last(Generate)
    desk.parts.presenter.retry()
    desk.qtbot.waitUntil(lambda: desk.client.last(Generate) is not before)
    desk.finish(desk.client.last(Generate).request_id, "b", num_generated_tokens=22, seed=202)
    readouts, panel = desk.parts.readouts, desk.parts.sampling
    for way, count, used in ((-1, 11, 101), (1, 22, 202)):
        desk.view.step_variant(way)
        assert readouts.value("generated").startswith(f"{count} tokens")
        assert f"Last reply: {used}" in [label.text() for label in panel.findChildren(QLabel)]


def test_keys_go_to_the_composer_when_a_narrower_window_takes_the_inspector(desk: Desk) -> None:
    desk.window.resize(1300, 800)
    desk.window.inspector.section("drafting").head.setFocus()
    desk.window.resize(420, 800)
    desk.qtbot.waitUntil(lambda: not desk.window.is_inspector_visible)
    assert QApplication.focusWidget() is desk.composer.text_edit


def test_way_a_process_ended_is_said_once(theme: Theme, qtbot: QtBot) -> None:
    card = CrashCard(theme)
    qtbot.addWidget(card)
    card.show_death(ErrorInfo("EngineDied", "The engine stopped unexpectedly (SIGKILL).", "Load again."), -9, ())
    words = " ".join(label.text() for label in card.findChildren(QLabel) if not label.isHidden())
    assert words.count("SIGKILL") == 1
    assert "Ended by signal 9 (SIGKILL)" in card.details


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Explain in a few short paragraphs how a fireplace works, and more", "works…"),
        ("What is the largest lake of the northern half of the world? Tell", "world?…"),
    ],
    ids=["comma", "question"],
)
def test_title_is_not_cut_behind_a_comma(text: str, title: str) -> None:
    assert title_of(text).endswith(title)


def test_keys_are_called_as_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.desktop.widgets.key_names._IS_MAC", False)
    assert (key_name("Shift+Return"), key_name("Ctrl+Return"), key_name("Ctrl+K")) == (
        "Shift+Enter",
        "Ctrl+Enter",
        "Ctrl+K",
    )


@pytest.mark.parametrize(
    ("width", "words"),
    [(700, "sends · The message before"), (330, "sends"), (190, "")],
    ids=["wide", "narrow", "no room"],
)
def test_editor_says_which_key_sends(theme: Theme, qtbot: QtBot, width: int, words: str) -> None:
    editor = MessageEditor(theme, "a message", is_reply=False)
    qtbot.addWidget(editor)
    editor.fit(width)
    shown = next(label.text() for label in editor.findChildren(QLabel))
    assert words in shown
    assert bool(shown) is bool(words)
    assert key_name("Ctrl+Return") in shown or not words


def test_search_of_models_is_as_high_as_the_order_beside_it(theme: Theme, qtbot: QtBot) -> None:
    head = ModelsHead(theme)
    qtbot.addWidget(head)
    head.resize(800, 44)
    head.show()
    assert head.search.height() == head.sort.height()


@pytest.fixture
def hand(theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[CompareHand]:
    """A window with the page that compares."""
    hand = CompareHand(theme, qtbot, tmp_path)
    yield hand
    hand.close()


def test_button_of_the_comparison_is_marked_while_its_page_is_shown(hand: CompareHand) -> None:
    button = hand.window.top_bar.compare
    assert (hand.window.page is hand.page, button.isChecked()) == (True, True)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert (hand.window.page, button.isChecked()) == (None, False)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    QTest.keyClick(hand.page, Qt.Key.Key_Escape)
    assert (hand.window.page, button.isChecked()) == (None, False)


def test_start_of_a_comparison_says_what_it_waits_for(hand: CompareHand) -> None:
    setup = hand.page.setup
    assert not setup.start_button.isEnabled()
    assert setup.start_button.toolTip() == "Write a prompt first"
    QTest.keyClicks(setup.prompt_edit, "Say something.")
    assert setup.start_button.isEnabled()
    assert setup.start_button.toolTip() == ""
