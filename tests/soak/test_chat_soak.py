"""Chats in memory and in the store: long random lives of one chat each."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from tests.support.chat_histories import live_a_chat

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
NUM_LIVES = 500
NUM_STEPS = 150


def test_no_text_is_lost_in_long_lives(qapp: QApplication, tmp_path: Path) -> None:
    for seed in range(NUM_LIVES):
        live_a_chat(tmp_path / f"{seed}.sqlite3", 1000 + seed, NUM_STEPS)
