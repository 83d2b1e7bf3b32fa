"""Long texts in the composer: the window answers, nothing is lost, and a key costs the same."""

import itertools
import statistics
import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.composer_draft import MAX_EDIT_CHARS, MAX_EDIT_LINE_BYTES
from app.desktop.widgets.composer_text import MAX_PASTE_CHARS
from tests.gui.staged_composer import paste, stage

_PARAGRAPH = "The quick brown fox jumps over the lazy dog and goes on. " * 8
_LOADED = {
    "paragraphs": "\n\n".join([_PARAGRAPH] * 220)[:100_000],
    "paragraphs of another script": "\n\n".join(["日本語の文章を長く書き続けるとどうなるか、" * 10] * 500)[:100_000],
    "empty lines": "\n" * 4_000 + "end",
    "one line of 100,000 characters": "word " * 20_000,
    "one word of 100,000 characters": "a" * 100_000,
}


@pytest.fixture
def composer(theme: Theme, qtbot: QtBot) -> Iterator[Composer]:
    yield from stage(theme, qtbot)


@pytest.fixture
def sent(composer: Composer) -> list[str]:
    sent: list[str] = []
    composer.submitted.connect(sent.append)
    return sent


def chip_texts(composer: Composer) -> list[str]:
    return [label.text() for label in composer.findChildren(QLabel) if "Pasted text" in label.text()]


def chip_button(composer: Composer, name: str) -> QAbstractButton:
    return next(button for button in composer.findChildren(QAbstractButton) if button.accessibleName().startswith(name))


@pytest.mark.parametrize(
    "text",
    ["\n".join(f"line {n} of a long list" for n in range(20_000)), "word " * 400_000, "a" * 200_000],
    ids=["20,000 lines", "2 MB of prose", "one long word"],
)
def test_huge_paste_does_not_freeze(composer: Composer, sent: list[str], qtbot: QtBot, text: str) -> None:
    beats: list[float] = []
    timer = QTimer()
    timer.timeout.connect(lambda: beats.append(time.perf_counter()))
    timer.start(5)
    qtbot.wait(20)
    paste(composer, text)
    qtbot.wait(20)
    QTest.keyClicks(composer.text_edit, "see above")
    qtbot.wait(20)
    assert composer.text == f"see above\n\n{text}"
    composer.submit()
    qtbot.wait(20)
    timer.stop()
    assert max(b - a for a, b in itertools.pairwise(beats)) < 0.5
    assert sent == [f"see above\n\n{text}"]


def test_huge_paste_can_be_undone_and_redone(composer: Composer) -> None:
    text = "x y\n" * MAX_PASTE_CHARS
    paste(composer, text)
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    assert composer.text == ""
    QTest.keySequence(composer.text_edit, "Ctrl+Shift+Z")
    assert composer.text == text


def test_huge_paste_can_be_undone_by_the_menu(composer: Composer) -> None:
    text = "x y\n" * MAX_PASTE_CHARS
    paste(composer, text)
    menu = composer.text_edit.menu()
    undo, redo = menu.actions()[:2]
    undo.trigger()
    assert composer.text == ""
    redo.trigger()
    assert composer.text == text
    menu.deleteLater()


def test_ordinary_paste_can_be_undone_and_redone(composer: Composer) -> None:
    paste(composer, "one\ntwo")
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    assert composer.text == ""
    QTest.keySequence(composer.text_edit, "Ctrl+Shift+Z")
    assert composer.text == "one\ntwo"


@pytest.mark.parametrize("text", _LOADED.values(), ids=_LOADED.keys())
@pytest.mark.parametrize("is_at_end", [True, False], ids=["at the end", "at the start"])
def test_a_key_costs_little_in_a_long_draft(composer: Composer, text: str, is_at_end: bool) -> None:
    composer.set_text(text)
    if not is_at_end:
        composer.text_edit.moveCursor(QTextCursor.MoveOperation.Start)
    QApplication.processEvents()
    costs = []
    for _ in range(20):
        before = time.thread_time()
        QTest.keyClick(composer.text_edit, Qt.Key.Key_A)
        QApplication.processEvents()
        costs.append(time.thread_time() - before)
    assert statistics.median(costs) < 0.008
    assert len(composer.text.replace("\n", "")) == len(text.replace("\n", "")) + 20


def test_long_draft_stays_in_the_edit(composer: Composer) -> None:
    composer.set_text(_LOADED["paragraphs"])
    assert composer.text_edit.text == _LOADED["paragraphs"]


def test_huge_line_is_put_beside_when_a_draft_is_shown(composer: Composer) -> None:
    composer.set_draft("a" * 100_000)
    assert composer.text_edit.text == ""
    assert composer.pasted_texts == ("a" * 100_000,)
    assert composer.text == "a" * 100_000


def test_line_does_not_become_huge_by_many_pastes(composer: Composer) -> None:
    for _ in range(20):
        paste(composer, "word " * 900)
    assert len(composer.text_edit.text) <= MAX_EDIT_LINE_BYTES
    assert composer.text.replace("\n\n", "") == "word " * 900 * 20


def test_text_does_not_become_huge_by_many_pastes(composer: Composer) -> None:
    text = ("short line\n" * MAX_PASTE_CHARS)[: MAX_PASTE_CHARS - 1]
    for _ in range(12):
        paste(composer, text)
    assert len(composer.text_edit.text) <= MAX_EDIT_CHARS
    assert composer.text.replace("\n", "") == text.replace("\n", "") * 12


@pytest.mark.parametrize("text", ["x" * 9_000, "日" * 2_000], ids=["one byte each", "three bytes each"])
def test_chip_tells_lines_and_size(composer: Composer, text: str) -> None:
    paste(composer, text)
    size = len(text.encode()) / 1024
    assert chip_texts(composer) == [f"Pasted text · 1 line · {size:.0f} KiB"]


def test_chip_previews_its_first_lines(composer: Composer) -> None:
    paste(composer, "\n".join(f"<b>line</b> {n}" for n in range(20_000)))
    label = next(label for label in composer.findChildren(QLabel) if "Pasted" in label.text())
    assert "&lt;b&gt;line&lt;/b&gt; 0" in label.toolTip()
    assert "line&lt;/b&gt; 9" not in label.toolTip()


def test_chip_is_shown_in_the_edit_and_that_can_be_undone(composer: Composer) -> None:
    text = f"{_PARAGRAPH}\n" * 60
    QTest.keyClicks(composer.text_edit, "see")
    paste(composer, text)
    before = composer.draft
    assert composer.text_edit.text == "see"
    chip_button(composer, "Show").click()
    assert composer.text_edit.text == f"see\n\n{text}"
    assert composer.pasted_texts == ()
    assert composer.text_edit.hasFocus()
    for _ in range(2):
        QTest.keySequence(composer.text_edit, "Ctrl+Z")
        assert text in composer.text
    assert composer.draft == before


def test_chip_that_is_too_long_is_not_offered_for_the_edit(composer: Composer) -> None:
    paste(composer, "word " * 400_000)
    names = [button.accessibleName() for button in composer.findChildren(QAbstractButton)]
    assert not any(name.startswith("Show") for name in names)


def test_removed_chip_comes_back_by_undo(composer: Composer) -> None:
    text = "x y\n" * MAX_PASTE_CHARS
    paste(composer, text)
    chip_button(composer, "Remove").click()
    assert composer.text == ""
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    assert composer.text == text


def test_huge_blank_paste_cannot_be_sent(composer: Composer, sent: list[str]) -> None:
    paste(composer, " \u200b\n" * 100_000)
    assert composer.is_blank
    composer.submit()
    assert sent == []


def test_many_chips_do_not_grow_past_the_limit(composer: Composer) -> None:
    composer.set_max_height(240)
    for n in range(12):
        paste(composer, f"{n} y\n" * MAX_PASTE_CHARS)
    assert composer.height() <= 242
    assert len(composer.pasted_texts) == 12
