"""Records of measuring runs in the store."""

import sqlite3
from contextlib import closing
from pathlib import Path

from app.store import Run
from tests.unit.app.store.conftest import OpenStore


def test_runs_come_back_newest_first_and_by_kind(open_store: OpenStore) -> None:
    store = open_store()
    first = Run(kind="bench", model_fingerprint="f", model_name="tiny", record={"measures": [1, 2.5, None]})
    others = [Run(kind="compare", record={}), Run(kind="bench", record={"n": 2})]
    for run in (first, *others):
        store.add_run(run).result()
    assert [run.id for run in store.list_runs()] == [others[1].id, others[0].id, first.id]
    assert store.list_runs("bench") == [others[1], first]


def test_run_is_kept_once_when_it_is_sent_twice(open_store: OpenStore) -> None:
    store = open_store()
    run = Run(kind="bench", record={"n": 1})
    store.add_run(run).result()
    store.add_run(run).result()
    assert len(store.list_runs()) == 1


def test_record_is_empty_when_it_cannot_be_read(open_store: OpenStore, path: Path) -> None:
    store = open_store()
    for run in [Run(kind="bench", record={"n": number}) for number in range(3)]:
        store.add_run(run).result()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE runs SET record = 'no JSON' WHERE seq = 1")
        connection.execute("UPDATE runs SET record = '[1]' WHERE seq = 2")
        connection.execute("UPDATE runs SET record = ? WHERE seq = 3", ('{"a":' * 9999,))
        connection.commit()
    assert [run.record for run in store.list_runs()] == [{}, {}, {}]
