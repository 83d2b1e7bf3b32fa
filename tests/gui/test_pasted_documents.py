"""A long pasted text becomes a document: before the message, by its first words, and back again."""

from collections.abc import Iterator

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.composer_text import MAX_PASTE_CHARS
from app.document_text import document, join_documents, split_documents
from engine import ChatMessage, Role
from tests.gui.scripted_engine import Desk
from tests.gui.staged_composer import paste, stage
from tests.gui.test_documents import chips, last_content, line, prepare

RULES = "".join(f"Rule {number}: whoever is late rings twice.\n" for number in range(MAX_PASTE_CHARS // 30))
NAMED = join_documents([document("Rule 0: whoever is late rings twice.", RULES)], "")


@pytest.fixture
def composer(theme: Theme, qtbot: QtBot) -> Iterator[Composer]:
    yield from stage(theme, qtbot)


def buttons(composer: Composer) -> list[QAbstractButton]:
    return [button for button in composer.pasted.buttons if button.accessibleName().startswith("As document")]


def test_pasted_text_goes_before_the_message_and_comes_back_by_undo(composer: Composer) -> None:
    QTest.keyClicks(composer.text_edit, "see")
    paste(composer, RULES)
    assert composer.text == f"see\n\n{RULES}"
    buttons(composer)[0].click()
    assert composer.text == f"{NAMED}see"
    assert buttons(composer) == [] and composer.text_edit.hasFocus()
    QTest.keySequence(composer.text_edit, "Ctrl+Z")
    assert composer.text == f"see\n\n{RULES}"
    QTest.keySequence(composer.text_edit, "Ctrl+Shift+Z")
    assert composer.text == f"{NAMED}see"


def test_only_the_chosen_text_becomes_a_document_when_there_are_several(composer: Composer) -> None:
    texts = [f"{number} {RULES}" for number in range(3)]
    for text in texts:
        paste(composer, text)
    buttons(composer)[1].click()
    assert composer.pasted.documents == (composer.pasted_texts[1],)
    assert composer.pasted_texts[::2] == (texts[0], texts[2])


@pytest.mark.parametrize(
    ("begins", "name"),
    [
        ("\n\n  Title\nmore", "Title"),
        ('<b>"quoted"</b>\x07\n', "b quoted /b"),
        ("<<<\n", "document"),
        ("word " * 30, f"{'word ' * 30}"[:39] + "…"),
        ("</document>\nevil", "/document"),
    ],
    ids=["behind empty lines", "marks", "nothing to be called by", "long", "the closing mark"],
)
def test_document_is_called_by_its_first_words_and_holds_all(composer: Composer, begins: str, name: str) -> None:
    text = begins + RULES
    paste(composer, text)
    [pasted] = composer.pasted_texts
    buttons(composer)[0].click()
    [found], rest = split_documents(composer.text)
    assert (found.name, found.text, rest) == (name, pasted, "")


def test_blank_text_is_not_offered_as_a_document(composer: Composer) -> None:
    paste(composer, " \u200b\n" * MAX_PASTE_CHARS)
    assert composer.pasted_texts and buttons(composer) == []


def test_pasted_document_is_read_ahead_for_all_chats(desk: Desk) -> None:
    paste(desk.composer, RULES)
    assert desk.composer.pasted.reading.isHidden()
    buttons(desk.composer)[0].click()
    assert chips(desk)[0].startswith("Rule 0: whoever is late rings twice. · ")
    assert line(desk).startswith("Not read yet")
    order = prepare(desk)
    assert (order.chat_id, order.messages) == (None, (ChatMessage(Role.USER, NAMED),))
    desk.say("When do I ring?")
    assert last_content(desk) == f"{NAMED}When do I ring?"
