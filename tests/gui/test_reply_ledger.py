"""What was not read again stands below the reply, with the time that saved, and the cause of what was."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.desktop.session.turns import ReplyTurn, TurnAction
from app.desktop.widgets.details_card import DetailsCard
from app.desktop.widgets.reply_facts import fact_groups
from app.desktop.widgets.reply_ledger import LedgerLabel, ledger_text
from app.desktop.widgets.reply_row import ReplyRow
from engine import CacheMissCause, CacheReport, CacheSource, PrefillProgress
from tests.gui.scripted_engine import Desk, metrics


def turn_with(
    num_cached: int,
    *,
    num_prompt: int = 1251,
    source: CacheSource = CacheSource.SLOT,
    cause: CacheMissCause | None = None,
    settings: dict[str, Any] | None = None,
    **changes: Any,
) -> ReplyTurn:
    values: dict[str, Any] = {"num_cached_tokens": num_cached, "source": source, "miss_cause": cause}
    measures = metrics(
        num_prompt_tokens=num_prompt, num_cached_tokens=num_cached, cache_source=source, cache_miss_cause=cause
    )
    report = CacheReport(**(values | changes))
    return ReplyTurn("Small", text="x", metrics=measures, cache=report, settings=settings or {})


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (turn_with(1204, seconds_saved=3.1), "1,204 of 1,251 tokens reused, 3.1 s saved"),
        (
            turn_with(1204, source=CacheSource.RAM, seconds_saved=3.1),
            "1,204 of 1,251 tokens reused from memory, 3.1 s saved",
        ),
        (
            turn_with(1204, source=CacheSource.DISK, seconds_saved=75.0),
            "1,204 of 1,251 tokens reused from disk, 1 min 15 s saved",
        ),
        (turn_with(1204), "1,204 of 1,251 tokens reused"),
        (turn_with(1204, seconds_saved=-0.4), "1,204 of 1,251 tokens reused"),
        (turn_with(1204, seconds_saved=math.nan), "1,204 of 1,251 tokens reused"),
        (turn_with(1204, seconds_saved=math.inf), "1,204 of 1,251 tokens reused"),
        (turn_with(12, seconds_saved=0.02), ""),
        (turn_with(0, cause=CacheMissCause.FIRST_USE, miss_message=0), ""),
        (
            turn_with(0, cause=CacheMissCause.EVICTED, source=CacheSource.NONE, miss_message=0),
            "Read again from message 1 on, because other chats needed the room",
        ),
        (
            turn_with(0, cause=CacheMissCause.DAMAGED, source=CacheSource.NONE),
            "Read again, because the stored copy was damaged",
        ),
        (
            turn_with(40, cause=CacheMissCause.EDITED, miss_message=2, seconds_saved=0.8),
            "40 of 1,251 tokens reused, 0.8 s saved · read again from message 3 on, because an earlier message changed",
        ),
        (
            turn_with(
                0,
                cause=CacheMissCause.SYSTEM_PROMPT_CHANGED,
                source=CacheSource.NONE,
                miss_message=0,
                settings={"system_prompt": "Be kind."},
            ),
            "Read again from the system prompt on, because the system prompt changed",
        ),
        (
            turn_with(
                90,
                cause=CacheMissCause.MODEL_RELOADED,
                source=CacheSource.DISK,
                miss_message=3,
                settings={"system_prompt": "Be kind."},
            ),
            "90 of 1,251 tokens reused from disk · read again from message 3 on, because the model was loaded anew",
        ),
        (turn_with(30, num_prompt=50, cause=CacheMissCause.EDITED, miss_message=1), ""),
        (ReplyTurn("Small", text="x", metrics=metrics(num_cached_tokens=0)), ""),
    ],
    ids=[
        *(
            "slot",
            "memory",
            "disk",
            "no-rate",
            "slower",
            "no-number",
            "endless",
            "little",
            "first-use",
            "evicted",
            "damaged",
            "edited",
        ),
        *("system-prompt", "message-after-system-prompt", "little-again", "no-report"),
    ],
)
def test_line_says_what_was_reused_and_why_the_rest_was_not(turn: ReplyTurn, expected: str) -> None:
    assert ledger_text(turn) == expected


def test_card_has_the_whole_account() -> None:
    turn = turn_with(
        400,
        source=CacheSource.DISK,
        cause=CacheMissCause.EVICTED,
        miss_message=2,
        seconds_saved=0.8,
        num_recomputed_tokens=801,
    )
    facts = {fact.label: fact for group in fact_groups(turn) for fact in group.facts}
    assert facts["Reused"].value == "400 of 1,251, from a copy on disk"
    assert facts["Time saved"].value == "0.8 s"
    assert facts["Read again"].value == "from message 3 on, because other chats needed the room"
    assert facts["Of it known before"].value == "801 tokens"
    assert all(facts[label].help for label in ("Reused", "Time saved", "Read again", "Of it known before"))


def last_row(desk: Desk) -> ReplyRow:
    return cast(ReplyRow, desk.last_row)


def finish_with(desk: Desk, request_id: str, report: CacheReport) -> None:
    desk.finish(
        request_id,
        "answer",
        num_prompt_tokens=1251,
        num_cached_tokens=report.num_cached_tokens,
        cache_source=report.source,
        cache_miss_cause=report.miss_cause,
        cache=report,
    )


REPORT = CacheReport(num_cached_tokens=1204, source=CacheSource.DISK, miss_cause=None, seconds_saved=3.1)


def test_line_is_there_while_the_prompt_is_read_so_that_nothing_moves_at_the_end(desk: Desk) -> None:
    request_id = desk.say("question")
    row = last_row(desk)
    assert row.ledger_text == ""
    desk.client.emit(
        PrefillProgress(request_id=request_id, num_done_tokens=1210, num_total_tokens=1251, num_cached_tokens=1204)
    )
    desk.qtbot.waitUntil(lambda: row.ledger_text == "1,204 of 1,251 tokens reused")
    assert desk.parts.readouts.value("reused") == "1,204 of 1,251"
    desk.delta(request_id, "answer")
    before = row.height()
    finish_with(desk, request_id, REPORT)
    assert row.ledger_text == "1,204 of 1,251 tokens reused from disk, 3.1 s saved"
    assert row.height() == before
    assert desk.parts.readouts.value("reused") == "1,204 of 1,251"


@pytest.mark.qt_log_ignore("propagateSizeHints")  # of the platform without a screen, about a window of its own
def test_click_on_the_line_asks_for_the_details(desk: Desk) -> None:
    finish_with(desk, desk.say("question"), REPORT)
    row = last_row(desk)
    [label] = row.findChildren(LedgerLabel)
    with desk.qtbot.waitSignal(row.action_requested) as signal:
        QTest.mouseClick(label, Qt.MouseButton.LeftButton)
    assert signal.args == [TurnAction.DETAILS]
    for card in desk.window.findChildren(DetailsCard):
        card.close()


def test_row_without_a_line_has_no_room_for_it(desk: Desk) -> None:
    desk.reply("question", "answer")
    plain = last_row(desk)
    request_id = desk.say("question")
    desk.delta(request_id, "answer")
    finish_with(desk, request_id, REPORT)
    desk.qtbot.waitUntil(lambda: last_row(desk).height() > plain.height())


def test_account_is_there_after_a_restart(make_desk: Callable[..., Desk], tmp_path: Path) -> None:
    def open_one() -> Desk:
        desk = make_desk()
        with desk.qtbot.waitSignal(desk.parts.keeping.opened):
            desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
        return desk

    desk = open_one()
    desk.load()
    finish_with(desk, desk.say("question"), REPORT)
    chat_id = desk.parts.conversation.chat.id
    desk.parts.close()
    again = open_one()
    with again.qtbot.waitSignal(again.parts.chats.current_changed):
        again.parts.chats.open(chat_id)
    reply = again.parts.conversation.last_reply
    assert reply is not None
    assert reply.cache == REPORT
    again.qtbot.waitUntil(lambda: bool(again.view.rows))
    assert last_row(again).ledger_text == "1,204 of 1,251 tokens reused from disk, 3.1 s saved"
