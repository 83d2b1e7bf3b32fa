"""The find bar: places in the open chat, one after the other."""

import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QShortcut
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.find_bar import MAX_PLACES, FindBar, Place, find_in_turns

TURNS = [("q", "Where is the cat? The CAT is away."), ("r", "No cat here. But a cat there: cat."), ("s", "None.")]
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def bar(theme: Theme, qtbot: QtBot) -> Iterator[FindBar]:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(420, 60)
    bar = FindBar(theme, window)
    bar.resize(400, 44)
    bar.hide()
    window.show()
    window.activateWindow()
    qtbot.waitExposed(window)
    bar.query_changed.connect(lambda text: bar.set_places(find_in_turns(TURNS, text)))
    yield bar


@pytest.fixture
def shown(bar: FindBar) -> Iterator[list[tuple[str, int]]]:
    shown: list[tuple[str, int]] = []
    bar.place_shown.connect(lambda turn_id, number: shown.append((turn_id, number)))
    yield shown


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("cat", [("q", 0), ("q", 1), ("r", 0), ("r", 1), ("r", 2)]),
        ("CAT?", [("q", 0)]),
        ("cat.", [("r", 0)]),
        (".*", []),
        ("", []),
        (" ", []),
        ("dog", []),
    ],
    ids=["capitals", "mark", "end", "literal", "empty", "blank", "none"],
)
def test_text_is_found_letter_by_letter(query: str, places: list[tuple[str, int]]) -> None:
    expected = [Place(*place) for place in places]
    found = find_in_turns(TURNS, query)
    assert found == expected


def test_text_of_other_scripts_is_found() -> None:
    assert find_in_turns([("a", "日本語の日本語 😀"), ("b", "ΣΊΣΥΦΟΣ")], "日本") == [Place("a", 0), Place("a", 1)]
    assert find_in_turns([("b", "ΣΊΣΥΦΟΣ")], "σίσυφος") == [Place("b", 0)]


def test_places_are_not_more_than_a_person_goes_through() -> None:
    assert len(find_in_turns([("a", "e" * 4 * MAX_PLACES), ("b", "e")], "e")) == MAX_PLACES


def test_long_chat_is_looked_through_at_once() -> None:
    turns = [(str(at), "The quick brown fox jumps over the lazy dog. " * 35) for at in range(400)]
    spent = []
    for _ in range(5):
        start = time.thread_time()
        places = find_in_turns(turns, "lazy cat")
        spent.append(time.thread_time() - start)
    assert places == []
    assert sorted(spent)[2] < 0.010


def test_typing_finds_counts_and_shows_the_first_place(bar: FindBar, shown: list[tuple[str, int]]) -> None:
    bar.open_with()
    QTest.keyClicks(bar.field, "cat")
    assert bar.summary == "1 of 5"
    assert shown[-1] == ("q", 0)


def test_opened_with_a_text_it_finds_that(bar: FindBar, shown: list[tuple[str, int]]) -> None:
    bar.open_with("cat.")
    assert bar.isVisible()
    assert bar.field.hasFocus()
    assert shown == [("r", 0)]
    QTest.keyClicks(bar.field, "x")
    assert bar.field.text() == "x"


def test_opened_again_it_finds_the_text_of_before_anew(bar: FindBar) -> None:
    bar.open_with("cat")
    bar.leave()
    asked: list[str] = []
    bar.query_changed.connect(asked.append)
    bar.open_with()
    assert asked == ["cat"]
    assert bar.field.selectedText() == "cat"


@pytest.mark.parametrize("key", [Qt.Key.Key_F3, Qt.Key.Key_Return, Qt.Key.Key_Enter], ids=["f3", "return", "enter"])
def test_keys_go_round_the_places(bar: FindBar, shown: list[tuple[str, int]], key: Qt.Key) -> None:
    bar.open_with("cat")
    shown.clear()
    for _ in range(5):
        QTest.keyClick(bar.field, key)
    QTest.keyClick(bar.field, key, SHIFT)
    assert shown == [("q", 1), ("r", 0), ("r", 1), ("r", 2), ("q", 0), ("r", 2)]
    assert bar.summary == "5 of 5"


def test_buttons_go_on_and_back(bar: FindBar, shown: list[tuple[str, int]]) -> None:
    bar.open_with("cat")
    shown.clear()
    for button in (bar.next, bar.next, bar.previous):
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert shown == [("q", 1), ("r", 0), ("q", 1)]


def test_nothing_found_is_said_and_leads_nowhere(bar: FindBar, shown: list[tuple[str, int]]) -> None:
    bar.open_with("dog")
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    assert bar.summary == "Nothing found"
    assert not bar.next.isEnabled()
    assert shown == []


def test_emptied_field_says_nothing(bar: FindBar) -> None:
    bar.open_with("cat")
    QTest.keyClick(bar.field, Qt.Key.Key_Backspace)
    assert bar.summary == ""
    assert bar.place is None


def test_many_places_are_not_counted_to_the_end(bar: FindBar) -> None:
    bar.open_with("cat")
    bar.set_places([Place("a", number) for number in range(MAX_PLACES)])
    assert bar.summary == f"1 of {MAX_PLACES}+"


@pytest.mark.parametrize("part", ["field", "next", "close_button"])
def test_esc_closes_before_the_window_hears_of_it(bar: FindBar, part: str) -> None:
    closed: list[None] = []
    stopped: list[None] = []
    bar.closed.connect(lambda: closed.append(None))
    QShortcut(Qt.Key.Key_Escape, bar.window()).activated.connect(lambda: stopped.append(None))
    bar.open_with("cat")
    getattr(bar, part).setFocus()
    QTest.keyClick(getattr(bar, part), Qt.Key.Key_Escape)
    assert len(closed) == 1
    assert stopped == []
    assert not bar.isVisible()


def test_enter_on_a_button_presses_it(bar: FindBar) -> None:
    bar.open_with("cat")
    bar.close_button.setFocus()
    QTest.keyClick(bar.close_button, Qt.Key.Key_Return)
    assert not bar.isVisible()


def test_place_stays_while_the_chat_grows(bar: FindBar, shown: list[tuple[str, int]]) -> None:
    bar.open_with("cat")
    for _ in range(3):
        bar.go(1)
    shown.clear()
    bar.set_places(find_in_turns([*TURNS, ("t", "cat " * 4)], "cat"))
    assert bar.place == Place("r", 1)
    bar.set_places(find_in_turns(TURNS[1:], "cat"))
    assert bar.place == Place("r", 1)
    assert bar.summary == "2 of 3"
    assert shown == []


@pytest.mark.parametrize(
    ("turns", "place"),
    [([("q", "cat"), ("r", "cat")], Place("r", 0)), ([("q", "cat")], Place("q", 0)), ([], None)],
    ids=["fewer-in-it", "message-gone", "all-gone"],
)
def test_nearest_place_is_kept_when_its_own_is_gone(
    bar: FindBar, turns: list[tuple[str, str]], place: Place | None
) -> None:
    bar.open_with("cat")
    for _ in range(3):
        bar.go(1)
    bar.set_places(find_in_turns(turns, "cat"))
    assert bar.place == place


def test_longer_query_stays_in_the_message(bar: FindBar, shown: list[tuple[str, int]]) -> None:
    bar.open_with("ca")
    for _ in range(2):
        bar.go(1)
    bar.field.deselect()
    QTest.keyClicks(bar.field, "t")
    assert shown[-1] == ("r", 0)


def test_first_place_is_looked_for_in_the_message_in_view(bar: FindBar, shown: list[tuple[str, int]]) -> None:
    bar.query_changed.disconnect()
    bar.open_with("cat")
    bar.set_places(find_in_turns(TURNS, "cat"), near="r")
    assert shown == [("r", 0)]


def test_parts_can_be_told_apart_by_ear(bar: FindBar) -> None:
    names = [part.accessibleName() for part in (bar.field, bar.previous, bar.next, bar.close_button)]
    assert len(set(names)) == 4 and all(names)
