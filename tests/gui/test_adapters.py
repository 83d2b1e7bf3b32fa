"""Adapters of a chat: found for its model, chosen, sent, remembered; a file that is gone costs one sentence."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.desktop.session.chat_adapters import ChatAdapter
from app.desktop.widgets.adapter_panel import AdapterPanel
from app.desktop.widgets.adapter_row import AdapterRow
from app.desktop.widgets.details_card import DetailsCard
from engine import Adapter, CacheMissCause, ErrorInfo, Generate
from tests.gui.scripted_engine import Choice, Desk
from tests.support.adapters import STARTER, write_adapter, write_tiny_pair

# Menus and dialogs: the platform of the tests cannot do all that a desktop does.
pytestmark = pytest.mark.qt_log_ignore("plugin does not support", "propagateSizeHints")

MISSING = ErrorInfo("AdapterMismatch", "There is no adapter file /x/tiny-lora.gguf.", "Check the path.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a model, an adapter that fits it, and one that does not."""
    folder = tmp_path / "dir ä #?%20"
    folder.mkdir()
    write_tiny_pair(folder)
    write_adapter(folder / "alien.gguf", STARTER)
    return folder


@pytest.fixture
def open_desk(make_desk: Callable[..., Desk], folder: Path, tmp_path: Path) -> Iterator[Callable[[], Desk]]:
    """Open a window on the same chats, again and again, with the adapters in sight."""

    def choose(wanted: str | None) -> Choice:
        path = folder / "tiny.gguf"
        return Choice(path, "Tiny", wanted or str(path))

    def open_one() -> Desk:
        desk = make_desk(choose)
        desk.window.resize(1300, 900)
        with desk.qtbot.waitSignal(desk.parts.keeping.opened):
            desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
        if not desk.window.is_inspector_visible:
            desk.window.toggle_inspector()
        desk.window.inspector.set_collapsed(["live", "sampling", "model"])
        desk.load()
        wait_for_rows(desk, "tiny-lora", "alien")
        return desk

    yield open_one
    QApplication.processEvents()


@pytest.fixture
def adapters_desk(open_desk: Callable[[], Desk]) -> Desk:
    return open_desk()


def panel_of(desk: Desk) -> AdapterPanel:
    [panel] = desk.window.inspector.findChildren(AdapterPanel)
    return panel


def wait_for_rows(desk: Desk, *labels: str) -> None:
    panel = panel_of(desk)
    desk.qtbot.waitUntil(lambda: [row.adapter.label for row in panel.rows] == list(labels))


def row(desk: Desk, label: str = "tiny-lora") -> AdapterRow:
    return next(row for row in panel_of(desk).rows if row.adapter.label == label)


def press(desk: Desk, label: str = "tiny-lora") -> None:
    QTest.mouseClick(row(desk, label).box, Qt.MouseButton.LeftButton)


def set_strength(desk: Desk, text: str) -> None:
    field = row(desk).strength.field
    field.selectAll()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Qt.Key.Key_Return)


def sent(desk: Desk) -> tuple[Adapter, ...]:
    return desk.client.last(Generate).adapters


def test_adapters_of_the_model_are_found_and_the_others_say_why(adapters_desk: Desk) -> None:
    assert row(adapters_desk).box.isEnabled()
    assert not row(adapters_desk, "alien").box.isEnabled()
    assert row(adapters_desk, "alien").note.startswith("It ")
    assert panel_of(adapters_desk).state_text == ""


def test_chosen_adapter_is_sent_with_its_strength(adapters_desk: Desk, folder: Path) -> None:
    desk = adapters_desk
    desk.reply("plain", "answer")
    assert sent(desk) == ()
    press(desk)
    desk.reply("one", "answer")
    assert sent(desk) == (Adapter(path=str(folder / "tiny-lora.gguf"), scale=1.0),)
    set_strength(desk, "0.35")
    desk.reply("two", "answer")
    assert sent(desk)[0].scale == 0.35
    set_strength(desk, "0")
    desk.reply("three", "answer")
    assert sent(desk) == ()
    set_strength(desk, "2")
    press(desk)
    desk.reply("four", "answer")
    assert sent(desk) == ()
    assert desk.window.inspector.section("adapters").head.summary == ""


def test_each_chat_has_its_own_adapters(adapters_desk: Desk) -> None:
    desk = adapters_desk
    press(desk)
    desk.reply("one", "answer")
    first = desk.parts.conversation.chat.id
    assert desk.window.inspector.section("adapters").head.summary == "1 in use"
    desk.parts.actions.new_chat()
    assert not row(desk).is_on
    desk.reply("two", "answer")
    assert sent(desk) == ()
    with desk.qtbot.waitSignal(desk.parts.chats.current_changed):
        desk.parts.chats.open(first)
    assert row(desk).is_on
    desk.parts.conversation.retry()
    desk.qtbot.waitUntil(lambda: len(sent(desk)) == 1)


def test_choice_is_there_after_a_restart_and_on_every_branch(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    press(desk)
    set_strength(desk, "0.6")
    desk.reply("one", "answer")
    desk.parts.conversation.retry()
    desk.finish(desk.client.last(Generate).request_id, "another")
    chat_id = desk.parts.conversation.chat.id
    desk.parts.close()
    again = open_desk()
    with again.qtbot.waitSignal(again.parts.chats.current_changed):
        again.parts.chats.open(chat_id)
    again.qtbot.waitUntil(lambda: row(again).is_on)
    assert row(again).strength.field.text() == "0.6"
    reply = again.parts.conversation.last_reply
    assert reply is not None
    again.parts.conversation.show_variant(reply.turn_id, -1)
    again.reply("two", "answer")
    assert [adapter.scale for adapter in sent(again)] == [0.6]


def test_reply_remembers_the_adapters_it_was_made_with(adapters_desk: Desk) -> None:
    desk = adapters_desk
    press(desk)
    set_strength(desk, "0.5")
    request_id = desk.say("one")
    desk.finish(request_id, "answer", num_cached_tokens=0, cache_miss_cause=CacheMissCause.ADAPTER_CHANGED)
    reply = desk.parts.conversation.last_reply
    assert reply is not None
    card = DetailsCard(desk.parts.theme, reply, desk.window)
    assert card.value("Adapters") == "tiny-lora × 0.5"
    assert "the adapters changed" in card.value("Read again")
    card.close()


def test_missing_file_is_told_once_and_the_chat_goes_on_without_it(adapters_desk: Desk, folder: Path) -> None:
    desk = adapters_desk
    press(desk)
    set_strength(desk, "0.5")
    desk.reply("one", "answer")
    (folder / "tiny-lora.gguf").unlink()
    desk.fail(desk.say("two"), MISSING)
    desk.qtbot.waitUntil(lambda: desk.window.notices.notices != [])
    assert desk.window.notices.notices[0].text == "This chat goes on without tiny-lora.gguf."
    wait_for_rows(desk, "alien")
    desk.parts.conversation.retry()
    desk.finish(desk.client.last(Generate).request_id, "answer")
    assert sent(desk) == ()
    [kept] = desk.parts.conversation.settings.adapters
    assert (kept.is_on, kept.scale) == (False, 0.5)
    write_adapter(folder / "tiny-lora.gguf")
    desk.parts.adapters.look_again()
    wait_for_rows(desk, "tiny-lora", "alien")
    press(desk)
    assert row(desk).scale == 0.5


def test_adapter_whose_file_is_in_order_stays_when_a_reply_fails(adapters_desk: Desk) -> None:
    desk = adapters_desk
    press(desk)
    desk.fail(desk.say("one"), MISSING)
    desk.parts.adapters.add("/nowhere.gguf")  # what is looked at after it, on the same thread
    desk.qtbot.waitUntil(lambda: panel_of(desk).fault != "")
    assert row(desk).is_on
    assert desk.window.notices.notices == []


def test_replaced_file_is_told_at_the_next_message(adapters_desk: Desk, folder: Path) -> None:
    desk = adapters_desk
    press(desk)
    desk.reply("one", "answer")
    write_adapter(folder / "new.tmp", seed=5, rank=8).replace(folder / "tiny-lora.gguf")
    desk.reply("two", "answer")
    desk.qtbot.waitUntil(lambda: desk.window.notices.notices != [])
    notice = desk.window.notices.notices[0]
    assert notice.text == "Replaced by another file, which is used from now on: tiny-lora.gguf"
    assert not notice.is_error
    assert len(sent(desk)) == 1
    desk.window.notices.dismiss("adapter")
    desk.reply("three", "answer")
    desk.parts.adapters.add("/nowhere.gguf")
    desk.qtbot.waitUntil(lambda: panel_of(desk).fault != "")
    assert desk.window.notices.notices == []


def test_file_from_elsewhere_is_added_and_used(adapters_desk: Desk, tmp_path: Path) -> None:
    desk = adapters_desk
    path = write_adapter(tmp_path / "mine.gguf")
    QTest.mouseClick(panel_of(desk).add_button, Qt.MouseButton.LeftButton)
    [dialog] = desk.window.findChildren(QFileDialog)
    dialog.fileSelected.emit(str(path))
    dialog.reject()
    wait_for_rows(desk, "mine", "tiny-lora", "alien")
    desk.qtbot.waitUntil(lambda: row(desk, "mine").is_on)
    desk.reply("one", "answer")
    assert sent(desk) == (Adapter(path=str(path)),)
    assert ("adapter_files", {str(path): "mine"}) in desk.saved
    desk.parts.actions.new_chat()
    wait_for_rows(desk, "mine", "tiny-lora", "alien")
    assert not row(desk, "mine").is_on


@pytest.mark.parametrize("kind", ["missing", "model", "alien", "junk"])
def test_file_that_cannot_be_used_says_why_in_the_panel(
    adapters_desk: Desk, folder: Path, tmp_path: Path, kind: str
) -> None:
    desk = adapters_desk
    (tmp_path / "junk.gguf").write_bytes(b"no")
    path, words = {
        "missing": (tmp_path / "none.gguf", "no adapter file"),
        "model": (folder / "tiny.gguf", "not an adapter"),
        "alien": (folder / "alien.gguf", "alien.gguf: It"),
        "junk": (tmp_path / "junk.gguf", "junk.gguf is"),
    }[kind]
    desk.parts.adapters.add(str(path))
    desk.qtbot.waitUntil(lambda: panel_of(desk).fault != "")
    assert words in panel_of(desk).fault
    assert panel_of(desk).chosen == ()


def test_nothing_is_looked_for_before_it_is_seen(make_desk: Callable[..., Desk], folder: Path, qtbot: QtBot) -> None:
    path = folder / "tiny.gguf"
    desk = make_desk(lambda wanted: Choice(path, "Tiny", wanted or str(path)))
    desk.load()
    assert panel_of(desk).rows == []
    desk.window.resize(1300, 900)
    if not desk.window.is_inspector_visible:
        desk.window.toggle_inspector()
    QTest.mouseClick(desk.window.inspector.section("adapters").head, Qt.MouseButton.LeftButton)
    wait_for_rows(desk, "tiny-lora", "alien")


def test_window_without_a_model_says_what_to_do(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    desk.window.resize(1300, 900)
    if not desk.window.is_inspector_visible:
        desk.window.toggle_inspector()
    desk.window.inspector.set_collapsed([])
    assert panel_of(desk).state_text == "Load a model to see which adapters fit it."


def test_adapters_are_looked_for_anew_for_another_model(
    make_desk: Callable[..., Desk], folder: Path, starter_path: Path
) -> None:
    desk = make_desk(lambda wanted: Choice(folder / "tiny.gguf", "Tiny", wanted or str(folder / "tiny.gguf")))
    desk.window.resize(1300, 900)
    if not desk.window.is_inspector_visible:
        desk.window.toggle_inspector()
    desk.window.inspector.set_collapsed([])
    desk.load()
    wait_for_rows(desk, "tiny-lora", "alien")
    press(desk)
    desk.parts.conversation.use_model("starter")
    wait_for_rows(desk, "tiny-lora")  # in use, and in the way of nothing
    desk.qtbot.waitUntil(lambda: row(desk).note != "")
    assert row(desk).box.isEnabled()
    assert desk.parts.conversation.settings.adapters == (
        ChatAdapter(path=str(folder / "tiny-lora.gguf"), stamp=row(desk).adapter.stamp),
    )
