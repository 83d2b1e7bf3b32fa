"""The settings page draws itself from the declarations, and each change applies at once."""

import dataclasses
import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QKeySequence, QShortcut, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

import app.settings
from app.desktop.theme.theme import Theme
from app.desktop.widgets.settings_page import SettingsPage
from app.setting_info import SettingInfo
from app.settings import FollowMode, Settings, SettingsStore, setting_infos


@pytest.fixture
def host(qtbot: QtBot) -> QWidget:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(800, 600)
    host.show()
    qtbot.waitExposed(host)
    return host


@pytest.fixture
def page(theme: Theme, host: QWidget) -> Any:
    return show(theme, host)


def show(theme: Theme, host: QWidget, settings: Settings | None = None) -> Any:
    page = SettingsPage(theme, host)
    page.show_settings(settings or Settings())
    page.resize(host.size())
    page.show()
    QApplication.processEvents()
    return page


def changes(page: Any) -> list[tuple[str, object]]:
    heard: list[tuple[str, object]] = []
    page.changed.connect(lambda name, value: heard.append((name, value)))
    return heard


class Fruit(enum.Enum):
    APPLE = "apple"
    PEAR = "pear"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MoreSettings(Settings):
    fruit: Annotated[Fruit, SettingInfo(type=Fruit, label="Fruit", help="A fruit.", section="Food")] = Fruit.APPLE
    is_loud: Annotated[bool, SettingInfo(type=bool, label="Loud", help="Sounds.", section="Sound")] = False
    nick: Annotated[str | None, SettingInfo(type=str, label="Nick", help="A name.", section="Sound")] = None
    ratio: Annotated[
        float, SettingInfo(type=float, label="Ratio", help="A ratio.", section="Sound", minimum=0, maximum=1, step=0.05)
    ] = 0.5
    unseen: Annotated[int, SettingInfo(type=int, label="Unseen", help="Not on the page.")] = 3


@pytest.fixture
def more(theme: Theme, host: QWidget, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(app.settings, "Settings", MoreSettings)
    setting_infos.cache_clear()
    yield show(theme, host, MoreSettings())
    setting_infos.cache_clear()


def test_every_setting_with_a_section_is_shown_with_its_help(page: Any) -> None:
    texts = {label.text() for label in page.findChildren(QLabel)}
    shown = [info for info in setting_infos().values() if info.section]
    assert shown
    for info in shown:
        assert {info.label, info.help, info.section.upper()} <= texts
        control = page.row(info.name).control
        assert (control.accessibleName(), control.accessibleDescription()) == (info.label, info.help)
    hidden = [info for info in setting_infos().values() if not info.section]
    assert hidden
    assert not texts & {info.label for info in hidden}


def test_setting_that_is_added_appears_by_itself(more: Any) -> None:
    heard = changes(more)
    combo = more.row("fruit").control
    assert combo.text_of(Fruit.PEAR) == "pear"
    QTest.keyClick(combo, Qt.Key.Key_Down)
    QTest.mouseClick(more.row("is_loud").control, Qt.MouseButton.LeftButton)
    nick = more.row("nick").control
    nick.insert("Ada é日👍")
    QTest.keyClick(nick, Qt.Key.Key_Return)
    nick.clear()
    QTest.keyClick(nick, Qt.Key.Key_Return)
    ratio = more.row("ratio").control
    QTest.keyClick(ratio, Qt.Key.Key_Up)
    assert heard == [("fruit", Fruit.PEAR), ("is_loud", True), ("nick", "Ada é日👍"), ("nick", None), ("ratio", 0.55)]
    with pytest.raises(KeyError):
        more.row("unseen")


def test_choice_applies_at_once(page: Any) -> None:
    heard = changes(page)
    QTest.keyClick(page.row("follow").control, Qt.Key.Key_Down)
    assert heard == [("follow", FollowMode.START)]


def test_number_has_its_unit_and_stays_within_its_limits(page: Any) -> None:
    days = page.row("retention_days").control
    heard = changes(page)
    assert days.text() == "30 days"
    days.setFocus()
    days.selectAll()
    QTest.keyClicks(days, "1")
    assert heard == []
    QTest.keyClick(days, Qt.Key.Key_Return)
    assert (heard, days.text()) == ([("retention_days", 1)], "1 day")
    QTest.keyClick(days, Qt.Key.Key_Down)
    assert heard == [("retention_days", 1)]


def test_size_is_written_without_needless_zeros(theme: Theme, host: QWidget) -> None:
    page = show(theme, host, Settings(zoom=1.25))
    size = page.row("zoom").control
    assert size.text() == "1.25 ×"
    heard = changes(page)
    QTest.keyClick(size, Qt.Key.Key_Down)
    assert heard == [("zoom", 1.15)]
    page.show_settings(Settings())
    assert size.text() == "1 ×"


def test_showing_values_changes_nothing(page: Any) -> None:
    heard = changes(page)
    page.show_settings(Settings(zoom=1.5, retention_days=7, follow=FollowMode.OFF))
    assert heard == []
    assert page.row("retention_days").control.value() == 7


def test_reset_is_offered_where_a_value_differs(theme: Theme, host: QWidget) -> None:
    page = show(theme, host, Settings(retention_days=7))
    heard = changes(page)
    row = page.row("retention_days")
    assert row.reset_button.isVisible()
    assert "30 days" in row.reset_button.toolTip()
    assert not page.row("theme").reset_button.isVisible()
    QTest.mouseClick(row.reset_button, Qt.MouseButton.LeftButton)
    assert heard == [("retention_days", 30)]
    assert not row.reset_button.isVisible()
    assert row.control.value() == 30


def test_wheel_scrolls_the_page_and_changes_nothing(more: Any) -> None:
    heard = changes(more)
    for name in ("fruit", "retention_days", "ratio"):
        control = more.row(name).control
        control.setFocus()
        event = QWheelEvent(
            QPointF(5, 5),
            QPointF(control.mapToGlobal(QPoint(5, 5))),
            QPoint(0, -120),
            QPoint(0, -120),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(control, event)
    assert heard == []


def test_escape_closes_and_does_not_reach_the_window(page: Any, qtbot: QtBot) -> None:
    stops: list[bool] = []
    QShortcut(QKeySequence("Esc"), page, lambda: stops.append(True))
    for widget in (page.row("retention_days").control, page.row("theme").control, page.back_button):
        with qtbot.waitSignal(page.closed):
            QTest.keyClick(widget, Qt.Key.Key_Escape)
    with qtbot.waitSignal(page.closed):
        QTest.mouseClick(page.back_button, Qt.MouseButton.LeftButton)
    assert stops == []


def test_place_of_the_file_can_be_copied(page: Any) -> None:
    path = "/home/a/" + "long/" * 60 + "settings.toml"
    page.show_file(path)
    field = next(field for field in page.findChildren(QLineEdit) if field.text() == path)
    assert field.isReadOnly()
    field.selectAll()
    field.copy()
    assert QGuiApplication.clipboard().text() == path
    assert field.width() <= page.width()


@pytest.mark.parametrize("zoom", [0.8, 1.0, 2.0])
@pytest.mark.parametrize("width", [400, 800])
def test_nothing_is_cut_off(page: Any, theme: Theme, zoom: float, width: int) -> None:
    theme.set_zoom(zoom)
    page.resize(width, 360)
    for _ in range(3):  # a row that turns from beside to below asks for another round
        QApplication.processEvents()
    edge = page._area.viewport().width()
    for info in setting_infos().values():
        if info.section:
            row = page.row(info.name)
            for part in (row.control, row.reset_button):
                assert part.mapTo(page, part.rect().topRight()).x() < edge, (info.name, part)


def test_changes_reach_the_file(page: Any, tmp_path: Path) -> None:
    store = SettingsStore(tmp_path / "settings.toml")
    page.changed.connect(lambda name, value: store.update(**{name: value}))
    QTest.keyClick(page.row("follow").control, Qt.Key.Key_Down)
    days = page.row("retention_days").control
    QTest.keyClick(days, Qt.Key.Key_Up)
    settings, notice = store.load()
    assert (settings.follow, settings.retention_days, notice) == (FollowMode.START, 31, None)
