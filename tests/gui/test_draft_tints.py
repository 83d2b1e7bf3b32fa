"""Where drafted text is shown: rendering moves it and takes its marks away, and only it is tinted."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QTextBrowser

from app.desktop.rendering.source_places import source_places
from app.desktop.session.turn_records import _turn_of, end_of
from app.desktop.session.turns import ReplyState, ReplyTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.draft_tints import DraftTints
from app.desktop.widgets.reply_contents import Part
from app.desktop.widgets.shown_turn import ShownTurn
from app.store import Node, NodeState
from engine import Role, TextSpan

WORDS = [f"{first}{second}{first}" for first in "bdfgkm" for second in "aeiou"]


@given(st.text("ab *`_[](x)\n\t|", max_size=60), st.data())
def test_places_rise_and_hold_the_same_letter_when_marks_are_taken_away(source: str, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(source), max_size=len(source)))
    shown = "".join(letter for letter, is_kept in zip(source, kept, strict=True) if is_kept or letter.isalnum())
    places = source_places(shown, source)
    assert len(places) == len(shown)
    found = [place for place in places if place >= 0]
    assert found == sorted(set(found))
    for letter, place in zip(shown, places, strict=True):
        assert place < 0 or source[place] == letter or (source[place].isspace() and letter.isspace())


@pytest.mark.parametrize(
    ("shown", "source"),
    [
        ("bold here", "**bold** here"),
        ("text more", "[text](https://example.org/a/b) more"),
        ("a & b", "a &amp; b"),
        ("one\ntwo", "- one\n- two"),
        ("x\ufffcy", "x $\\alpha$ y"),
        ("日本 😀 é", "*日本* 😀 é"),
    ],
    ids=["bold", "link", "entity", "list", "formula", "wide"],
)
def test_every_word_has_its_place_when_its_marks_are_of_markdown(shown: str, source: str) -> None:
    places = source_places(shown, source)
    for letter, place in zip(shown, places, strict=True):
        if letter.isalnum():
            assert place >= 0 and source[place] == letter
    assert not [place for letter, place in zip(shown, places, strict=True) if letter == "\ufffc" and place >= 0]


def test_hostile_text_costs_little() -> None:
    begin = time.thread_time()
    source_places("ab" * 4_000, "ba*" * 2_700)
    source_places("x" * 8_000, "y" * 8_000)
    source_places("x" * 8_000, "*" * 8_000)
    assert time.thread_time() - begin < 5


Tinted = Callable[[str, list[str]], list[str]]


@pytest.fixture
def tinted(theme: Theme, qapp: object) -> Tinted:
    """Show a reply as one document, and return the texts that are tinted."""
    from app.desktop.rendering.renderer import Renderer
    from app.desktop.widgets.height_estimates import TextMeasures
    from app.desktop.widgets.reply_contents import ReplyContents

    renderer, tints = Renderer(), DraftTints(theme)
    tints.is_on = True

    def show(text: str, drafted: list[str]) -> list[str]:
        spans = tuple(TextSpan(text.index(word), text.index(word) + len(word)) for word in drafted)
        turn = ReplyTurn("m", state=ReplyState.DONE, text=text, drafted_spans=spans)
        contents = ReplyContents(turn, lambda: renderer, TextMeasures(theme))
        browser = QTextBrowser()
        browser.setHtml("".join(block.html or f"<p>{block.code}</p>" for block in renderer.blocks(contents.text)))
        selections = tints.selections(ShownTurn(turn, contents=contents), Part(0, len(contents.text)), browser)
        texts = []
        for selection in selections:
            cursor: QTextCursor = selection.cursor
            texts.append(cursor.selectedText())
        browser.deleteLater()
        return texts

    return show


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(pieces=[(True, "**{}**"), (False, " {}"), (True, "\r\n\r\n- {}"), (True, "\r\n- {}")])
@given(
    pieces=st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from(
                [
                    *("{} ", "{} ", "**{}** ", "*{}* ", "`{}` ", "[{}](https://a.org/x_y) ", "\n\n# {}\n\n"),
                    *("\n\n- {}\n", "\n\n> {}\n\n", "\r\n\r\n{} ", "😀 {} ", "\n\n1. {}\n\n"),
                ]
            ),
        ),
        min_size=1,
        max_size=len(WORDS),
    )
)
def test_just_the_drafted_words_are_tinted_when_markdown_is_rendered(
    tinted: Tinted, pieces: list[tuple[bool, str]]
) -> None:
    words = dict(zip(WORDS, (is_drafted for is_drafted, _ in pieces), strict=False))
    text = "".join(form.format(word) for word, (_, form) in zip(WORDS, pieces, strict=False))
    shown = " ".join(tinted(text, [word for word, is_drafted in words.items() if is_drafted]))
    assert shown.split() == [word for word, is_drafted in words.items() if is_drafted]


@pytest.mark.parametrize(
    "kept",
    [
        [0],
        [3, 1],
        [0, 99],
        [-1, 2],
        ["0", 2],
        {"a": 1},
        "0 2",
        [0, 2, 1, 4],
        None,
    ],
    ids=["odd", "falling", "long", "negative", "text", "table", "word", "overlapping", "none"],
)
def test_damaged_record_of_drafted_text_is_passed_over(kept: object) -> None:
    values: dict[str, Any] = dict.fromkeys(Node._fields)
    values |= {"id": "a", "role": Role.ASSISTANT, "content": "text", "thinking": "", "state": NodeState.DONE}
    values |= {"settings": {}, "model_name": "m", "metrics": {"drafted_spans": kept, "speculative": kept}}
    node = Node(**values)
    turn = _turn_of(node)
    assert isinstance(turn, ReplyTurn)
    assert (tuple(turn.drafted_spans), turn.speculative) == ((), None)


def test_drafted_text_is_kept_as_pairs_of_places() -> None:
    turn = ReplyTurn("m", text="a text", drafted_spans=(TextSpan(0, 1), TextSpan(2, 6)))
    assert end_of(turn).metrics["drafted_spans"] == [0, 1, 2, 6]
    assert "drafted_spans" not in end_of(ReplyTurn("m", text="a text")).metrics
