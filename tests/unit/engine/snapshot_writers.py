"""Writes snapshots in a process of its own, for a test that ends it at any moment."""

import itertools
import sys
from pathlib import Path
from typing import Any

from engine.snapshot_file import SnapshotHeader, tokens_to_bytes
from engine.snapshot_folder import SnapshotFolder

NUM_BYTES = 3 << 20


def header_of(tokens: list[int], *, chat_id: str = "chat", num_bytes: int = NUM_BYTES, model: str = "m", **more: Any):
    """Return a header of so many bytes of state and no checkpoints."""
    fields: dict[str, Any] = {
        "model": model,
        "settings": "s",
        "model_name": "A model",
        "adapters": (),
        "chat_id": chat_id,
        "tokens": tokens_to_bytes(tokens),
        "num_state_bytes": num_bytes,
        "checkpoints": (),
        "prefill_s_per_token": None,
        "written_at": 0.0,
    }
    return SnapshotHeader(**(fields | more))


def state_of(tokens: list[int], num_bytes: int = NUM_BYTES) -> bytes:
    """Return a state that says which tokens it is of."""
    return (tokens_to_bytes(tokens) * (num_bytes // (4 * len(tokens)) + 1))[:num_bytes]


def write_for_ever(folder: Path) -> None:
    """Write one snapshot after the other; says on standard output when the first one is begun."""
    snapshots = SnapshotFolder(folder, max_bytes=8 * NUM_BYTES)
    snapshots.flush(10)
    print("ready", flush=True)
    for number in itertools.count(1):
        tokens = [number, number + 1, number + 2]
        snapshots.write(header_of(tokens), [state_of(tokens)], can_cut=True)
        snapshots.flush(10)


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]))
