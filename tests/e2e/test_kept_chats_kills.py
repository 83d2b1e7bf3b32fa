"""A worker that is killed while it writes what it keeps: the next one says the same as ever."""

import contextlib
import os
import signal
import threading
from pathlib import Path

from engine import CacheParams, CacheSource, ChatMessage, Finished, Generate, LoadModel, ProcessClient, Role
from engine.snapshot_file import read_snapshot

_LIMIT_S = 60


class Worker:
    """A fake engine in a process of its own, asked one thing after the other."""

    def __init__(self, folder: Path) -> None:
        self.client = ProcessClient(fake=True)
        self._answers: dict[str, threading.Event] = {}
        self.replies: dict[str, Finished] = {}
        self.client.start(self._on_event)
        cache = CacheParams(ram_mib=64, disk_mib=256, folder=str(folder))
        self._ask(LoadModel(request_id="load", path="fake:n_words=40", cache=cache))

    def reply(self, request_id: str, text: str) -> Finished:
        """Return the answer to a message."""
        messages = (ChatMessage(Role.USER, text),)
        self._ask(Generate(request_id=request_id, messages=messages, chat_id=text[:20], read_ahead=False))
        return self.replies[request_id]

    def _ask(self, command: LoadModel | Generate) -> None:
        done = self._answers[command.request_id] = threading.Event()
        self.client.send(command)
        assert done.wait(_LIMIT_S)

    def _on_event(self, event: object) -> None:
        request_id = getattr(event, "request_id", "")
        if isinstance(event, Finished):
            self.replies[request_id] = event
        if type(event).__name__ in ("Finished", "Failed", "ModelLoaded"):
            self._answers[request_id].set()


def check_worker_kills(folder: Path, num_kills: int) -> None:
    """Kill workers soon after they were told to end, when they write; compare what the next ones say."""
    texts = [f"{number} " + "tell me about the sea and its tides " * 12 for number in range(4)]
    expected: dict[str, str] = {}
    for number in range(num_kills):
        worker = Worker(folder)
        for place, text in enumerate(texts):
            answer = worker.reply(f"{number}-{place}", text)
            assert answer.text == expected.setdefault(text, answer.text)
        ending = threading.Thread(target=worker.client.close)
        pid = worker.client.pid
        ending.start()
        threading.Event().wait(0.0007 * (number * 37 % 100))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or 0, signal.SIGKILL)
        ending.join(_LIMIT_S)
        for path in folder.glob("*.snapshot"):
            read_snapshot(path)
    last = Worker(folder)
    for text in texts:
        answer = last.reply(text, text)
        assert answer.text == expected[text]
        assert answer.metrics.cache_source is not CacheSource.RAM
    last.client.close()


def test_replies_are_the_same_when_workers_are_killed_while_they_write(tmp_path: Path) -> None:
    check_worker_kills(tmp_path, 3)
