"""The set-up of a comparison beside the chats: their model is unloaded from here, and past ones are the prompts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractItemView
from pytestqt.qtbot import QtBot

from app.desktop.session.compare_chats import read_past
from app.desktop.session.model_session import ModelState
from app.desktop.theme.theme import Theme
from app.store import ChatStore, NewChat, NewNode
from engine import Generate, LoadModel, Role, UnloadModel
from tests.gui.compare_hand import OTHER, QUICK, CompareHand
from tests.gui.scripted_engine import Desk, ScriptedClient

TITLES = ("Rivers", "Mountains", "")


@pytest.fixture
def hand(theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[CompareHand]:
    hand = CompareHand(theme, qtbot, tmp_path)
    yield hand
    hand.close()


def desk_of(hand: CompareHand) -> Desk:
    """Return the hand that plays the engine of the chats, whose model is loaded."""
    client = hand.parts.bridge._client
    assert isinstance(client, ScriptedClient)
    desk = Desk(hand.parts, client, hand.qtbot)
    desk.load()
    return desk


def keep_chats(hand: CompareHand) -> ChatStore:
    """Keep three chats, the last of which has no message of the user's."""
    keeping = hand.parts.keeping
    with hand.qtbot.waitSignal(keeping.opened, timeout=10_000):
        keeping.open(hand.paths.database_file, retention_days=30)
    store = hand.parts.chats.recorder.store
    assert store is not None
    for number, title in enumerate(TITLES):
        chat = f"{number:032x}"
        store.add_chat(NewChat(id=chat, title=title, title_is_own=True, system_prompt="Be short."))
        if title:
            asked = NewNode(chat_id=chat, parent_id=None, role=Role.USER, content=f"Tell me of {title.lower()}.")
            said = NewNode(chat_id=chat, parent_id=asked.id, role=Role.ASSISTANT, content="They are old.")
            last = NewNode(chat_id=chat, parent_id=said.id, role=Role.USER, content="How old?")
            for node in (asked, said, last):
                store.add_node(node)
    return store


def choose_chats(hand: CompareHand) -> None:
    """Take past chats as the prompts, and wait until they are listed."""
    setup = hand.page.setup
    setup.prompts_box.setCurrentIndex(setup.prompts_box.findText("From past chats"))
    setup.prompts_box.activated.emit(setup.prompts_box.currentIndex())
    hand.qtbot.waitUntil(lambda: setup.chats.list.model().rowCount() == len(TITLES), timeout=10_000)


def titles(view: QAbstractItemView) -> list[str]:
    """Return what a list shows."""
    model = view.model()
    return [str(model.index(row, 0).data()).strip("\u2068\u2069") for row in range(model.rowCount())]


def click(view: QAbstractItemView, title: str) -> None:
    """Click the row with a title."""
    centre = view.visualRect(view.model().index(titles(view).index(title), 0)).center()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=centre)


def test_focus_stays_on_the_page_when_it_begins(hand: CompareHand) -> None:
    hand.choose(QUICK, OTHER)
    hand.page.setup.start_button.setFocus()
    QTest.keyClick(hand.page.setup.start_button, Qt.Key.Key_Space)
    hand.qtbot.waitUntil(lambda: hand.page.view is hand.page.columns, timeout=20_000)
    hand.wait_for_end()
    assert hand.page.tabs[1].hasFocus()


def test_model_of_the_chat_is_unloaded_and_loaded_again_by_the_next_message(hand: CompareHand) -> None:
    setup = hand.page.setup
    assert not setup.unload_button.isVisible()
    desk = desk_of(hand)
    assert "stays in memory as well" in setup.summary
    QTest.mouseClick(setup.unload_button, Qt.MouseButton.LeftButton)
    assert desk.client.count(UnloadModel) == 1
    assert hand.parts.model.state is ModelState.NONE
    assert "stays in memory" not in setup.summary
    assert not setup.unload_button.isVisible()
    hand.parts.compare.toggle()
    num_loads = desk.client.count(LoadModel)
    QTest.keyClicks(hand.window.composer.text_edit, "Hello")
    QTest.keyClick(hand.window.composer.text_edit, Qt.Key.Key_Return)
    hand.qtbot.waitUntil(lambda: desk.client.count(LoadModel) == num_loads + 1)


def test_model_is_not_unloaded_below_a_reply(hand: CompareHand) -> None:
    desk = desk_of(hand)
    hand.parts.compare.toggle()
    QTest.keyClicks(hand.window.composer.text_edit, "Hello")
    QTest.keyClick(hand.window.composer.text_edit, Qt.Key.Key_Return)
    hand.qtbot.waitUntil(lambda: desk.client.count(Generate) == 1)
    hand.parts.compare.toggle()
    button = hand.page.setup.unload_button
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    hand.page.setup.unload_requested.emit()
    assert not button.isEnabled()
    assert "A reply" in button.toolTip()
    assert desk.client.count(UnloadModel) == 0


def test_past_chats_are_found_and_asked_again(hand: CompareHand) -> None:
    keep_chats(hand)
    choose_chats(hand)
    chats = hand.page.setup.chats
    assert titles(chats.list) == ["Chat without a title", "Mountains", "Rivers"]
    assert not hand.page.setup.start_button.isEnabled()
    click(chats.list, "Rivers")
    QTest.keyClicks(chats.find_edit, "MOUNT")
    assert titles(chats.list) == ["Mountains"]
    chats.list.setFocus()
    chats.list.setCurrentIndex(chats.list.model().index(0, 0))
    QTest.keyClick(chats.list, Qt.Key.Key_Space)
    assert chats.told.startswith("2 of 3 chats")
    hand.page.setup.columns.choose(hand.page.setup.setup.columns[:2])
    hand.page.setup.tokens_spin.setValue(16)
    hand.start()
    hand.wait_for_end()
    assert [lane.label for lane in hand.lanes] == [QUICK, OTHER]
    box = hand.page.columns.prompt_box
    assert box.count() == 2
    QTest.mouseClick(hand.page.tabs[1], Qt.MouseButton.LeftButton)
    box.setCurrentIndex(0)
    box.activated.emit(0)
    assert [hand.said(number)[:3] for number in range(2)] == [
        ["Tell me of mountains.", "They are old.", "How old?"]
    ] * 2
    assert all(hand.said(number)[3] for number in range(2))


def test_chat_without_a_question_is_refused_with_the_reason(hand: CompareHand) -> None:
    keep_chats(hand)
    choose_chats(hand)
    click(hand.page.setup.chats.list, "Chat without a title")
    QTest.mouseClick(hand.page.setup.start_button, Qt.MouseButton.LeftButton)
    hand.qtbot.waitUntil(lambda: bool(hand.page.setup.fault))
    assert hand.page.setup.fault.startswith("No message of yours is in the chosen chats.")


def test_nothing_is_offered_where_no_chat_is_kept(hand: CompareHand) -> None:
    setup = hand.page.setup
    setup.prompts_box.setCurrentIndex(setup.prompts_box.findText("From past chats"))
    setup.prompts_box.activated.emit(setup.prompts_box.currentIndex())
    assert setup.chats.told == "No chat is kept yet."
    assert not setup.start_button.isEnabled()


def test_chat_that_is_gone_meanwhile_is_left_out(hand: CompareHand) -> None:
    store = keep_chats(hand)
    rivers, mountains = f"{0:032x}", f"{1:032x}"
    store.trash_chat(mountains)
    found = read_past(store, (rivers, mountains, "f" * 32))
    assert [(title, len(messages)) for title, messages in found] == [("Rivers", 4)]
    assert found[0][1][0].role is Role.SYSTEM
