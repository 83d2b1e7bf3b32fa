"""What the composer tells while it is written in: its draft, and the text whose tokens are counted."""

from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.composer_draft import Draft, read_draft
from app.desktop.widgets.composer_text import MAX_PASTE_CHARS
from tests.gui.staged_composer import compose, paste, stage

_LONG = "x y\n" * MAX_PASTE_CHARS


@pytest.fixture
def composer(theme: Theme, qtbot: QtBot) -> Iterator[Composer]:
    yield from stage(theme, qtbot)


@pytest.fixture
def drafts(composer: Composer) -> list[str]:
    drafts: list[str] = []
    composer.draft_changed.connect(drafts.append)
    return drafts


@pytest.fixture
def counted(composer: Composer) -> list[str]:
    counted: list[str] = []
    composer.count_requested.connect(counted.append)
    return counted


@pytest.mark.parametrize(
    "draft",
    [
        Draft(),
        Draft("typed"),
        Draft("typed\n", ("one\r\n", "two \u2028\x1f \x00 日本")),
        Draft("", ("only pasted",)),
        Draft("\x1fdraft1 3\nabc"),
        Draft("\x1fdraft", ("", "a")),
    ],
    ids=["nothing", "typed", "both", "pasted", "like the written form", "beginning like it"],
)
def test_written_draft_is_read_back(draft: Draft) -> None:
    assert read_draft(draft.written) == draft


@pytest.mark.parametrize(
    "written",
    [
        "plain",
        '{"typed": "a"}',
        "\x1fdraft1 3\nabcd",
        "\x1fdraft1 9999999999999 1\na",
        "\x1fdraft2 1\na",
        "\x1fdraft1 \n",
    ],
)
def test_any_other_string_is_a_typed_text(written: str) -> None:
    assert read_draft(written) == Draft(written)


def test_draft_is_told_once_after_several_keys(composer: Composer, drafts: list[str], qtbot: QtBot) -> None:
    with qtbot.waitSignal(composer.draft_changed):
        QTest.keyClicks(composer.text_edit, "several keys")
    assert drafts == ["several keys"]


def test_flush_tells_the_draft_at_once_and_only_if_it_changed(composer: Composer, drafts: list[str]) -> None:
    QTest.keyClicks(composer.text_edit, "a")
    composer.flush_draft()
    composer.flush_draft()
    assert drafts == ["a"]
    QTest.keyClicks(composer.text_edit, "b")
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Backspace)
    composer.flush_draft()
    assert drafts == ["a"]


def test_composed_text_becomes_part_of_the_flushed_draft(composer: Composer, drafts: list[str]) -> None:
    compose(composer, "にほん")
    composer.flush_draft()
    assert drafts == ["にほん"]


def test_nothing_of_what_was_composed_gets_into_another_chat(composer: Composer, drafts: list[str]) -> None:
    compose(composer, "にほん")
    composer.set_text("of another chat")
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Exclam)
    composer.text_edit.clearFocus()
    assert composer.text == "of another chat!"


def test_sending_empties_the_draft_after_the_message_was_told(composer: Composer) -> None:
    told: list[tuple[str, str]] = []
    composer.submitted.connect(lambda text: told.append(("sent", text)))
    composer.draft_changed.connect(lambda draft: told.append(("draft", draft)))
    QTest.keyClicks(composer.text_edit, "hello")
    composer.flush_draft()
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Return)
    assert told == [("draft", "hello"), ("sent", "hello"), ("draft", "")]


def test_shown_draft_is_not_told_back_and_cannot_be_undone(composer: Composer, drafts: list[str], qtbot: QtBot) -> None:
    QTest.keyClicks(composer.text_edit, "of another chat")
    composer.set_text("restored", ["pasted"])
    assert not composer._draft_timer.isActive()
    composer.flush_draft()
    assert drafts == []
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    assert composer.text == "restored\n\npasted"
    QTest.keyClicks(composer.text_edit, "!")
    assert composer.text_edit.text == "restored!"


def test_chips_come_back_with_the_draft(composer: Composer, drafts: list[str]) -> None:
    QTest.keyClicks(composer.text_edit, "see")
    paste(composer, _LONG)
    draft = composer.draft
    composer.set_draft("")
    assert composer.text == ""
    assert composer.pasted_texts == ()
    composer.set_draft(draft)
    assert composer.text_edit.text == "see"
    assert composer.pasted_texts == (_LONG,)
    assert composer.draft == draft


def test_tokens_are_asked_for_after_a_pause(composer: Composer, counted: list[str], qtbot: QtBot) -> None:
    QTest.keyClicks(composer.text_edit, "several keys")
    assert counted == []
    with qtbot.waitSignal(composer.count_requested):
        QTest.keyClicks(composer.text_edit, "!")
    assert counted == ["several keys!"]


def test_tokens_of_blank_text_are_asked_for_at_once(composer: Composer, counted: list[str], qtbot: QtBot) -> None:
    with qtbot.waitSignal(composer.count_requested):
        QTest.keyClicks(composer.text_edit, "a")
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Backspace)
    assert counted == ["a", ""]
    QTest.keyClick(composer.text_edit, Qt.Key.Key_Space)
    assert counted == ["a", ""]


def test_tokens_are_asked_for_again_in_another_chat(composer: Composer, counted: list[str], qtbot: QtBot) -> None:
    with qtbot.waitSignal(composer.count_requested):
        QTest.keyClicks(composer.text_edit, "same")
    composer.show_count(1)
    with qtbot.waitSignal(composer.count_requested):
        composer.set_text("same")
        assert composer.token_count.text() == ""
    composer.set_text("")
    assert counted == ["same", "same", ""]


@pytest.mark.parametrize(
    ("count", "told", "text", "tip"),
    [
        (None, {}, "", ""),
        (0, {}, "0 tokens", ""),
        (1, {}, "1 token", ""),
        (1234, {}, "1,234 tokens", ""),
        (1234, {"n_ctx": 4096}, "1,234 / 4,096 tokens", "Tokens of the conversation"),
        (4216, {"n_ctx": 4096, "num_over": 120}, "120 tokens over the context", "oldest turns will be left out"),
        (4097, {"num_over": 1}, "1 token over the context", "oldest turns will be left out"),
        (4216, {"num_over": 120, "is_alone_too_long": True}, "120 tokens over the context", "message alone"),
    ],
)
def test_count_is_shown(composer: Composer, count: int | None, told: dict[str, Any], text: str, tip: str) -> None:
    composer.show_count(count, **told)
    line = composer.token_count
    assert (line.text(), line.accessibleName()) == (text, text)
    assert tip in line.toolTip()
    assert bool(line.toolTip()) is bool(tip)


def test_count_over_the_context_has_the_warning_colour(composer: Composer, theme: Theme) -> None:
    line = composer.token_count
    composer.show_count(5000, num_over=120)
    assert line.palette().color(line.foregroundRole()) == theme.colour("warn")
    composer.show_count(5)
    assert line.palette().color(line.foregroundRole()) == theme.colour("muted")


def test_nothing_moves_when_the_count_appears(composer: Composer) -> None:
    QApplication.processEvents()
    before = (
        composer.height(),
        composer.text_edit.geometry(),
        composer.button.mapTo(composer, composer.rect().topLeft()),
    )
    composer.show_count(5000, num_over=120)
    QApplication.processEvents()
    after = (
        composer.height(),
        composer.text_edit.geometry(),
        composer.button.mapTo(composer, composer.rect().topLeft()),
    )
    assert after == before


def test_buttons_keep_their_room_in_a_narrow_window(composer: Composer) -> None:
    composer.resize(360, composer.height())
    composer.set_busy(True)
    QTest.keyClicks(composer.text_edit, "next")
    composer.show_count(5000, num_over=1120)
    QApplication.processEvents()
    assert composer.token_count.text() == "1,120 over"
    assert composer.token_count.accessibleName() == "1,120 tokens over the context"
    assert composer.token_count.toolTip().startswith("1,120 tokens over the context\n")
    for button in (composer.button, composer.stop_button):
        assert button.visibleRegion().boundingRect() == button.rect()
        assert button.width() >= button.sizeHint().width()
