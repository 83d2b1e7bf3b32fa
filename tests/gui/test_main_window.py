"""How the window shares its room: sides beside or over the conversation, pages, focus, and small windows."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.session.model_session import Starter
from app.desktop.theme.theme import Theme
from app.desktop.widgets.adapter_panel import AdapterPanel
from app.desktop.widgets.chat_view import ChatView
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.draft_panel import DraftPanel
from app.desktop.widgets.inspector import Inspector
from app.desktop.widgets.load_panel import LoadPanel
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.model_picker import ModelPicker
from app.desktop.widgets.notices import Notice, NoticeArea
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.sampling_panel import SamplingPanel
from app.desktop.widgets.sides import SideName
from app.desktop.widgets.system_prompt import SystemPromptEdit
from app.desktop.widgets.top_bar import TopBar
from app.desktop.window_state import SideState, WindowState


class Sidebar(QFrame):
    """Stands in for the list of chats."""

    def __init__(self) -> None:
        super().__init__()
        self.search = QLineEdit()
        self.chat = QPushButton("A chat")
        box = QVBoxLayout(self)
        box.addWidget(self.search)
        box.addWidget(self.chat)


class FindBar(QFrame):
    """Stands in for the find bar."""

    def __init__(self) -> None:
        super().__init__()
        QHBoxLayout(self).addWidget(QLineEdit())
        self.hide()


@pytest.fixture
def window(theme: Theme, qtbot: QtBot) -> Iterator[MainWindow]:
    window = MainWindow(
        theme,
        top_bar=TopBar(theme),
        chat_view=ChatView(theme, None, None),  # type: ignore[arg-type]
        notices=NoticeArea(theme),
        composer=Composer(theme, ModelPicker(theme, lambda: Starter(name="starter", label="Starter"), None)),
        inspector=Inspector(
            theme,
            Readouts(theme),
            SamplingPanel(theme),
            LoadPanel(theme),
            SystemPromptEdit(theme),
            adapters=AdapterPanel(theme),
            drafting=DraftPanel(theme),
        ),
        sidebar=Sidebar(),
        find_bar=FindBar(),
    )
    window.resize(1240, 800)
    window.show()
    qtbot.waitExposed(window)
    window.activateWindow()
    window.composer.text_edit.setFocus()
    yield window
    window.close()
    window.deleteLater()


def resize(window: Any, width: int, height: int = 700) -> None:
    window.resize(width, height)
    QApplication.processEvents()


def seen(window: Any) -> tuple[bool, bool]:
    assert window.is_sidebar_visible is window.sidebar.isVisible()
    assert window.is_inspector_visible is window.inspector.isVisible()
    return window.sidebar.isVisible(), window.inspector.isVisible()


@pytest.mark.parametrize(
    ("width", "expected"),
    [(1600, (True, True)), (1180, (True, True)), (1179, (True, False)), (1000, (True, False)), (999, (False, False))],
)
def test_sides_follow_the_width(window: Any, width: int, expected: tuple[bool, bool]) -> None:
    resize(window, width)
    assert seen(window) == expected
    left = 236 if expected[0] else 0
    right = 284 if expected[1] else 0
    assert (window.chat_view.x(), window.chat_view.width()) == (left, width - left - right)


def test_zoom_is_the_same_as_a_narrower_window(window: Any, theme: Theme) -> None:
    theme.set_zoom(1.25)
    assert seen(window) == (False, False)
    resize(window, 1250)
    assert seen(window) == (True, False)
    assert window.sidebar.width() == 295


def test_what_the_user_chose_stays_whatever_the_width(window: Any) -> None:
    window.toggle_sidebar()
    assert seen(window) == (False, True)
    resize(window, 900)
    resize(window, 1240)
    assert seen(window) == (False, True)
    window.toggle_sidebar()
    resize(window, 900)
    assert seen(window) == (False, False)


def test_side_lies_over_the_conversation_where_it_would_squeeze_it(window: Any) -> None:
    resize(window, 500)
    QTest.mouseClick(window.top_bar.sidebar, Qt.MouseButton.LeftButton)
    assert seen(window) == (True, False)
    assert window.chat_view.geometry().width() == 500
    assert window.sidebar.y() == window.top_bar.height()
    assert window.sidebar.isAncestorOf(window.focusWidget())
    assert window.childAt(QPoint(100, 300)) is not window.chat_view.viewport()


def test_opening_one_side_closes_the_other_in_a_narrow_window(window: Any) -> None:
    resize(window, 500)
    window.toggle_sidebar()
    window.toggle_inspector()
    assert seen(window) == (False, True)
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_Escape)
    assert seen(window) == (False, False)


def test_where_only_one_side_fits_the_one_opened_last_stays(window: Any) -> None:
    resize(window, 900)
    window.toggle_sidebar()
    assert seen(window) == (True, False)
    window.toggle_inspector()
    assert seen(window) == (False, True)
    assert window.chat_view.width() == 900 - 284
    resize(window, 1240)
    assert seen(window) == (True, True)


def test_escape_closes_a_side_over_the_conversation_and_nothing_else(window: Any) -> None:
    stops: list[bool] = []
    QShortcut(QKeySequence("Esc"), window, lambda: stops.append(True))
    resize(window, 500)
    window.toggle_sidebar()
    QTest.keyClick(window.sidebar.search, Qt.Key.Key_Escape)
    assert (seen(window), stops) == ((False, False), [])
    assert window.focusWidget() is window.composer.text_edit
    QTest.keyClick(window.composer.text_edit, Qt.Key.Key_Escape)
    assert stops == [True]


def test_click_beside_closes_a_side_over_the_conversation(window: Any) -> None:
    resize(window, 500)
    window.toggle_sidebar()
    beside = QPoint(450, 400)
    QTest.mouseClick(window.childAt(beside), Qt.MouseButton.LeftButton)
    assert seen(window) == (False, False)


@pytest.mark.parametrize(
    ("name", "way", "expected"),
    [
        (SideName.SIDEBAR, 60, 296),
        (SideName.SIDEBAR, -200, 180),
        (SideName.SIDEBAR, 900, 420),
        (SideName.INSPECTOR, -60, 344),
        (SideName.INSPECTOR, 200, 240),
    ],
    ids=["wider", "narrowest", "widest", "inspector-wider", "inspector-narrowest"],
)
def test_edge_is_dragged(window: Any, name: SideName, way: int, expected: int) -> None:
    resize(window, 1600)
    panel = window.sidebar if name is SideName.SIDEBAR else window.inspector
    edge = window._panels._edges[name]
    start = edge.rect().center()
    QTest.mousePress(edge, Qt.MouseButton.LeftButton, pos=start)
    for part in (0.5, 0.0, 1.0):  # there, back and there again
        goal = edge.parentWidget().mapToGlobal(QPoint(0, 300))
        goal.setX(goal.x() + (235 if name is SideName.SIDEBAR else 1600 - 284) + round(way * part))
        QTest.mouseMove(edge, edge.mapFromGlobal(goal))
    QTest.mouseRelease(edge, Qt.MouseButton.LeftButton)
    assert panel.width() == expected
    assert edge.width() == 7
    assert edge.geometry().contains(panel.geometry().right() if name is SideName.SIDEBAR else panel.x(), 300)
    QTest.mouseDClick(edge, Qt.MouseButton.LeftButton)
    assert panel.width() == (236 if name is SideName.SIDEBAR else 284)


def test_edge_leaves_the_conversation_its_room(window: Any) -> None:
    resize(window, 1180)
    edge = window._panels._edges[SideName.SIDEBAR]
    edge.setFocus()
    for _ in range(30):
        QTest.keyClick(edge, Qt.Key.Key_Right)
    assert window.chat_view.width() == 480
    QTest.keyClick(edge, Qt.Key.Key_Left)
    assert window.chat_view.width() == 496
    assert not edge.isHidden()
    QTest.keyClick(edge, Qt.Key.Key_Home)
    assert window.sidebar.width() == 236


def test_window_is_kept_and_made_as_it_was(window: Any) -> None:
    window.restore(
        WindowState(
            geometry=QRect(30, 40, 720, 500),
            sidebar=SideState(width=300, is_wanted=False),
            inspector=SideState(width=9_999),
        )
    )
    QApplication.processEvents()
    assert window.geometry() == QRect(30, 40, 720, 500)
    assert seen(window) == (False, False)
    resize(window, 1240)
    assert seen(window) == (False, True)
    kept = window.state()
    assert kept.geometry == QRect(30, 40, 1240, 700)
    assert not kept.is_maximized
    assert kept.sidebar == SideState(width=300, is_wanted=False)
    assert kept.inspector == SideState(width=480)
    window.toggle_sidebar()
    assert window.state().sidebar == SideState(width=300)


def test_maximised_window_remembers_the_place_it_had(window: Any) -> None:
    window.setGeometry(20, 30, 500, 400)
    QApplication.processEvents()
    window.restore(WindowState(is_maximized=True))
    QApplication.processEvents()
    assert window.isMaximized()
    assert window.state().is_maximized
    assert window.state().geometry == QRect(20, 30, 500, 400)


def test_window_is_not_moved_to_where_nobody_sees_it(window: Any) -> None:
    before = window.pos()
    window.restore(WindowState(geometry=QRect(90_000, 90_000, 700, 500)))
    assert window.pos() == before
    assert window.screen().availableSize().expandedTo(window.size()) == window.screen().availableSize()


@pytest.mark.qt_log_ignore("raise")
def test_window_comes_to_the_front_from_the_task_bar(window: Any) -> None:
    window.showMinimized()
    window.come_to_front()
    assert not window.isMinimized()
    assert window.isVisible()


def test_page_takes_the_place_of_the_conversation(window: Any) -> None:
    window.notices.show_notice(Notice(key="x", text="Something to know"))
    page = QPushButton("page")
    window.show_page(page)
    assert window.page is page
    assert (page.x(), page.width(), page.y()) == (236, 720, window.top_bar.height())
    assert not window.composer.isVisible()
    assert not window.chat_view.isVisible()
    assert window.notices.y() >= page.geometry().bottom()
    assert window.focusWidget() is page
    resize(window, 500)
    assert page.width() == 500
    window.show_page(None)
    assert not page.isVisible()
    assert window.chat_view.isVisible()
    assert window.focusWidget() is window.composer.text_edit


def test_focus_goes_back_to_where_it_was_before_the_first_page(window: Any) -> None:
    window.sidebar.search.setFocus()
    first, second = QPushButton("first"), QPushButton("second")
    window.show_page(first)
    window.show_page(second)
    assert not first.isVisible()
    window.show_page(None)
    assert window.focusWidget() is window.sidebar.search


def test_find_bar_is_a_line_above_the_conversation(window: Any) -> None:
    before = window.chat_view.geometry()
    window.find_bar.show()
    QApplication.processEvents()
    bar, chat = window.find_bar.geometry(), window.chat_view.geometry()
    assert (bar.x(), bar.y(), bar.width()) == (before.x(), before.y(), before.width())
    assert chat.y() == bar.y() + bar.height()
    assert chat.bottom() == before.bottom()
    window.find_bar.hide()
    QApplication.processEvents()
    assert window.chat_view.geometry() == before


def test_tab_goes_from_chats_to_composer_conversation_and_inspector(window: Any) -> None:
    late = QPushButton("made later", window.chat_view)
    late.show()
    parts: list[QWidget] = [window.sidebar, window.composer, window.chat_view, window.inspector, window.top_bar]
    window.sidebar.search.setFocus()
    visited: list[QWidget] = []
    first = window.focusWidget()
    for _ in range(200):
        now = window.focusWidget()
        part = next((part for part in parts if part.isAncestorOf(now) or part is now), None)
        if part is not None and (not visited or visited[-1] is not part):
            visited.append(part)
        QTest.keyClick(now, Qt.Key.Key_Tab)
        if window.focusWidget() is first:
            break
    assert visited == parts
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_Backtab)
    assert window.focusWidget() is window._panels.edges[-1]


def test_tab_does_not_go_below_a_side_that_lies_over(window: Any) -> None:
    resize(window, 500)
    window.toggle_sidebar()
    for _ in range(12):
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        now = window.focusWidget()
        assert not window.composer.isAncestorOf(now)
        assert not window.chat_view.isAncestorOf(now)


@pytest.mark.parametrize("zoom", [0.8, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("has_notice", [False, True], ids=["plain", "notice"])
def test_nothing_overlaps_in_the_smallest_window(window: Any, theme: Theme, zoom: float, has_notice: bool) -> None:
    theme.set_zoom(zoom)
    if has_notice:
        text = "A sentence that is long enough to need more than one line in a window as small as this one."
        window.notices.show_notice(Notice(key="x", text=text, actions=(("Bring it back", lambda: None),)))
    resize(window, 400, 360)
    assert window.size().toTuple() == (400, 360)
    parts = [window.top_bar, window.chat_view, window.composer]
    parts += [window.notices] if has_notice else []
    area = window._surface.rect()
    for part in parts:
        assert area.contains(part.geometry()) or part.height() == 0, part
        for other in parts:
            assert part is other or not part.geometry().intersects(other.geometry()), (part, other)
    buttons = [window.top_bar.sidebar, window.top_bar.new_chat, window.top_bar.inspector, window.top_bar.menu_button]
    for left, right in itertools.pairwise(buttons):
        assert left.geometry().right() < right.geometry().left()
    assert window.top_bar.rect().contains(buttons[-1].geometry())
    assert not has_notice or window.notices.height() > 0


def test_arranging_is_cheap(window: Any) -> None:
    took: list[float] = []
    for step in range(20):
        window._surface.resize(900 + step * 30, 700)
        began = time.thread_time()
        window._arrange()
        took.append(time.thread_time() - began)
    assert sorted(took)[10] < 0.016


def test_top_bar_shows_what_is_open(window: Any) -> None:
    assert window.top_bar.sidebar.isChecked()
    QTest.mouseClick(window.top_bar.sidebar, Qt.MouseButton.LeftButton)
    assert not window.top_bar.sidebar.isChecked()
    QTest.mouseClick(window.top_bar.inspector, Qt.MouseButton.LeftButton)
    assert not window.top_bar.inspector.isChecked()
    assert window.chat_view.width() == 1240


def test_changes_worth_keeping_are_told(window: Any, qtbot: QtBot) -> None:
    for change in (window.toggle_sidebar, lambda: window.resize(1100, 700), lambda: window.move(5, 5)):
        with qtbot.waitSignal(window.state_changed):
            change()


def test_window_without_a_sidebar_has_no_button_for_it(desk: Any) -> None:
    assert desk.window.top_bar.sidebar.isHidden() is (desk.window.sidebar is None)


def test_page_opened_from_a_side_that_lies_over_closes_it(window: Any) -> None:
    resize(window, 500)
    window.toggle_sidebar()
    page = QPushButton("page")
    window.show_page(page)
    assert seen(window) == (False, False)
    assert window.focusWidget() is page
    window.show_page(None)
    assert window.focusWidget() is window.composer.text_edit
