"""What would stop the window for a moment happens elsewhere, or not at all."""

import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.desktop.bridge.background import Background
from app.desktop.rendering import highlighting
from app.desktop.rendering.highlighting import CodeLexer, LineSpans
from app.desktop.session.chat_tree import ChatTree
from app.desktop.session.turns import ReplyTurn, UserTurn
from tests.gui.test_program import run


@pytest.mark.parametrize(
    ("num_lines", "is_at_once"), [pytest.param(20, True, id="short"), pytest.param(120, False, id="long")]
)
def test_long_code_is_read_beside_the_windows_thread_when_it_is_coloured(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, num_lines: int, is_at_once: bool
) -> None:
    threads: list[threading.Thread] = []
    lex = highlighting.lex

    def lex_and_note(code: str, language: str) -> LineSpans:
        threads.append(threading.current_thread())
        return lex(code, language)

    monkeypatch.setattr(highlighting, "lex", lex_and_note)
    parent = QObject()
    background = Background(parent)
    found: list[LineSpans] = []
    lexer = CodeLexer(background)
    lexer.request("x = 1", "python", found.append)  # the first one of a language is read there anyway
    qtbot.waitUntil(lambda: bool(found))
    found.clear()
    threads.clear()
    lexer.request("\n".join(["x = 1"] * num_lines), "python", found.append)
    qtbot.waitUntil(lambda: bool(found))
    background.close()
    assert len(found[0]) == num_lines
    assert (threads == [threading.main_thread()]) is is_at_once


def test_what_stays_for_good_is_not_searched_for_garbage_once_the_window_is_up(
    tmp_path: Path, starter_path: Path
) -> None:
    drive = """
    def drive(parts, QTimer):
        import gc

        def look():
            if gc.get_freeze_count() > 10_000:
                print("kept for good")
                print("closing")
                parts.window.close()

        timer = QTimer(parts.window)
        timer.timeout.connect(look)
        parts.window.first_painted.connect(lambda: timer.start(50))
    """
    lines, _ = run(tmp_path, starter_path, drive)
    assert "kept for good" in lines


@pytest.mark.parametrize("is_deleted", [False, True], ids=["kept", "deleted"])
@pytest.mark.parametrize("has_sibling", [False, True], ids=["alone", "beside"])
def test_a_path_that_grows_is_the_path_that_is_walked_anew_when_a_message_is_added(
    has_sibling: bool, is_deleted: bool
) -> None:
    tree = ChatTree()
    question = UserTurn("one")
    tree.add(question)
    if has_sibling:
        tree.add(ReplyTurn("m", text="first", parent_id=question.turn_id))
        tree.show(question.turn_id)
    before = tree.shown()
    reply = ReplyTurn("m", text="second", parent_id=question.turn_id, is_deleted=is_deleted)
    tree.add(reply)
    grown = list(tree.shown())
    numbers = [(turn.variant, turn.num_variants) for turn in grown]
    tree.show(tree.leaf)
    assert list(before) == [question]
    assert grown == list(tree.shown()) == [question] + [reply] * (not is_deleted)
    assert numbers == [(turn.variant, turn.num_variants) for turn in grown]
    assert reply.num_variants == (1 if is_deleted or not has_sibling else 2)
