"""A slider that is dragged does not write the store at each step, and nothing of it is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QSlider, QStyle, QStyleOptionSlider
from pytestqt.qtbot import QtBot

from app.desktop.session import paced_write
from app.desktop.session.paced_write import PacedWrite
from app.desktop.widgets.param_row import ParamRow
from app.store import ChatStore
from tests.gui.scripted_engine import Desk


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the sampling values of each write of a chat's settings, as they are asked for."""
    asked: list[Any] = []
    change_chat = ChatStore.change_chat

    def note(store: ChatStore, chat_id: str, change: Any) -> Any:
        asked.append((change.settings or {}).get("sampling", {}).get("temperature"))
        return change_chat(store, chat_id, change)

    monkeypatch.setattr(ChatStore, "change_chat", note)
    return asked


@pytest.fixture
def long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no pause end within a test."""
    monkeypatch.setattr(paced_write, "PAUSE_MS", 60_000)


@pytest.fixture
def open_desk(make_desk: Callable[..., Desk], tmp_path: Path) -> Iterator[Callable[[], Desk]]:
    """Open a window on the same chats, again and again."""

    def open_one() -> Desk:
        desk = make_desk()
        desk.window.resize(1300, 900)
        with desk.qtbot.waitSignal(desk.parts.keeping.opened):
            desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
        desk.load()
        if not desk.window.is_inspector_visible:
            desk.window.toggle_inspector()
        return desk

    yield open_one
    QApplication.processEvents()


def slider_of(desk: Desk) -> QSlider:
    rows = desk.window.inspector.findChildren(ParamRow)
    slider = next(row for row in rows if row.name == "temperature").slider
    assert slider is not None
    return slider


def handle_of(slider: QSlider) -> QPoint:
    option = QStyleOptionSlider()
    slider.initStyleOption(option)
    part = QStyle.SubControl.SC_SliderHandle
    return slider.style().subControlRect(QStyle.ComplexControl.CC_Slider, option, part, slider).center()


def drag(slider: QSlider, num_steps: int) -> None:
    """Press the handle and move it, without letting it go."""
    at = handle_of(slider)
    QTest.mousePress(slider, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)
    for step in range(1, num_steps + 1):
        QTest.mouseMove(slider, at + QPoint(step, 0))


def let_go(slider: QSlider) -> None:
    QTest.mouseRelease(slider, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, handle_of(slider))


def temperature(desk: Desk) -> Any:
    return desk.parts.conversation.settings.sampling.get("temperature")


def begin(desk: Desk) -> str:
    """Say something, so that there is a chat to keep settings for; return its id."""
    desk.reply("one", "answer")
    return desk.parts.conversation.chat.id


def stored(path: Path, chat_id: str) -> Any:
    store, _ = ChatStore.open(path)
    chat = store.load_chat(chat_id)
    store.close()
    assert chat is not None
    return chat.settings["sampling"]["temperature"]


@pytest.mark.usefixtures("long_pause")
def test_drag_is_written_at_its_beginning_and_its_end(open_desk: Callable[[], Desk], changes: list[Any]) -> None:
    desk = open_desk()
    begin(desk)
    desk.parts.conversation.save_settings()
    changes.clear()
    drag(slider_of(desk), 60)
    values = temperature(desk)
    assert len(changes) <= 1
    let_go(slider_of(desk))
    assert changes[-1] == temperature(desk) == values
    assert len(changes) <= 2


def test_last_value_is_written_soon_without_being_let_go(open_desk: Callable[[], Desk], changes: list[Any]) -> None:
    desk = open_desk()
    begin(desk)
    drag(slider_of(desk), 60)
    desk.qtbot.waitUntil(lambda: changes[-1:] == [temperature(desk)])
    assert len(changes) <= 3
    let_go(slider_of(desk))


@pytest.mark.usefixtures("long_pause")
@pytest.mark.parametrize("way", ["close", "other-chat"])
def test_nothing_is_lost_when_the_chat_is_left(open_desk: Callable[[], Desk], tmp_path: Path, way: str) -> None:
    desk = open_desk()
    chat_id = begin(desk)
    drag(slider_of(desk), 40)
    value = temperature(desk)
    assert value is not None
    if way == "other-chat":
        desk.parts.actions.new_chat()
    desk.parts.close()
    assert stored(tmp_path / "chats.sqlite3", chat_id) == value


@pytest.mark.usefixtures("long_pause")
def test_chat_that_is_opened_again_at_once_has_its_last_value(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    chat_id = begin(desk)
    drag(slider_of(desk), 40)
    value = temperature(desk)
    desk.parts.actions.new_chat()
    desk.qtbot.waitUntil(lambda: len(desk.parts.chats.live) == 1)  # it was let go of
    with desk.qtbot.waitSignal(desk.parts.chats.current_changed):
        desk.parts.chats.open(chat_id)
    assert temperature(desk) == value


def test_writes_that_follow_soon_are_one(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced_write, "PAUSE_MS", 20)
    parent, made = QObject(), []
    write = PacedWrite(lambda: made.append("write"), parent)
    write.ask()
    assert made == ["write"]
    for _ in range(100):
        write.ask()
    assert made == ["write"]
    qtbot.waitUntil(lambda: len(made) == 2)
    write.flush()
    assert len(made) == 2
    write.ask()
    write.flush()
    assert len(made) == 3
    write.flush()
    assert len(made) == 3
    parent.deleteLater()
