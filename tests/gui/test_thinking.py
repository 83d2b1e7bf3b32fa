"""What a model thinks before its answer: folded away, readable, kept, and cheap while it grows."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.desktop.widgets.thinking_fold import cut_ranges
from app.settings import Theme as ThemeMode
from engine import FinishReason, Generate
from tests.gui.scripted_engine import Desk

THINKING = "First I look.\n\n\tThen *I* count <b>3</b> & more."


def fold_of(desk: Desk) -> Any:
    return desk.view.rows[-1].fold  # type: ignore[attr-defined]


def text_of(fold: Any) -> str:
    return "\n".join(widget.document().toPlainText() for widget in fold.text_widgets)


def answer_of(desk: Desk) -> str:
    return "".join(block.html for block in desk.view.rows[-1].body.shown)  # type: ignore[attr-defined]


def think_and_answer(desk: Desk, question: str = "go") -> str:
    request_id = desk.say(question)
    desk.think(request_id, THINKING)
    desk.delta(request_id, "The answer.")
    desk.finish(request_id, "The answer.", thinking=THINKING, thinking_s=3.21, num_thinking_tokens=9)
    return request_id


def test_thinking_is_told_with_its_seconds_while_it_lasts_and_after(desk: Desk) -> None:
    request_id = desk.say("go")
    for _ in range(25):
        desk.think(request_id, "so ")
    fold, row = fold_of(desk), desk.view.rows[-1]
    assert fold.isVisible()
    assert fold.head.text() == "Thinking … 1 s"
    assert row.meta_text == ""  # type: ignore[attr-defined]
    assert answer_of(desk) == ""
    desk.delta(request_id, "The ")
    assert fold.head.text() == "Thought for 1.2 s"
    assert row.meta_text == "Writing …"  # type: ignore[attr-defined]
    desk.finish(request_id, "The answer.", thinking="so " * 25, thinking_s=3.21)
    assert fold.head.text() == "Thought for 3.2 s"
    assert not fold.is_open


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (59.96, "1 min 0 s"), (75.4, "1 min 15 s")],
    ids=["short", "nearly a minute", "long"],
)
def test_time_of_thinking_is_written_for_people(desk: Desk, seconds: float, words: str) -> None:
    request_id = desk.say("go")
    desk.think(request_id, "so")
    desk.delta(request_id, "x")
    desk.finish(request_id, "x", thinking="so", thinking_s=seconds)
    assert fold_of(desk).head.text() == f"Thought for {words}"


def test_reply_without_thinking_has_no_fold(desk: Desk) -> None:
    desk.reply("go", "answer")
    assert not fold_of(desk).isVisible()


def test_fold_is_closed_until_the_user_opens_it_and_shows_plain_text(desk: Desk) -> None:
    think_and_answer(desk)
    fold, row = fold_of(desk), desk.view.rows[-1]
    assert fold.text_widgets == []
    before = row.height()
    QTest.mouseClick(fold.head, Qt.MouseButton.LeftButton)
    assert text_of(fold) == THINKING
    assert row.height() > before + 40
    assert fold.geometry().bottom() < row.body.y()  # type: ignore[attr-defined]
    fold.text_widgets[0].selectAll()
    assert fold.text_widgets[0].createMimeDataFromSelection().text() == THINKING
    QTest.mouseClick(fold.head, Qt.MouseButton.LeftButton)
    assert row.height() == before


@pytest.mark.parametrize("key", ["space on the line", "shortcut"])
def test_fold_is_opened_with_the_keyboard(desk: Desk, key: str) -> None:
    think_and_answer(desk)
    fold = fold_of(desk)
    if key == "shortcut":
        QTest.keyClick(desk.window, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    else:
        for _ in range(60):
            focused = QApplication.focusWidget()
            if focused is None or focused is fold.head:
                break
            QTest.keyClick(focused, Qt.Key.Key_Tab)
        assert fold.head.hasFocus()
        QTest.keyClick(fold.head, Qt.Key.Key_Space)
    assert fold.is_open


def test_opening_at_the_end_of_the_chat_leaves_the_line_where_it_was(desk: Desk) -> None:
    request_id = desk.say("go")
    desk.think(request_id, "a thought\n" * 100)
    desk.delta(request_id, "word " * 800)
    desk.finish(request_id, "word " * 800, thinking="a thought\n" * 100, thinking_s=1.0)
    fold, bar = fold_of(desk), desk.view.verticalScrollBar()
    bar.setValue(bar.maximum())
    place = fold.head.mapTo(desk.window, fold.head.rect().topLeft())
    fold.head.toggle()
    assert fold.head.mapTo(desk.window, fold.head.rect().topLeft()) == place
    assert not desk.view.is_following
    fold.head.toggle()
    assert fold.head.mapTo(desk.window, fold.head.rect().topLeft()) == place
    assert desk.view.is_following


def test_open_fold_follows_the_thinking(desk: Desk) -> None:
    request_id = desk.say("go")
    desk.think(request_id, "one\n")
    fold = fold_of(desk)
    fold.head.toggle()
    for number in range(400):
        desk.think(request_id, f"line {number}\n")
    bar = desk.view.verticalScrollBar()
    assert bar.maximum() > 500
    assert bar.value() == bar.maximum()
    assert 1 < len(fold.text_widgets) < len(fold.parts)
    fold.realise(0, 1_000_000)
    assert text_of(fold) == "one\n" + "".join(f"line {number}\n" for number in range(400))


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_one_update_stays_cheap_at_the_end_of_long_thinking(desk: Desk, is_open: bool) -> None:
    request_id = desk.say("go")
    desk.think(request_id, "start ")
    if is_open:
        fold_of(desk).head.toggle()
    for _ in range(100):
        desk.think(request_id, "a paragraph of thinking without any line break " * 9)
    updates = []
    for _ in range(40):
        begin = time.thread_time()
        desk.think(request_id, "ten more tokens of thinking, as they come in ")
        updates.append(time.thread_time() - begin)
    assert statistics.median(updates) < 0.01


def test_pieces_of_a_long_text_are_bounded_and_lose_nothing() -> None:
    text = "\n\n".join(("word " * 60, "x" * 5_000, "line\n" * 900))
    pieces = [text[begin:end] for begin, end in cut_ranges(text)]
    assert max(map(len, pieces)) <= 1_600
    assert "".join(pieces).replace("\n", "") == text.replace("\n", "")
    assert cut_ranges("") == [(0, 0)]


def test_copy_gives_the_answer_alone(desk: Desk) -> None:
    think_and_answer(desk)
    desk.parts.presenter.copy_last_reply()
    assert QGuiApplication.clipboard().text() == "The answer."
    desk.view.rows[-1]._copied_timer.stop()  # type: ignore[attr-defined]


def test_thinking_goes_along_with_the_next_message(desk: Desk) -> None:
    think_and_answer(desk, "one")
    desk.say("two")
    messages = desk.client.last(Generate).messages
    assert [(m.content, m.thinking) for m in messages] == [("one", ""), ("The answer.", THINKING), ("two", "")]


def test_answer_that_turns_out_to_be_thinking_moves_into_the_fold(desk: Desk) -> None:
    request_id = desk.say("go")
    desk.delta(request_id, "Let me **see")
    assert not fold_of(desk).isVisible()
    desk.delta(request_id, "It is 4.", thinking=" now**.", was_thinking=True)
    assert fold_of(desk).isVisible()
    assert answer_of(desk) == '<p dir="ltr">It is 4.</p>'
    desk.finish(request_id, "It is 4.", thinking="Let me **see now**.", thinking_s=1.0)
    assert desk.parts.conversation.last_reply.text == "It is 4."  # type: ignore[union-attr]
    fold_of(desk).head.toggle()
    assert text_of(fold_of(desk)) == "Let me **see now**."


@pytest.mark.parametrize("reason", [FinishReason.ABORT, FinishReason.LENGTH, FinishReason.STOP])
def test_fold_is_open_when_the_reply_ends_without_an_answer(desk: Desk, reason: FinishReason) -> None:
    request_id = desk.say("go")
    desk.think(request_id, THINKING)
    desk.finish(request_id, "", reason, thinking=THINKING, thinking_s=2.0)
    assert fold_of(desk).is_open
    assert text_of(fold_of(desk)) == THINKING
    if reason is FinishReason.STOP:
        assert desk.view.rows[-1].meta_text.startswith("Ended after thinking")  # type: ignore[attr-defined]
    fold_of(desk).head.toggle()
    desk.reply("next", "fine")
    assert not desk.view.rows[1].fold.is_open  # type: ignore[attr-defined]


def test_thinking_is_there_when_a_chat_is_brought_back(desk: Desk) -> None:
    think_and_answer(desk)
    chat_id = desk.parts.conversation.chat.id
    desk.parts.actions.new_chat()
    desk.parts.chats.open(chat_id)
    fold = fold_of(desk)
    assert fold.head.text() == "Thought for 3.2 s"
    fold.head.toggle()
    assert text_of(fold) == THINKING


def test_asking_again_keeps_the_thinking_of_the_earlier_reply(desk: Desk) -> None:
    think_and_answer(desk)
    fold_of(desk).head.toggle()
    desk.parts.conversation.retry()
    request_id = desk.client.last(Generate).request_id
    desk.think(request_id, "Anew.")
    assert not fold_of(desk).is_open
    assert answer_of(desk) == ""
    desk.delta(request_id, "Other.")
    desk.finish(request_id, "Other.", thinking="Anew.", thinking_s=0.5)
    fold_of(desk).head.toggle()
    assert text_of(fold_of(desk)) == "Anew."
    assert answer_of(desk) == '<p dir="ltr">Other.</p>'
    desk.view.step_variant(-1)
    fold_of(desk).head.toggle()
    assert text_of(fold_of(desk)) == THINKING


def test_inspector_says_that_the_model_thinks(desk: Desk) -> None:
    request_id = desk.say("go")
    desk.think(request_id, "hm")
    assert desk.parts.readouts._phase.text() == "thinking"
    desk.delta(request_id, "x")
    assert desk.parts.readouts._phase.text() == "writing"


def test_open_fold_is_restyled_and_fits_every_width(desk: Desk, theme: Any, qtbot: Any) -> None:
    think_and_answer(desk)
    fold, row = fold_of(desk), desk.view.rows[-1]
    fold.head.toggle()
    before = row.height()
    desk.parts.settings.set("theme", ThemeMode.DARK)
    assert fold.text_widgets[0].palette().text().color() == theme.colour("muted")
    assert row.height() == before
    theme.zoom_in()
    assert row.height() > before
    desk.window.resize(420, 700)
    qtbot.waitUntil(lambda: row.width() < 420)
    assert fold.width() == row.width()
    assert all(widget.geometry().right() < fold.width() for widget in fold.text_widgets)


def test_closed_fold_has_no_text_widgets_however_long_the_thinking(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    desk.load()
    request_id = desk.say("go")
    for _ in range(50):
        desk.think(request_id, "word " * 100)
    assert fold_of(desk).text_widgets == []
