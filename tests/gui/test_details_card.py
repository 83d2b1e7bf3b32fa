"""The details of a reply: everything that is known, nothing that is not, as plain text."""

import json
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.desktop.session.turns import ReplyState, ReplyTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.details_card import DetailsCard
from app.desktop.widgets.reply_facts import fact_groups
from engine import CacheMissCause, CacheSource, ErrorInfo, FinishReason
from tests.gui.scripted_engine import metrics

# Of the platform without a screen, about any window of its own.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


def make_turn(**changes: Any) -> ReplyTurn:
    values: dict[str, Any] = {
        "model_name": "Small <b>x</b>",
        "state": ReplyState.DONE,
        "text": "x",
        "finish_reason": FinishReason.STOP,
        "metrics": metrics(
            seed=0,
            cache_source=CacheSource.SLOT,
            cache_miss_cause=CacheMissCause.EDITED,
            peak_memory_bytes=3 << 29,
            thinking_s=2.0,
            num_thinking_tokens=5,
        ),
        "created_at": 1_760_000_000.0,
        "settings": {
            "sampling": {"temperature": 0.5, "stop": ["a", "b"], "seed": "none", "no_such": 1},
            "system_prompt": "Be <i>kind</i>.",
            "chat_format": "file",
        },
        "model_fingerprint": "ab" * 32,
        "template_hash": "cd" * 32,
        "token_ids": (1, 2, 3),
    }
    return ReplyTurn(**(values | changes))


def open_card(theme: Theme, qtbot: QtBot, turn: ReplyTurn) -> DetailsCard:
    card = DetailsCard(theme, turn)
    qtbot.addWidget(card)
    card.show()
    return card


def test_card_shows_what_is_known(theme: Theme, qtbot: QtBot) -> None:
    card = open_card(theme, qtbot, make_turn())
    expected = {
        "Model": "Small <b>x</b>",
        "Ended": "by itself",
        "First token": "250 ms",
        "Prompt speed": "100 tok/s",
        "Writing speed": "20.0 tok/s",
        "Per token": "50 ms",
        "Thought": "2.0 s",
        "Prompt": "30 tokens",
        "Reused": "10 of 30, from the model's cache",
        "Read again": "because an earlier message changed",
        "Written": "11 tokens",
        "Peak memory": "1.5 GiB",
        "Temperature": "0.5",
        "Stop strings": "a, b",
        "All others": "as by default",
        "Seed": "0",
        "Chat format": "as in the file",
        "Model file": "abababababababab",
        "Template": "cdcdcdcdcdcdcdcd",
        "Token ids": "3 kept",
    }
    assert {name: card.value(name) for name in expected} == expected
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in card.findChildren(QLabel) if label.toolTip())
    assert card.value("Energy") == card.value("Drafts accepted") == ""


@pytest.mark.parametrize(
    ("changes", "ending"),
    [
        ({"finish_reason": FinishReason.ABORT}, "stopped by you"),
        ({"finish_reason": FinishReason.LENGTH}, "at the limit of its length"),
        ({"finish_reason": FinishReason.CONTEXT_FULL}, "because the context was full"),
        ({"stop_string": "\n"}, "at the stop string '\\n'"),
        ({"state": ReplyState.FAILED, "error": ErrorInfo("E", "Boom.", ""), "metrics": None}, "by an error: Boom."),
        ({"state": ReplyState.WRITING, "finish_reason": None, "metrics": None}, "not yet"),
    ],
    ids=["abort", "length", "context-full", "stop-string", "failed", "open"],
)
def test_card_says_how_a_reply_ended(theme: Theme, qtbot: QtBot, changes: dict, ending: str) -> None:
    assert open_card(theme, qtbot, make_turn(**changes)).value("Ended") == ending


def test_every_measure_says_what_it_means() -> None:
    facts = {fact.label: fact.help for group in fact_groups(make_turn()) for fact in group.facts}
    plain = {"Model", "When", "All others", "Stop strings"}
    assert {label for label, help_text in facts.items() if not help_text} == plain


def test_seed_of_the_reply_can_be_used_again(theme: Theme, qtbot: QtBot) -> None:
    card = open_card(theme, qtbot, make_turn())
    assert card.pin_button is not None
    with qtbot.waitSignal(card.seed_pinned) as signal:
        QTest.mouseClick(card.pin_button, Qt.MouseButton.LeftButton)
    assert signal.args == [0]
    assert open_card(theme, qtbot, make_turn(metrics=None)).pin_button is None


def test_largest_seed_is_told_whole(theme: Theme, qtbot: QtBot) -> None:
    card = open_card(theme, qtbot, make_turn(metrics=metrics(seed=2**32 - 2)))
    assert card.pin_button is not None
    with qtbot.waitSignal(card.seed_pinned) as signal:
        card.pin_button.click()
    assert signal.args == [2**32 - 2]


def test_copy_gives_everything_as_json(theme: Theme, qtbot: QtBot) -> None:
    card = open_card(theme, qtbot, make_turn())
    card.copy_button.click()
    copied = json.loads(QGuiApplication.clipboard().text())
    assert copied["metrics"]["decode_rate"] == 20.0
    assert copied["metrics"]["seed"] == 0
    assert copied["settings"]["sampling"]["stop"] == ["a", "b"]
    assert copied["finish_reason"] == "stop"
    assert copied["model_fingerprint"] == "ab" * 32
    assert copied["created_at"] == "2025-10-09T08:53:20+00:00"
    assert "text" not in copied


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"sampling": 5, "system_prompt": 7, "chat_format": []}},
        {"settings": {"sampling": {"temperature": "hot"}, "odd": object()}},
        {"settings": {}, "created_at": 1e300},
        {"created_at": float("nan")},
        {"model_name": "\u202eabc\n" * 500, "metrics": None, "token_ids": ()},
    ],
    ids=["wrong-types", "illegal", "far-future", "no-time", "long-name"],
)
def test_odd_stored_values_break_nothing(theme: Theme, qtbot: QtBot, changes: dict) -> None:
    card = open_card(theme, qtbot, make_turn(**changes))
    card.copy_button.click()
    assert json.loads(QGuiApplication.clipboard().text())["state"] == "done"
    assert len(card.value("Model")) < 200


def test_escape_closes_it(theme: Theme, qtbot: QtBot) -> None:
    card = open_card(theme, qtbot, make_turn())
    closed: list[object] = []
    card.destroyed.connect(lambda: closed.append(card))
    QTest.keyClick(card, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: bool(closed))
