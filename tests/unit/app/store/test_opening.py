"""Opening: the program starts whatever is in the place of its chats, keeps the bad file and says so once."""

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.errors import StoreDamaged, StoreError, StoreLocked
from app.store import ChatStore, NewChat
from app.store.opening import mark_damaged
from tests.unit.app.store.conftest import OpenStore
from tests.unit.app.store.samples import add_chat, shown

BAD_FILES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "NULs": lambda path: path.write_bytes(bytes(4096)),
    "text": lambda path: path.write_text("[a"),
    "UTF-16": lambda path: path.write_text("chats" * 999, "utf-16"),
    "the beginning of a file": lambda path: path.write_bytes(b"SQLite format 3\0"),
    "noise": lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 64),
    "folder": lambda path: path.mkdir(),
    "folder with files": lambda path: (path / "deep").mkdir(parents=True),
    "other program's file": lambda path: make_strange(path),
}


def make_strange(path: Path) -> None:
    """Write a sound file that is not ours."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (id INTEGER PRIMARY KEY, text TEXT)")
        connection.commit()


def kept_files(path: Path) -> list[str]:
    """Return the names of what was set aside."""
    return [part.name for part in path.parent.iterdir() if ".damaged-" in part.name]


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_file_is_set_aside_and_told_once(path: Path, open_store: OpenStore, kind: str) -> None:
    path.parent.mkdir()
    BAD_FILES[kind](path)
    before = path.read_bytes() if path.is_file() else b""
    store = open_store()
    (aside,) = kept_files(path)
    (notice,) = store.notices  # type: ignore[attr-defined]
    assert notice.endswith(".")
    assert aside in notice
    assert not before or (path.parent / aside).read_bytes() == before
    chat_id, _ = add_chat(store, "works")
    store.close()
    store = open_store()
    assert store.notices == ()  # type: ignore[attr-defined]
    assert shown(store, chat_id) == ["works"]
    assert kept_files(path) == [aside]


def test_first_start_says_nothing(open_store: OpenStore, path: Path) -> None:
    store = open_store()
    assert store.notices == ()  # type: ignore[attr-defined]
    assert store.is_kept
    assert store.path == path


@pytest.mark.parametrize("table", ["chats", "nodes", "partials", "drafts", "facts", "grams"])
def test_file_without_a_table_is_set_aside_and_the_rest_saved(path: Path, open_store: OpenStore, table: str) -> None:
    store = open_store()
    add_chat(store, "a harbour", "a ship", title="Sea")
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"DROP TABLE {table}")
    store = open_store()
    assert len(store.notices) == len(kept_files(path)) == 1  # type: ignore[attr-defined]
    (row,) = store.list_chats()
    assert row.title == ("Recovered chat" if table == "chats" else "Sea")
    assert shown(store, row.id) == ([] if table == "nodes" else ["a harbour", "a ship"])
    assert len(store.search("harbour")) == (0 if table == "nodes" else 1)


def test_stale_log_of_a_lost_file_is_not_taken_for_the_new_ones(path: Path, open_store: OpenStore) -> None:
    store = open_store()
    add_chat(store, "q")
    log = path.with_name(f"{path.name}-wal")
    stale = log.read_bytes()
    store.close()
    path.unlink()
    log.write_bytes(stale)
    store = open_store()
    assert store.list_chats() == []
    assert [part.read_bytes() for part in path.parent.glob("*-wal.*")] == [stale]


def test_damage_found_in_use_is_repaired_at_the_next_start(
    path: Path, open_store: OpenStore, troubles: list[StoreError]
) -> None:
    store = open_store()
    first, _ = add_chat(store, "x" * 100_000, title="first")
    chats = [add_chat(store, f"text {number} " * 200, title=f"chat {number}")[0] for number in range(20)]
    store.close()
    pages = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'nodes'").fetchone()
    pages[(root - 1) * 4096 : (root - 1) * 4096 + 100] = bytes(100)
    path.write_bytes(pages)

    store = open_store()
    assert store.notices == ()  # type: ignore[attr-defined]
    with pytest.raises(StoreDamaged, match="damaged"):
        store.load_chat(first)
    store.close()
    troubles.clear()
    store = open_store()
    assert len(store.notices) == 1  # type: ignore[attr-defined]
    assert "21 chats" in store.notices[0]  # type: ignore[attr-defined]
    assert shown(store, first) == ["x" * 100_000]
    assert [shown(store, chat_id) for chat_id in chats] == [[f"text {number} " * 200] for number in range(20)]
    store.close()
    assert open_store().notices == ()  # type: ignore[attr-defined]


def test_what_an_ended_start_left_is_removed(path: Path, open_store: OpenStore) -> None:
    (path.parent / f".{path.name}-recovery").mkdir(parents=True)
    (path.parent / f".{path.name}-recovery" / "copy.sqlite3").write_bytes(b"private")
    (path.parent / f".{path.name}-x1").write_bytes(b"half a file")
    open_store().close()
    assert {part.name for part in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


@pytest.mark.parametrize("can_link", [True, False])
def test_damaged_file_is_replaced_with_links_and_without(
    path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, can_link: bool
) -> None:
    if not can_link:
        monkeypatch.delattr("os.link")
    store = open_store()
    add_chat(store, "q")
    store.close()
    path.write_bytes(path.read_bytes()[100:])
    before = path.read_bytes()
    store = open_store()
    assert [(path.parent / name).read_bytes() for name in kept_files(path)] == [before]
    chat_id, _ = add_chat(store, "goes on")
    store.close()
    assert shown(open_store(), chat_id) == ["goes on"]


def test_place_is_never_empty_when_a_start_ends_during_recovery(
    path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    chat_id, _ = add_chat(store, "q")
    store.close()
    content = path.read_bytes()
    path.write_bytes(bytes(4096) + content[4096:])

    def end(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", end)
        with pytest.raises(KeyboardInterrupt):
            ChatStore.open(path)
    store = open_store()
    assert len(store.notices) == 1  # type: ignore[attr-defined]
    assert shown(store, chat_id) == ["q"]


def test_sound_file_that_was_marked_is_looked_through_once(path: Path, open_store: OpenStore) -> None:
    store = open_store()
    chat_id, _ = add_chat(store, "q")
    store.close()
    mark_damaged(path)
    store = open_store()
    assert store.notices == ()  # type: ignore[attr-defined]
    assert shown(store, chat_id) == ["q"]
    assert [part.name for part in path.parent.glob("*.check")] == []


def test_locked_file_is_named_when_it_stays_locked(path: Path, open_store: OpenStore) -> None:
    open_store().close()
    with closing(sqlite3.connect(path, isolation_level=None)) as locker:
        locker.execute("PRAGMA locking_mode = EXCLUSIVE")
        locker.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreLocked, match="locked"):
            ChatStore.open(path, lock_timeout_s=0.1)
    assert kept_files(path) == []
    assert open_store().notices == ()  # type: ignore[attr-defined]


def test_link_to_a_file_elsewhere_stays_a_link(path: Path, tmp_path: Path, open_store: OpenStore) -> None:
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere.sqlite3")
    store = open_store()
    add_chat(store, "q")
    store.close()
    assert path.is_symlink()
    assert len(open_store().list_chats()) == 1


@pytest.mark.parametrize("name", ["with blanks", "ü日本", "a#b", "50%20", "what?mode=ro", "it's"])
def test_odd_names_of_folders_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "chats.sqlite3"
    store, notices = ChatStore.open(path)
    chat_id, _ = add_chat(store, "q")
    assert shown(store, chat_id) == ["q"]
    store.close()
    assert (notices, path.is_file()) == ((), True)


class FullDisk(sqlite3.Connection):
    """A connection to a file that cannot grow."""

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        """Refuse what adds something."""
        if statement.startswith("INSERT OR REPLACE"):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return super().execute(statement, values)


def test_chats_can_be_read_when_the_disk_is_full(
    path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    chat_id, _ = add_chat(store, "q")
    store.close()
    monkeypatch.setattr(
        "app.store.opening.connect_to_write",
        lambda path, busy_s: sqlite3.connect(path, isolation_level=None, factory=FullDisk),
    )
    store = open_store()
    assert store.is_kept
    assert shown(store, chat_id) == ["q"]


def test_starts_at_the_same_moment_make_one_file(path: Path) -> None:
    found: list[tuple[ChatStore, tuple[str, ...]]] = []
    faults: list[BaseException] = []
    gate = threading.Barrier(4)

    def start() -> None:
        try:
            gate.wait()
            found.append(ChatStore.open(path))
            found[-1][0].add_chat(NewChat()).result(60)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert [(len(store.list_chats()), notices) for store, notices in found] == [(4, ())] * 4
    for store, _ in found:
        store.close()
    assert {part.name for part in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


@pytest.fixture
def outside() -> Iterator[Path]:
    """Return a folder that every user can enter, unlike those of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="fireside-read-only-"))
    folder.chmod(0o755)
    yield folder
    for part in (folder, *folder.rglob("*")):
        part.chmod(0o755)
    shutil.rmtree(folder)


READ_ONLY = """
import os, sys, tempfile
from pathlib import Path
from typing import Any
from app.store import ChatStore, NewChat
from app.store.recovery import recover
import encodings.idna, shutil, json
if hasattr(os, "setuid") and os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)  # nothing is read-only for the one who may do everything
path = Path(sys.argv[1])
tempfile.tempdir = sys.argv[2]
os.umask(0o077)
store, notices = ChatStore.open(path)
store.add_chat(NewChat(title="new")).result(30)
titles = sorted(row.title for row in store.list_chats())
elsewhere = store.path
store.close()
print(json.dumps([notices, titles, store.is_kept, elsewhere.exists()]))
"""


@pytest.mark.parametrize("kind", ["folder", "file", "unreadable file", "damaged in a folder", "no folder can be made"])
def test_program_starts_when_nothing_can_be_written(outside: Path, kind: str) -> None:
    folder, temporary = outside / "data", outside / "tmp"
    temporary.mkdir()
    temporary.chmod(0o777)
    path = folder / "chats.sqlite3"
    store, _ = ChatStore.open(path)
    add_chat(store, "q", title="old")
    store.close()
    if kind == "damaged in a folder":
        path.write_bytes(b"no chats at all")
    path.chmod({"file": 0o444, "unreadable file": 0o000}.get(kind, 0o644))
    folder.chmod(0o555)
    before = sorted(part.name for part in folder.iterdir())
    if kind == "no folder can be made":
        path = folder / "deeper" / "chats.sqlite3"
    root = Path(__file__).resolve().parents[4]
    result = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(path), str(temporary)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    notices, titles, is_kept, is_left = json.loads(result.stdout)
    assert titles == (["new", "old"] if kind in ("folder", "file") else ["new"])
    assert (is_kept, is_left, list(temporary.iterdir())) == (False, False, [])
    assert notices[-1].endswith("cannot be written, so what is new is kept only until Fireside ends.")
    assert sorted(part.name for part in folder.iterdir()) == before
