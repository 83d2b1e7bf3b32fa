"""The sidebar: grouped chats, renaming in place, the menu of a chat, the search over all chats."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QShortcut
from PySide6.QtTest import QAbstractItemModelTester, QSignalSpy, QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QMenu, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.itemmodels.chat_list import ChatListModel, Entry, chat_entries, shown_title
from app.desktop.theme.theme import Theme
from app.desktop.widgets.sidebar import Sidebar
from app.desktop.widgets.sidebar_chats import ChatList
from app.desktop.widgets.sidebar_hits import hit_lines, utf16_spans
from app.settings import Theme as ThemeMode
from app.store import ChatRow, Hit, find_places
from app.store.search import NUM_HITS

NOW = datetime(2026, 10, 20, 12)
# The platform of the tests has no windows to raise.
POPUPS = pytest.mark.qt_log_ignore("plugin does not support")


def row(chat_id: str, changed: datetime = NOW, *, title: str | None = None, is_pinned: bool = False) -> ChatRow:
    name = f"Chat {chat_id}" if title is None else title
    return ChatRow(chat_id, name, True, 0.0, changed.timestamp(), 1, is_pinned, None)


def hit(chat_id: str, text: str, sought: str, *, node_id: str | None = "node", field: str = "content") -> Hit:
    return Hit(chat_id, f"Chat {chat_id}", node_id, field, text, tuple(find_places(text, sought)))


THREE = [Entry("Today"), Entry("First", "a"), Entry("Second", "b"), Entry("Yesterday"), Entry("Third", "c")]


@pytest.fixture
def sidebar(theme: Theme, qtbot: QtBot) -> Iterator[Sidebar]:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(236, 600)
    sidebar = Sidebar(theme, window)
    sidebar.resize(236, 600)
    window.show()
    window.activateWindow()
    qtbot.waitExposed(window)
    sidebar.show_entries(THREE)
    yield sidebar


def heard(signal: object) -> list[tuple[object, ...]]:
    calls: list[tuple[object, ...]] = []
    signal.connect(lambda *values: calls.append(values))  # type: ignore[attr-defined]
    return calls


def at_keyboard(chats: ChatList) -> str:
    return chats.chats.entry(chats.currentIndex().row()).chat_id


def centre(chats: ChatList, chat_id: str) -> QPoint:
    return chats.visualRect(chats.chats.index(chats.chats.row_of(chat_id))).center()


def editor_of(sidebar: Sidebar) -> QLineEdit:
    return next(editor for editor in sidebar.chats.viewport().findChildren(QLineEdit) if not editor.isHidden())


def press(sidebar: Sidebar, qtbot: QtBot, key: Qt.Key) -> None:
    """Press a key in the editor of a title, which ends it."""
    QTest.keyClick(editor_of(sidebar), key)
    qtbot.waitUntil(lambda: not sidebar.chats.is_renaming)


def open_menu(sidebar: Sidebar) -> QMenu | None:
    shown = [menu for menu in sidebar.findChildren(QMenu) if menu.isVisible()]
    return shown[0] if shown else None


def choose(menu: QMenu, text: str) -> None:
    action = next(action for action in menu.actions() if action.text().split("\t")[0] == text)
    QTest.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(action).center())


def spoken(sidebar: Sidebar, chat_id: str) -> str:
    chats = sidebar.chats.chats
    return str(chats.data(chats.index(chats.row_of(chat_id)), Qt.ItemDataRole.AccessibleTextRole))


# --- groups


@pytest.mark.parametrize(
    ("changed", "head"),
    [
        (NOW, "Today"),
        (datetime(2026, 10, 20), "Today"),
        (datetime(2026, 10, 19, 23, 59, 59), "Yesterday"),
        (datetime(2026, 10, 18, 23), "Previous 7 days"),
        (datetime(2026, 10, 13), "Previous 7 days"),
        (datetime(2026, 10, 12, 23), "Previous 30 days"),
        (datetime(2026, 9, 20), "Previous 30 days"),
        (datetime(2026, 9, 19, 23), "September 2026"),
        (datetime(2025, 12, 31, 23), "December 2025"),
        (datetime(2031, 1, 1), "Today"),
    ],
    ids=["now", "midnight", "yesterday", "two-days", "a-week", "eight-days", "a-month", "month", "year", "future"],
)
def test_group_follows_from_the_day_of_the_last_change(changed: datetime, head: str) -> None:
    assert chat_entries([row("a", changed)], NOW) == [Entry(head), Entry("Chat a", "a")]


def test_groups_go_from_pinned_to_the_oldest_month_whatever_the_order_of_the_rows() -> None:
    days = [400, 0, 1, 3, 20, 60]
    rows = [row(str(day), NOW - timedelta(days=day)) for day in days]
    entries = chat_entries([*rows, row("p", NOW - timedelta(days=900), is_pinned=True)], NOW)
    heads = [entry.text for entry in entries if entry.is_head]
    months = ["August 2026", "September 2025"]
    assert heads == ["Pinned", "Today", "Yesterday", "Previous 7 days", "Previous 30 days", *months]


def test_order_within_a_group_is_that_of_the_rows() -> None:
    rows = [row("b", NOW - timedelta(hours=3)), row("a"), row("c", NOW - timedelta(hours=1))]
    assert [entry.chat_id for entry in chat_entries(rows, NOW)] == ["", "b", "a", "c"]


@pytest.mark.parametrize("changed_at", [-1e300, -1.0, 1e300, float("inf")], ids=["ages-ago", "1969", "far", "never"])
def test_a_clock_that_jumped_breaks_nothing(changed_at: float) -> None:
    entries = chat_entries([row("a")._replace(changed_at=changed_at)], NOW)
    assert entries[0].text in ("Today", "January 1970")
    assert entries[1].chat_id == "a"


def test_no_chats_have_no_heads() -> None:
    assert chat_entries([], NOW) == []


# --- model


def entries_of(ids: str) -> list[Entry]:
    return [Entry(f"Head {name}") if name.isupper() else Entry(name, name) for name in ids]


@pytest.mark.parametrize(
    ("before", "after", "resets"),
    [
        ("Tabc", "Tabc", 0),
        ("", "Tabc", 0),
        ("Tabc", "", 0),
        ("Tabc", "Tcab", 0),
        ("Tabc", "Tbca", 0),
        ("TabYcd", "TcabYd", 0),
        ("Tabc", "Tac", 0),
        ("Tabc", "Txabc", 0),
        ("TabYc", "Tab", 0),
        ("Taa", "Taaa", 0),
        ("Tabc", "Tcba", 1),
        ("TabYcd", "Tabx", 1),
    ],
    ids=[
        "same",
        "all",
        "none",
        "to-top",
        "to-end",
        "over-head",
        "one-gone",
        "one-more",
        "group",
        "like",
        "turned",
        "x",
    ],
)
def test_model_gets_from_one_list_to_another(qapp: QApplication, before: str, after: str, resets: int) -> None:
    model = ChatListModel()
    model.set_entries(entries_of(before))
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    spy = QSignalSpy(model.modelReset)
    model.set_entries(entries_of(after))
    assert [model.entry(at) for at in range(model.rowCount())] == entries_of(after)
    assert spy.count() == resets
    del tester


def test_changed_title_changes_one_row(qapp: QApplication) -> None:
    model = ChatListModel()
    model.set_entries(THREE)
    rows: list[int] = []
    model.dataChanged.connect(lambda first, last, _roles: rows.append((first.row(), last.row())))  # type: ignore[arg-type]
    model.set_entries([*THREE[:2], Entry("Other", "b"), *THREE[3:]])
    assert rows == [(2, 2)]
    assert model.index(2).data() == "Other"


@pytest.mark.parametrize("title", ["", "  \n", "\u200b\u200f"], ids=["empty", "blank", "invisible"])
def test_untitled_chat_is_called_new(qapp: QApplication, title: str) -> None:
    assert shown_title(title) == "New chat"


def test_title_that_turns_text_round_is_isolated(qapp: QApplication) -> None:
    assert shown_title("a\u202egnp\nb") == "\u2068a\u202egnp b\u2069"


# --- list


def test_click_opens_a_chat_and_heads_open_nothing(sidebar: Sidebar) -> None:
    opened = heard(sidebar.chat_opened)
    QTest.mouseClick(sidebar.chats.viewport(), Qt.MouseButton.LeftButton, pos=centre(sidebar.chats, "b"))
    head = sidebar.chats.visualRect(sidebar.chats.chats.index(0)).center()
    QTest.mouseClick(sidebar.chats.viewport(), Qt.MouseButton.LeftButton, pos=head)
    assert opened == [("b",)]


def test_keys_move_over_chats_alone_and_enter_opens(sidebar: Sidebar) -> None:
    opened = heard(sidebar.chat_opened)
    sidebar.focus_list()
    seen = [at_keyboard(sidebar.chats)]
    for _ in range(3):
        QTest.keyClick(sidebar.chats, Qt.Key.Key_Down)
        seen.append(at_keyboard(sidebar.chats))
    QTest.keyClick(sidebar.chats, Qt.Key.Key_Return)
    assert seen == ["a", "b", "c", "c"]
    assert opened == [("c",)]


def test_up_in_the_first_row_goes_to_the_search(sidebar: Sidebar) -> None:
    sidebar.focus_list()
    QTest.keyClick(sidebar.chats, Qt.Key.Key_Up)
    assert sidebar.field.hasFocus()


def test_delete_key_deletes_nothing(sidebar: Sidebar) -> None:
    deleted = heard(sidebar.delete_requested)
    sidebar.focus_list()
    for key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
        QTest.keyClick(sidebar.chats, key)
    assert deleted == []


def test_open_chat_marks_and_unread_replies_are_said(sidebar: Sidebar) -> None:
    sidebar.set_current("a")
    sidebar.set_marks(frozenset({"b"}), frozenset({"c"}))
    assert spoken(sidebar, "a") == "First, open"
    assert spoken(sidebar, "b") == "Second, reply in progress"
    assert spoken(sidebar, "c") == "Third, unread reply"
    sidebar.show_entries([Entry("Pinned"), Entry("First", "a", is_pinned=True)])
    assert spoken(sidebar, "a") == "First, open, pinned"


def test_marks_are_seen(sidebar: Sidebar) -> None:
    plain = sidebar.chats.grab().toImage()
    sidebar.set_marks(frozenset({"b"}), frozenset())
    streaming = sidebar.chats.grab().toImage()
    sidebar.set_marks(frozenset(), frozenset({"b"}))
    unread = sidebar.chats.grab().toImage()
    assert plain != streaming != unread != plain


def test_chat_under_the_keyboard_stays_when_the_list_changes(sidebar: Sidebar) -> None:
    sidebar.focus_list()
    QTest.keyClick(sidebar.chats, Qt.Key.Key_Down)
    for entries in (
        [THREE[0], THREE[2], THREE[1], *THREE[3:]],
        [Entry("Pinned"), Entry("Third", "c", is_pinned=True), Entry("Today"), Entry("First", "a"), Entry("New", "b")],
    ):
        sidebar.show_entries(entries)
        assert at_keyboard(sidebar.chats) == "b"


@pytest.mark.parametrize("num_new", [1, 30], ids=["one-more", "another-list"])
def test_what_is_in_view_stays_when_chats_come_above(sidebar: Sidebar, num_new: int) -> None:
    entries = [Entry("Today"), *(Entry(f"Chat {at}", f"id{at}") for at in range(300))]
    sidebar.show_entries(entries)
    sidebar.chats.verticalScrollBar().setValue(3015)
    top = sidebar.chats.indexAt(QPoint(20, 40))
    chat_id, place = sidebar.chats.chats.entry(top.row()).chat_id, sidebar.chats.visualRect(top).top()
    gone = entries[:250] if num_new > 1 else entries
    sidebar.show_entries([Entry("Today"), *(Entry("New", f"new{at}") for at in range(num_new)), *gone[1:]])
    now = sidebar.chats.visualRect(sidebar.chats.chats.index(sidebar.chats.chats.row_of(chat_id))).top()
    assert now == place


def test_new_chat_is_seen_when_the_list_stands_at_its_top(sidebar: Sidebar) -> None:
    entries = [Entry("Today"), *(Entry(f"Chat {at}", f"id{at}") for at in range(300))]
    sidebar.show_entries(entries)
    sidebar.show_entries([entries[0], Entry("New", "new"), *entries[1:]])
    assert sidebar.chats.verticalScrollBar().value() == 0


def test_opened_chat_comes_into_view_with_its_head(sidebar: Sidebar) -> None:
    entries = [Entry("Today"), *(Entry(f"Chat {at}", f"id{at}") for at in range(300))]
    sidebar.show_entries(entries)
    sidebar.set_current("id200")
    assert sidebar.chats.viewport().rect().contains(centre(sidebar.chats, "id200"))
    sidebar.set_current("id0")
    assert sidebar.chats.verticalScrollBar().value() == 0


@pytest.mark.parametrize(
    ("current", "step", "found"),
    [("a", 1, "b"), ("b", 1, "c"), ("c", 1, None), ("a", -1, None), ("c", -1, "b"), (None, 1, "a")],
    ids=["down", "over-head", "last", "first", "up", "none-open"],
)
def test_neighbour_is_the_next_chat_of_the_list(
    sidebar: Sidebar, current: str | None, step: int, found: str | None
) -> None:
    sidebar.set_current(current)
    assert sidebar.neighbour(step) == found


def test_ten_thousand_chats_are_shown_at_once(sidebar: Sidebar) -> None:
    rows = [row(f"id{at}", NOW - timedelta(hours=at)) for at in range(10_000)]
    entries = chat_entries(rows, NOW)
    spent = []
    for turn in range(5):
        changed = [entry._replace(text=f"{entry.text} {turn}") for entry in entries]
        start = time.thread_time()
        sidebar.show_entries(changed[turn:])
        spent.append(time.thread_time() - start)
    assert sorted(spent)[2] < 0.040


def test_last_chat_that_goes_leaves_the_focus_in_the_bar(sidebar: Sidebar) -> None:
    sidebar.focus_list()
    sidebar.show_entries([])
    assert sidebar.new_chat.hasFocus()
    assert not sidebar.chats.isVisible()


def test_typing_in_the_search_waits_for_nothing(sidebar: Sidebar) -> None:
    sidebar.show_entries([Entry("Today"), *(Entry(f"Chat {at}", f"id{at}") for at in range(10_000))])
    sidebar.focus_search()
    start = time.thread_time()
    QTest.keyClicks(sidebar.field, "abcdefgh")
    assert time.thread_time() - start < 0.040


# --- renaming


def test_f2_renames_in_place(sidebar: Sidebar, qtbot: QtBot) -> None:
    renamed = heard(sidebar.renamed)
    sidebar.focus_list()
    QTest.keyClick(sidebar.chats, Qt.Key.Key_F2)
    editor = editor_of(sidebar)
    assert editor.selectedText() == "First"
    QTest.keyClicks(editor, "  New   name ")
    press(sidebar, qtbot, Qt.Key.Key_Return)
    assert renamed == [("a", "New name")]
    assert sidebar.chats.chats.index(1).data() == "New name"


@pytest.mark.parametrize(
    ("typed", "key"), [("x", Qt.Key.Key_Escape), (" ", Qt.Key.Key_Return), ("First", Qt.Key.Key_Return)]
)
def test_nothing_is_renamed_by_esc_or_without_another_title(
    sidebar: Sidebar, qtbot: QtBot, typed: str, key: Qt.Key
) -> None:
    renamed = heard(sidebar.renamed)
    sidebar.begin_rename("a")
    QTest.keyClicks(editor_of(sidebar), typed)
    press(sidebar, qtbot, key)
    assert renamed == []
    assert sidebar.chats.chats.entry(1).text == "First"
    assert not sidebar.chats.is_renaming


def test_list_stands_still_while_a_title_is_typed(sidebar: Sidebar, qtbot: QtBot) -> None:
    renamed = heard(sidebar.renamed)
    sidebar.begin_rename("b")
    QTest.keyClicks(editor_of(sidebar), "Typed")
    sidebar.show_entries([Entry("Pinned"), Entry("Third", "c", is_pinned=True), Entry("Today"), *THREE[1:3]])
    assert editor_of(sidebar).text() == "Typed"
    press(sidebar, qtbot, Qt.Key.Key_Return)
    assert renamed == [("b", "Typed")]
    assert sidebar.chats.chats.entry(1).chat_id == "c"


def test_renaming_leaves_the_search(sidebar: Sidebar, qtbot: QtBot) -> None:
    search(sidebar, "x", [hit("a", "x", "x")])
    sidebar.begin_rename("a")
    assert not sidebar.is_searching
    assert editor_of(sidebar).isVisible()
    press(sidebar, qtbot, Qt.Key.Key_Escape)


# --- menu


def ask_by_right_click(chats: ChatList) -> None:
    place = centre(chats, "b")
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, chats.viewport().mapToGlobal(place))
    QApplication.sendEvent(chats.viewport(), event)


def ask_by_dots(chats: ChatList) -> None:
    place = QPoint(chats.viewport().width() - 12, centre(chats, "b").y())
    QTest.mouseMove(chats.viewport(), place)
    QTest.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=place)


def ask_by_menu_key(chats: ChatList) -> None:
    QTest.keyClick(chats, Qt.Key.Key_Down)
    QTest.keyClick(chats, Qt.Key.Key_Menu)


def ask_by_shift_f10(chats: ChatList) -> None:
    QTest.keyClick(chats, Qt.Key.Key_Down)
    QTest.keyClick(chats, Qt.Key.Key_F10, Qt.KeyboardModifier.ShiftModifier)


@pytest.mark.parametrize("ask", [ask_by_right_click, ask_by_dots, ask_by_menu_key, ask_by_shift_f10])
@POPUPS
def test_menu_of_a_chat_is_opened(sidebar: Sidebar, ask: object) -> None:
    opened, deleted = heard(sidebar.chat_opened), heard(sidebar.delete_requested)
    sidebar.focus_list()
    ask(sidebar.chats)  # type: ignore[operator]
    menu = open_menu(sidebar)
    assert menu is not None
    choose(menu, "Delete")
    assert opened == []
    assert deleted == [("b",)]


@POPUPS
@pytest.mark.parametrize(("is_pinned", "label"), [(False, "Pin"), (True, "Unpin")], ids=["pin", "unpin"])
def test_menu_pins_and_unpins(sidebar: Sidebar, is_pinned: bool, label: str) -> None:
    toggled = heard(sidebar.pin_toggled)
    sidebar.show_entries([Entry("Pinned"), Entry("First", "a", is_pinned)])
    menu = sidebar.menu("a")
    menu.popup(QPoint(0, 0))
    choose(menu, label)
    assert toggled == [("a", not is_pinned)]


@POPUPS
def test_menu_renames(sidebar: Sidebar, qtbot: QtBot) -> None:
    menu = sidebar.menu("c")
    menu.popup(QPoint(0, 0))
    choose(menu, "Rename")
    assert editor_of(sidebar).text() == "Third"
    press(sidebar, qtbot, Qt.Key.Key_Escape)


# --- search


def search(sidebar: Sidebar, text: str, hits: list[Hit]) -> None:
    sidebar.focus_search()
    QTest.keyClicks(sidebar.field, text)
    sidebar.show_hits(text, hits)


def test_search_is_told_once_typing_pauses(sidebar: Sidebar, qtbot: QtBot) -> None:
    told = heard(sidebar.search_changed)
    sidebar.focus_search()
    with qtbot.waitSignal(sidebar.search_changed):
        QTest.keyClicks(sidebar.field, "two words ")
        assert told == []
    assert told == [("two words",)]


def test_emptied_search_is_told_at_once(sidebar: Sidebar, qtbot: QtBot) -> None:
    sidebar.focus_search()
    with qtbot.waitSignal(sidebar.search_changed):
        QTest.keyClicks(sidebar.field, "ab")
    told = heard(sidebar.search_changed)
    QTest.keyClick(sidebar.field, Qt.Key.Key_Backspace)
    QTest.keyClick(sidebar.field, Qt.Key.Key_Backspace)
    assert told == [("",)]


def test_blank_text_is_not_searched_for(sidebar: Sidebar) -> None:
    told = heard(sidebar.search_changed)
    sidebar.focus_search()
    QTest.keyClicks(sidebar.field, "   ")
    sidebar.field.tell()
    assert told == []


def test_hits_are_shown_by_chat_and_counted(sidebar: Sidebar) -> None:
    hits = [
        hit("a", "Chat a", "chat", node_id=None, field="title"),
        hit("b", "a chat of two", "chat", node_id="n1"),
        hit("a", "this chat here", "chat", node_id="n2"),
    ]
    search(sidebar, "chat", hits)
    model = sidebar.hits.model()
    assert [model.index(at, 0).data() for at in range(model.rowCount())] == [
        "Chat a",
        "this chat here",
        "Chat b",
        "a chat of two",
    ]
    assert sidebar.summary == "3 hits"
    assert sidebar.hits.isVisible()
    assert not sidebar.chats.isVisible()


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "Nothing found"), (1, "1 hit"), (2, "2 hits"), (NUM_HITS, f"The first {NUM_HITS} hits")],
    ids=["none", "one", "two", "all"],
)
def test_number_of_hits_is_said(sidebar: Sidebar, count: int, said: str) -> None:
    search(sidebar, "x", [hit("a", "x", "x", node_id=str(at)) for at in range(count)])
    assert sidebar.summary == said
    assert sidebar.hits.isVisible() == bool(count)


def test_answer_to_another_text_is_dropped(sidebar: Sidebar) -> None:
    search(sidebar, "new", [])
    sidebar.show_hits("ne", [hit("a", "ne", "ne")])
    assert sidebar.summary == "Nothing found"
    sidebar.clear_search()
    sidebar.show_hits("new", [hit("a", "new", "new")])
    assert not sidebar.is_searching
    assert sidebar.chats.isVisible()


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Down], ids=["enter", "down"])
def test_keys_lead_from_the_field_into_the_hits(sidebar: Sidebar, key: Qt.Key) -> None:
    opened = heard(sidebar.hit_opened)
    search(sidebar, "x", [hit("a", "x", "x", node_id="n1")])
    QTest.keyClick(sidebar.field, key)
    assert sidebar.hits.hasFocus()
    QTest.keyClick(sidebar.hits, Qt.Key.Key_Return)
    QTest.keyClick(sidebar.hits, Qt.Key.Key_Down)
    QTest.keyClick(sidebar.hits, Qt.Key.Key_Return)
    assert opened == [("a", None, "x"), ("a", "n1", "x")]


def test_enter_before_the_answer_asks_at_once_and_waits_for_it(sidebar: Sidebar) -> None:
    told = heard(sidebar.search_changed)
    sidebar.focus_search()
    QTest.keyClicks(sidebar.field, "x")
    QTest.keyClick(sidebar.field, Qt.Key.Key_Return)
    assert told == [("x",)]
    assert sidebar.field.hasFocus()
    sidebar.show_hits("x", [hit("a", "x", "x")])
    assert sidebar.hits.hasFocus()


def test_click_opens_a_hit(sidebar: Sidebar) -> None:
    opened = heard(sidebar.hit_opened)
    search(sidebar, "x", [hit("a", "x", "x", node_id="n1")])
    place = sidebar.hits.visualRect(sidebar.hits.model().index(1, 0)).center()
    QTest.mouseClick(sidebar.hits.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert opened == [("a", "n1", "x")]


@pytest.mark.parametrize("is_in_hits", [False, True], ids=["field", "hits"])
def test_esc_leaves_the_search_for_the_list(sidebar: Sidebar, is_in_hits: bool) -> None:
    told = heard(sidebar.search_changed)
    stopped = heard(QShortcut(Qt.Key.Key_Escape, sidebar.window()).activated)
    sidebar.focus_search()
    QTest.keyClicks(sidebar.field, "x")
    sidebar.field.tell()
    sidebar.show_hits("x", [hit("a", "x", "x")])
    if is_in_hits:
        sidebar.focus_list()
    QTest.keyClick(sidebar.window().focusWidget(), Qt.Key.Key_Escape)
    assert sidebar.field.text() == ""
    assert sidebar.chats.hasFocus()
    assert told == [("x",), ("",)]
    assert stopped == []


def test_hits_that_vanish_give_the_focus_to_the_field(sidebar: Sidebar) -> None:
    search(sidebar, "x", [hit("a", "x", "x")])
    sidebar.focus_list()
    sidebar.show_hits("x", [])
    assert sidebar.field.hasFocus()


def test_letters_typed_in_the_list_are_searched_for(sidebar: Sidebar) -> None:
    sidebar.focus_list()
    QTest.keyClick(sidebar.chats, Qt.Key.Key_Q)
    QTest.keyClicks(sidebar.field, "t")
    assert sidebar.field.text() == "qt"
    assert sidebar.field.hasFocus()


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        ("plain text", [(6, 4)], [(6, 4)]),
        ("日本語テスト", [(3, 3)], [(3, 3)]),
        ("😀 a 😀b", [(2, 1), (4, 2)], [(3, 1), (5, 3)]),
        ("𝒞𝒞", [(1, 1)], [(2, 2)]),
    ],
    ids=["ascii", "cjk", "emoji", "letters"],
)
def test_places_are_counted_as_qt_counts(
    text: str, spans: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert utf16_spans(text, spans) == expected


@pytest.mark.parametrize("before", ["", "a few words and a few more ", "日" * 60, "x" * 39, "😀 " * 18])
def test_first_place_is_near_the_start_of_its_line(before: str) -> None:
    line = hit_lines([hit("a", f"{before}Needle and then some", "needle")])[1]
    start, length = line.spans[0]
    assert line.text[start : start + length] == "Needle"
    assert start <= 21


def test_text_that_turns_text_round_loses_that_and_keeps_its_places() -> None:
    line = hit_lines([hit("a", "x \u202eneedle\u2069 y", "needle")])[1]
    start, length = line.spans[0]
    assert line.text[start : start + length] == "needle"
    assert "\u202e" not in line.text


# --- the rest


def test_buttons_tell_what_is_asked_for(sidebar: Sidebar) -> None:
    new, trash, settings = (
        heard(sidebar.new_chat_requested),
        heard(sidebar.trash_requested),
        heard(sidebar.settings_requested),
    )
    for button in (sidebar.new_chat, sidebar.trash, sidebar.settings):
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert (len(new), len(trash), len(settings)) == (1, 1, 1)


def test_tab_goes_through_the_bar_from_top_to_bottom(sidebar: Sidebar) -> None:
    sidebar.new_chat.setFocus()
    seen = [sidebar.window().focusWidget()]
    for _ in range(4):
        QTest.keyClick(seen[-1], Qt.Key.Key_Tab)
        seen.append(sidebar.window().focusWidget())
    assert seen == [sidebar.new_chat, sidebar.field, sidebar.chats, sidebar.trash, sidebar.settings]


def test_problem_is_a_plain_line(sidebar: Sidebar) -> None:
    sidebar.show_problem("<b>Chats</b> cannot be kept.")
    label = sidebar.findChild(QWidget, "sidebarProblem")
    assert label is not None and label.isVisible()
    sidebar.show_problem("")
    assert not label.isVisible()


@pytest.mark.parametrize("mode", [ThemeMode.LIGHT, ThemeMode.DARK], ids=["light", "dark"])
def test_any_title_is_painted_at_any_zoom(sidebar: Sidebar, theme: Theme, mode: ThemeMode) -> None:
    theme.set_mode(mode)
    titles = ["", "long " * 200, "\u202egnp.exe", "شرح الانتباه", "😀" * 300, "a\x00b"]
    sidebar.show_entries([Entry("Today"), *(Entry(title, f"id{at}") for at, title in enumerate(titles))])
    theme.zoom_in()
    assert not sidebar.grab().isNull()
    search(sidebar, "a", [hit(f"id{at}", f"{title} a {title}"[:200], "a") for at, title in enumerate(titles)])
    assert not sidebar.grab().isNull()
