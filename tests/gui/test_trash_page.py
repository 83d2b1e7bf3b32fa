"""The trash page: deleted chats are taken back at once and deleted for good only when asked twice."""

import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QShortcut
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.trash_page import TrashPage
from app.store import ChatRow


def row(chat_id: str, deleted_at: float | None = 1_700_000_000.0, title: str | None = None) -> ChatRow:
    return ChatRow(chat_id, f"Chat {chat_id}" if title is None else title, True, 0.0, 0.0, 1, False, deleted_at)


ROWS = [row("a"), row("b"), row("c")]


@pytest.fixture
def page(theme: Theme, qtbot: QtBot) -> Iterator[TrashPage]:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(700, 400)
    page = TrashPage(theme, window)
    page.resize(700, 400)
    window.show()
    window.activateWindow()
    qtbot.waitExposed(window)
    page.show_rows(ROWS, 30)
    page.focus_list()
    yield page


@pytest.fixture
def asked(page: TrashPage) -> Iterator[list[tuple[str, str]]]:
    asked: list[tuple[str, str]] = []
    page.restore_requested.connect(lambda chat_id: asked.append(("restore", chat_id)))
    page.purge_requested.connect(lambda chat_id: asked.append(("purge", chat_id)))
    yield asked


def press_tab_to(page: TrashPage, wanted: object) -> None:
    for _ in range(5):
        if page.focusWidget() is wanted:
            return
        QTest.keyClick(page.focusWidget(), Qt.Key.Key_Tab)
    pytest.fail("it cannot be reached by Tab")


def test_keyboard_restores(page: TrashPage, asked: list[tuple[str, str]]) -> None:
    QTest.keyClick(page.list, Qt.Key.Key_Down)
    press_tab_to(page, page.restore)
    QTest.keyClick(page.restore, Qt.Key.Key_Space)
    assert asked == [("restore", "b")]


def test_keyboard_deletes_for_good_at_the_second_press(page: TrashPage, asked: list[tuple[str, str]]) -> None:
    press_tab_to(page, page.purge)
    QTest.keyClick(page.purge, Qt.Key.Key_Space)
    assert asked == []
    assert page.purge.text() == "Really delete?"
    QTest.keyClick(page.purge, Qt.Key.Key_Space)
    assert asked == [("purge", "a")]
    assert page.purge.text() == "Delete for good"


def test_mouse_deletes_for_good_at_the_second_press(page: TrashPage, asked: list[tuple[str, str]]) -> None:
    place = page.list.visualRect(page.list.model().index(2, 0)).center()
    QTest.mouseClick(page.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    QTest.mouseClick(page.purge, Qt.MouseButton.LeftButton)
    size = page.purge.size()
    QTest.mouseClick(page.purge, Qt.MouseButton.LeftButton)
    assert asked == [("purge", "c")]
    assert page.purge.size() == size


@pytest.mark.parametrize("way", ["other-chat", "focus", "esc", "rows"])
def test_question_is_taken_back(page: TrashPage, asked: list[tuple[str, str]], way: str) -> None:
    closed: list[None] = []
    page.closed.connect(lambda: closed.append(None))
    press_tab_to(page, page.purge)
    QTest.keyClick(page.purge, Qt.Key.Key_Space)
    if way == "other-chat":
        place = page.list.visualRect(page.list.model().index(1, 0)).center()
        QTest.mouseClick(page.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    elif way == "focus":
        QTest.keyClick(page.purge, Qt.Key.Key_Backtab)
    elif way == "esc":
        QTest.keyClick(page.purge, Qt.Key.Key_Escape)
    else:
        page.show_rows(ROWS[1:], 30)
    assert page.purge.text() == "Delete for good"
    QTest.mouseClick(page.purge, Qt.MouseButton.LeftButton)
    assert asked == []
    assert closed == []


@pytest.mark.parametrize("key", [Qt.Key.Key_Delete, Qt.Key.Key_Backspace, Qt.Key.Key_Return])
def test_bare_key_in_the_list_does_nothing(page: TrashPage, asked: list[tuple[str, str]], key: Qt.Key) -> None:
    QTest.keyClick(page.list, key)
    assert asked == []


def test_neighbour_is_chosen_when_a_chat_is_gone(page: TrashPage) -> None:
    QTest.keyClick(page.list, Qt.Key.Key_Down)
    assert page.chat_id == "b"
    page.show_rows([ROWS[0], ROWS[2]], 30)
    assert page.chat_id == "c"
    page.show_rows([ROWS[0]], 30)
    assert page.chat_id == "a"


def test_chosen_chat_stays_when_others_come(page: TrashPage) -> None:
    QTest.keyClick(page.list, Qt.Key.Key_Down)
    page.show_rows([row("x"), row("y"), *ROWS], 30)
    assert page.chat_id == "b"


def test_empty_trash_says_so_and_leaves_the_way_out(page: TrashPage) -> None:
    press_tab_to(page, page.restore)
    page.show_rows([], 30)
    assert page.chat_id is None
    assert not page.list.isVisible() and not page.restore.isVisible() and not page.purge.isVisible()
    assert page.close_button.hasFocus()


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (30, "Deleted chats stay here for 30 days, then they are removed."),
        (1, "Deleted chats stay here for a day, then they are removed."),
        (0, "Deleted chats stay here until you delete them for good."),
    ],
)
def test_time_in_the_trash_is_said(page: TrashPage, days: int, said: str) -> None:
    page.show_rows(ROWS, days)
    assert page.note == said


@pytest.mark.parametrize("deleted_at", [None, -1e30, 1e30, float("inf")], ids=["unknown", "ages-ago", "far", "never"])
def test_any_time_and_title_is_shown(page: TrashPage, deleted_at: float | None) -> None:
    page.show_rows([row("a", deleted_at, title="\u202egnp " * 100), row("b", deleted_at, title="")], 30)
    spoken = page.list.model().index(1, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken.startswith("New chat, Deleted ")
    assert not page.grab().isNull()


@pytest.mark.parametrize("part", ["list", "restore", "close_button"])
def test_esc_closes_before_the_window_hears_of_it(page: TrashPage, part: str) -> None:
    closed: list[None] = []
    stopped: list[None] = []
    page.closed.connect(lambda: closed.append(None))
    QShortcut(Qt.Key.Key_Escape, page.window()).activated.connect(lambda: stopped.append(None))
    getattr(page, part).setFocus()
    QTest.keyClick(getattr(page, part), Qt.Key.Key_Escape)
    assert (len(closed), len(stopped)) == (1, 0)


def test_button_closes(page: TrashPage, qtbot: QtBot) -> None:
    with qtbot.waitSignal(page.closed):
        QTest.mouseClick(page.close_button, Qt.MouseButton.LeftButton)


def test_ten_thousand_chats_are_shown_at_once(page: TrashPage) -> None:
    rows = [row(str(at)) for at in range(10_000)]
    spent = []
    for turn in range(5):
        start = time.thread_time()
        page.show_rows(rows[turn:], 30)
        page.list.doItemsLayout()
        spent.append(time.thread_time() - start)
    assert sorted(spent)[2] < 0.040
