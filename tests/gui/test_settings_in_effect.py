"""Every setting of the page changes what the window does, at once, and is kept."""

from collections.abc import Callable
from types import SimpleNamespace

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QLabel, QMenu

from app.desktop.session.opened_reading import OpenedReading
from app.desktop.widgets.setting_controls import WholeControl
from app.desktop.widgets.settings_page import SettingRow, SettingsPage
from app.settings import FollowMode, SendKey, Theme, setting_infos
from engine import DraftMode, Generate, LoadModel, Prepare, SetCache
from tests.gui.scripted_engine import Desk

LONG = "A line of a long reply.\n\n" * 60


def row_of(desk: Desk, name: str) -> SettingRow:
    desk.parts.actions.show_settings()
    page = desk.window.page
    assert isinstance(page, SettingsPage)
    return page.row(name)


def choose_next(desk: Desk, name: str, times: int = 1) -> None:
    """Choose another value with the keys, and go back to the conversation."""
    control = row_of(desk, name).control
    for _ in range(times):
        QTest.keyClick(control, Qt.Key.Key_Down)
    desk.window.show_page(None)


def has_other_theme(desk: Desk) -> None:
    choose_next(desk, "theme", times=2)
    assert desk.parts.theme.mode is Theme.DARK
    assert ("theme", Theme.DARK) in desk.saved


def has_other_size(desk: Desk) -> None:
    before = desk.composer.button.height()
    for _ in range(5):
        QTest.keyClick(row_of(desk, "zoom").control, Qt.Key.Key_Up)
    assert desk.parts.theme.zoom == 1.5
    desk.window.show_page(None)
    assert desk.composer.button.height() > before
    assert ("zoom", 1.5) in desk.saved


def sends_with_other_key(desk: Desk) -> None:
    choose_next(desk, "send_key")
    desk.composer.text_edit.setFocus()
    QTest.keyClicks(desk.composer.text_edit, "a")
    QTest.keyClick(desk.composer.text_edit, Qt.Key.Key_Return)
    assert desk.composer.text == "a\n"
    assert desk.client.count(Generate) == 0
    QTest.keyClick(desk.composer.text_edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert desk.composer.text == ""
    desk.qtbot.waitUntil(lambda: desk.client.count(Generate) == 1)
    keys = {shortcut.label: shortcut.keys for shortcut in desk.parts.actions.shortcuts}
    assert (keys["Send"], keys["New line"]) == (("Ctrl+Return",), ("Return",))
    assert ("send_key", SendKey.MOD_ENTER) in desk.saved


def stays_where_it_is(desk: Desk) -> None:
    choose_next(desk, "follow", times=2)
    desk.reply("question", LONG)
    bar = desk.view.verticalScrollBar()
    assert bar.maximum() > 0
    assert bar.value() < bar.maximum()
    assert ("follow", FollowMode.OFF) in desk.saved


def tells_other_number_of_days(desk: Desk) -> None:
    QTest.keyClick(row_of(desk, "retention_days").control, Qt.Key.Key_Up)
    desk.parts.chats.trash_read.emit([])
    assert any("31 days" in label.text() for label in desk.parts.trash.findChildren(QLabel))
    assert ("retention_days", 31) in desk.saved


def reads_ahead_only_with_power(desk: Desk) -> None:
    desk.reply("one", "answer")
    assert desk.client.last(Generate).read_ahead
    control = row_of(desk, "read_ahead_above").control
    for _ in range(51):  # a battery of so much charge there is not
        QTest.keyClick(control, Qt.Key.Key_Up)
    desk.window.show_page(None)
    assert ("read_ahead_above", 101) in desk.saved
    desk.reply("two", "answer")
    assert not desk.client.last(Generate).read_ahead


def tells_energy_and_cost(desk: Desk) -> None:
    for name in ("power_watts", "electricity_price"):
        QTest.keyClick(row_of(desk, name).control, Qt.Key.Key_Up)
    desk.window.show_page(None)
    desk.reply("one", "answer")
    reply = desk.parts.conversation.last_reply
    assert reply is not None
    assert reply.metrics is not None
    assert reply.metrics.joules_per_token is not None
    assert reply.metrics.cost_per_million_tokens is not None


def limits_memory_at_once(desk: Desk) -> None:
    assert desk.client.last(SetCache).params.ram_mib is None
    control = row_of(desk, "chat_memory_mib").control
    for expected in (0, 256, 512):
        QTest.keyClick(control, Qt.Key.Key_Up)
        assert desk.client.last(SetCache).params.ram_mib == expected
    assert ("chat_memory_mib", 512) in desk.saved
    for _ in range(3):
        QTest.keyClick(control, Qt.Key.Key_Down)
    assert isinstance(control, WholeControl)
    assert control.text() == "automatic"
    assert desk.client.last(SetCache).params.ram_mib is None


def limits_disk_at_once(desk: Desk) -> None:
    QTest.keyClick(row_of(desk, "chat_disk_mib").control, Qt.Key.Key_Up)
    params = desk.client.last(SetCache).params
    assert (params.disk_mib, params.ram_mib) == (0, None)
    assert params.folder.endswith("prompt-cache")
    desk.load()
    assert desk.client.last(LoadModel).cache == params


def keeps_replies_at_once(desk: Desk) -> None:
    assert not desk.client.last(SetCache).params.responses
    QTest.keyClick(row_of(desk, "response_cache").control, Qt.Key.Key_Space)
    assert desk.client.last(SetCache).params.responses
    assert ("response_cache", True) in desk.saved


def reads_opened_chats_unless_told_not_to(desk: Desk) -> None:
    desk.reply("one", "answer")
    [reading] = desk.parts.bridge.findChildren(OpenedReading)
    reading.begin()
    assert desk.client.last(Prepare).name == ""
    desk.parts.chats.new_chat()
    QTest.keyClick(row_of(desk, "read_opened").control, Qt.Key.Key_Space)
    assert ("read_opened", False) in desk.saved
    desk.window.show_page(None)
    desk.reply("two", "answer")
    reading.begin()
    assert desk.client.count(Prepare) == 1


def drafts_otherwise(desk: Desk) -> None:
    desk.reply("one", "answer")
    assert desk.client.last(Generate).speculative.mode is DraftMode.AUTO
    choose_next(desk, "draft_mode")
    desk.reply("two", "answer")
    assert desk.client.last(Generate).speculative.mode is DraftMode.NGRAM
    assert ("draft_mode", DraftMode.NGRAM) in desk.saved


def drafts_less(desk: Desk) -> None:
    for _ in range(3):
        QTest.keyClick(row_of(desk, "draft_max").control, Qt.Key.Key_Up)
    desk.window.show_page(None)
    desk.reply("one", "answer")
    assert desk.client.last(Generate).speculative.draft_max == 3
    assert ("draft_max", 3) in desk.saved


def drafts_strictly(desk: Desk) -> None:
    QTest.keyClick(row_of(desk, "draft_strict").control, Qt.Key.Key_Space)
    desk.window.show_page(None)
    desk.reply("one", "answer")
    assert desk.client.last(Generate).speculative.strict
    assert ("draft_strict", True) in desk.saved


EFFECTS: dict[str, Callable[[Desk], None]] = {
    "theme": has_other_theme,
    "zoom": has_other_size,
    "send_key": sends_with_other_key,
    "follow": stays_where_it_is,
    "retention_days": tells_other_number_of_days,
    "chat_memory_mib": limits_memory_at_once,
    "chat_disk_mib": limits_disk_at_once,
    "read_ahead_above": reads_ahead_only_with_power,
    "power_watts": tells_energy_and_cost,
    "electricity_price": tells_energy_and_cost,
    "response_cache": keeps_replies_at_once,
    "read_opened": reads_opened_chats_unless_told_not_to,
    "draft_mode": drafts_otherwise,
    "draft_max": drafts_less,
    "draft_strict": drafts_strictly,
}


@pytest.fixture(autouse=True)
def _on_battery(monkeypatch: pytest.MonkeyPatch) -> None:
    battery = SimpleNamespace(percent=80.0, power_plugged=False)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)


@pytest.mark.parametrize("name", [name for name, info in setting_infos().items() if info.section])
def test_setting_has_its_effect_at_once(desk: Desk, name: str) -> None:
    EFFECTS[name](desk)


def test_conversation_follows_a_reply_unless_told_otherwise(desk: Desk) -> None:
    desk.reply("question", LONG)
    bar = desk.view.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0


def test_look_chosen_in_the_menu_is_the_one_of_the_page(desk: Desk) -> None:
    menu = desk.parts.actions.menu()
    themes = menu.actions()[0].menu()
    assert isinstance(themes, QMenu)
    next(action for action in themes.actions() if action.text() == "Dark").trigger()
    menu.deleteLater()
    assert desk.parts.theme.mode is Theme.DARK
    assert ("theme", Theme.DARK) in desk.saved
    control = row_of(desk, "theme").control
    assert isinstance(control, QComboBox)
    assert control.currentText() == "Dark"
