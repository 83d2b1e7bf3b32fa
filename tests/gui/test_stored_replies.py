"""A reply that was given again says so, with the way to a new one; whoever asks again gets a new one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.cache_limits import cache_params
from app.desktop.session.turns import ReplyState, ReplyTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.cache_summary import CacheSummary
from app.desktop.widgets.figures import NOTHING
from app.desktop.widgets.reply_facts import fact_groups
from app.desktop.widgets.reply_row import ReplyRow
from app.settings import Settings
from engine import CacheDescribed, CacheReport, CacheSource, Delta, FinishReason, Generate, SetCache
from tests.gui.scripted_engine import Desk

REPORT = CacheReport(num_cached_tokens=30, source=CacheSource.RESPONSE, miss_cause=None, seconds_saved=4.2)
NOT_MEASURED: dict[str, Any] = {"prefill_s": None, "decode_s": None, "ttft_s": 0.01}


def give(desk: Desk, request_id: str, text: str, **changes: Any) -> None:
    """Let the engine give a reply as it was stored."""
    delta = Delta(request_id=request_id, text=text, num_generated_tokens=11, num_context_tokens=41, decode_s=0.0)
    desk.client.emit(delta)
    values: dict[str, Any] = {
        "num_cached_tokens": 30,
        "cache_source": CacheSource.RESPONSE,
        "cache": REPORT,
    } | NOT_MEASURED
    desk.finish(request_id, text, **(values | changes))


def last_row(desk: Desk) -> ReplyRow:
    return cast(ReplyRow, desk.last_row)


def test_reply_is_marked_and_tells_no_rate_when_it_was_stored(desk: Desk) -> None:
    give(desk, desk.say("question"), "answer")
    row = last_row(desk)
    assert row.meta_text == "11 tokens"
    assert row.ledger_text == "From cache: the same was asked before, 4.2 s saved"
    assert row.body.contents.text == "answer"
    assert desk.parts.readouts.rate == NOTHING, "nothing was generated"
    assert desk.parts.readouts.value("generated") == "11 tokens"


def test_new_one_is_asked_for_when_the_button_is_pressed(desk: Desk) -> None:
    give(desk, desk.say("question"), "answer")
    button = last_row(desk).actions_bar.again_button
    assert button.isVisible()
    assert not desk.client.last(Generate).is_fresh
    request_id = desk.press(button)
    assert desk.client.last(Generate).is_fresh
    desk.delta(request_id, "another")
    desk.finish(request_id, "another")
    assert not last_row(desk).actions_bar.again_button.isVisible()
    assert last_row(desk).actions_bar.retry.isVisible()


def test_button_stays_when_another_message_follows_and_nobody_looks(desk: Desk) -> None:
    give(desk, desk.say("question"), "answer")
    row = last_row(desk)
    desk.reply("more", "and more")
    assert row.actions_bar.again_button.isVisible()
    assert not row.actions_bar.copy.isVisible()


def test_new_one_is_asked_for_when_the_keys_ask_again(desk: Desk) -> None:
    desk.reply("question", "answer")
    QTest.keyClick(desk.window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    desk.qtbot.waitUntil(lambda: desk.client.count(Generate) == 2)
    assert desk.client.last(Generate).is_fresh


def test_stored_one_may_be_given_when_a_message_is_edited_or_a_reply_goes_on(desk: Desk) -> None:
    request_id = desk.say("question")
    desk.delta(request_id, "half")
    desk.finish(request_id, "half", FinishReason.LENGTH)
    desk.press(last_row(desk).continue_button)
    assert not desk.client.last(Generate).is_fresh
    desk.parts.conversation.stop()
    message = desk.parts.conversation.last_message
    assert message is not None
    desk.parts.conversation.edit(message.turn_id, "other question")
    assert not desk.client.last(Generate).is_fresh


def test_thinking_takes_no_time_when_the_reply_was_stored(desk: Desk) -> None:
    request_id = desk.say("question")
    desk.think(request_id, "hm")
    give(desk, request_id, "answer", thinking="hm")
    reply = desk.parts.conversation.last_reply
    assert reply is not None
    assert (reply.thinking, reply.thinking_s, reply.state) == ("hm", None, ReplyState.DONE)


def test_card_names_the_source_when_the_reply_was_stored(desk: Desk) -> None:
    give(desk, desk.say("question"), "answer")
    turn = cast(ReplyTurn, last_row(desk).turn)
    facts = {fact.label: fact.value for group in fact_groups(turn) for fact in group.facts}
    assert facts["Reused"] == "30 of 30, from an earlier reply"
    assert "Writing speed" not in facts


def test_mark_is_there_after_a_restart(make_desk: Callable[..., Desk], tmp_path: Path) -> None:
    def open_desk() -> Desk:
        desk = make_desk()
        with desk.qtbot.waitSignal(desk.parts.keeping.opened):
            desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
        return desk

    desk = open_desk()
    desk.load()
    give(desk, desk.say("question"), "answer")
    chat_id, text = desk.parts.conversation.chat.id, last_row(desk).ledger_text
    desk.parts.close()
    again = open_desk()
    again.parts.chats.open(chat_id)
    again.qtbot.waitUntil(lambda: again.parts.conversation.chat.id == chat_id)
    assert last_row(again).ledger_text == text != ""
    assert last_row(again).actions_bar.again_button.isVisible()


@pytest.mark.parametrize("is_on", [True, False])
def test_engine_keeps_replies_when_the_setting_says_so(is_on: bool) -> None:
    assert cache_params(Settings(response_cache=is_on), "/f").responses is is_on


def test_engine_is_told_at_once_when_the_setting_changes(desk: Desk) -> None:
    desk.parts.settings.set("response_cache", True)
    assert desk.client.last(SetCache).params.responses


def test_summary_tells_how_many_replies_are_kept_where_there_are_some(theme: Theme) -> None:
    summary = CacheSummary(theme)
    usual: dict[str, Any] = {"kept": (), "ram_bytes": 0, "max_ram_bytes": 0, "disk_bytes": 0, "max_disk_bytes": 0}
    for count, expected in ((0, ""), (1, "1 reply · 2 KiB"), (12, "12 replies · 2 KiB")):
        summary.show_kept(CacheDescribed(request_id="r", num_replies=count, reply_bytes=2048, **usual))
        assert summary.replies_text == expected
    summary.show_kept(None)
    assert summary.replies_text == ""
    summary.deleteLater()
