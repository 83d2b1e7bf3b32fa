"""Random lives of chats, some of the soak test's."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from tests.support.chat_histories import live_a_chat


@pytest.mark.parametrize("seed", range(30))
def test_no_text_is_lost_whatever_is_done(qapp: QApplication, tmp_path: Path, seed: int) -> None:
    live_a_chat(tmp_path / "chats.sqlite3", seed, 60)
