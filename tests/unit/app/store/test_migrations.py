"""Migrations: an older file is copied first, then converted, all of it or nothing."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.errors import StoreTooNew
from app.store import ChatStore, Run
from app.store.migrations import MIGRATIONS, NUM_BACKUPS, back_up, migrate, version_of
from app.store.schema import APPLICATION_ID, VERSION, connect_to_write
from tests.unit.app.store.conftest import OpenStore
from tests.unit.app.store.samples import add_chat, shown


def add_colour(connection: sqlite3.Connection) -> None:
    """Stand in for what a later version adds."""
    connection.execute("ALTER TABLE chats ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")


def fail_half_way(connection: sqlite3.Connection) -> None:
    """Stand in for a migration that meets a fault."""
    add_colour(connection)
    raise sqlite3.OperationalError("disk I/O error")


@pytest.fixture
def old_file(open_store: OpenStore, path: Path) -> Path:
    """Return a file of the present schema with a chat, whose last write is still in the log."""
    store = open_store()
    add_chat(store, "q", title="old")
    store.close()
    return path


def backups_of(path: Path) -> list[Path]:
    """Return the copies made before migrations."""
    return sorted(path.parent.glob(f"{path.name}.version-*"))


def test_versions_are_those_of_the_migrations() -> None:
    assert len(MIGRATIONS) == VERSION


def test_older_file_is_copied_and_converted(old_file: Path) -> None:
    with closing(connect_to_write(old_file)) as connection:
        backup = migrate(connection, old_file, migrations=(*MIGRATIONS, add_colour))
        assert version_of(connection) == VERSION + 1
        assert connection.execute("SELECT title, colour FROM chats").fetchall() == [("old", "red")]
    assert backup is not None
    assert backups_of(old_file) == [backup]
    with closing(sqlite3.connect(backup)) as copy:
        assert version_of(copy) == VERSION
        assert copy.execute("SELECT title FROM chats").fetchall() == [("old",)]
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_copy_opens_as_the_chats_of_the_older_version(old_file: Path, open_store: OpenStore) -> None:
    with closing(connect_to_write(old_file)) as connection:
        backup = migrate(connection, old_file, migrations=(*MIGRATIONS, add_colour))
    assert backup is not None
    backup.replace(old_file)
    store = open_store()
    (row,) = store.list_chats()
    assert shown(store, row.id) == ["q"]


def test_nothing_is_changed_when_a_migration_fails(old_file: Path, open_store: OpenStore) -> None:
    with closing(connect_to_write(old_file)) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, old_file, migrations=(*MIGRATIONS, fail_half_way))
        assert version_of(connection) == VERSION
    assert [row.title for row in open_store().list_chats()] == ["old"]


def test_nothing_is_changed_when_there_is_no_room_for_the_copy(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.store.migrations.os.open", refuse)
    with closing(connect_to_write(old_file)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="No space left"):
            migrate(connection, old_file, migrations=(*MIGRATIONS, add_colour))
        assert version_of(connection) == VERSION
    assert backups_of(old_file) == []


def test_present_file_is_not_copied(old_file: Path) -> None:
    with closing(connect_to_write(old_file)) as connection:
        assert migrate(connection, old_file) is None
    assert backups_of(old_file) == []


def test_only_the_newest_copies_are_kept(old_file: Path) -> None:
    made = [back_up(old_file, version) for version in (1, 2, 10, 3, 4)]
    assert set(backups_of(old_file)) == set(made[-NUM_BACKUPS:])


def test_first_version_gets_a_table_of_runs(path: Path, open_store: OpenStore) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    with closing(connect_to_write(path)) as connection:
        migrate(connection, path, migrations=MIGRATIONS[:1])
        connection.execute("INSERT INTO chats (id, title, change_number) VALUES ('a', 'from version 1', 1)")
        assert version_of(connection) == 1
    store = open_store()
    assert [row.title for row in store.list_chats()] == ["from version 1"]
    assert store.list_runs() == []
    store.add_run(Run(kind="bench", model_name="tiny", record={"a": 1})).result()
    assert [run.record for run in store.list_runs()] == [{"a": 1}]
    (backup,) = backups_of(path)
    with closing(sqlite3.connect(backup)) as copy:
        assert version_of(copy) == 1
        assert copy.execute("SELECT title FROM chats").fetchall() == [("from version 1",)]


@pytest.mark.parametrize("version", [VERSION + 1, 2**31 - 1])
def test_file_of_a_newer_version_is_named_and_not_touched(old_file: Path, open_store: OpenStore, version: int) -> None:
    with closing(connect_to_write(old_file)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("DROP TABLE facts")
    before = old_file.read_bytes()
    with pytest.raises(StoreTooNew, match="newer version") as caught:
        ChatStore.open(old_file)
    assert "--data-dir" in caught.value.hint
    assert old_file.read_bytes() == before
    assert backups_of(old_file) == []


def test_file_is_marked_as_ours(old_file: Path) -> None:
    assert int.from_bytes(old_file.read_bytes()[68:72], "big") == APPLICATION_ID
