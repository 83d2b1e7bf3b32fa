"""The conversation: following, staying, copying, and what one update costs."""

import itertools
import statistics
import time
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.desktop.rendering.blocks import BlockKind
from app.desktop.rendering.code_block import CodeBlock
from app.desktop.widgets.message_rows import UserRow
from app.desktop.widgets.reply_row import ReplyRow
from engine import FinishReason

LONG = "\n\n".join(f"Paragraph {n} of a reply that is longer than the window." for n in range(60))


def wheel(view: Any, steps: int) -> None:
    centre = QPointF(view.viewport().rect().center())
    event = QWheelEvent(
        centre,
        view.viewport().mapToGlobal(centre),
        QPoint(0, 0),
        QPoint(0, 120 * steps),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view.viewport(), event)


def joined(blocks: Any) -> list[tuple[BlockKind, str]]:
    """Return what is shown, whatever the borders between segments of text."""
    groups = itertools.groupby(blocks, key=lambda block: block.kind)
    return [
        (kind, "".join(block.html for block in group)) if kind is BlockKind.TEXT else (kind, str(list(group)))
        for kind, group in groups
    ]


def bar_of(desk: Any) -> Any:
    return desk.view.verticalScrollBar()


def test_new_text_is_followed(desk: Any) -> None:
    request_id = desk.say("go")
    for piece in LONG.split("\n\n"):
        desk.delta(request_id, piece + "\n\n")
        assert bar_of(desk).value() == bar_of(desk).maximum()
    assert bar_of(desk).maximum() > 500
    assert not desk.view.latest_button.isVisible()


def test_wheel_upwards_stops_following_at_once(desk: Any) -> None:
    request_id = desk.say("go")
    desk.delta(request_id, LONG)
    wheel(desk.view, 1)
    place = bar_of(desk).value()
    assert not desk.view.is_following
    assert desk.view.latest_button.isVisible()
    desk.delta(request_id, LONG)
    assert bar_of(desk).value() == place
    desk.finish(request_id, LONG + LONG)
    assert bar_of(desk).value() == place


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["text", "code", "table"])
def test_wheel_over_a_reply_moves_the_conversation(desk: Any, kind: int) -> None:
    desk.reply("go", "text\n\n```\ncode\n```\n\n| a |\n|---|\n| 1 |\n\n" + LONG)
    desk.view.go_to_start()
    browser = desk.view.rows[-1].body.segments[kind]
    area = getattr(browser, "text_widget", browser).viewport()
    desk.view.verticalScrollBar().setValue(10)
    QTest.wheelEvent(
        desk.window.windowHandle(), QPointF(area.mapTo(desk.window, area.rect().center())), QPoint(0, -120)
    )
    desk.qtbot.waitUntil(lambda: bar_of(desk).value() > 10)


@pytest.mark.parametrize("how", ["pill", "end key", "wheel", "send"])
def test_following_resumes(desk: Any, how: str) -> None:
    desk.reply("go", LONG)
    wheel(desk.view, 3)
    assert not desk.view.is_following
    if how == "pill":
        desk.view.latest_button.click()
    elif how == "end key":
        QTest.keyClick(desk.view, Qt.Key.Key_End)
    elif how == "wheel":
        wheel(desk.view, -50)
    else:
        desk.say("more")
    assert desk.view.is_following
    assert bar_of(desk).value() == bar_of(desk).maximum()
    assert not desk.view.latest_button.isVisible()


def test_page_keys_of_the_composer_scroll(desk: Any) -> None:
    desk.reply("go", LONG)
    place = bar_of(desk).value()
    QTest.keyClick(desk.composer.text_edit, Qt.Key.Key_PageUp)
    assert bar_of(desk).value() < place
    assert not desk.view.is_following


def test_what_is_at_the_top_stays_there_when_the_width_changes(desk: Any, qtbot: Any) -> None:
    for number in range(6):
        desk.reply(f"question {number}", "word " * 600)
    turns = desk.parts.conversation.turns
    desk.view.show_turn(turns[5].turn_id)
    body = desk.view.row(turns[5].turn_id).body
    before = body.mapTo(desk.view, QPoint(0, 0)).y()
    desk.window.resize(620, 700)
    qtbot.waitUntil(lambda: desk.view.width() < 700)
    QApplication.processEvents()
    assert body.mapTo(desk.view, QPoint(0, 0)).y() == before


def test_rows_never_overlap_and_keep_to_the_column(desk: Any) -> None:
    for number in range(3):
        desk.reply(f"question {number}", "text\n\n```\ncode\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    for width in (480, 900, 1440):
        desk.window.resize(width, 700)
        QApplication.processEvents()
        rows = desk.view.rows
        for above, below in itertools.pairwise(rows):
            assert above.geometry().bottom() < below.geometry().top()
        for row in rows:
            assert row.width() <= 760
            assert row.x() >= 0
            assert row.geometry().right() < desk.view.viewport().width()


def test_users_message_is_plain_text_exactly_as_typed(desk: Any) -> None:
    source = "line1\nline2\n    four blanks\n* star\n1. one\n\\<b\\>\n<img src=x>\na__b__c\nno\u00a0break\tand tab"
    desk.say(source)
    row = next(row for row in desk.view.rows if isinstance(row, UserRow))
    block, lines = row.text_widget.document().begin(), []
    while block.isValid():
        lines.append(block.text())
        block = block.next()
    assert "\n".join(lines) == source
    row.copy()
    assert QGuiApplication.clipboard().text() == source
    row.text_widget.selectAll()
    assert row.text_widget.createMimeDataFromSelection().text() == source


def test_very_long_message_is_folded_and_can_be_unfolded(desk: Any) -> None:
    source = "\n".join(f"line {n}" for n in range(2_000))
    desk.say(source)
    row = next(row for row in desk.view.rows if isinstance(row, UserRow))
    assert row.height() < 800
    assert "2,000 lines" in row._unfold.text()
    row._unfold.click()
    assert row.height() > 20_000
    assert row.text_widget.document().blockCount() == 2_000


def test_long_message_is_unfolded_where_it_stands(desk: Any) -> None:
    desk.reply("\n".join(f"line {n}" for n in range(2_000)), LONG)
    desk.view.go_to_start()
    row = next(row for row in desk.view.rows if isinstance(row, UserRow))
    place = row.mapTo(desk.view, QPoint(0, 0))
    row._unfold.click()
    assert row.mapTo(desk.view, QPoint(0, 0)) == place
    assert not desk.view.is_following


def test_copy_gives_the_exact_code(desk: Any) -> None:
    code = "def f():\n\treturn  'a\u00a0b'  # ünïcode 🙂\n\n\nend\\n"
    desk.reply("go", f"text\n\n```python\n{code}\n```\n\nafter")
    block = next(s for s in desk.view.rows[-1].body.segments if isinstance(s, CodeBlock))
    block.copy()
    assert QGuiApplication.clipboard().text() == code
    assert block._copy.text() == "Copied"
    assert block.text_widget.document().defaultTextOption().textDirection() == Qt.LayoutDirection.LeftToRight
    block._copied_timer.stop()


def test_copy_gives_the_exact_reply(desk: Any) -> None:
    text = "**bold** \\(x\\)\n\n```\ncode\n```\n"
    desk.reply("go", text)
    desk.parts.presenter.copy_last_reply()
    assert QGuiApplication.clipboard().text() == text
    desk.parts.presenter.copy_last_code()
    assert QGuiApplication.clipboard().text() == "code"
    row = desk.view.rows[-1]
    row._copied_timer.stop()
    row.body.code_blocks[-1]._copied_timer.stop()


def test_streamed_widgets_equal_those_of_the_whole_text(desk: Any) -> None:
    text = (
        "# Head\n\ntext **bold**\n\n```py\nx = 1\n```\n\n| a |\n|---|\n| 1 |\n\n- a\n- b\n\n"
        + "word " * 900
        + "\n\nend"
    )
    request_id = desk.say("go")
    for start in range(0, len(text), 7):
        desk.delta(request_id, text[start : start + 7])
    desk.finish(request_id, text)
    body = desk.view.rows[-1].body
    streamed = joined(body.shown)
    body.reread()
    body.realise(0, 1_000_000)
    assert joined(body.shown) == streamed
    assert [block.kind for block in body.shown][:4] == [BlockKind.TEXT, BlockKind.CODE, BlockKind.TABLE, BlockKind.TEXT]


def test_code_widget_stays_when_its_fence_closes(desk: Any) -> None:
    request_id = desk.say("go")
    desk.delta(request_id, "text\n\n```py\nx = 1\n")
    block = desk.view.rows[-1].body.code_blocks[0]
    desk.delta(request_id, "y = 2\n```\n\nafter\n\nmore")
    assert desk.view.rows[-1].body.code_blocks == [block]
    assert block.code == "x = 1\ny = 2"


def test_code_is_coloured_when_the_block_ends(desk: Any) -> None:
    desk.reply("go", "```python\nimport os\n```\n")
    block = desk.view.rows[-1].body.code_blocks[0]

    def formats() -> list[tuple[int, int]]:
        return [(f.start, f.length) for f in block.text_widget.document().firstBlock().layout().formats()]

    desk.qtbot.waitUntil(lambda: bool(formats()))  # the first code of a language is lexed beside this thread
    assert formats()[:1] == [(0, 6)]


def test_stopped_reply_is_marked_and_kept(desk: Any) -> None:
    request_id = desk.say("go")
    desk.delta(request_id, "half an ans")
    desk.finish(request_id, "half an ans", FinishReason.ABORT)
    row = desk.view.rows[-1]
    assert isinstance(row, ReplyRow)
    assert row.meta_text.startswith("Stopped · 11 tokens · 20.0 tok/s · first after 250 ms")
    assert row.body.shown[0].html == '<p dir="ltr">half an ans</p>'


def test_one_update_stays_cheap_at_eight_thousand_tokens(desk: Any) -> None:
    request_id = desk.say("go")
    paragraph = "A sentence with **bold** words and `code`, as long as most of them are in a reply. " * 4
    for _ in range(100):
        desk.delta(request_id, paragraph + "\n\n")
    updates, frames = [], []
    for _ in range(60):
        begin = time.thread_time()
        desk.delta(request_id, "ten more tokens of ordinary text in this one ")
        updates.append(time.thread_time() - begin)
        QApplication.processEvents()
        frames.append(time.thread_time() - begin)
    assert statistics.median(updates) < 0.005
    assert statistics.median(frames) < 0.015


def test_only_the_last_reply_shows_its_buttons_unasked(desk: Any) -> None:
    for number in range(3):
        desk.reply(f"question {number}", "answer")
    replies = [row for row in desk.view.rows if isinstance(row, ReplyRow)]
    assert [row.retry_button.isVisible() for row in replies] == [False, False, True]
    chat_id = desk.parts.conversation.chat.id
    desk.parts.actions.new_chat()
    desk.parts.chats.open(chat_id)
    replies = [row for row in desk.view.rows if isinstance(row, ReplyRow)]
    assert [row.retry_button.isVisible() for row in replies] == [False, False, True]


def test_conversation_can_be_restyled_and_zoomed(desk: Any, theme: Any) -> None:
    from app.settings import Theme as ThemeMode

    desk.reply("go", "text\n\n```py\nx\n```\n\n| a |\n|---|\n| 1 |\n")
    before = [row.height() for row in desk.view.rows]
    desk.parts.settings.set("theme", ThemeMode.DARK)
    assert desk.saved[-1] == ("theme", ThemeMode.DARK)
    assert [row.height() for row in desk.view.rows] == before
    theme.zoom_in()
    theme.zoom_in()
    assert all(now > then for now, then in zip((r.height() for r in desk.view.rows), before, strict=True))
