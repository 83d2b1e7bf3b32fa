"""Records of measuring runs: what was measured, of which model, as one JSON object each."""

import dataclasses
import json
import sqlite3
import time
from collections.abc import Mapping
from typing import Any

from app.store.records import new_id
from app.store.rows import to_json
from engine import clean_text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One measuring run.

    Attributes:
        kind: what made it, for example "bench".
        created_at: seconds since 1970.
        record: everything that is needed to repeat and to compare it.
    """

    kind: str
    record: Mapping[str, Any]
    id: str = dataclasses.field(default_factory=new_id)
    created_at: float = dataclasses.field(default_factory=time.time)
    model_fingerprint: str = ""
    model_name: str = ""


def add_run(connection: sqlite3.Connection, run: Run) -> None:
    """Keep a run; adding one twice, after a failure, adds it once."""
    connection.execute(
        """INSERT INTO runs (id, kind, created_at, model_fingerprint, model_name, record)
        VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING""",
        (
            *(run.id, clean_text(run.kind), run.created_at),
            *(clean_text(run.model_fingerprint), clean_text(run.model_name), to_json(run.record)),
        ),
    )


def read_runs(connection: sqlite3.Connection, kind: str | None) -> list[Run]:
    """Return the runs of a kind, or all, the newest first; of one that cannot be read the record is empty."""
    rows = connection.execute(
        """SELECT id, kind, created_at, model_fingerprint, model_name, record FROM runs
        WHERE ?1 IS NULL OR kind = ?1 ORDER BY seq DESC""",
        (kind,),
    )
    return [
        Run(
            id=row[0], kind=row[1], created_at=row[2], model_fingerprint=row[3], model_name=row[4], record=_read(row[5])
        )
        for row in rows
    ]


def _read(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
