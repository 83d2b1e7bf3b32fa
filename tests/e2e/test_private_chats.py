"""Nothing of a private chat is on the disk, in whatever form, when the window was closed and when it was killed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.paths import find_paths
from app.store import ChatStore
from tests.support.private_driver import PRIVATE, PUBLIC

ROOT = Path(__file__).resolve().parents[2]
START_S = 90.0


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


def live_and_end(place: Path, mode: str) -> None:
    """Run the window until its private chat was lived, and end it; all it may write is below `place`."""
    log = place.parent / "ready.txt"
    log.unlink(missing_ok=True)
    for name in ("home", "tmp"):
        (place / name).mkdir(parents=True, exist_ok=True)
    homes = {f"XDG_{name}_HOME": str(place / "home") for name in ("CONFIG", "CACHE", "DATA", "STATE")}
    command = [sys.executable, "-m", "tests.support.private_driver", str(place / "data"), str(log), mode]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | homes | {"QT_QPA_PLATFORM": "offscreen", "HOME": str(place), "TMPDIR": str(place / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        deadline = time.monotonic() + START_S
        while not log.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                pytest.fail(f"it came to nothing: {process.communicate()[0]}")
            time.sleep(0.01)
        if mode == "kill":
            process.kill()
        assert PRIVATE not in process.communicate(timeout=START_S)[0]


def test_nothing_of_a_private_chat_is_on_disk_when_the_window_was_closed_or_killed(
    tmp_path: Path, starter_path: Path
) -> None:
    place = tmp_path / "place"
    for mode in ("exit", "kill"):
        live_and_end(place, mode)
        assert files_with(place, PRIVATE) == set(), mode
        kept = files_with(place, PUBLIC)
        assert {(".sqlite3", "utf-8"), (".snapshot", "utf-32-le")} <= kept, "else this finds nothing"
        assert len(list(place.rglob("*.reply"))) == 1, "of the chat that is kept"
    store, _ = ChatStore.open(find_paths(str(place / "data")).database_file)
    assert [PUBLIC in row.title for row in store.list_chats()] == [True, True]
    assert store.search(PRIVATE) == []
    store.close()
