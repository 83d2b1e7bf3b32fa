"""Random lives of chats, some of the soak test's."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from tests.support.chat_histories import live_a_chat
from tests.support.lived_chats import live_several_chats


@pytest.mark.parametrize("seed", range(30))
def test_no_text_is_lost_whatever_is_done(qapp: QApplication, tmp_path: Path, seed: int) -> None:
    live_a_chat(tmp_path / "chats.sqlite3", seed, 60)


@pytest.mark.allow_log("the engine died")
@pytest.mark.parametrize("seed", range(20))
def test_chats_keep_apart_whatever_is_done_in_several(qapp: QApplication, tmp_path: Path, seed: int) -> None:
    live_several_chats(tmp_path / "chats.sqlite3", seed, 60)
