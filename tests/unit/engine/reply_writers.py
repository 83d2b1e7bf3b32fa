"""Stores replies in a process of its own, for a test that ends it at any moment."""

import itertools
import sys
from pathlib import Path

from engine.messages import FinishReason
from engine.response_file import KeptReply
from engine.response_folder import ResponseFolder

MAX_BYTES = 1 << 20


def reply_of(number: int, *, chat_id: str = "a", size: int = 40_000) -> KeptReply:
    """Return a reply whose text says which one it is."""
    return KeptReply(
        key=f"key{number}",
        chat_ids=(chat_id,),
        text=f"{number} " * (size // 5),
        thinking="",
        token_ids=(1, 2),
        finish_reason=FinishReason.STOP,
        stop_string=None,
        seconds=1.0,
        num_prompt_tokens=3,
        num_thinking_tokens=0,
        seed=None,
    )


def write_for_ever(folder: Path) -> None:
    """Store one reply after the other; says on standard output when the first one is there."""
    replies = ResponseFolder(folder, max_bytes=MAX_BYTES, on_read=lambda reply: None)
    for number in itertools.count():
        replies.write(reply_of(number))
        replies._thread.submit(lambda: None).result()
        if not number:
            print("ready", flush=True)


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]))
