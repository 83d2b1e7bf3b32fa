"""Times the store of chats on a file it makes: `python -m benchmarks.store [--chats N]`.

Each chat has ten messages of about three hundred characters, one has four hundred. Seconds are the median of the tries,
on the caller's clock; what is written is waited for, unless it says "caller".
"""

import argparse
import functools
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from app.store import ChatStore, NewChat, NewNode, NodeState, Partial, ReplyEnd
from app.store.opening import open_file
from app.store.writes import add_chat, add_node
from engine import Role

NUM_MESSAGES = 10
NUM_MESSAGES_OF_LONG_CHAT = 400
NUM_TRIES = 9
NUM_WORDS = 20_000
RARE = "zyzzyva quoll"
CHINESE = "日本語のテスト"


def main() -> None:
    """Make a file of chats and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=10_000)
    num_chats = parser.parse_args().chats
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.sqlite3"
        started_at = time.perf_counter()
        long_chat, words = fill(path, num_chats)
        num_bytes = path.stat().st_size
        print(f"made {num_chats} chats in {time.perf_counter() - started_at:.1f} s, {num_bytes / 1e6:.0f} MB")
        measure(path, long_chat, words)


def fill(path: Path, num_chats: int) -> tuple[str, list[str]]:
    """Write the chats, and return the id of the long one and the words of all, the most frequent first."""
    drawn = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxy"
    words = ["".join(drawn.choices(letters, k=drawn.randint(2, 9))) for _ in range(NUM_WORDS)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, NUM_WORDS + 1)))

    def text() -> str:
        return " ".join(drawn.choices(words, cum_weights=weights, k=50))

    opened = open_file(path, lock_timeout_s=1)
    long_chat = ""
    with closing(sqlite3.connect(opened.path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for number in range(num_chats):
            chat = NewChat(title=text()[:40])
            add_chat(connection, chat, 0.0)
            is_long = number == num_chats // 2
            long_chat = chat.id if is_long else long_chat
            parent = None
            for turn in range(NUM_MESSAGES_OF_LONG_CHAT if is_long else NUM_MESSAGES):
                content = text()
                if is_long and turn == 0:
                    content += f" {RARE} {CHINESE} C#"
                role = Role.ASSISTANT if turn % 2 else Role.USER
                node = NewNode(chat_id=chat.id, parent_id=parent, role=role, content=content, token_ids=range(75))
                add_node(connection, node, 0.0, is_shown=True)
                parent = node.id
        connection.execute("COMMIT")
    return long_chat, words


def measure(path: Path, long_chat: str, words: list[str]) -> None:
    """Print the time of each thing a person waits for."""

    def open_and_close() -> None:
        store, _ = ChatStore.open(path)
        store.close()

    show("open and close", open_and_close)
    store, _ = ChatStore.open(path)
    show("list the chats", store.list_chats)
    show("load a chat of 400 messages", lambda: store.load_chat(long_chat))
    sought = {
        "a rare phrase": RARE,
        "a frequent word": words[0],
        "two frequent words": f"{words[0]} {words[1]}",
        "four frequent words": " ".join(words[:4]),
        "a word in some messages": words[NUM_WORDS // 4],
        "Chinese characters": CHINESE[:3],
        "two Chinese characters": CHINESE[:2],
        "two letters, rare": "c#",
        "two letters, frequent": words[0][:2],
        "one letter": "e",
        "what is nowhere": "qzqzqz",
        "ten thousand characters": "abc " * 2500,
    }
    for name, text in sought.items():
        num_hits = len(store.search(text))
        show(f"search: {name} ({num_hits} hits)", functools.partial(store.search, text))
    chat = store.load_chat(long_chat)
    assert chat is not None
    reply = NewNode(chat_id=long_chat, parent_id=chat.active_leaf, role=Role.ASSISTANT, state=NodeState.OPEN)
    store.add_node(reply).result()
    content = "a word of it " * 2000

    def save_and_wait() -> None:
        store.save_partial(Partial(node_id=reply.id, content=content))
        store.flush()

    show(
        "save part of a reply of 26 kB, caller", lambda: store.save_partial(Partial(node_id=reply.id, content=content))
    )
    show("save part of a reply of 26 kB", save_and_wait)
    open_replies = []
    for _ in range(NUM_TRIES):
        open_replies.append(_beside(store, reply))

    def finish() -> None:
        end = ReplyEnd(node_id=open_replies.pop().id, content=content, token_ids=range(8000))
        store.finish_reply(end).result()

    show("finish a reply of 26 kB", finish)
    store.close()


def _beside(store: ChatStore, reply: NewNode) -> NewNode:
    node = NewNode(chat_id=reply.chat_id, parent_id=reply.parent_id, role=reply.role, state=NodeState.OPEN)
    store.add_node(node).result()
    return node


def show(name: str, action: Callable[[], Any]) -> None:
    """Print the median time of an action in milliseconds."""
    times = []
    for _ in range(NUM_TRIES):
        started_at = time.perf_counter()
        action()
        times.append(time.perf_counter() - started_at)
    print(f"{statistics.median(times) * 1e3:9.2f} ms  (longest {max(times) * 1e3:.2f})  {name}", flush=True)


if __name__ == "__main__":
    main()
