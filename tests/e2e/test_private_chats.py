"""Nothing of a private chat is on the disk, in whatever form, when the window was closed and when it was killed."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.paths import find_paths
from app.store import ChatStore
from tests.support.private_driver import PRIVATE, PUBLIC

ROOT = Path(__file__).resolve().parents[2]
START_S = 90.0
DATABASES = {"exit": ".sqlite3", "kill": ".sqlite3-wal"}  # what was written last stays in the log of one that is killed


def forms(text: str) -> dict[str, bytes]:
    """Return what a text may be on a disk: letters of one, two or four bytes, as the fake engine's tokens are."""
    return {name: text.encode(name) for name in ("utf-8", "utf-16-le", "utf-32-le")}


def files_with(folder: Path, text: str) -> set[tuple[str, str]]:
    """Return suffixes of the files that hold a text, and how."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found |= {(path.suffix, name) for name, form in forms(text).items() if form in data}
    return found


class Life:
    """The window, from its start until its private chat was lived; all it may write is below `place`."""

    def __init__(self, place: Path, mode: str) -> None:
        self._mode = mode
        self._log = place.with_name(f"{place.name}-ready.txt")
        for name in ("home", "tmp"):
            (place / name).mkdir(parents=True)
        homes = {f"XDG_{name}_HOME": str(place / "home") for name in ("CONFIG", "CACHE", "DATA", "STATE")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.private_driver", str(place / "data"), str(self._log), mode],
            cwd=ROOT,
            env=os.environ | homes | {"QT_QPA_PLATFORM": "offscreen", "HOME": str(place), "TMPDIR": str(place / "tmp")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> None:
        """Wait until the chat was lived, and see to it that the window ends as it is to."""
        with self._process as process:
            deadline = time.monotonic() + START_S
            while not self._log.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    pytest.fail(f"it came to nothing: {process.communicate()[0]}")
                time.sleep(0.01)
            if self._mode == "kill":
                process.kill()
            assert PRIVATE not in process.communicate(timeout=START_S)[0]

    def leave(self) -> None:
        """End the window if it is still there."""
        with self._process as process:
            process.kill()


@pytest.fixture
def lives(tmp_path: Path, starter_path: Path) -> Iterator[dict[str, Life]]:
    """Return windows that live at the same time, each in a place of its own: most of it is waiting for rest."""
    lives = {mode: Life(tmp_path / mode, mode) for mode in ("exit", "kill")}
    yield lives
    for life in lives.values():
        life.leave()


def test_nothing_of_a_private_chat_is_on_disk_when_the_window_was_closed_or_killed(
    tmp_path: Path, lives: dict[str, Life]
) -> None:
    for mode, life in lives.items():
        place = tmp_path / mode
        life.end()
        assert files_with(place, PRIVATE) == set(), mode
        kept = files_with(place, PUBLIC)
        assert {(DATABASES[mode], "utf-8"), (".snapshot", "utf-32-le")} <= kept, "else this finds nothing"
        assert len(list(place.rglob("*.reply"))) == 1, "of the chat that is kept"
        store, _ = ChatStore.open(find_paths(str(place / "data")).database_file)
        assert [PUBLIC in row.title for row in store.list_chats()] == [True]
        assert store.search(PRIVATE) == []
        store.close()
