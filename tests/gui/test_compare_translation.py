"""All that the Compare page says goes through the translation."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from tests.gui.compare_hand import OTHER, QUICK, CompareHand
from tests.gui.translated import MarkingTranslator, untranslated

NO_LANGUAGE = ("fake:", "f16", "q8_0", "q4_0", "Say something.", "Quick", "Other", "MiB", "★")


@pytest.fixture
def hand(theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[CompareHand]:
    translator = MarkingTranslator()
    QApplication.installTranslator(translator)
    hand = CompareHand(theme, qtbot, tmp_path)
    yield hand
    hand.close()
    QApplication.removeTranslator(translator)


def test_everything_said_is_translated(hand: CompareHand) -> None:
    hand.choose(QUICK, OTHER)
    hand.start()
    hand.wait_for_end()
    said = [text for lane in range(2) for text in hand.said(lane)]
    # What is computed is told in English wherever it is told: here, in the terminal and in the report.
    result = hand.page.result
    said += [result.sentence, result.evidence, result.notes]

    def is_data(text: str) -> bool:
        is_number = text[:1].isdigit() or text.startswith("–")
        return text in said or is_number or any(mark in text for mark in NO_LANGUAGE)

    assert untranslated(hand.page, is_data) == []
