"""The Compare page as a person uses it, with engines that need no model."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.compare.results import Mode
from app.desktop.session.compare_setup import ColumnSetup, CompareSetup
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_chat import CompareChat
from app.desktop.widgets.reply_row import ReplyRow
from app.settings import Theme as ThemeMode
from tests.gui.compare_hand import BROKEN, LEVEL, OTHER, QUICK, CompareHand

broken_model = pytest.mark.allow_log("ERROR engine", "WARNING app.compare.runner")
GONE = "missing.gguf"
SLOW = "fake:n_words=30,step_s=0.02"


@pytest.fixture
def make_hand(theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[Callable[[], CompareHand]]:
    made: list[CompareHand] = []

    def make() -> CompareHand:
        if made:
            made.pop().close()
        made.append(CompareHand(theme, qtbot, tmp_path))
        return made[-1]

    yield make
    for hand in made:
        hand.close()


@pytest.fixture
def hand(make_hand: Callable[[], CompareHand]) -> CompareHand:
    return make_hand()


def test_two_columns_answer_beside_each_other(hand: CompareHand) -> None:
    hand.page.setup.prompt_edit.setFocus()
    QTest.keyClicks(hand.page.setup.prompt_edit, "Say something.")
    hand.start()
    hand.wait_for_end()
    assert [lane.label for lane in hand.lanes] == [QUICK, OTHER]
    for number in range(2):
        asked, answer = hand.said(number)
        assert asked == "Say something."
        assert answer
    assert hand.page.told == "Done: 2 replies."
    assert hand.page.view is hand.page.columns
    assert "tokens/s" in hand.lanes[0].figure("decode_rate")


def test_model_is_not_offered_twice_before_all_are_used(hand: CompareHand) -> None:
    assert [card.setup.model for card in hand.page.setup.columns.cards] == [QUICK, OTHER]


@pytest.mark.parametrize(("text", "is_possible"), [("", False), ("  \n", False), ("Hello", True)])
def test_start_needs_a_prompt(hand: CompareHand, text: str, is_possible: bool) -> None:
    hand.page.setup.prompt_edit.setPlainText(text)
    assert hand.page.setup.start_button.isEnabled() is is_possible


@pytest.mark.parametrize(
    ("mode", "repeats", "said"),
    [
        (Mode.FAIR, 3, "One model in memory at a time, 3 MiB at most; 6 loads."),
        (Mode.RACE, 1, "2 models in memory together: 4 MiB."),
        (Mode.SAMPLES, 4, "One model in memory: 1 MiB."),
    ],
    ids=["fair", "race", "samples"],
)
def test_memory_and_loads_are_told_before(hand: CompareHand, mode: Mode, repeats: int, said: str) -> None:
    hand.choose(QUICK, OTHER, mode=mode, repeats=repeats)
    assert hand.page.setup.summary == said


def test_race_says_that_speeds_are_not_comparable(hand: CompareHand) -> None:
    hand.compare(QUICK, OTHER, mode=Mode.RACE)
    assert "not comparable" in hand.page.banner
    assert not any("best" in lane.figure("decode_rate") for lane in hand.lanes)


def test_samples_of_one_model_get_a_lane_each(hand: CompareHand) -> None:
    hand.compare(QUICK, mode=Mode.SAMPLES, repeats=3)
    assert [lane.label.partition(" ")[0] for lane in hand.lanes] == ["1", "2", "3"]
    assert all(len(hand.said(number)) == 2 for number in range(3))


@broken_model
def test_column_that_fails_says_why_and_the_other_goes_on(hand: CompareHand) -> None:
    hand.compare(GONE, QUICK)
    assert hand.lanes[0].fault
    assert hand.lanes[0].live == "failed"
    assert hand.lanes[1].fault == ""
    assert hand.said(1)[1]


@broken_model
def test_reply_that_fails_says_why_in_its_place(hand: CompareHand) -> None:
    hand.compare(BROKEN, QUICK)
    row = hand.lanes[0].chat.rows[-1]
    assert isinstance(row, ReplyRow)
    assert row.error.message
    assert row.error.retry_button.isHidden()


def test_pause_waits_for_the_reply_and_goes_on(hand: CompareHand) -> None:
    hand.choose(SLOW, QUICK, repeats=2)
    hand.start()
    hand.qtbot.waitUntil(lambda: len(hand.said(0)) == 2 and bool(hand.said(0)[1]), timeout=20_000)
    QTest.mouseClick(hand.page.pause_button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: hand.page.told.startswith("Paused"), timeout=20_000)
    assert hand.page.pause_button.text() == "Go on"
    QTest.mouseClick(hand.page.pause_button, Qt.MouseButton.LeftButton)
    hand.wait_for_end()
    assert hand.page.told == "Done: 4 replies."


def test_stopped_run_is_offered_and_gone_on_with_after_a_restart(make_hand: Callable[[], CompareHand]) -> None:
    hand = make_hand()
    hand.choose(QUICK, SLOW)
    hand.start()
    hand.qtbot.waitUntil(lambda: "reply 2 of 2" in hand.page.told, timeout=20_000)
    QTest.mouseClick(hand.page.stop_button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: not hand.is_running, timeout=20_000)
    assert hand.page.told == "Stopped: 1 of 2 replies are kept."
    hand = make_hand()
    button = hand.page.setup.resume_button
    hand.qtbot.waitUntil(button.isVisible, timeout=10_000)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: hand.page.view is hand.page.columns, timeout=10_000)
    hand.wait_for_end()
    assert hand.page.told == "Done: 2 replies."
    assert all(len(hand.said(number)) == 2 for number in range(2))


def test_stopped_run_is_gone_on_with_at_once(hand: CompareHand) -> None:
    hand.choose(QUICK, SLOW)
    hand.start()
    hand.qtbot.waitUntil(lambda: "reply 2 of 2" in hand.page.told, timeout=20_000)
    QTest.mouseClick(hand.page.stop_button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: not hand.is_running, timeout=20_000)
    assert not hand.page.columns.message_edit.isEnabled()
    QTest.mouseClick(hand.page.pause_button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: hand.page.told == "Done: 2 replies.", timeout=20_000)
    assert all(len(hand.said(number)) == 2 for number in range(2))
    assert hand.page.columns.message_edit.isEnabled()
    assert not hand.page.columns.send_button.isEnabled(), "there is nothing to send yet"
    QTest.keyClicks(hand.page.columns.message_edit, "more")
    assert hand.page.columns.send_button.isEnabled()


def test_next_message_goes_to_all_columns(hand: CompareHand) -> None:
    hand.compare(QUICK, OTHER)
    edit = hand.page.columns.message_edit
    edit.setFocus()
    QTest.keyClicks(edit, "And more?")
    QTest.keyClick(edit, Qt.Key.Key_Return)
    hand.qtbot.waitUntil(lambda: all(len(hand.said(number)) == 4 for number in range(2)), timeout=20_000)
    hand.wait_for_end()
    assert [hand.said(number)[2] for number in range(2)] == ["And more?"] * 2
    assert all(hand.said(number)[3] for number in range(2))


def test_column_goes_on_as_a_chat(hand: CompareHand) -> None:
    hand.compare(QUICK, OTHER)
    answer = hand.said(1)[1]
    QTest.mouseClick(hand.lanes[1].chat_button, Qt.MouseButton.LeftButton)
    assert hand.window.page is None
    chat = hand.parts.conversation
    assert [turn.text for turn in chat.turns] == ["Say something.", answer]
    assert chat.settings.model == OTHER
    assert [row.turn.text for row in hand.window.chat_view.rows] == ["Say something.", answer]


def test_differences_of_two_replies_are_marked(hand: CompareHand) -> None:
    hand.compare(QUICK, OTHER)
    QTest.mouseClick(hand.page.columns.diff_button, Qt.MouseButton.LeftButton)
    diff = hand.page.diff
    hand.qtbot.waitUntil(lambda: "of the words are the same" in diff.note)
    text = diff.text_edit.toPlainText()
    assert text.count("▶") == 1
    assert text.replace("▶ ", "").split() == hand.said(1)[1].split()
    QTest.keyClick(diff.text_edit, Qt.Key.Key_Escape)
    assert hand.page.view is hand.page.columns
    assert hand.window.page is hand.page


def test_set_of_prompts_shows_its_result_at_the_end(hand: CompareHand, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("One\nTwo\n")
    setup = CompareSetup((ColumnSetup(QUICK), ColumnSetup(OTHER)), prompts=str(prompts), repeats=2, max_tokens=32)
    hand.page.setup.choose(setup)
    hand.start()
    hand.wait_for_end()
    hand.qtbot.waitUntil(lambda: hand.page.view is hand.page.result)
    assert [row[0] for row in hand.page.result.cells()] == [QUICK, OTHER]
    boxes = hand.page.columns.prompt_box, hand.page.columns.repeat_box
    assert [box.count() for box in boxes] == [2, 2]


def test_prompt_is_chosen_by_hand(hand: CompareHand, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("One\nTwo\n")
    hand.page.setup.choose(CompareSetup((ColumnSetup(QUICK), ColumnSetup(OTHER)), prompts=str(prompts), max_tokens=32))
    hand.start()
    hand.wait_for_end()
    QTest.mouseClick(hand.page.tabs[1], Qt.MouseButton.LeftButton)
    box = hand.page.columns.prompt_box
    box.setCurrentIndex(0)
    box.activated.emit(0)
    assert hand.said(0)[0] == "One"
    assert not hand.page.columns.follow_box.isChecked()


def test_file_of_prompts_that_is_gone_is_told_in_the_set_up(hand: CompareHand, tmp_path: Path) -> None:
    hand.page.setup.choose(CompareSetup((ColumnSetup(QUICK),), prompts=str(tmp_path / "gone.txt")))
    QTest.mouseClick(hand.page.setup.start_button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: bool(hand.page.setup.fault))
    assert "gone.txt" in hand.page.setup.fault
    assert hand.page.view is hand.page.setup
    assert hand.page.setup.start_button.isEnabled()


def test_narrow_window_shows_one_column_and_tabs(hand: CompareHand) -> None:
    hand.compare(QUICK, OTHER)
    strip = hand.page.columns.strip
    assert not strip.has_tabs
    hand.window.resize(400, 700)
    QApplication.processEvents()
    assert strip.has_tabs
    assert [strip.is_in_view(lane) for lane in hand.lanes] == [True, False]
    QTest.mouseClick(strip.tabs[1], Qt.MouseButton.LeftButton)
    assert [strip.is_in_view(lane) for lane in hand.lanes] == [False, True]


def turn_wheel(view: CompareChat) -> None:
    """Turn the wheel down by a step over a conversation."""
    centre = QPointF(view.viewport().rect().center())
    event = QWheelEvent(
        centre,
        view.viewport().mapToGlobal(centre),
        QPoint(0, 0),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view.viewport(), event)


@pytest.mark.parametrize("way", ["key", "wheel"])
@pytest.mark.parametrize("is_together", [True, False], ids=["together", "alone"])
def test_scrolling_one_column_moves_the_others(hand: CompareHand, way: str, is_together: bool) -> None:
    hand.window.resize(900, 420)
    hand.compare("fake:n_words=64", "fake:n_words=60", text="\n".join(["Say something."] * 15))
    first, second = (lane.chat for lane in hand.lanes)
    hand.page.columns.sync_box.setChecked(is_together)
    first.go_to_start()
    second.go_to_start()
    if way == "key":
        first.setFocus()
        QTest.keyClick(first, Qt.Key.Key_PageDown)
    else:
        turn_wheel(first)
    assert first.verticalScrollBar().value() > 0
    number, share = first.scroll_point()
    if not is_together:
        assert second.verticalScrollBar().value() == 0
        return
    assert second.scroll_point()[0] == number
    assert second.scroll_point()[1] == pytest.approx(share, abs=0.05) or second.is_at_end


@pytest.mark.parametrize("look", [ThemeMode.LIGHT, ThemeMode.DARK], ids=["light", "dark"])
def test_page_is_drawn_in_both_looks_and_at_every_zoom(hand: CompareHand, theme: Theme, look: ThemeMode) -> None:
    hand.compare(QUICK, OTHER)
    theme.set_mode(look)
    theme.set_zoom(2.0)
    for tab in hand.page.tabs:
        QTest.mouseClick(tab, Qt.MouseButton.LeftButton)
        assert not hand.page.grab().isNull()


def test_keys_open_and_leave_the_page(hand: CompareHand) -> None:
    QTest.keyClick(hand.page, Qt.Key.Key_Escape)
    assert hand.window.page is None
    hand.parts.compare.toggle()
    assert hand.window.page is hand.page
    hand.parts.compare.toggle()
    assert hand.window.page is None


def test_escape_in_the_prompt_leaves_the_page_and_keeps_what_was_typed(hand: CompareHand) -> None:
    edit = hand.page.setup.prompt_edit
    edit.setFocus()
    QTest.keyClicks(edit, "Half a")
    QTest.keyClick(edit, Qt.Key.Key_Escape)
    assert hand.window.page is None
    hand.parts.compare.toggle()
    assert edit.toPlainText() == "Half a"


def test_next_comparison_takes_the_place_of_the_one_before(hand: CompareHand, theme: Theme) -> None:
    hand.compare(QUICK, OTHER)
    before = hand.lanes
    QTest.mouseClick(hand.page.tabs[0], Qt.MouseButton.LeftButton)
    hand.compare(OTHER, QUICK, text="Another thing.")
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert not any(shiboken6.isValid(lane) for lane in before)
    theme.set_mode(ThemeMode.DARK)
    theme.zoom_in()
    assert [hand.said(number)[0] for number in range(2)] == ["Another thing."] * 2


def test_run_goes_on_while_the_chat_is_shown(hand: CompareHand) -> None:
    hand.choose(QUICK, OTHER)
    hand.start()
    hand.parts.compare.toggle()
    hand.wait_for_end()
    assert hand.page.told == "Done: 2 replies."
    assert [notice.text for notice in hand.window.notices.notices] == ["The comparison has ended."]


def test_comparison_is_kept_beside_the_open_chats(hand: CompareHand) -> None:
    keeping = hand.parts.keeping
    with hand.qtbot.waitSignal(keeping.opened, timeout=10_000):
        keeping.open(hand.paths.database_file, retention_days=30)
    hand.compare(QUICK, OTHER)
    store = hand.parts.chats.recorder.store
    assert store is not None
    assert [run.kind for run in store.list_runs()] == ["compare"]
    assert hand.window.notices.notices == []


def test_window_is_closed_during_a_run(hand: CompareHand) -> None:
    hand.choose(SLOW, SLOW, repeats=3)
    hand.start()
    hand.close()
    assert not hand.window.isVisible()


def test_columns_are_added_and_taken_away(hand: CompareHand) -> None:
    setup = hand.page.setup
    QTest.mouseClick(setup.columns.add_button, Qt.MouseButton.LeftButton)
    assert len(setup.setup.columns) == 3
    QTest.mouseClick(setup.columns.cards[0].remove_button, Qt.MouseButton.LeftButton)
    assert [column.model for column in setup.setup.columns] == [OTHER, LEVEL]


def test_all_levels_of_a_model_become_columns(hand: CompareHand) -> None:
    setup = hand.page.setup
    assert setup.columns.levels_button.isVisible()
    QTest.mouseClick(setup.columns.levels_button, Qt.MouseButton.LeftButton)
    assert [column.model for column in setup.setup.columns] == [QUICK, LEVEL]


def test_columns_of_one_model_are_told_apart_by_their_settings(hand: CompareHand) -> None:
    columns = (ColumnSetup(QUICK), ColumnSetup(QUICK, cache="q8_0"), ColumnSetup(QUICK, temperature=0.5))
    hand.page.setup.choose(CompareSetup(columns, text="Hello", max_tokens=8))
    hand.start()
    hand.wait_for_end()
    assert [lane.label for lane in hand.lanes] == [QUICK, f"{QUICK} · q8_0 cache", f"{QUICK} · temperature 0.5"]


def test_all_that_takes_the_keys_has_a_name(hand: CompareHand) -> None:
    hand.compare(QUICK, OTHER)
    for tab in hand.page.tabs:
        QTest.mouseClick(tab, Qt.MouseButton.LeftButton)
        nameless = [
            part
            for part in hand.window._stops()
            if hand.page.isAncestorOf(part) and not (part.accessibleName() or getattr(part, "text", str)())
        ]
        assert nameless == []
