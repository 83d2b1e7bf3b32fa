"""The store of chats: two hundred kills, a lock of ten seconds, and long random histories."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from app.errors import StoreError, StoreLocked
from app.store import ChatStore, NewChat
from tests.unit.app.store.store_histories import StoreHistory
from tests.unit.app.store.store_kills import find_losses, write_and_kill

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
NUM_KILLS = 200
LOCKED_S = 10.0


def test_nothing_is_lost_when_the_program_is_killed_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    written = []
    for number in range(NUM_KILLS):
        written.append(write_and_kill(path, number))
        assert find_losses(path, written[-3:]) == []
    assert find_losses(path, written) == []
    assert [part.name for part in tmp_path.iterdir() if ".damaged-" in part.name] == []


def test_message_is_saved_when_a_lock_of_ten_seconds_is_gone(tmp_path: Path) -> None:
    troubles: list[StoreError] = []
    store, _ = ChatStore.open(tmp_path / "chats.sqlite3", on_trouble=troubles.append, lock_timeout_s=5.0)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as locker:
        locker.execute("BEGIN IMMEDIATE")
        done = store.add_chat(NewChat(title="waits"))
        assert not threading.Event().wait(LOCKED_S)
        assert not done.done()
        locker.execute("COMMIT")
    done.result(30)
    assert [row.title for row in store.list_chats()] == ["waits"]
    assert [type(trouble) for trouble in troubles] == [StoreLocked]
    store.close()


class LongHistory(StoreHistory):
    """Histories of their own name, for hypothesis keeps settings by class."""


LongHistory.TestCase.settings = settings(
    max_examples=100, stateful_step_count=60, suppress_health_check=list(HealthCheck)
)
TestLongHistories = LongHistory.TestCase
