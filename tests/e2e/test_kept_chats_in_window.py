"""The real window with the real model: a chat goes on from disk after a restart, and its file goes with the chat."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.reply_row import ReplyRow
from app.desktop.widgets.settings_page import SettingsPage
from app.settings import Settings
from app.settings import Theme as ThemeMode
from engine import CacheSource, ProcessClient
from tests.support.person import Person
from tests.support.real_window import RealWindows

pytestmark = pytest.mark.qt_log_ignore("plugin does not support", "propagateSizeHints")

QUESTION = (
    "The old lighthouse keeper wrote down the weather every day for forty years. What did he write on the last day?"
)


@pytest.fixture
def open_window(qtbot: QtBot, qapp: Any, tmp_path: Path, starter_path: Path) -> Iterator[Callable[[], Person]]:
    """Start the program, again and again on the same data, each time with an engine of its own."""
    settings = Settings(
        load_params={"starter": {"n_ctx": 2048, "n_threads": 1}}, sampling={"max_tokens": 8}, theme=ThemeMode.LIGHT
    )
    theme = Theme(qapp, ThemeMode.LIGHT, family="DejaVu Sans")
    windows = RealWindows(qtbot, theme, tmp_path, settings, cache_dir=str(tmp_path / "prompt-cache"))

    def open_one() -> Person:
        parts = windows.show(ProcessClient(), size=(1300, 900))
        windows.open_chats(parts)
        person = windows.load(parts)
        person.composer.text_edit.setFocus()
        return person

    yield open_one
    windows.close()


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], list[Path]]:
    """Return what lists the files of chats."""
    return lambda: list((tmp_path / "prompt-cache").glob("*.snapshot"))


def test_chat_goes_on_from_disk_after_a_restart_until_it_is_deleted_for_good(
    open_window: Callable[[], Person], files: Callable[[], list[Path]]
) -> None:
    person = open_window()
    person.say(QUESTION)
    chat_id = person.parts.conversation.chat.id
    person.wait(files)

    person = open_window()
    person.wait(lambda: person.parts.conversation.chat.id == chat_id)
    person.click(person.composer.text_edit)
    person.say("And the day before?")
    reply = person.last_reply
    assert reply.cache is not None
    assert reply.cache.source is CacheSource.DISK
    assert reply.cache.miss_cause is None
    assert reply.cache.num_recomputed_tokens == 0
    assert "tokens reused from disk" in cast(ReplyRow, person.row(-1)).ledger_text

    person.parts.chats.delete(chat_id)
    assert files()
    person.parts.trash.purge_requested.emit(chat_id)
    person.wait(lambda: not files())


def test_nothing_is_kept_on_disk_once_that_is_switched_off(
    open_window: Callable[[], Person], files: Callable[[], list[Path]]
) -> None:
    person = open_window()
    person.say(QUESTION)
    person.wait(files)
    person.press(Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)
    [page] = person.window.findChildren(SettingsPage)
    person.wait(lambda: page.cache.lines[2].startswith("1 chat · "))
    page.cache.off_button.click()
    person.wait(lambda: not files())
    person.wait(lambda: page.cache.lines[2] == "nothing")
    person = open_window()
    person.click(person.composer.text_edit)
    person.say("And the day before?")
    assert person.last_reply.cache is not None
    assert person.last_reply.cache.source is CacheSource.NONE
    assert not files()
