"""Selecting across messages, and what is copied."""

from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, UserTurn
from engine import FinishReason

LEFT = Qt.MouseButton.LeftButton
QUESTION = "first line\n\tindented\u00a0and  blanks"
ANSWER = (
    "Some **bold** words.\n\n```py\ndef f():\n\treturn 'a\u00a0b'\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end."
)


def reply(text: str) -> ReplyTurn:
    return ReplyTurn(model_name="Small", text=text, state=ReplyState.DONE, finish_reason=FinishReason.STOP)


def short_chat() -> list[Turn]:
    return [UserTurn(QUESTION), reply(ANSWER), UserTurn("second question"), reply("Second answer.")]


def texts(view: Any) -> list[Any]:
    """Return the text widgets there are, top to bottom."""
    return [text for row in view.rows for _, text in row.texts()]


def point_in(text: Any, position: int) -> QPoint:
    cursor = text.textCursor()
    cursor.setPosition(position)
    return text.cursorRect(cursor).center()


def drag(begin: QWidget, start: QPoint, end: QWidget, goal: QPoint) -> None:
    """Press in one widget and release over another; as in life the first one gets all of it."""
    origin = begin.viewport()  # type: ignore[attr-defined]
    there = origin.mapFromGlobal(end.viewport().mapToGlobal(goal))  # type: ignore[attr-defined]
    QTest.mousePress(origin, LEFT, Qt.KeyboardModifier.NoModifier, start)
    QTest.mouseMove(origin, (start + there) / 2)
    QTest.mouseMove(origin, there)
    _move(origin, there)
    QTest.mouseRelease(origin, LEFT, Qt.KeyboardModifier.NoModifier, there)


def _move(widget: QWidget, point: QPoint) -> None:
    place = QPointF(point)
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        place,
        QPointF(widget.mapToGlobal(point)),
        Qt.MouseButton.NoButton,
        LEFT,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(widget, event)


def copied(widget: QWidget) -> str:
    QGuiApplication.clipboard().clear()
    QTest.keyClick(widget, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    return QGuiApplication.clipboard().text()


def test_selection_from_one_message_to_another_is_copied_as_it_was_written(desk: Any) -> None:
    desk.view.set_turns(short_chat())
    first, last = texts(desk.view)[0], texts(desk.view)[-1]
    drag(first, point_in(first, 6), last, point_in(last, 6))
    assert copied(first) == f"line\n\tindented\u00a0and  blanks\n\n{ANSWER}\n\nsecond question\n\nSecond"
    assert all(text.textCursor().hasSelection() for text in texts(desk.view))


def test_selection_upwards_is_the_same(desk: Any) -> None:
    desk.view.set_turns(short_chat())
    first, last = texts(desk.view)[0], texts(desk.view)[-1]
    drag(last, point_in(last, 6), first, point_in(first, 6))
    assert copied(last) == f"line\n\tindented\u00a0and  blanks\n\n{ANSWER}\n\nsecond question\n\nSecond"


def test_whole_code_in_a_selection_keeps_its_fence_and_a_part_of_it_is_text(desk: Any) -> None:
    desk.view.set_turns(short_chat())
    text, code, table = texts(desk.view)[1:4]
    drag(text, point_in(text, 5), table, point_in(table, 1))
    assert copied(text).startswith("bold words.\n\n```py\ndef f():\n\treturn 'a\u00a0b'\n```\n\n")
    drag(text, point_in(text, 5), code, point_in(code, 8))
    assert copied(text) == "bold words.\n\ndef f():"


def test_selection_inside_one_segment_is_qts_own(desk: Any) -> None:
    desk.view.set_turns(short_chat())
    text = texts(desk.view)[1]
    drag(text, point_in(text, 5), text, point_in(text, 9))
    assert not desk.view.selection.is_active
    assert text.textCursor().selectedText() == "bold"
    assert copied(text) == "bold"


def test_click_clears_the_selection(desk: Any) -> None:
    desk.view.set_turns(short_chat())
    first, last = texts(desk.view)[0], texts(desk.view)[-1]
    drag(first, point_in(first, 6), last, point_in(last, 6))
    QTest.mouseClick(last.viewport(), LEFT, Qt.KeyboardModifier.NoModifier, point_in(last, 2))
    assert not desk.view.selection.is_active
    assert not any(text.textCursor().hasSelection() for text in texts(desk.view))


def test_shift_click_extends_from_the_first_place(desk: Any) -> None:
    desk.view.set_turns(short_chat())
    first, last = texts(desk.view)[0], texts(desk.view)[-1]
    QTest.mouseClick(first.viewport(), LEFT, Qt.KeyboardModifier.NoModifier, point_in(first, 6))
    QTest.mouseClick(last.viewport(), LEFT, Qt.KeyboardModifier.ShiftModifier, point_in(last, 6))
    assert copied(first).endswith("second question\n\nSecond")


@pytest.mark.parametrize("focus", ["view", "text"])
def test_all_is_selected_and_copied_however_long_the_chat(desk: Any, focus: str) -> None:
    turns = [turn for number in range(60) for turn in (UserTurn(f"question {number}"), reply(ANSWER))]
    desk.view.set_turns(turns)
    widget = desk.view if focus == "view" else texts(desk.view)[-1]
    QTest.keyClick(widget, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert copied(widget) == "\n\n".join(turn.text for turn in turns)
    desk.view.go_to_start()
    QApplication.processEvents()
    assert all(text.textCursor().hasSelection() for text in texts(desk.view))


def test_selection_survives_scrolling_and_growing(desk: Any) -> None:
    open_reply = ReplyTurn(model_name="Small", text="Begun", state=ReplyState.WRITING)
    turns = [*short_chat(), *(turn for n in range(60) for turn in (UserTurn(f"question {n}"), reply(ANSWER)))]
    desk.view.set_turns([*turns, open_reply])
    desk.view.go_to_start()
    desk.qtbot.waitUntil(lambda: len(texts(desk.view)) > 6)
    first, last = texts(desk.view)[0], texts(desk.view)[6]
    drag(first, point_in(first, 6), last, point_in(last, 6))
    expected = copied(first)
    assert expected.endswith("Second")
    desk.view.follow()
    for _ in range(20):
        open_reply.text += " and more of it\n\n"
        desk.view.append_text(open_reply.turn_id, " and more of it\n\n")
        QApplication.processEvents()
    assert copied(desk.view) == expected
    desk.view.go_to_start()
    assert [text.textCursor().hasSelection() for text in texts(desk.view)][:7] == [True] * 7
    assert copied(desk.view) == expected
    desk.view.set_turns([])


def test_selecting_beyond_the_edge_scrolls(desk: Any) -> None:
    turns = [turn for number in range(40) for turn in (UserTurn(f"question {number}"), reply(ANSWER))]
    desk.view.set_turns(turns)
    bar, text = desk.view.verticalScrollBar(), texts(desk.view)[-1]
    area = text.viewport()
    QTest.mousePress(area, LEFT, Qt.KeyboardModifier.NoModifier, QPoint(3, 3))
    _move(area, area.mapFromGlobal(desk.view.viewport().mapToGlobal(QPoint(200, -80))))
    before = bar.value()
    desk.qtbot.waitUntil(lambda: bar.value() < before - 100)
    assert not desk.view.is_following
    QTest.mouseRelease(area, LEFT, Qt.KeyboardModifier.NoModifier, QPoint(3, 3))
    place = bar.value()
    QApplication.processEvents()
    assert bar.value() == place
    assert desk.view.selection.is_active


def test_menu_of_a_message_copies_the_selection(desk: Any) -> None:
    desk.view.set_turns(short_chat())
    first, last = texts(desk.view)[0], texts(desk.view)[-1]
    drag(first, point_in(first, 6), last, point_in(last, 6))
    row = desk.view.rows[0]
    menu = row.menu()
    action = next(action for action in menu.actions() if action.text() == "Copy selection")
    action.trigger()
    menu.deleteLater()
    assert QGuiApplication.clipboard().text().endswith("Second")
