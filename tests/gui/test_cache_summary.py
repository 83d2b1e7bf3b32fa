"""What is cached, in the settings and in the menu of a chat: told, cleared, switched off, forgotten."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel

from app.desktop.theme.theme import Theme
from app.desktop.widgets.cache_summary import CacheSummary
from app.desktop.widgets.settings_page import SettingsPage
from engine import (
    CacheDescribed,
    CacheSource,
    ClearCache,
    DescribeCache,
    ErrorInfo,
    Failed,
    ForgetChats,
    KeptPrompt,
    SetCache,
)
from tests.gui.scripted_engine import Desk
from tests.gui.translated import MarkingTranslator, untranslated

MIB = 1 << 20


def kept(source: CacheSource, chat_id: str | None) -> KeptPrompt:
    return KeptPrompt(source=source, model_name="Small", num_tokens=9, num_bytes=9, chat_id=chat_id, last_used=None)


def described(request_id: str, *entries: KeptPrompt, **sizes: int) -> CacheDescribed:
    values = {"ram_bytes": 0, "max_ram_bytes": 0, "disk_bytes": 0, "max_disk_bytes": 0} | sizes
    return CacheDescribed(request_id=request_id, kept=entries, **values)


ENTRIES = (
    kept(CacheSource.SLOT, "a"),
    kept(CacheSource.SLOT, None),
    *(kept(CacheSource.RAM, chat_id) for chat_id in ("a", "b", "b")),
    *(kept(CacheSource.DISK, chat_id) for chat_id in ("a", "b", "c")),
)
SIZES = {"ram_bytes": 120 * MIB, "max_ram_bytes": 1536 * MIB, "disk_bytes": 340 * MIB, "max_disk_bytes": 8 << 30}


@pytest.fixture
def open_settings(desk: Desk) -> Callable[[], SettingsPage]:
    def open_page() -> SettingsPage:
        desk.parts.actions.show_settings()
        [page] = desk.window.findChildren(SettingsPage)
        return page

    return open_page


def answer(desk: Desk, page: SettingsPage, event: CacheDescribed) -> None:
    with desk.qtbot.waitSignal(desk.parts.kept.described):
        desk.client.emit(event)
    assert page.cache.lines[0] != ""


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (None, ("–", "–", "–")),
        (described("x"), ("nothing", "nothing", "nothing")),
        (
            described("x", *ENTRIES, **SIZES),
            ("1 chat", "2 chats · 120 MiB of 1.5 GiB", "3 chats · 340 MiB of 8.0 GiB"),
        ),
        (
            described("x", max_ram_bytes=1536 * MIB),
            ("nothing", "nothing · 0 B of 1.5 GiB", "nothing"),
        ),
    ],
    ids=["no-engine", "nowhere", "everywhere", "empty-memory"],
)
def test_summary_tells_chats_and_sizes(theme: Theme, event: CacheDescribed | None, lines: tuple[str, str, str]) -> None:
    summary = CacheSummary(theme)
    summary.show_kept(event)
    assert summary.lines == lines
    assert summary.clear_button.isEnabled() is (event is not None)
    summary.deleteLater()


def test_every_text_is_translated_and_every_line_has_its_name(theme: Theme, qapp: QApplication) -> None:
    translator = MarkingTranslator()
    qapp.installTranslator(translator)
    try:
        summary = CacheSummary(theme)
        summary.show_kept(described("x", *ENTRIES, **SIZES))
        assert untranslated(summary, lambda text: False) == []
        names = [label.accessibleName() for label in summary.findChildren(QLabel) if label.accessibleName()]
        assert len(names) == 3
        assert all(": " in name and "chat" in name for name in names)
        summary.deleteLater()
    finally:
        qapp.removeTranslator(translator)


def test_settings_ask_what_is_cached_each_time_they_are_shown(
    desk: Desk, open_settings: Callable[[], SettingsPage]
) -> None:
    page = open_settings()
    assert desk.client.count(DescribeCache) == 1
    answer(desk, page, described(desk.client.last(DescribeCache).request_id, *ENTRIES, **SIZES))
    assert page.cache.lines[2] == "3 chats · 340 MiB of 8.0 GiB"
    desk.window.show_page(None)
    open_settings()
    assert desk.client.count(DescribeCache) == 2


def test_settings_tell_nothing_when_the_engine_cannot(desk: Desk, open_settings: Callable[[], SettingsPage]) -> None:
    page = open_settings()
    answer(desk, page, described(desk.client.last(DescribeCache).request_id))
    desk.window.show_page(None)
    open_settings()
    error = ErrorInfo("EngineUnavailable", "The engine is not running.", "")
    with desk.qtbot.waitSignal(desk.parts.kept.described):
        desk.client.emit(Failed(request_id=desk.client.last(DescribeCache).request_id, error=error))
    assert page.cache.lines == ("–", "–", "–")


def test_clear_drops_everything_and_says_so(desk: Desk, open_settings: Callable[[], SettingsPage]) -> None:
    page = open_settings()
    answer(desk, page, described(desk.client.last(DescribeCache).request_id, *ENTRIES, **SIZES))
    QTest.mouseClick(page.cache.clear_button, Qt.MouseButton.LeftButton)
    answer(desk, page, described(desk.client.last(ClearCache).request_id))
    assert page.cache.lines == ("nothing", "nothing", "nothing")


def test_nothing_is_kept_on_disk_any_more_until_the_limit_is_set_again(
    desk: Desk, open_settings: Callable[[], SettingsPage]
) -> None:
    page = open_settings()
    page.cache.off_button.setFocus()
    QTest.keyClick(page.cache.off_button, Qt.Key.Key_Space)
    assert desk.client.last(SetCache).params.disk_mib == 0
    assert ("chat_disk_mib", 0) in desk.saved
    assert page.cache.off_button.isHidden()
    control = page.row("chat_disk_mib").control
    QTest.keyClick(control, Qt.Key.Key_Down)
    assert desk.client.last(SetCache).params.disk_mib is None
    assert not page.cache.off_button.isHidden()


@pytest.mark.qt_log_ignore("propagateSizeHints")
@pytest.mark.parametrize("width", [640, 360], ids=["wide", "narrow"])
def test_buttons_stand_below_the_lines_and_begin_where_they_do(theme: Theme, width: int) -> None:
    summary = CacheSummary(theme)
    summary.show_kept(described("x", *ENTRIES, **SIZES))
    summary.resize(width, summary.sizeHint().height())
    summary.show()
    QApplication.processEvents()
    assert summary.clear_button.y() >= summary.height() // 2
    assert summary.clear_button.x() == 0
    assert summary.off_button.geometry().right() <= width
    summary.deleteLater()


def test_menu_of_a_chat_forgets_what_is_cached_of_it(desk: Desk) -> None:
    with desk.qtbot.waitSignal(desk.parts.chats.rows_changed):
        desk.reply("first", "answer")
    chat_id = desk.parts.conversation.chat.id
    desk.qtbot.waitUntil(lambda: bool(desk.parts.sidebar.chats.chats.entries))
    menu = desk.parts.sidebar.menu(chat_id)
    action = next(action for action in menu.actions() if action.text() == "Forget what is cached")
    action.trigger()
    menu.close()
    assert desk.client.last(ForgetChats).chat_ids == (chat_id,)
    assert any("read from the beginning" in notice.text for notice in desk.window.notices.notices)


def test_tab_goes_from_the_last_setting_of_the_cache_to_the_buttons_and_on(
    desk: Desk, open_settings: Callable[[], SettingsPage]
) -> None:
    page = open_settings()
    answer(desk, page, described(desk.client.last(DescribeCache).request_id))
    page.row("response_cache").control.setFocus()
    seen = []
    for _ in range(3):
        focused = QApplication.focusWidget()
        assert focused is not None
        QTest.keyClick(focused, Qt.Key.Key_Tab)
        seen.append(QApplication.focusWidget())
    assert seen == [page.cache.clear_button, page.cache.off_button, page.row("read_ahead_above").control]
