"""Kills: a program that ends at any moment loses no finished message and no partial reply that was saved."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.unit.app.store.store_kills import find_losses, write_and_kill

NUM_KILLS = 20


def test_nothing_is_lost_when_the_program_is_killed(path: Path) -> None:
    written = []
    for number in range(NUM_KILLS):
        written.append(write_and_kill(path, number))
        assert find_losses(path, written) == []
    assert sum(len(one.finals) for one in written) > NUM_KILLS
    assert [part.name for part in path.parent.iterdir() if ".damaged-" in part.name] == []
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO grams(grams) VALUES ('integrity-check')")
