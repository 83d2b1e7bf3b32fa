"""Long conversations: few widgets, nothing jumps, what streams equals what is read, and what it all costs."""

import itertools
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtWidgets import QApplication, QWidget

from app.desktop.rendering.blocks import Block, BlockKind
from app.desktop.rendering.renderer import Renderer
from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, UserTurn
from app.desktop.widgets.reply_contents import MAX_SEGMENT_CHARS
from app.desktop.widgets.source_cuts import cut_ends
from app.settings import FollowMode
from engine import FinishReason

PARAGRAPH = "A sentence with **bold** words and `code`, as long as most of them are in a reply. " * 3
CODE = "```python\n" + "\n\n".join(f"def f{n}(x):\n    return x * {n}" for n in range(20)) + "\n```"
TABLE = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | word |" for n in range(6))
LIST = "\n".join(f"{n}. An item of a list\n   ```\n   code in it\n   ```" for n in range(1, 6))
FORMULA = "$$\nx\n\ny\n$$"
BLOCKS = (
    PARAGRAPH,
    CODE,
    TABLE,
    LIST,
    "## Heading",
    "> quoted\n>\n> twice",
    FORMULA,
    "~~~\nText\n\nText",
    "- a\n\n  b\n\n  c",
)


def mixed(seed: int, size: int) -> str:
    rnd = random.Random(seed)
    blocks: list[str] = []
    while sum(map(len, blocks)) < size:
        block = rnd.choice(BLOCKS[:7] if rnd.random() < 0.95 else BLOCKS)
        blocks.append(f"Number {len(blocks)}. {block}" if block is PARAGRAPH else block)
    return "\n\n".join(blocks)


def reply(text: str, **changes: Any) -> ReplyTurn:
    values = {"state": ReplyState.DONE, "finish_reason": FinishReason.STOP} | changes
    return ReplyTurn(model_name="Small", text=text, **values)


def chat(num_messages: int, size: int = 300) -> list[Turn]:
    pairs = ((UserTurn(f"question {n}"), reply(f"Answer {n}.\n\n" + mixed(n, size))) for n in range(num_messages // 2))
    return list(itertools.chain.from_iterable(pairs))


def settle(view: Any) -> None:
    """Let the view make what is near, and what was let go be deleted."""
    while view._idle.isActive():
        QApplication.processEvents()
    QApplication.processEvents()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


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


def visible_segments(view: Any) -> dict[QWidget, int]:
    """Return where the segments in view are on the screen."""
    places = {}
    for row in view.rows:
        if hasattr(row, "body"):
            for segment in row.body.segments:
                y = segment.mapTo(view.viewport(), QPoint(0, 0)).y()
                if y + segment.height() > 0 and y < view.viewport().height():
                    places[segment] = y
    return places


def joined(blocks: Sequence[Block]) -> list[tuple[BlockKind, str]]:
    """Return what is shown, whatever the borders between segments of text."""
    shown: list[tuple[BlockKind, str]] = []
    for kind, group in itertools.groupby(blocks, key=lambda block: block.kind):
        if kind is BlockKind.TEXT:
            shown.append((kind, "".join(block.html for block in group)))
        else:
            shown += [(kind, f"{block.language}:{block.code}{block.html}") for block in group]
    return shown


def whole(text: str) -> list[tuple[BlockKind, str]]:
    return joined(Renderer().blocks(text))


@pytest.mark.parametrize("seed", range(12))
def test_parts_of_a_cut_reply_give_the_blocks_of_the_whole(seed: int) -> None:
    text, parser = mixed(seed, 12_000), Renderer()
    begin, blocks = 0, []
    for end in cut_ends(text, 0, len(text), parser):
        blocks += parser.blocks(text[begin:end])
        begin = end
    assert begin == len(text)
    assert joined(blocks) == whole(text)


@pytest.mark.parametrize("seed", range(10))
def test_reply_streamed_in_random_pieces_equals_the_whole(desk: Any, seed: int) -> None:
    rnd, text = random.Random(seed), mixed(100 + seed, 7_000)
    turn = reply("", state=ReplyState.WRITING, finish_reason=None)
    desk.view.set_turns([UserTurn("go"), *chat(4, 2_000), UserTurn("go")])
    desk.view.add_turn(turn)
    position = 0
    while position < len(text):
        piece = text[position : position + rnd.randint(1, 160)]
        position += len(piece)
        turn.text += piece
        desk.view.append_text(turn.turn_id, piece)
        if rnd.random() < 0.04:  # it grows out of sight for a while
            rnd.choice((desk.view.go_to_start, desk.view.follow))()
    turn.state, turn.finish_reason = ReplyState.DONE, FinishReason.STOP
    desk.view.refresh(turn.turn_id)
    desk.view.show_turn(turn.turn_id)
    body = desk.view.reply_row(turn.turn_id).body
    body.realise(0, 10_000_000)
    assert joined(body.shown) == whole(text)
    assert len(body.segments) == len(body.contents.parts)
    assert all(above.geometry().bottom() < below.y() for above, below in itertools.pairwise(body.segments))
    settle(desk.view)


@pytest.mark.parametrize("size", [20, 4_000], ids=["short", "long"])
def test_continued_reply_equals_the_whole(desk: Any, size: int) -> None:
    text = mixed(3, size)
    turn = reply(text + "\n\n1. one", finish_reason=FinishReason.LENGTH)
    desk.view.set_turns([UserTurn("go"), turn])
    turn.state, turn.finish_reason = ReplyState.WRITING, None
    for piece in ("\n", "\n2", ". two\n\nThe ", "end."):
        turn.text += piece
        desk.view.append_text(turn.turn_id, piece)
    turn.state, turn.finish_reason = ReplyState.DONE, FinishReason.STOP
    desk.view.refresh(turn.turn_id)
    body = desk.view.reply_row(turn.turn_id).body
    body.realise(0, 10_000_000)
    assert joined(body.shown) == whole(turn.text)


@pytest.mark.parametrize("letters", ["x", "word "], ids=["no blank", "blanks"])
def test_endless_line_neither_stops_the_window_nor_is_lost(desk: Any, letters: str) -> None:
    text = "Look:\n\n" + letters * (60_000 // len(letters))
    turn = reply("", state=ReplyState.WRITING, finish_reason=None)
    desk.view.set_turns([UserTurn("go"), turn])
    updates = []
    for start in range(0, len(text), 500):
        turn.text += text[start : start + 500]
        piece = text[start : start + 500]
        updates.append(timed(lambda piece=piece: desk.view.append_text(turn.turn_id, piece)))  # type: ignore[misc]
    turn.state, turn.finish_reason = ReplyState.DONE, FinishReason.STOP
    desk.view.refresh(turn.turn_id)
    assert statistics.median(updates) < 0.04
    assert max(len(segment.toPlainText()) for segment in desk.view.rows[-1].body.segments) < 13_000
    assert desk.view.copy_turn(turn.turn_id)
    assert QGuiApplication.clipboard().text() == text


def test_code_that_was_unfolded_keeps_its_place_and_stays_unfolded(desk: Any) -> None:
    code = "```\n" + "\n".join(f"line {n}" for n in range(90)) + "\n```"
    desk.view.set_turns([*chat(30, 1_500), reply(code)])
    settle(desk.view)
    block = desk.view.rows[-1].body.code_blocks[0]
    place = block.mapTo(desk.view.viewport(), QPoint(0, 0))
    height = block.height()
    block.foot_button.click()
    assert block.height() > height + 300
    assert block.mapTo(desk.view.viewport(), QPoint(0, 0)) == place
    desk.view.go_to_start()
    settle(desk.view)
    desk.view.follow()
    settle(desk.view)
    again = desk.view.rows[-1].body.code_blocks[0]
    assert again is not block
    assert not again.is_folded


def test_target_that_is_defined_at_the_end_counts_from_the_beginning(desk: Any) -> None:
    text = "See [this][a].\n\n" + mixed(1, 5_000) + "\n\nText.\n\n[a]: https://example.org/"
    desk.view.set_turns([reply(text)])
    desk.view.go_to_start()
    assert "https://example.org/" in desk.view.rows[0].body.shown[0].html


def test_scrolling_through_a_long_chat_and_back_leaves_few_widgets(desk: Any) -> None:
    desk.view.set_turns(chat(2_000))
    settle(desk.view)
    column = desk.view.widget()
    before = len(column.findChildren(QWidget))
    bar = desk.view.verticalScrollBar()
    most = 0
    for position in [*range(0, bar.maximum(), bar.maximum() // 60), bar.maximum()]:
        desk.view._is_following = False
        bar.setValue(position)
        settle(desk.view)
        most = max(most, len(column.findChildren(QWidget)))
    desk.view.follow()
    settle(desk.view)
    assert len(desk.view.rows) < 25
    assert most < 900
    assert len(column.findChildren(QWidget)) < before * 1.5


def test_long_reply_has_widgets_only_near_the_view(desk: Any) -> None:
    desk.view.set_turns([reply(mixed(7, 60_000))])
    settle(desk.view)
    body = desk.view.rows[0].body
    assert len(body.segments) < 40
    assert len(body.contents.parts) > 2 * len(body.segments)
    assert max(len(part.block.html) for part in body.contents.parts if part.block) < 4 * MAX_SEGMENT_CHARS


@pytest.mark.parametrize("steps", [1, -1], ids=["up", "down"])
def test_nothing_jumps_while_scrolling_over_what_was_never_seen(desk: Any, steps: int) -> None:
    turns = chat(60, 2_500)
    for turn in turns:
        turn.text = turn.text.replace(FORMULA, PARAGRAPH)  # a drawing moves what is below it whenever it is ready
    desk.view.set_turns(turns)
    if steps < 0:
        desk.view.go_to_start()
    for _ in range(150):
        before = visible_segments(desk.view)
        wheel(desk.view, steps)
        QApplication.processEvents()
        moves = {visible_segments(desk.view).get(segment, y) - y for segment, y in before.items()}
        moves.discard(0)
        assert len(moves) <= 1
        assert moves <= set(range(-130, 131))


def test_first_segment_in_view_stays_when_the_text_above_turns_out_higher(desk: Any) -> None:
    desk.view.set_turns(chat(60, 2_500))
    bar = desk.view.verticalScrollBar()
    desk.view._is_following = False
    bar.setValue(bar.maximum() // 2)
    before = visible_segments(desk.view)
    settle(desk.view)
    after = visible_segments(desk.view)
    assert before
    assert all(after[segment] == y for segment, y in before.items())


def test_end_is_the_end_of_the_last_reply_however_wrong_the_estimates_were(desk: Any) -> None:
    desk.view.set_turns([UserTurn("go"), reply("| a |\n|---|\n" + "| 1 |\n" * 60 + "\n" + mixed(2, 9_000))])
    settle(desk.view)
    row, bar = desk.view.rows[-1], desk.view.verticalScrollBar()
    assert bar.value() == bar.maximum()
    bottom = row.mapTo(desk.view.viewport(), QPoint(0, row.height())).y()
    assert 0 < desk.view.viewport().height() - bottom < 40


def test_reply_that_streams_out_of_sight_is_not_parsed(desk: Any) -> None:
    turn = reply("", state=ReplyState.WRITING, finish_reason=None)
    desk.view.set_turns([*chat(30, 2_000), turn])
    desk.view.go_to_start()
    settle(desk.view)
    height = desk.view.widget().height()
    for _ in range(50):
        turn.text += PARAGRAPH + "\n\n"
        desk.view.append_text(turn.turn_id, PARAGRAPH + "\n\n")
    assert desk.view.reply_row(turn.turn_id) is None
    assert desk.view.verticalScrollBar().value() == 0
    assert desk.view.widget().height() > height + 1_000


def test_view_that_is_not_shown_makes_nothing_until_it_is(desk: Any) -> None:
    desk.view.hide()
    desk.view.set_turns(chat(40))
    assert len(desk.view.rows) == 0
    desk.view.show()
    settle(desk.view)
    assert desk.view.rows
    assert desk.view.verticalScrollBar().value() == desk.view.verticalScrollBar().maximum()


def test_place_is_told_and_returned_to(desk: Any) -> None:
    turns = chat(80, 1_000)
    desk.view.set_turns(turns)
    assert desk.view.place() is None
    desk.view.show_turn(turns[31].turn_id)
    settle(desk.view)
    wheel(desk.view, -1)
    settle(desk.view)
    place = desk.view.place()
    assert place is not None
    desk.view.set_turns(chat(4))
    desk.view.set_turns(turns, place=place)
    settle(desk.view)
    assert desk.view.place() == place
    assert not desk.view.is_following


def test_change_of_the_tail_keeps_rows_and_place(desk: Any) -> None:
    turns = chat(20, 600)
    desk.view.set_turns(turns)
    desk.view.show_turn(turns[-4].turn_id)
    settle(desk.view)
    row, place = desk.view.row(turns[-4].turn_id), desk.view.place()
    desk.view.set_turns([*turns[:-1], reply("Another answer.\n\n" + mixed(5, 3_000))])
    settle(desk.view)
    assert desk.view.row(turns[-4].turn_id) is row
    assert desk.view.place() == place


@pytest.mark.parametrize(
    ("mode", "is_at_end", "is_at_top"),
    [(FollowMode.END, True, False), (FollowMode.START, False, True), (FollowMode.OFF, False, False)],
    ids=["end", "start", "off"],
)
def test_view_follows_as_it_is_told(desk: Any, mode: FollowMode, is_at_end: bool, is_at_top: bool) -> None:
    desk.view.follow_mode = mode
    desk.view.set_turns(chat(10))
    desk.view.add_turn(UserTurn("go"))
    turn = reply("", state=ReplyState.WRITING, finish_reason=None)
    desk.view.add_turn(turn)
    for _ in range(40):
        turn.text += PARAGRAPH + "\n\n"
        desk.view.append_text(turn.turn_id, PARAGRAPH + "\n\n")
    bar, row = desk.view.verticalScrollBar(), desk.view.row(turn.turn_id)
    assert (bar.value() == bar.maximum()) is is_at_end
    assert (row is not None and abs(row.y() - bar.value()) < 20) is is_at_top
    assert desk.view.latest_button.isVisible() is not is_at_end
    desk.view.latest_button.click()
    assert bar.value() == bar.maximum()
    settle(desk.view)


@pytest.mark.parametrize("width", [480, 800, 900, 1600])
def test_pill_covers_no_text(desk: Any, width: int) -> None:
    desk.window.resize(width, 700)
    desk.view.set_turns(chat(20, 1_000))
    wheel(desk.view, 5)
    QApplication.processEvents()
    pill = desk.view.latest_button
    assert pill.isVisible()
    viewport = desk.view.viewport().geometry()
    for row in desk.view.rows:
        area = row.rect().translated(row.mapTo(desk.view, QPoint(0, 0))).intersected(viewport)
        assert not area.intersects(pill.geometry())
    assert desk.view.rect().contains(pill.geometry())


def step(view: Any) -> None:
    wheel(view, 1)
    QApplication.processEvents()


def timed(call: Callable[[], object]) -> float:
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def test_large_chat_opens_scrolls_and_grows_within_its_time(desk: Any) -> None:
    turns = chat(400, 2_800)
    assert sum(len(turn.text) for turn in turns) > 550_000
    assert timed(lambda: (desk.view.set_turns(turns), QApplication.processEvents())) < 0.3
    steps = [timed(lambda: step(desk.view)) for _ in range(200)]
    assert statistics.median(steps) < 0.016
    assert sorted(steps)[197] < 0.08
    bar = desk.view.verticalScrollBar()
    jumps = [timed(lambda n=n: bar.setValue(bar.maximum() * n // 20)) for n in range(20)]  # type: ignore[misc]
    assert statistics.median(jumps) < 0.08
    widths = [timed(lambda n=n: desk.view.resize(900 - n * 9, 600)) for n in range(20)]  # type: ignore[misc]
    assert statistics.median(widths) < 0.05
    assert timed(lambda: desk.view.add_turn(UserTurn("next"))) < 0.05
    settle(desk.view)


def test_update_at_eight_thousand_tokens_keeps_within_its_time(desk: Any) -> None:
    turn = reply("", state=ReplyState.WRITING, finish_reason=None)
    desk.view.set_turns([*chat(40), UserTurn("go"), turn])
    for piece in mixed(9, 32_000).split("\n\n"):
        turn.text += piece + "\n\n"
        desk.view.append_text(turn.turn_id, piece + "\n\n")
    updates = []
    for _ in range(80):
        turn.text += "ten more tokens of ordinary text in this one "
        updates.append(
            timed(lambda: desk.view.append_text(turn.turn_id, "ten more tokens of ordinary text in this one "))
        )
    assert statistics.median(updates) < 0.01
    settle(desk.view)
