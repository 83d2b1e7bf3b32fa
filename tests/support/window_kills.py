"""Kills of the real program while a reply is being written, and what of it has to be in the store afterwards.

A person may lose the last quarter of a second. Where the machine itself kept the window's thread waiting just before
the kill, by as much more: nothing could be saved meanwhile, and nothing could be seen.
"""

import itertools
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from app.paths import find_paths
from app.store import ChatStore, Node, NodeState
from engine import Role
from tests.support.stored_messages import stored_messages
from tests.support.window_driver import BEAT_S

_ROOT = Path(__file__).resolve().parents[2]
_DRIVER = "tests.support.window_driver"
_MAY_BE_LOST_S = 0.25
_START_S = 60.0
_LONGEST_STREAM_S = 3.0


class Exchange(NamedTuple):
    """A question and what had been shown of its reply when the program was killed.

    Attributes:
        was_asked: so long before the kill that the question has to be there.
        text: of the reply, as far as it has to be there.
        has_ended: whether that is all of it.
        shown: all that was shown.
    """

    question: str
    was_asked: bool
    text: str
    has_ended: bool
    shown: str


def stream_and_kill(data_dir: Path, number: int, *, longest_stream_s: float = _LONGEST_STREAM_S) -> list[Exchange]:
    """Start the program, kill it at a drawn moment after the first piece of a reply, and return what was on screen.

    Args:
        longest_stream_s: from the first piece; a reply takes half a second.
    """
    log = data_dir.parent / f"{data_dir.name}-shown-{number}.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", _DRIVER, str(data_dir), str(log), f"run {number}"],
        cwd=_ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        _wait_for_text(process, log)
        # The clock of the wait is coarse enough; what counts is read from the log.
        time.sleep(random.Random(number).uniform(0, longest_stream_s))
        killed_at = time.time()
        process.kill()
    return _exchanges(log, killed_at)


def find_losses(data_dir: Path, exchanges: list[Exchange]) -> list[str]:
    """Open the store as the next start would, and return a line for each thing that is not as it has to be."""
    path = find_paths(str(data_dir)).database_file
    if not path.exists():
        return ["there is no store"]
    store, notices = ChatStore.open(path)
    try:
        losses = [f"notice: {notice}" for notice in notices]
        store.flush()
        nodes = stored_messages(store)
    finally:
        store.close()
    losses += [f"left open: {node.id}" for node in nodes if node.state is NodeState.OPEN]
    questions = {node.content: node for node in nodes if node.role is Role.USER}
    replies = {node.parent_id: node for node in nodes if node.role is Role.ASSISTANT}
    for exchange in exchanges:
        question = questions.get(exchange.question)
        if question is not None:
            losses += _reply_losses(exchange, replies.get(question.id))
        elif exchange.was_asked:
            losses.append(f"not there: {exchange.question}")
    with closing(sqlite3.connect(path)) as connection:
        losses += [str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    return losses


def _reply_losses(exchange: Exchange, reply: Node | None) -> list[str]:
    what = f"reply to {exchange.question}"
    if reply is None:
        return [f"not there: {what}"] if exchange.was_asked else []
    if not reply.content.startswith(exchange.text):
        return [f"{what}: {len(reply.content)} characters of {len(exchange.text)}, {len(exchange.shown)} were shown"]
    if exchange.has_ended and (reply.state is not NodeState.DONE or reply.content != exchange.text):
        return [f"{what}: had ended, and is {reply.state.value}"]
    if reply.state not in (NodeState.DONE, NodeState.INTERRUPTED):
        return [f"{what}: is {reply.state.value}"]
    return []


def _wait_for_text(process: "subprocess.Popen[str]", log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while not (log.exists() and b'"shown"' in log.read_bytes()):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the program showed no reply: {process.communicate()[0]}")
        time.sleep(0.01)


def _exchanges(log: Path, killed_at: float) -> list[Exchange]:
    entries = [json.loads(line) for line in log.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]
    entries = [entry for entry in entries if entry[0] <= killed_at]
    until = killed_at - _MAY_BE_LOST_S - _longest_wait([entry[0] for entry in entries if entry[1] == "beat"], killed_at)
    exchanges: list[Exchange] = []
    for at, kind, *rest in entries:
        is_due = at <= until
        if kind == "asked":
            exchanges.append(Exchange(rest[0], is_due, "", False, ""))
        elif kind in ("shown", "ended") and exchanges:
            last = exchanges[-1]
            shown = rest[0] if kind == "ended" else last.shown + rest[0]
            exchanges[-1] = last._replace(
                shown=shown, text=shown if is_due else last.text, has_ended=is_due and kind == "ended"
            )
        elif kind == "failed":
            raise RuntimeError(rest[0])
    return exchanges


def _longest_wait(beats: list[float], killed_at: float) -> float:
    """Return by how many seconds the window's thread was late in the second before the kill."""
    late = [beat for beat in [*beats, killed_at] if beat > killed_at - 1.0]
    before = [beat for beat in beats if beat <= killed_at - 1.0][-1:]
    times = before + late
    gaps = [after - begin for begin, after in itertools.pairwise(times)]
    return max(0.0, max(gaps, default=0.0) - 2 * BEAT_S)
