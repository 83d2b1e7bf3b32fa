"""One window for each folder of chats: who has it, what a later start hands over, and what is not believed."""

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.desktop import single_instance
from app.desktop.single_instance import LOCK_NAME, MAX_MESSAGE_BYTES, Claim, claim, message_for, read_message

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def first(folder: Path, qtbot: QtBot) -> Iterator[Claim]:
    claimed = claim(folder, model=None)
    assert claimed is not None
    yield claimed
    claimed.close()
    claimed.deleteLater()


SECOND = """
import sys
from pathlib import Path

from app.desktop.single_instance import claim
from app.errors import WindowNotAnswering

try:
    claimed = claim(Path(sys.argv[1]), model=sys.argv[2], starting_s=float(sys.argv[3]))
    print("handed over" if claimed is None else "claimed")
except WindowNotAnswering as error:
    print(error.message)
"""


def start_again(folder: Path, model: str = "", *, starting_s: float = 15.0) -> "subprocess.Popen[str]":
    """Start a second time."""
    command = [sys.executable, "-c", SECOND, str(folder), model, str(starting_s)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def outcome(process: "subprocess.Popen[str]") -> str:
    """Return how the second start ended."""
    return process.communicate(timeout=20)[0].strip()


def send(folder: Path, data: bytes) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    client.connect(str(folder / "window.socket"))
    client.send(data)
    return client


def test_second_start_hands_over_and_gets_no_claim(first: Claim, folder: Path, qtbot: QtBot) -> None:
    first.answer()
    with qtbot.waitSignal(first.raised) as caught:
        second = start_again(folder, "models/small é日.gguf")
    assert outcome(second) == "handed over"
    assert caught.args == [str(Path("models/small é日.gguf").absolute())]


def test_start_while_the_first_window_begins_waits_for_it(first: Claim, folder: Path, qtbot: QtBot) -> None:
    second = start_again(folder)
    assert first._server is not None
    qtbot.waitUntil(first._server.hasPendingConnections)
    assert second.poll() is None
    with qtbot.waitSignal(first.raised) as caught:
        first.answer()
    assert outcome(second) == "handed over"
    assert caught.args == [""]


def test_window_that_hangs_is_told_in_one_sentence(first: Claim, folder: Path) -> None:
    began = time.monotonic()
    complaint = outcome(start_again(folder, starting_s=0.0))
    assert complaint == "Fireside is open already, and its window does not answer."
    assert time.monotonic() - began > 1.5


def test_chats_are_free_after_close(folder: Path, qtbot: QtBot) -> None:
    for _ in range(2):
        claimed = claim(folder, model=None)
        assert claimed is not None
        claimed.close()
    assert not (folder / LOCK_NAME).exists()


def test_start_while_the_first_window_ends_gets_the_chats(first: Claim, folder: Path, qtbot: QtBot) -> None:
    second = start_again(folder)
    assert first._server is not None
    qtbot.waitUntil(first._server.hasPendingConnections)
    first.stop_listening()
    first.close()
    assert outcome(second) == "claimed"


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 90, b"999999999\npython3\nelsewhere\n\n\n", f"{os.getpid()}\npytest\n\n\n".encode()],
    ids=["empty", "nul", "other-machine", "number-taken-by-another"],
)
def test_lock_left_behind_by_a_dead_process_is_taken(folder: Path, qtbot: QtBot, content: bytes) -> None:
    (folder / LOCK_NAME).write_bytes(content)
    os.utime(folder / LOCK_NAME, (1, 1))
    claimed = claim(folder, model=None)
    assert claimed is not None
    claimed.close()


def test_socket_left_behind_is_replaced(folder: Path, qtbot: QtBot) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(folder / "window.socket"))
    left.close()
    claimed = claim(folder, model=None)
    assert claimed is not None
    claimed.answer()
    with qtbot.waitSignal(claimed.raised):
        send(folder, message_for(None)).close()
    claimed.close()


def test_two_folders_have_two_windows(first: Claim, folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    claimed = claim(other, model=None)
    assert claimed is not None
    claimed.close()


def test_long_folder_name_listens_elsewhere(tmp_path: Path, qtbot: QtBot) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    claimed = claim(folder, model=None)
    assert claimed is not None
    claimed.answer()
    with qtbot.waitSignal(claimed.raised):
        second = start_again(folder)
    assert outcome(second) == "handed over"
    claimed.close()


@pytest.mark.allow_log("cannot be locked")
def test_folder_that_cannot_be_made_does_not_keep_the_window_from_opening(folder: Path, qtbot: QtBot) -> None:
    (folder / "file").touch()
    claimed = claim(folder / "file" / "data", model=None)
    assert claimed is not None
    claimed.answer()
    claimed.close()


def test_nobody_else_may_speak_to_the_window(first: Claim, folder: Path) -> None:
    mode = (folder / "window.socket").stat().st_mode
    assert stat.S_IMODE(mode) & 0o077 == 0


def test_socket_of_another_user_is_not_trusted(
    first: Claim, folder: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert single_instance._hand_over(folder, "secret.gguf", 0.2) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"{}x\n",
        b"[]\n",
        b"3\n",
        b"null\n",
        b'{"model": 3}\n',
        b'{"model": null}\n',
        b'{"model": ["a"]}\n',
        b"\xff\xfe\n",
        b"[" * 20_000 + b"\n",
    ],
    ids=["empty", "half", "list", "number", "null", "no-text", "none", "nested", "bytes", "deep"],
)
def test_message_that_is_none_is_ignored(first: Claim, folder: Path, qtbot: QtBot, data: bytes) -> None:
    first.answer()
    with qtbot.assertNotEmitted(first.raised):
        client = send(folder, data)
        qtbot.waitUntil(lambda: is_closed(client))
    client.close()
    with qtbot.waitSignal(first.raised):
        send(folder, b'{"model": ""}\n').close()


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except BlockingIOError:
        return False


def test_message_without_end_is_cut_off(first: Claim, folder: Path, qtbot: QtBot) -> None:
    first.answer()
    client = send(folder, b"")
    sent = 0
    with qtbot.assertNotEmitted(first.raised):
        while sent <= MAX_MESSAGE_BYTES and not is_closed(client):
            try:
                sent += client.send(b"a" * 4096)
            except BlockingIOError:
                pass
            except BrokenPipeError:
                break
            qtbot.wait(1)
        qtbot.waitUntil(lambda: is_closed(client))
    client.close()


def test_visitor_that_says_nothing_is_sent_away(
    first: Claim, folder: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_instance, "_READ_MS", 30)
    first.answer()
    client = send(folder, b"")
    qtbot.waitUntil(lambda: is_closed(client))
    client.close()


@pytest.mark.parametrize(
    "model", ["/a/\udcff.gguf", "/a/\x00b.gguf", "/a/\u202e\n é日👍.gguf"], ids=["no-text", "nul", "odd"]
)
def test_odd_path_arrives_and_never_as_another_one(first: Claim, folder: Path, qtbot: QtBot, model: str) -> None:
    first.answer()
    with qtbot.waitSignal(first.raised) as caught:
        send(folder, json.dumps({"model": model}).encode() + b"\n").close()
    assert caught.args == [model.replace("\udcff", "\ufffd")]


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (None, ""),
        ("", ""),
        ("starter", "starter"),
        ("small.gguf", "small.gguf"),
        ("a/b", "a/b"),
        ("/a/b\n.gguf", "/a/b\n.gguf"),
    ],
    ids=["none", "empty", "name", "file", "path", "line-break"],
)
def test_message_holds_an_absolute_path(model: str | None, wanted: str) -> None:
    expected = wanted if wanted in ("", "starter") else str(Path(wanted).absolute())
    data = message_for(model)
    assert data.endswith(b"\n") and data.count(b"\n") == 1
    assert read_message(data) == expected
    assert json.loads(data)["model"] == expected
