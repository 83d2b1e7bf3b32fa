"""What can be done with one message: buttons, menu, versions, editing in place, and all of it with the keyboard."""

import math
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, TurnAction, UserTurn
from app.desktop.widgets.message_rows import time_text
from engine import FinishReason

LONG = "\n\n".join(f"Paragraph {n} of a reply that is longer than the window." for n in range(60))


def reply(text: str, **changes: Any) -> ReplyTurn:
    values: dict[str, Any] = {
        "state": ReplyState.DONE,
        "finish_reason": FinishReason.STOP,
        "model_name": "Small",
    } | changes
    return ReplyTurn(text=text, **values)


def shown(desk: Any, *turns: Turn) -> tuple[list[tuple[TurnAction, str]], list[tuple[str, str]]]:
    """Show turns, and return where what is asked for is noted."""
    actions: list[tuple[TurnAction, str]] = []
    edits: list[tuple[str, str]] = []
    view = desk.view
    view.action_requested.disconnect()
    view.action_requested.connect(lambda action, turn_id: actions.append((action, turn_id)))
    view.edit_submitted.connect(lambda turn_id, text: edits.append((turn_id, text)))
    view.set_turns(turns)
    return actions, edits


def focused() -> QWidget:
    widget = QApplication.focusWidget()
    assert widget is not None
    return widget


def hover(row: Any) -> None:
    row._set_hovered(True)


def choose(row: Any, label: str) -> None:
    menu = row.menu()
    next(action for action in menu.actions() if action.text().partition("\t")[0] == label).trigger()
    menu.deleteLater()


def labels(row: Any) -> list[str]:
    menu = row.menu()
    found = [action.text().partition("\t")[0] for action in menu.actions() if action.text()]
    menu.deleteLater()
    return found


def test_buttons_come_with_the_pointer_and_nothing_moves(desk: Any) -> None:
    shown(desk, UserTurn("one"), reply("first"), UserTurn("two"), reply("second"))
    for row in desk.view.rows[:2]:
        before = [other.geometry() for other in desk.view.rows]
        hover(row)
        assert row.actions_bar.copy.isVisible()
        assert row.actions_bar.more.isVisible()
        assert row.rect().contains(row.actions_bar.geometry())
        assert [other.geometry() for other in desk.view.rows] == before
        row._set_hovered(False)
        assert not row.actions_bar.copy.isVisible()


def test_menus_offer_what_can_be_done(desk: Any) -> None:
    shown(
        desk,
        UserTurn("one"),
        reply("first", thinking="hm"),
        UserTurn("two"),
        reply("x", finish_reason=FinishReason.ABORT),
    )
    user, answer, _, last = desk.view.rows
    assert labels(user) == ["Copy message", "Edit", "Branch from here", "Delete", "Select all"]
    rest = ["Ask again", "Edit", "Branch from here", "Details", "Delete", "Select all"]
    assert labels(answer) == ["Copy reply", "Copy thinking", *rest]
    assert labels(last) == ["Copy reply", "Continue", *rest]


@pytest.mark.parametrize(
    ("label", "action"),
    [
        ("Ask again", TurnAction.RETRY),
        ("Branch from here", TurnAction.BRANCH),
        ("Details", TurnAction.DETAILS),
        ("Delete", TurnAction.DELETE),
        ("Previous version", TurnAction.PREVIOUS_VARIANT),
        ("Next version", TurnAction.NEXT_VARIANT),
    ],
    ids=lambda value: str(value),
)
def test_menu_of_an_earlier_reply_asks_for_what_it_says(desk: Any, label: str, action: TurnAction) -> None:
    turn = reply("first", variant=1, num_variants=3)
    actions, _ = shown(desk, UserTurn("one"), turn, UserTurn("two"), reply("second"))
    choose(desk.view.rows[1], label)
    assert actions == [(action, turn.turn_id)]


def test_open_reply_offers_only_its_text(desk: Any) -> None:
    shown(desk, UserTurn("one"), reply("begun", state=ReplyState.WRITING, finish_reason=None))
    row = desk.view.rows[1]
    assert labels(row) == ["Copy reply", "Select all"]
    assert not row.retry_button.isVisible()


def test_versions_are_counted_named_and_gone_through(desk: Any) -> None:
    turn = reply("first", variant=1, num_variants=3)
    actions, _ = shown(desk, UserTurn("one", variant=1, num_variants=2), turn, UserTurn("two"))
    bar = desk.view.rows[1].actions_bar
    assert bar.number.text() == "2 / 3"
    assert bar.number.accessibleName() == "Version 2 of 3"
    assert (bar.previous.accessibleName(), bar.next.accessibleName()) == ("Previous version", "Next version")
    QTest.mouseClick(bar.previous, Qt.MouseButton.LeftButton)
    QTest.mouseClick(bar.next, Qt.MouseButton.LeftButton)
    assert actions == [(TurnAction.PREVIOUS_VARIANT, turn.turn_id), (TurnAction.NEXT_VARIANT, turn.turn_id)]
    user = desk.view.rows[0].actions_bar
    assert user.number.text() == "2 / 2"
    assert not user.next.isEnabled()


@pytest.mark.parametrize("how", ["button", "key"])
@pytest.mark.parametrize("number", [0, 1], ids=["message", "reply"])
def test_message_is_edited_where_it_stands(desk: Any, number: int, how: str) -> None:
    turns: list[Turn] = [UserTurn("one\u00a0two"), reply("**first**")]
    _, edits = shown(desk, *turns)
    row = desk.view.rows[number]
    hover(row)
    QTest.mouseClick(row.actions_bar.edit, Qt.MouseButton.LeftButton)
    editor = row.editor
    assert editor.text_edit.hasFocus()
    assert editor.submit_button.text() == ("Send", "Save")[number]
    QTest.keyClicks(editor.text_edit, " more")
    if how == "button":
        QTest.mouseClick(editor.submit_button, Qt.MouseButton.LeftButton)
    else:
        QTest.keyClick(editor.text_edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert edits == [(turns[number].turn_id, turns[number].text + " more")]
    assert row.editor is None
    assert desk.composer.text_edit.hasFocus()


def test_editing_is_given_up_with_escape(desk: Any) -> None:
    _, edits = shown(desk, UserTurn("one"), reply("first"))
    row = desk.view.rows[0]
    height = row.height()
    desk.view.begin_edit(row.turn.turn_id)
    for _ in range(15):
        QTest.keyClick(row.editor.text_edit, Qt.Key.Key_Return)
    assert row.height() > height + 100
    QTest.keyClick(row.editor.text_edit, Qt.Key.Key_Escape)
    assert row.editor is None
    assert edits == []
    assert row.height() == height


def test_open_edit_is_never_lost(desk: Any) -> None:
    turns = [turn for n in range(30) for turn in (UserTurn(f"question {n}"), reply(LONG))]
    shown(desk, *turns)
    desk.view.begin_edit(turns[0].turn_id)
    row = desk.view.row(turns[0].turn_id)
    QTest.keyClicks(row.editor.text_edit, " changed")
    desk.composer.text_edit.setFocus()
    desk.view.follow()
    desk.view.refresh(turns[0].turn_id)
    desk.view.set_turns(turns[:-1])
    desk.view.show_turn(turns[0].turn_id)
    assert desk.view.row(turns[0].turn_id) is row
    assert row.editor.text_edit.toPlainText() == "question 0 changed"


def test_time_of_a_message_is_told_at_its_speaker(desk: Any) -> None:
    shown(desk, UserTurn("one", created_at=1_700_000_000.0), reply("first"))
    assert "23" in desk.view.rows[0]._speaker.toolTip()
    assert desk.view.rows[1]._name.toolTip() == ""


def test_arrows_go_from_message_to_message_also_where_none_was_made(desk: Any) -> None:
    turns = [turn for n in range(30) for turn in (UserTurn(f"question {n}"), reply(LONG))]
    shown(desk, *turns)
    desk.view.setFocus()
    for key in (Qt.Key.Key_Up, Qt.Key.Key_K, Qt.Key.Key_Up):
        QTest.keyClick(focused(), key)
    row = focused()
    assert row is desk.view.row(turns[-3].turn_id)
    assert desk.view._ring.isVisible()
    assert desk.view._ring.geometry().contains(row.geometry())
    for _ in range(20):
        QTest.keyClick(focused(), Qt.Key.Key_Up)
    row = desk.view.row(turns[-23].turn_id)
    assert row is focused()
    y = row.mapTo(desk.view.viewport(), QPoint(0, 0)).y()
    assert 0 <= y < 60
    QTest.keyClick(row, Qt.Key.Key_J)
    assert focused() is desk.view.row(turns[-22].turn_id)


def test_message_with_the_focus_is_told_to_screen_readers(desk: Any) -> None:
    shown(desk, UserTurn("one"), reply("**first**"))
    desk.view.setFocus()
    QTest.keyClick(desk.view, Qt.Key.Key_Up)
    row = focused()
    interface = QAccessible.queryAccessibleInterface(row)
    assert interface.text(QAccessible.Text.Name) == "Small"
    assert interface.text(QAccessible.Text.Description) == "**first**"
    QTest.keyClick(row, Qt.Key.Key_Up)
    assert focused().accessibleName() == "You"


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_enter_opens_the_menu_of_the_message(desk: Any) -> None:
    shown(desk, UserTurn("one"), reply("first"))
    desk.view.setFocus()
    QTest.keyClick(desk.view, Qt.Key.Key_Up)
    QTest.keyClick(focused(), Qt.Key.Key_Return)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    assert menu.activeAction() is not None
    menu.close()


def test_alt_and_arrows_go_through_the_versions(desk: Any) -> None:
    turn = reply("first", variant=1, num_variants=3)
    actions, _ = shown(desk, UserTurn("one"), turn)
    desk.view.row(turn.turn_id).setFocus()
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
        QTest.keyClick(focused(), key, Qt.KeyboardModifier.AltModifier)
    assert [action for action, _ in actions] == [TurnAction.PREVIOUS_VARIANT, TurnAction.NEXT_VARIANT]


def test_message_is_copied_also_where_it_has_no_row(desk: Any) -> None:
    turns = [turn for n in range(30) for turn in (UserTurn(f"question {n}"), reply(LONG))]
    shown(desk, *turns)
    assert desk.view.copy_turn(turns[0].turn_id)
    assert QGuiApplication.clipboard().text() == "question 0"
    assert not desk.view.copy_turn("unknown")


def test_last_code_is_found_where_it_was_never_seen(desk: Any) -> None:
    turns = [turn for n in range(30) for turn in (UserTurn(f"question {n}"), reply(LONG))]
    shown(desk, reply("```\nthe code\n```"), *turns)
    assert desk.view.copy_last_code()
    assert QGuiApplication.clipboard().text() == "the code"


def marks(row: Any) -> list[str]:
    return [s.cursor.selectedText() for _, text in row.texts() for s in text.extraSelections()]


def test_places_of_a_text_are_marked_also_in_what_is_made_later(desk: Any) -> None:
    turns: list[Turn] = [UserTurn("The Needle"), reply(LONG + "\n\nA needle and a NEEDLE.\n\n```\nneedle\n```")]
    shown(desk, *turns)
    desk.view.set_highlight("needle")
    assert marks(desk.view.rows[-1]) == ["needle", "NEEDLE", "needle"]
    desk.view.go_to_start()
    assert marks(desk.view.rows[0]) == ["Needle"]
    desk.view.set_highlight("")
    assert marks(desk.view.rows[0]) == []


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_place_is_brought_into_view_and_marked_stronger(desk: Any, number: int, theme: Any) -> None:
    code = "```\n" + "line\n" * 60 + "needle\n```"
    text = f"needle {LONG}\n\n{LONG} needle\n\n{code}\n\n{LONG}\n\nneedle\n\n{LONG}"
    turn = reply(text)
    shown(desk, *[turn for n in range(5) for turn in (UserTurn(f"question {n}"), reply(LONG))], turn)
    assert desk.view.show_turn(turn.turn_id, text="NEEDLE", number=number)
    accent, found = theme.colour("accent"), []
    for _, widget in desk.view.row(turn.turn_id).texts():
        for selection in widget.extraSelections():
            if selection.format.background().color() == accent:
                rect = widget.cursorRect(selection.cursor)
                found.append(widget.viewport().mapTo(desk.view.viewport(), rect.center()).y())
    assert len(found) == 1
    assert 0 < found[0] < desk.view.viewport().height()


def test_place_in_the_folded_end_of_a_message_unfolds_it(desk: Any) -> None:
    turn = UserTurn("line\n" * 100 + "needle")
    shown(desk, turn, reply(LONG))
    assert desk.view.show_turn(turn.turn_id, text="needle", number=0)
    assert marks(desk.view.row(turn.turn_id)) == ["needle"]
    assert not desk.view.show_turn("unknown")


@pytest.mark.parametrize("seconds", [1e30, -1e30, math.inf, math.nan], ids=str)
def test_time_that_no_clock_tells_is_left_out(seconds: float) -> None:
    assert time_text(UserTurn("hello", created_at=seconds)) == ""
