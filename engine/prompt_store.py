"""Snapshots in memory: which are kept, within how many bytes, and which of them a prompt can go on from."""

import time
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.backend import AdapterKey
from engine.messages import KeptPrompt
from engine.metrics import CacheSource
from engine.slot import Common, Snapshot


class StoredPrompt:
    """A snapshot that is kept for later.

    Attributes:
        tokens: what it holds.
        chat_id: whose tokens these are, None where they are of no chat.
        is_private: whether they may be written nowhere.
        source: where the state was when it is asked for next.
        made_at, last_used: seconds since 1970.
        file_name: of its file, where it was read from one.
        cost_s: seconds that reading its file took.
        name: under which it is kept; empty where it is kept of itself.
        rewritten: see ChatLedger.note.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        chat_id: str | None,
        is_private: bool,
        name: str = "",
        rewritten: tuple[int, int] | None = None,
    ) -> None:
        self.tokens = array("i", snapshot.tokens)
        snapshot.tokens = self.tokens
        self.snapshot = snapshot
        self.chat_id = chat_id
        self.is_private = is_private
        self.name = name
        self.rewritten = rewritten
        self.source = CacheSource.RAM
        self.made_at = self.last_used = time.time()
        self.file_name: str | None = None
        self.cost_s = 0.0

    @property
    def adapters(self) -> AdapterKey:
        """What the tokens were computed with."""
        return self.snapshot.adapters

    @property
    def num_bytes(self) -> int:
        """Bytes it takes."""
        return self.snapshot.num_bytes


class Match(NamedTuple):
    """What a prompt can have of a snapshot.

    Attributes:
        num_cached: tokens of the snapshot to keep.
        num_covered: tokens of the prompt they stand for.
    """

    entry: StoredPrompt
    num_cached: int
    num_covered: int


def reusable(
    held: "array[int]", checkpoints: Sequence[int], prompt: "array[int]", common: Common, *, can_cut: bool
) -> tuple[int, int]:
    """Return how many tokens of a snapshot stand for how many of a prompt: all they share, or what a checkpoint covers.

    Args:
        checkpoints: numbers of tokens it can go back to, rising.
        can_cut: whether it can go back to any.
    """
    num_cached, num_covered = common(held, prompt)
    if can_cut or num_cached == len(held):
        return num_cached, num_covered
    for count in reversed(checkpoints):
        if count <= num_cached:
            shared, covered = common(held[:count], prompt)
            if shared == count:
                return shared, covered
    return 0, 0


class PromptStore:
    """The snapshots of one model and context, the one used last at the end.

    Args:
        max_bytes: of all together; 0 keeps none.
        common: how many tokens two lists share.
        can_cut: whether a memory can go back to any of its tokens; else to checkpoints and its end.
    """

    def __init__(self, *, max_bytes: int, common: Common, can_cut: bool) -> None:
        self.max_bytes = max_bytes
        self._common = common
        self._can_cut = can_cut
        self._entries: list[StoredPrompt] = []

    @property
    def entries(self) -> list[StoredPrompt]:
        """What is kept, the one used last at the end."""
        return list(self._entries)

    @property
    def num_bytes(self) -> int:
        """Bytes of all that is kept."""
        return sum(entry.num_bytes for entry in self._entries)

    def find(self, prompt: Sequence[int], adapters: AdapterKey) -> Match | None:
        """Return the snapshot that most of a prompt can go on from; of equals the smallest."""
        numbers = array("i", prompt)
        matches = [self.match(entry, numbers) for entry in self._entries if entry.adapters == adapters]
        found = [match for match in matches if match.num_covered]
        return max(found, key=lambda match: (match.num_covered, -match.entry.num_bytes), default=None)

    def match(self, entry: StoredPrompt, prompt: "array[int]") -> Match:
        """Return what a prompt can have of a snapshot: all they share, or what a checkpoint covers."""
        counts = [item.num_tokens for item in entry.snapshot.checkpoints]
        return Match(entry, *reusable(entry.tokens, counts, prompt, self._common, can_cut=self._can_cut))

    def holder_of(self, tokens: Sequence[int], adapters: AdapterKey) -> StoredPrompt | None:
        """Return a snapshot that makes one of `tokens` needless."""
        numbers = array("i", tokens)
        for entry in self._entries:
            held = entry.tokens[: len(numbers)] if self._can_cut else entry.tokens
            if entry.adapters == adapters and held == numbers:
                return entry
        return None

    def newest_of(self, chat_id: str) -> StoredPrompt | None:
        """Return the snapshot of a chat that was used last."""
        return next((entry for entry in reversed(self._entries) if entry.chat_id == chat_id), None)

    def make_room(self, num_bytes: int) -> bool:
        """Drop what was used longest ago until so many bytes fit; False where they never will."""
        if num_bytes > self.max_bytes:
            return False
        while self._entries and self.num_bytes + num_bytes > self.max_bytes:
            self._entries.remove(self._next_to_go())
        return True

    def _next_to_go(self) -> StoredPrompt:
        """Return the entry used longest ago; one with a name only where those take more than half of the room."""
        num_named_bytes = sum(entry.num_bytes for entry in self._entries if entry.name)
        nameless = (entry for entry in self._entries if not entry.name)
        longest_ago = self._entries[0]
        return longest_ago if num_named_bytes > self.max_bytes // 2 else next(nameless, longest_ago)

    def put(self, entry: StoredPrompt) -> bool:
        """Keep a snapshot, in place of those whose tokens it begins with; False where it does not fit."""
        if entry.num_bytes > self.max_bytes:
            return False
        self.remove(entry)
        self._entries = [other for other in self._entries if not self._stands_in(entry, other)]
        self.make_room(entry.num_bytes)
        self._entries.append(entry)
        return True

    def use(self, entry: StoredPrompt) -> None:
        """Note that a snapshot was of use."""
        entry.last_used = time.time()
        if entry in self._entries:
            self._entries.remove(entry)
            self._entries.append(entry)

    def remove(self, entry: StoredPrompt) -> None:
        """Drop a snapshot, if it is kept."""
        if entry in self._entries:
            self._entries.remove(entry)

    def forget(self, chat_ids: Iterable[str]) -> None:
        """Drop the snapshots of chats."""
        gone = set(chat_ids)
        self._entries = [entry for entry in self._entries if entry.chat_id not in gone]

    def forget_named(self, names: Iterable[str]) -> list[list[int]]:
        """Drop the snapshots that are kept under names; return what they held."""
        gone = set(names) - {""}
        held = [list(entry.tokens) for entry in self._entries if entry.name in gone]
        self._entries = [entry for entry in self._entries if entry.name not in gone]
        return held

    def describe(self, model_name: str) -> list[KeptPrompt]:
        """Return what is kept."""
        return [
            KeptPrompt(
                source=CacheSource.RAM,
                model_name=model_name,
                num_tokens=len(entry.tokens),
                num_bytes=entry.num_bytes,
                chat_id=entry.chat_id,
                last_used=entry.last_used,
                name=entry.name,
            )
            for entry in self._entries
        ]

    def clear(self) -> None:
        """Drop all."""
        self._entries = []

    def _stands_in(self, entry: StoredPrompt, other: StoredPrompt) -> bool:
        """Whether nothing is lost without `other`.

        A memory that cannot be cut needs a checkpoint where it ends; what has a name outlives the chats that begin so,
        and what belongs to no chat is not lost with one.
        """
        is_same_kind = entry.name and len(entry.tokens) == len(other.tokens)
        if other.name and not (is_same_kind and entry.chat_id in (None, other.chat_id)):
            return False
        if other.adapters != entry.adapters or entry.tokens[: len(other.tokens)] != other.tokens:
            return False
        is_checkpoint = any(item.num_tokens == len(other.tokens) for item in entry.snapshot.checkpoints)
        return self._can_cut or is_checkpoint or other.chat_id == entry.chat_id
