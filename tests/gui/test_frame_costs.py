"""What must not be done on the window's thread while replies are written: compiling rules, walking through text."""

import functools
import threading
from collections.abc import Iterator

import pytest
from PySide6.QtGui import QTextCursor
from pytestqt.qtbot import QtBot

from app.desktop.bridge.background import Background
from app.desktop.rendering import highlighting
from app.desktop.rendering.formula_document import OBJECT, formula_positions, source_text
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.highlighting import CodeLexer, LineSpans
from app.desktop.rendering.renderer import Renderer
from app.desktop.rendering.safe_browser import SafeBrowser
from app.desktop.theme.theme import Theme


@pytest.fixture
def background(qtbot: QtBot) -> Iterator[Background]:
    background = Background()
    yield background
    background.close()
    background.deleteLater()


def has_more(got: list[LineSpans], before: int) -> bool:
    """Tell whether something came."""
    return len(got) > before


def test_first_code_of_a_language_is_coloured_beside_the_windows_thread(
    background: Background, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    lex = highlighting.lex
    used: list[tuple[str, bool]] = []

    def noting(code: str, language: str) -> LineSpans:
        used.append((language, threading.current_thread() is threading.main_thread()))
        return lex(code, language)

    monkeypatch.setattr(highlighting, "lex", noting)
    lexer = CodeLexer(background)
    got: list[LineSpans] = []
    for language in ("python", "python", "rust", "no-such-language", "no-such-language", ""):
        before = len(got)
        lexer.request("x = 1", language, got.append)
        qtbot.waitUntil(functools.partial(has_more, got, before))
    assert used == [
        ("python", False),
        ("python", True),
        ("rust", False),
        ("no-such-language", False),
        ("no-such-language", True),
        ("", True),
    ]
    assert got[0] == got[1] == lex("x = 1", "python")


def slow_source(cursor: QTextCursor) -> str:
    """Return what is copied of a selection without code, sign after sign."""
    start, end = cursor.selectionStart(), cursor.selectionEnd()
    sources = {place: formula.source for place, formula in formula_positions(cursor.document(), start, end)}
    pieces, place = [], start
    for character in cursor.selectedText():
        pieces.append(sources.get(place, character))
        place += 2 if character > "\uffff" else 1
    return "".join(pieces)


def test_source_of_a_selection_is_right_from_every_place_to_every_other(
    theme: Theme, background: Background, qtbot: QtBot
) -> None:
    browser = SafeBrowser(theme, formulas=FormulaImages(background))
    qtbot.addWidget(browser)
    text = "A 🙂 $x^2$$y$ b\n\n- 𝔸 $\\frac{1}{2}$\n- 漢 **c** 🙂🙂 $z$ "
    browser.set_html("".join(block.html for block in Renderer().blocks(text)))
    cursor = QTextCursor(browser.document())
    cursor.select(QTextCursor.SelectionType.Document)
    whole = cursor.selectedText()
    assert OBJECT in whole
    # Places in Qt's count that are borders of characters.
    borders = [0]
    for character in whole:
        borders.append(borders[-1] + (2 if character > "\uffff" else 1))
    for first in borders:
        for last in borders:
            cursor.setPosition(first)
            cursor.setPosition(last, QTextCursor.MoveMode.KeepAnchor)
            assert source_text(cursor) == slow_source(cursor)
