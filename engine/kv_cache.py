"""Slots over the sequences of one context: what each holds, the longest reusable prefix, sharing, trimming, room.

A slot's token list is the single truth about its sequence; it is read again from the memory after anything that may
have left the two apart. Where a memory cannot be cut back (sliding windows, recurrent states), a slot goes on from a
checkpoint; it is never cut without one.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Sequence

from engine.backend import AdapterKey, SequenceMemory, Vocabulary
from engine.checkpoints import Checkpoint, new_checkpoint, too_many, up_to, with_checkpoint
from engine.slot import Acquired, Prefix, Slot, Snapshot

_CHECKPOINT_BYTES = 512 * 1024 * 1024  # of all slots together; one of a small model takes a few MiB
# A checkpoint this near is better than cutting the slot, which may be another chat's: that many are quickly read again.
_CLOSE_TOKENS = 64


class KVCache:
    """The slots of one context.

    Args:
        memory: the context's sequences.
        vocabulary: tells control tokens from text of the same bytes.
        n_seq_max: number of slots.
        n_ctx: cells in the shared pool.
        max_checkpoint_bytes: of all checkpoints, those of snapshots too; the oldest are given up.

    Attributes:
        on_give_up: told an idle slot whose tokens, or many of them, are about to be dropped to make room.
    """

    def __init__(
        self,
        memory: SequenceMemory,
        vocabulary: Vocabulary,
        *,
        n_seq_max: int,
        n_ctx: int,
        max_checkpoint_bytes: int = _CHECKPOINT_BYTES,
    ) -> None:
        self._memory = memory
        self._vocabulary = vocabulary
        self._slots = [Slot(seq_id) for seq_id in range(n_seq_max)]
        self._snapshots: weakref.WeakSet[Snapshot] = weakref.WeakSet()
        self._cell_users: Counter[int] = Counter()
        self._next_cell = 0
        self._clock = 0
        self._max_checkpoint_bytes = max_checkpoint_bytes
        self.n_ctx = n_ctx
        self.on_give_up: Callable[[Slot], object] = lambda slot: None

    @property
    def num_used_cells(self) -> int:
        """Cells that hold a token; shared ones count once."""
        return len(self._cell_users)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All of them."""
        return tuple(self._slots)

    @property
    def has_idle_slot(self) -> bool:
        """Whether a request could be given a slot."""
        return any(slot.owner is None for slot in self._slots)

    def longest_prefix(self, prompt: Sequence[int], adapters: AdapterKey = ()) -> Prefix:
        """Return the longest beginning of `prompt` that some slot can go on from, by (control or text, bytes)."""
        best, num_known = Prefix(None, 0, 0), 0
        for slot in self._slots:
            if slot.adapters != adapters:
                continue
            prefix = self._prefix_of(slot, prompt)
            num_known = max(num_known, prefix.num_known)
            # Of equals the idle one: it can be taken over without sharing.
            if prefix.num_covered > best.num_covered or (
                best.slot is not None
                and prefix.num_covered == best.num_covered > 0
                and best.slot.owner is not None
                and slot.owner is None
            ):
                best = prefix
        return best._replace(num_known=num_known)

    def num_cells_with(self, prompt: Sequence[int], adapters: AdapterKey = ()) -> int:
        """Return the cells in use if every idle slot were emptied and `prompt` were added, sharing what it can."""
        busy = {cell for slot in self._slots if slot.owner is not None for cell in slot.cells}
        prefix = self.longest_prefix(prompt, adapters)
        shared = prefix.slot.cells[: prefix.num_cached] if prefix.slot else []
        return len(busy.union(shared)) + len(prompt) - prefix.num_covered

    def acquire(self, owner: str, prompt: Sequence[int], adapters: AdapterKey = ()) -> Acquired:
        """Give `owner` an idle slot that holds as much of `prompt` as can be had."""
        prefix = self.longest_prefix(prompt, adapters)
        # The cached split of the same bytes may be longer than the prompt's own, and the context too small for it.
        if prefix.num_cached - prefix.num_covered > self.n_ctx - len(prompt):
            prefix = Prefix(None, 0, 0)
        slot = self._choose(prefix)
        if prefix.slot is None:
            self._give_up(slot)
        elif prefix.slot is slot:
            if len(slot.tokens) - prefix.num_cached > _CLOSE_TOKENS:
                self.on_give_up(slot)
            self._rewind(slot, prefix.num_cached, prefix.checkpoint)
        else:
            self._give_up(slot)
            self._share(prefix.slot, slot, prefix.num_cached, prefix.checkpoint)
        slot.owner = owner
        slot.adapters = adapters
        num_cached = len(slot.tokens)
        if num_cached < prefix.num_cached:  # the memory refused: nothing is left to stand on
            return Acquired(slot, list(prompt), num_cached, prefix.num_known)
        return Acquired(slot, [*slot.tokens, *prompt[prefix.num_covered :]], num_cached, prefix.num_known)

    def take_empty(self, owner: str) -> Slot:
        """Give `owner` an idle slot with nothing in it."""
        slot = self._choose(Prefix(None, 0, 0))
        self._give_up(slot)
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
        """Drop the tail after `num_tokens`, or more where the memory can only go back to a checkpoint."""
        if num_tokens >= len(slot.tokens):
            return
        if self._memory.can_go_on(slot.seq_id, num_tokens):
            self._rewind(slot, num_tokens, None)
        else:
            checkpoint = next((item for item in reversed(slot.checkpoints) if item.num_tokens <= num_tokens), None)
            self._rewind(slot, checkpoint.num_tokens if checkpoint else 0, checkpoint)

    def checkpoint(self, slot: Slot, *, is_rolling: bool = False) -> None:
        """Make a checkpoint of a slot as it is now."""
        if state := self._memory.checkpoint(slot.seq_id):
            made = new_checkpoint(len(slot.tokens), state, is_rolling=is_rolling)
            slot.checkpoints = with_checkpoint(slot.checkpoints, made)
            holders: list[Slot | Snapshot] = [*self._slots, *self._snapshots]
            given_up = too_many([holder.checkpoints for holder in holders], self._max_checkpoint_bytes)
            if given_up:
                for other in holders:
                    other.checkpoints = [item for item in other.checkpoints if item.number not in given_up]

    def clear(self, slot: Slot) -> None:
        """Empty a slot; its sequence may hold more than was noted, after a step that failed half-way."""
        self._memory.seq_rm(slot.seq_id, 0)
        self._forget(slot, 0)
        slot.chat_id, slot.is_private, slot.rewritten = None, False, None

    def resync(self, slot: Slot, attempted: Sequence[int]) -> int:
        """Note what a step that did not end well has kept of the tokens it was given; return how many.

        Negative where the slot had to go back: to a checkpoint, or to nothing.
        """
        before = len(slot.tokens)
        kept = self._memory.seq_len(slot.seq_id) - before
        if not self._memory.survives_abort:
            self._go_back(slot)
        elif kept < 0:
            self.clear(slot)
        else:
            self.append(slot, attempted[:kept])
        return len(slot.tokens) - before

    def distrust(self) -> None:
        """Send every slot back to its newest checkpoint, after a step that may have mixed up their states."""
        for slot in self._slots:
            if slot.tokens:
                self._go_back(slot)

    def evict_idle(self) -> bool:
        """Empty the idle slot that was used longest ago; False when no idle slot holds anything."""
        idle = self.idle_slots()
        if idle:
            self._give_up(idle[0])
        return bool(idle)

    def idle_slots(self) -> list[Slot]:
        """Return the idle slots that hold something, the one used longest ago first."""
        idle = (slot for slot in self._slots if slot.owner is None and slot.tokens)
        return sorted(idle, key=lambda slot: slot.last_used)

    def num_cells_alone(self, slot: Slot) -> int:
        """Return how many cells a slot shares with no busy one: those that running sequences look past."""
        busy = {cell for other in self._slots if other.owner is not None for cell in other.cells}
        return sum(cell not in busy for cell in slot.cells)

    def adopt(self, snapshot: Snapshot) -> None:
        """Count the checkpoints of a snapshot that was made elsewhere."""
        self._snapshots.add(snapshot)

    def snapshot(self, slot: Slot) -> Snapshot:
        """Return the slot's state, to be restored into another slot."""
        state = self._memory.seq_state(slot.seq_id)
        snapshot = Snapshot(state, list(slot.tokens), slot.adapters, list(slot.checkpoints))
        self._snapshots.add(snapshot)
        return snapshot

    def restore(self, slot: Slot, snapshot: Snapshot) -> bool:
        """Put a snapshot into an empty slot; False leaves it empty."""
        slot.adapters = snapshot.adapters
        is_set = bool(snapshot.state) and self._memory.set_seq_state(slot.seq_id, snapshot.state)
        if is_set and self._memory.seq_len(slot.seq_id) == len(snapshot.tokens):
            self.append(slot, snapshot.tokens)
            slot.checkpoints = list(snapshot.checkpoints)
            return True
        self._memory.seq_rm(slot.seq_id, 0)
        return False

    def _give_up(self, slot: Slot) -> None:
        if slot.tokens:
            self.on_give_up(slot)
        self.clear(slot)

    def _choose(self, prefix: Prefix) -> Slot:
        """Return the idle slot to use: the one that holds the whole prefix and nothing else or can only be cut where
        it is, an empty one, or the one used longest ago."""
        idle = [slot for slot in self._slots if slot.owner is None]
        if prefix.slot is not None and prefix.slot in idle:
            is_whole = prefix.num_cached == len(prefix.slot.tokens)
            if is_whole or (prefix.checkpoint is None and not self._memory.shares_cells_only):
                return prefix.slot
        empty = next((slot for slot in idle if not slot.tokens), None)
        if empty is not None and prefix.slot is not None:
            return empty
        return empty or min(idle, key=lambda slot: slot.last_used)

    def _prefix_of(self, slot: Slot, prompt: Sequence[int]) -> Prefix:
        """Return what a slot can give to a prompt: all it shares with it, or what its best checkpoint covers."""
        num_cached, num_covered = self.common(slot.tokens, prompt)
        whole = Prefix(slot if num_cached else None, num_cached, num_covered, None, num_covered)
        if not num_cached or self._memory.shares_cells_only or num_cached == len(slot.tokens):
            return whole
        can_cut = slot.owner is None and self._memory.can_go_on(slot.seq_id, num_cached)
        for item in reversed(slot.checkpoints):
            if can_cut and item.num_tokens < num_cached - _CLOSE_TOKENS:
                break
            if item.num_tokens <= num_cached:
                shared, covered = self.common(slot.tokens[: item.num_tokens], prompt)
                if shared == item.num_tokens:
                    return Prefix(slot, shared, covered, item, num_covered)
        return whole if can_cut else Prefix(None, 0, 0, None, num_covered)

    def _rewind(self, slot: Slot, num_tokens: int, checkpoint: Checkpoint | None) -> None:
        """Cut a slot back to `num_tokens`, by way of a checkpoint if one is given; empty it where that fails."""
        is_done = checkpoint is None or self._memory.set_checkpoint(slot.seq_id, checkpoint.state)
        if not (is_done and self._memory.seq_rm(slot.seq_id, num_tokens)):
            num_tokens = 0
            self._memory.seq_rm(slot.seq_id, 0)
        self._forget(slot, num_tokens)

    def _go_back(self, slot: Slot) -> None:
        newest = slot.checkpoints[-1] if slot.checkpoints else None
        self._rewind(slot, newest.num_tokens if newest else 0, newest)

    def _share(self, source: Slot, target: Slot, num_tokens: int, checkpoint: Checkpoint | None) -> None:
        """Let an empty slot hold the beginning of another: its cells are shared, a checkpoint's state is copied."""
        if not num_tokens:
            return
        self._memory.seq_cp(source.seq_id, target.seq_id, num_tokens)
        target.tokens = source.tokens[:num_tokens]
        target.cells = source.cells[:num_tokens]
        self._cell_users.update(target.cells)
        target.checkpoints = up_to(source.checkpoints, num_tokens)
        if self._memory.shares_cells_only:
            return
        state = checkpoint.state if checkpoint else self._memory.checkpoint(source.seq_id)
        if not (self._memory.set_checkpoint(target.seq_id, state) and self._memory.seq_rm(target.seq_id, num_tokens)):
            self.clear(target)

    def _forget(self, slot: Slot, num_tokens: int) -> None:
        for cell in slot.cells[num_tokens:]:
            self._cell_users[cell] -= 1
            if not self._cell_users[cell]:
                del self._cell_users[cell]
        del slot.tokens[num_tokens:]
        del slot.cells[num_tokens:]
        slot.checkpoints = up_to(slot.checkpoints, num_tokens)

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
