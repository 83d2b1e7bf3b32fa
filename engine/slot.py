"""What the cache hands about: a lane of the context, a cached beginning of a prompt, a lane's state outside of it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.backend import AdapterKey, StateBytes
from engine.checkpoints import Checkpoint

Common = Callable[[Sequence[int], Sequence[int]], tuple[int, int]]
"""Takes cached tokens and a prompt, both as arrays, and returns how many of each make up their common beginning."""


class Slot:
    """A cache lane.

    Attributes:
        seq_id: llama.cpp's number for it.
        tokens: what its sequence holds.
        adapters: what they were computed with.
        checkpoints: by rising number of tokens; none where the memory can be cut anywhere.
        owner: the request that is using it, None when idle.
        last_used: the cache's clock when it was last given up; 0 never.
        chat_id: whose tokens it holds, None where they are of no chat.
        is_private: whether they may be written nowhere.
        rewritten: see ChatLedger.note.
    """

    def __init__(self, seq_id: int) -> None:
        self.seq_id = seq_id
        self.tokens: list[int] = []
        self.cells: list[int] = []  # one number a cell; slots that share a cell hold the same number
        self.adapters: AdapterKey = ()
        self.checkpoints: list[Checkpoint] = []
        self.owner: str | None = None
        self.last_used = 0
        self.chat_id: str | None = None
        self.is_private = False
        self.rewritten: tuple[int, int] | None = None


class Prefix(NamedTuple):
    """A cached beginning of a prompt.

    Attributes:
        slot: where it is cached, None where nothing is.
        num_cached: tokens of the slot to keep.
        num_covered: tokens of the prompt they stand for; differs where the same bytes were split otherwise.
        checkpoint: where the slot has to go on from, None where it can be cut without one.
        num_known: tokens of the prompt that the slot holds, though its memory may not be able to go back to them.
    """

    slot: Slot | None
    num_cached: int
    num_covered: int
    checkpoint: Checkpoint | None = None
    num_known: int = 0


class Snapshot:
    """A slot's whole state outside the context."""

    def __init__(
        self, state: StateBytes, tokens: Sequence[int], adapters: AdapterKey, checkpoints: list[Checkpoint]
    ) -> None:
        self.state = state
        self.tokens = tokens
        self.adapters = adapters
        self.checkpoints = checkpoints

    @property
    def num_bytes(self) -> int:
        """Bytes it takes, its checkpoints counted."""
        return len(self.state) + 4 * len(self.tokens) + sum(len(item.state) for item in self.checkpoints)


class Acquired(NamedTuple):
    """A slot given to a request.

    Attributes:
        tokens: the prompt as the slot's tokens continue it.
        num_cached: how many of them are cached.
        num_known: how many the cache held, though its memory could not go back to all of them.
    """

    slot: Slot
    tokens: list[int]
    num_cached: int
    num_known: int
