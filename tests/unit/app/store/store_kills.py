"""A program that writes chats and is killed in the middle of it, and what must be there afterwards."""

import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from app.store import ChatStore, NodeState
from tests.support.stored_messages import stored_messages

_ROOT = Path(__file__).resolve().parents[4]

# Each line is printed once the store has said that the write is done.
_PROGRAM = """
import sys
from pathlib import Path
from app.store import ChatStore, NewChat, NewNode, NodeState, Partial, ReplyEnd
from engine import Role

store, notices = ChatStore.open(Path(sys.argv[1]))
assert notices == (), notices
chat = NewChat(title="killed " + sys.argv[2])
store.add_chat(chat)
parent = None
for turn in range(10_000):
    question = NewNode(chat_id=chat.id, parent_id=parent, role=Role.USER, content=f"question {turn} " * 20)
    store.add_node(question).result()
    print("final", question.id, len(question.content), flush=True)
    reply = NewNode(chat_id=chat.id, parent_id=question.id, role=Role.ASSISTANT, state=NodeState.OPEN)
    store.add_node(reply)
    text = ""
    for part in range(6):
        text += f"part {part} of {turn} " * 40
        store.save_partial(Partial(node_id=reply.id, content=text))
        store.flush()
        print("partial", reply.id, len(text), flush=True)
    store.finish_reply(ReplyEnd(node_id=reply.id, content=text, token_ids=range(2000))).result()
    print("final", reply.id, len(text), flush=True)
    parent = reply.id
"""


class Written(NamedTuple):
    """What a killed program had been told is written, by message: how many characters."""

    finals: dict[str, int]
    partials: dict[str, int]


def write_and_kill(path: Path, number: int) -> Written:
    """Run the program until it has written a drawn number of times, and kill it wherever it then is."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(path), str(number)], cwd=_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    written = Written({}, {})
    with process:
        for _ in range(random.Random(number).randint(1, 60)):
            _note(written, process.stdout.readline())
        process.kill()
        for line in process.stdout:  # what it said before it heard
            if line.endswith("\n"):
                _note(written, line)
    return written


def find_losses(path: Path, all_written: list[Written]) -> list[str]:
    """Open the file again, and return what of all that was written is not there."""
    store, notices = ChatStore.open(path)
    try:
        losses = [f"notice: {notice}" for notice in notices]
        store.flush()
        nodes = {node.id: node for node in stored_messages(store)}
        for written in all_written:
            for node_id, length in written.finals.items():
                node = nodes.get(node_id)
                if node is None or node.state is not NodeState.DONE or len(node.content) != length:
                    losses.append(f"final {node_id}: {node and node.state}")
            for node_id, length in written.partials.items():
                node = nodes.get(node_id)
                if node is None or len(node.content) < length:
                    losses.append(f"partial {node_id}")
        losses += [f"open {node.id}" for node in nodes.values() if node.state is NodeState.OPEN]
        losses += [f"not found {row.title}" for row in store.list_chats() if not store.search(row.title)]
    finally:
        store.close()
    return losses


def _note(written: Written, line: str) -> None:
    kind, node_id, length = line.split()
    (written.finals if kind == "final" else written.partials)[node_id] = int(length)
