"""Processes that are killed while they write snapshots, with the full count."""

from pathlib import Path

import pytest

from tests.e2e.test_kept_chats_kills import check_worker_kills
from tests.unit.engine.test_response_folder import check_kills as check_kills_of_replies
from tests.unit.engine.test_snapshot_folder import check_kills

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


def test_every_file_is_whole_when_the_writing_process_is_killed(tmp_path: Path) -> None:
    check_kills(tmp_path / "cache", 200)


def test_every_stored_reply_is_whole_when_the_writing_process_is_killed(tmp_path: Path) -> None:
    check_kills_of_replies(tmp_path / "cache", 200)


def test_replies_are_the_same_when_workers_are_killed_while_they_write(tmp_path: Path) -> None:
    check_worker_kills(tmp_path / "cache", 200)
