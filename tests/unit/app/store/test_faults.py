"""Faults: each failure of SQLite has its name and a sentence, and what is none of them is a fault of the program."""

import sqlite3
from pathlib import Path

import pytest

from app.errors import StoreDamaged, StoreError, StoreFull, StoreLocked, StoreReadOnly
from app.store.faults import store_error

PATH = Path("folder") / "chats.sqlite3"


def failure(code: int, text: str = "text") -> sqlite3.Error:
    """Return a failure as SQLite raises it."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_NAME"
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (failure(sqlite3.SQLITE_BUSY), StoreLocked),
        (failure(sqlite3.SQLITE_BUSY_SNAPSHOT), StoreLocked),
        (failure(sqlite3.SQLITE_LOCKED), StoreLocked),
        (failure(sqlite3.SQLITE_CORRUPT), StoreDamaged),
        (failure(sqlite3.SQLITE_CORRUPT_VTAB), StoreDamaged),
        (failure(sqlite3.SQLITE_NOTADB), StoreDamaged),
        (failure(sqlite3.SQLITE_ERROR, "no such table: nodes"), StoreDamaged),
        (failure(sqlite3.SQLITE_ERROR, "no such module: fts5"), StoreError),
        (failure(sqlite3.SQLITE_FULL), StoreFull),
        (failure(sqlite3.SQLITE_READONLY_DIRECTORY), StoreReadOnly),
        (failure(sqlite3.SQLITE_CANTOPEN), StoreReadOnly),
        (failure(sqlite3.SQLITE_IOERR_FSYNC), StoreError),
        (failure(sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY), StoreError),
        (failure(sqlite3.SQLITE_TOOBIG), StoreError),
    ],
    ids=lambda value: str(getattr(value, "sqlite_errorcode", "")) or value.__name__,
)
def test_failure_has_its_name_and_its_sentence(error: sqlite3.Error, kind: type[StoreError]) -> None:
    found = store_error(error, PATH)
    assert type(found) is kind
    assert found.message.endswith(".")
    assert not found.hint or found.hint.endswith(".")
    assert found.details.startswith("SQLITE_NAME: ")


@pytest.mark.parametrize(
    "error",
    [
        failure(sqlite3.SQLITE_ERROR, "near x: syntax error"),
        failure(sqlite3.SQLITE_MISUSE),
        sqlite3.ProgrammingError("x"),
    ],
    ids=["syntax", "misuse", "programming"],
)
def test_fault_of_the_program_has_no_sentence(error: sqlite3.Error) -> None:
    assert store_error(error, PATH) is None
