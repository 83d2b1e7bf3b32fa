"""What the user has stays: another chat, the loaded model, an earlier reply, the parts of a refused message."""

from collections.abc import Callable
from typing import Any

import pytest

from app.desktop.session.model_session import ModelState
from engine import ErrorInfo, Generate, LoadModel
from models import ModelsError
from tests.gui.scripted_engine import Desk, find_default_model

TOO_LONG = ErrorInfo("ContextOverflow", "The prompt has 900 tokens; the context holds 512.", "Shorten it.")


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    made = make_desk()
    made.load()
    return made


def _questions(desk: Desk) -> list[str]:
    return [turn.text for turn in desk.parts.conversation.turns][::2]


def test_both_chats_can_be_reached_when_nothing_is_kept(desk: Desk) -> None:
    chats = desk.parts.chats
    desk.reply("first", "one")
    first = chats.current.chat.id
    desk.parts.actions.new_chat()
    desk.reply("second", "two")
    second = chats.current.chat.id
    with desk.qtbot.waitSignal(chats.rows_changed) as listed:
        chats.rename(first, "Renamed")
    assert {row.title for row in listed.args[0]} == {"Renamed", "second"}
    chats.open(first)
    assert _questions(desk) == ["first"]
    chats.open(second)
    assert _questions(desk) == ["second"]


def test_loaded_model_stays_when_another_file_is_refused(make_desk: Callable[..., Desk]) -> None:
    def choose(wanted: str | None) -> Any:
        if wanted == "bad":
            raise ModelsError("bad is no model.", "Choose another file.")
        return find_default_model(wanted)

    desk = make_desk(choose)
    desk.load()
    label, loads = desk.parts.model.label, desk.client.count(LoadModel)
    refused: list[ErrorInfo] = []
    desk.parts.model.refused.connect(refused.append)
    desk.parts.actions.choose_model("bad")
    desk.qtbot.waitUntil(lambda: bool(refused))
    assert refused[0].message == "bad is no model."
    assert desk.parts.model.state is ModelState.READY
    assert desk.parts.model.label == label
    desk.reply("still there?", "yes")
    assert desk.client.count(LoadModel) == loads


def test_earlier_reply_stays_when_asking_again_no_longer_fits(desk: Desk) -> None:
    desk.reply("question", "answer")
    before = desk.client.count(Generate)
    desk.parts.conversation.retry()
    desk.qtbot.waitUntil(lambda: desk.client.count(Generate) > before)
    desk.fail(desk.client.last(Generate).request_id, TOO_LONG)
    assert [turn.text for turn in desk.parts.conversation.turns] == ["question", "answer"]
    assert desk.composer.text == ""


def test_refused_message_comes_back_in_its_parts(desk: Desk) -> None:
    desk.composer.set_text("", ["a long text " * 5000])
    request_id = desk.say("Summarise this")
    desk.composer.text_edit.setPlainText("and later")
    desk.fail(request_id, TOO_LONG)
    assert desk.composer.text_edit.text == "Summarise this\n\nand later"
    assert desk.composer.pasted_texts == ("a long text " * 5000,)
