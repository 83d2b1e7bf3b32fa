"""Slots over the sequences of one context: what each holds, the longest reusable prefix, sharing, trimming, room.

A slot's token list is the single truth about its sequence; it is read again from the memory after anything that may
have left the two apart.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from engine.backend import SequenceMemory, Vocabulary


class Slot:
    """A cache lane.

    Attributes:
        seq_id: llama.cpp's number for it.
        tokens: what its sequence holds.
        owner: the request that is using it, None when idle.
        last_used: the cache's clock when it was last given up; 0 never.
    """

    def __init__(self, seq_id: int) -> None:
        self.seq_id = seq_id
        self.tokens: list[int] = []
        self.cells: list[int] = []  # one number a cell; slots that share a cell hold the same number
        self.owner: str | None = None
        self.last_used = 0


class Prefix(NamedTuple):
    """A cached beginning of a prompt.

    Attributes:
        slot: where it is cached, None where nothing is.
        num_cached: tokens of the slot to keep.
        num_covered: tokens of the prompt they stand for; differs where the same bytes were split otherwise.
    """

    slot: Slot | None
    num_cached: int
    num_covered: int


class KVCache:
    """The slots of one context.

    Args:
        memory: the context's sequences.
        vocabulary: tells control tokens from text of the same bytes.
        n_seq_max: number of slots.
        n_ctx: cells in the shared pool.
    """

    def __init__(self, memory: SequenceMemory, vocabulary: Vocabulary, *, n_seq_max: int, n_ctx: int) -> None:
        self._memory = memory
        self._vocabulary = vocabulary
        self._slots = [Slot(seq_id) for seq_id in range(n_seq_max)]
        self._cell_users: Counter[int] = Counter()
        self._next_cell = 0
        self._clock = 0
        self.n_ctx = n_ctx

    @property
    def num_used_cells(self) -> int:
        """Cells that hold a token; shared ones count once."""
        return len(self._cell_users)

    @property
    def has_idle_slot(self) -> bool:
        """Whether a request could be given a slot."""
        return any(slot.owner is None for slot in self._slots)

    def longest_prefix(self, prompt: Sequence[int]) -> Prefix:
        """Return the longest beginning of `prompt` that some slot holds, by (control or text, bytes)."""
        best = Prefix(None, 0, 0)
        for slot in self._slots:
            num_cached, num_covered = self.common(slot.tokens, prompt)
            # Of equals the idle one: it can be taken over without sharing.
            if num_covered > best.num_covered or (
                best.slot is not None
                and num_covered == best.num_covered > 0
                and best.slot.owner is not None
                and slot.owner is None
            ):
                best = Prefix(slot, num_cached, num_covered)
        return best

    def num_cells_with(self, prompt: Sequence[int]) -> int:
        """Return the cells in use if every idle slot were emptied and `prompt` were added, sharing what it can."""
        busy = {cell for slot in self._slots if slot.owner is not None for cell in slot.cells}
        prefix = self.longest_prefix(prompt)
        shared = prefix.slot.cells[: prefix.num_cached] if prefix.slot else []
        return len(busy.union(shared)) + len(prompt) - prefix.num_covered

    def acquire(self, owner: str, prompt: Sequence[int]) -> tuple[Slot, list[int], int]:
        """Give `owner` an idle slot that holds as much of `prompt` as can be had.

        Returns:
            The slot, the prompt as the slot's tokens continue it, and how many of its tokens are cached.
        """
        prefix = self.longest_prefix(prompt)
        # The cached split of the same bytes may be longer than the prompt's own, and the context too small for it.
        if prefix.num_cached - prefix.num_covered > self.n_ctx - len(prompt):
            prefix = Prefix(None, 0, 0)
        slot = self._choose(prefix)
        if prefix.slot is None:
            self.clear(slot)
        elif prefix.slot is slot:
            self.trim(slot, prefix.num_cached)
        else:
            self.clear(slot)
            self._share(prefix.slot, slot, prefix.num_cached)
        slot.owner = owner
        num_cached = len(slot.tokens)
        if num_cached < prefix.num_cached:  # the memory could not trim: nothing is left to stand on
            return slot, list(prompt), num_cached
        return slot, [*slot.tokens, *prompt[prefix.num_covered :]], num_cached

    def take_empty(self, owner: str) -> Slot:
        """Give `owner` an idle slot with nothing in it."""
        slot = self._choose(Prefix(None, 0, 0))
        self.clear(slot)
        slot.owner = owner
        return slot

    def release(self, slot: Slot) -> None:
        """Make a slot idle; what it holds stays for reuse."""
        self._clock += 1
        slot.owner = None
        slot.last_used = self._clock

    def append(self, slot: Slot, tokens: Sequence[int]) -> None:
        """Note tokens that a step has put into the slot's sequence."""
        slot.tokens.extend(tokens)
        cells = range(self._next_cell, self._next_cell + len(tokens))
        self._next_cell += len(tokens)
        slot.cells.extend(cells)
        for cell in cells:
            self._cell_users[cell] = 1

    def trim(self, slot: Slot, num_tokens: int) -> None:
        """Drop the tail after `num_tokens`; everything where this memory cannot drop a tail."""
        if num_tokens >= len(slot.tokens):
            return
        if not self._memory.seq_rm(slot.seq_id, num_tokens):
            num_tokens = 0
            self._memory.seq_rm(slot.seq_id, 0)
        self._forget(slot, num_tokens)

    def clear(self, slot: Slot) -> None:
        """Empty a slot; its sequence may hold more than was noted, after a step that failed half-way."""
        self._memory.seq_rm(slot.seq_id, 0)
        self._forget(slot, 0)

    def resync(self, slot: Slot, attempted: Sequence[int]) -> int:
        """Note what a step that did not end well has kept of the tokens it was given; return how many."""
        kept = self._memory.seq_len(slot.seq_id) - len(slot.tokens)
        if kept < 0:
            self.clear(slot)
            return 0
        self.append(slot, attempted[:kept])
        return kept

    def evict_idle(self) -> bool:
        """Empty the idle slot that was used longest ago; False when no idle slot holds anything."""
        idle = [slot for slot in self._slots if slot.owner is None and slot.tokens]
        if not idle:
            return False
        self.clear(min(idle, key=lambda slot: slot.last_used))
        return True

    def snapshot(self, slot: Slot) -> bytes:
        """Return the slot's state, to be restored into another slot."""
        return self._memory.seq_state(slot.seq_id)

    def restore(self, slot: Slot, state: bytes, tokens: Sequence[int]) -> bool:
        """Put a snapshot of `tokens` into an empty slot; False leaves it empty."""
        if state and self._memory.set_seq_state(slot.seq_id, state):
            self.append(slot, tokens)
            return True
        self._memory.seq_rm(slot.seq_id, 0)
        return False

    def _choose(self, prefix: Prefix) -> Slot:
        """Return the idle slot to use: the one that holds the whole prefix and nothing else, an empty one, or the
        one used longest ago."""
        idle = [slot for slot in self._slots if slot.owner is None]
        if prefix.slot in idle and prefix.num_cached == len(prefix.slot.tokens):
            return prefix.slot
        empty = next((slot for slot in idle if not slot.tokens), None)
        if empty is not None and prefix.slot is not None:
            return empty
        return empty or min(idle, key=lambda slot: slot.last_used)

    def _share(self, source: Slot, target: Slot, num_tokens: int) -> None:
        if num_tokens:
            self._memory.seq_cp(source.seq_id, target.seq_id, num_tokens)
            target.tokens = source.tokens[:num_tokens]
            target.cells = source.cells[:num_tokens]
            self._cell_users.update(target.cells)

    def _forget(self, slot: Slot, num_tokens: int) -> None:
        for cell in slot.cells[num_tokens:]:
            self._cell_users[cell] -= 1
            if not self._cell_users[cell]:
                del self._cell_users[cell]
        del slot.tokens[num_tokens:]
        del slot.cells[num_tokens:]

    def common(self, cached: Sequence[int], prompt: Sequence[int]) -> tuple[int, int]:
        """Return how many cached tokens stand for how many prompt tokens at the last border both share.

        The last prompt token is never among them: its logits have to be computed.
        """
        limit = len(prompt) - 1
        same = _num_equal(cached, prompt, 0, 0, limit)
        i = j = border_i = border_j = same
        pieces, control_ids = self._vocabulary.pieces, self._vocabulary.control_ids
        left = right = b""  # bytes of cached / prompt tokens beyond what is matched
        while True:
            if not left:
                if i >= len(cached) or cached[i] in control_ids:
                    break
                left = pieces[cached[i]]
                i += 1
            if not right:
                if j >= limit or prompt[j] in control_ids:
                    break
                right = pieces[prompt[j]]
                j += 1
            length = min(len(left), len(right))
            if left[:length] != right[:length]:
                break
            left, right = left[length:], right[length:]
            if not left and not right:
                more = _num_equal(cached, prompt, i, j, limit)
                i, j = i + more, j + more
                border_i, border_j = i, j
        return border_i, border_j


def _num_equal(left: Sequence[int], right: Sequence[int], i: int, j: int, right_end: int) -> int:
    """Return how many items are equal from `left[i]` and `right[j]` on, below `right_end`.

    Compares blocks, so that long beginnings cost little.
    """
    end, block, count = min(len(left) - i, right_end - j), 256, 0
    while count + block <= end and left[i + count : i + count + block] == right[j + count : j + count + block]:
        count += block
    while count < end and left[i + count] == right[j + count]:
        count += 1
    return max(count, 0)
