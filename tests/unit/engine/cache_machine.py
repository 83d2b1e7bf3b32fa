"""A plain model of a context's memory, and a machine that plays the life of a cache's slots against it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.backend import AdapterKey, StateBytes
from engine.kv_cache import KVCache
from engine.slot import Slot, Snapshot

# Text tokens that can split one text in several ways, and two control tokens whose bytes are also text.
PIECES = [b"a", b"b", b"ab", b"ba", b"aba", b"ab", b"b"]
A, B, AB, BA, ABA, CONTROL, OTHER_CONTROL = range(7)


class Vocabulary:
    """As much of a vocabulary as the cache looks at."""

    pieces = PIECES
    control_ids = frozenset({CONTROL, OTHER_CONTROL})


class Memory:
    """What a context remembers: sequences of (cell, token), shared by copying; beside them, by kind, a state that every
    token changes ("recurrent"), or where a window begins that forgets the tokens before it ("window").

    It fails the test when a token is put after tokens it has lost.
    """

    WINDOW, SLACK = 3, 2

    def __init__(self, *, kind: str = "plain", n_ctx: int = 10**9) -> None:
        self.sequences: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.kind = kind
        self.can_restore = True
        self.n_ctx = n_ctx
        self.num_written = 0
        self._state: defaultdict[int, list[int] | None] = defaultdict(list)  # tokens that the state stands for
        self._first: defaultdict[int, int] = defaultdict(int)

    @property
    def shares_cells_only(self) -> bool:
        return self.kind == "plain"

    @property
    def survives_abort(self) -> bool:
        return self.kind != "recurrent"

    def put(self, seq_id: int, tokens: Sequence[int]) -> None:
        """Write tokens as a step does."""
        if tokens:
            assert self.kind != "recurrent" or self._state[seq_id] == self.held(seq_id), "the state is another one"
            assert self.can_go_on(seq_id, len(self.sequences[seq_id])), "what the token looks at is gone"
        for token in tokens:
            self.sequences[seq_id].append((self.num_written, token))
            self.num_written += 1
        self._state[seq_id] = self.held(seq_id)
        if self.kind == "window":
            self._first[seq_id] = max(self._first[seq_id], len(self.held(seq_id)) - self.WINDOW - self.SLACK)
        assert self.num_cells <= self.n_ctx

    def break_off(self, seq_id: int, tokens: Sequence[int]) -> None:
        """Write tokens as a step does that is broken off after them."""
        self.put(seq_id, tokens)
        if self.kind == "recurrent":
            self._state[seq_id] = None

    def held(self, seq_id: int) -> list[int]:
        """Return a sequence's tokens."""
        return [token for _, token in self.sequences[seq_id]]

    @property
    def num_cells(self) -> int:
        """Distinct cells in use."""
        return len({cell for sequence in self.sequences.values() for cell, _ in sequence})

    def can_go_on(self, seq_id: int, num_tokens: int) -> bool:
        if self.kind == "recurrent":
            return num_tokens == len(self.sequences[seq_id])
        return self._first[seq_id] <= max(0, num_tokens - self.WINDOW)

    def checkpoint(self, seq_id: int) -> bytes:
        return b"" if self.kind == "plain" else bytes([1, *self.held(seq_id)])

    def set_checkpoint(self, seq_id: int, state: StateBytes) -> bool:
        tokens = list(state[1:])
        assert self.held(seq_id)[: len(tokens)] == tokens, "a checkpoint of other tokens"
        if not self.can_restore:
            return False
        self._state[seq_id] = tokens
        self._first[seq_id] = max(0, len(tokens) - self.WINDOW)
        return True

    def seq_rm(self, seq_id: int, start: int) -> bool:
        held = self.held(seq_id)
        if self.kind == "recurrent" and 0 < start < len(held) and self._state[seq_id] != held[:start]:
            return False
        del self.sequences[seq_id][start:]
        if start == 0:
            self._state[seq_id], self._first[seq_id] = [], 0
        return True

    def seq_cp(self, source: int, target: int, end: int) -> None:
        assert source != target
        assert not self.sequences[target], "a sequence is shared into an empty one only"
        self.sequences[target] = self.sequences[source][:end]
        self._state[target], self._first[target] = self._state[source], self._first[source]

    def seq_len(self, seq_id: int) -> int:
        return len(self.sequences[seq_id])

    def seq_state(self, seq_id: int) -> bytes:
        return bytes(self.held(seq_id))

    def set_seq_state(self, seq_id: int, state: StateBytes) -> bool:
        assert not self.sequences[seq_id]
        if not self.can_restore or self.num_cells + len(state) > self.n_ctx:
            return False
        self.put(seq_id, list(state))
        return True


def make(*, n_seq_max: int = 2, n_ctx: int = 100, kind: str = "plain", **options: int) -> tuple[KVCache, Memory]:
    memory = Memory(kind=kind, n_ctx=n_ctx)
    return KVCache(memory, cast(Any, Vocabulary()), n_seq_max=n_seq_max, n_ctx=n_ctx, **options), memory


def canonical(tokens: Sequence[int]) -> tuple:
    """Return what a token list says: text as bytes, control tokens as themselves."""
    parts: list = [b""]
    for token in tokens:
        if token in Vocabulary.control_ids:
            parts += [token, b""]
        else:
            parts[-1] += PIECES[token]
    return tuple(parts)


def fill(cache: KVCache, memory: Memory, owner: str, prompt: Sequence[int]) -> tuple[Slot, int]:
    """Acquire, and evaluate what is missing."""
    slot, tokens, num_cached, _ = cache.acquire(owner, prompt)
    assert canonical(tokens) == canonical(prompt)
    assert slot.tokens == tokens[:num_cached] == memory.held(slot.seq_id)
    assert num_cached < len(tokens), "one token is always left, for its logits"
    memory.put(slot.seq_id, tokens[num_cached:])
    cache.append(slot, tokens[num_cached:])
    return slot, num_cached


ADAPTERS: list[AdapterKey] = [(), (("x", 1.0),)]
TOKENS = st.lists(st.integers(0, len(PIECES) - 1), max_size=9)


class CacheMachine(RuleBasedStateMachine):
    """Requests come, are read in parts, decode, are broken off, pause, resume and go."""

    @initialize(
        n_seq_max=st.integers(1, 4),
        kind=st.sampled_from(["plain", "window", "recurrent"]),
        max_checkpoint_bytes=st.sampled_from([8, 10**6]),
    )
    def begin(self, n_seq_max: int, kind: str, max_checkpoint_bytes: int) -> None:
        self.cache, self.memory = make(
            n_seq_max=n_seq_max, n_ctx=10**6, kind=kind, max_checkpoint_bytes=max_checkpoint_bytes
        )
        self.slots: dict[int, Slot] = {}
        self.unread: dict[int, list[int]] = {}  # by sequence, of busy slots
        self.snapshots: list[Snapshot] = []
        self.num_requests = 0

    @property
    def busy(self) -> list[Slot]:
        return [self.slots[seq_id] for seq_id in sorted(self.unread)]

    def pick(self, number: int) -> Slot:
        return self.busy[number % len(self.busy)]

    @precondition(lambda self: self.cache.has_idle_slot)
    @rule(
        tokens=TOKENS,
        from_slot=st.integers(0, 3),
        length=st.integers(0, 12),
        adapters=st.sampled_from([(), (("x", 1.0),)]),
    )
    def acquire(self, tokens: list[int], from_slot: int, length: int, adapters: AdapterKey) -> None:
        held = self.memory.held(from_slot)[:length]
        prompt = [*held, *tokens, A]
        others = {seq_id: self.memory.held(seq_id) for seq_id in self.unread}
        longest = max(
            (
                self.cache.common(slot.tokens, prompt)[1]
                for slot in self.slots.values()
                if slot.tokens and slot.adapters == adapters
            ),
            default=0,
        )
        self.num_requests += 1
        slot, full, num_cached, num_known = self.cache.acquire(f"r{self.num_requests}", prompt, adapters)
        self.slots[slot.seq_id] = slot
        assert slot.seq_id not in self.unread, "a busy slot was given away"
        assert slot.owner == f"r{self.num_requests}"
        assert canonical(full) == canonical(prompt)
        assert slot.tokens == full[:num_cached]
        assert num_cached < len(full)
        assert slot.adapters == adapters
        assert num_known == longest
        if self.memory.kind == "plain":
            assert len(full) - num_cached == len(prompt) - longest, "less was reused than there was"
        for seq_id, tokens_before in others.items():
            assert self.memory.held(seq_id) == tokens_before
        self.unread[slot.seq_id] = full[num_cached:]

    @precondition(lambda self: self.unread)
    @rule(number=st.integers(0, 3), count=st.integers(1, 6), kept=st.none() | st.integers(0, 6))
    def compute(self, number: int, count: int, kept: int | None) -> None:
        slot = self.pick(number)
        unread = self.unread[slot.seq_id]
        part = unread[:count] or [B]
        del unread[:count]
        if kept is None:
            self.memory.put(slot.seq_id, part)
            self.cache.append(slot, part)
            if count % 2:
                self.cache.checkpoint(slot, is_rolling=count == 5)
        else:  # broken off
            before = list(slot.tokens)
            self.memory.break_off(slot.seq_id, part[:kept])
            num_kept = self.cache.resync(slot, part)
            if self.memory.survives_abort:
                assert num_kept == len(part[:kept])
            whole = before + part
            unread[:0] = whole[len(slot.tokens) :]

    @precondition(lambda self: self.unread)
    @rule(number=st.integers(0, 3), count=st.integers(0, 12))
    def trim(self, number: int, count: int) -> None:
        slot = self.pick(number)
        before = list(slot.tokens)
        self.cache.trim(slot, count)
        assert len(slot.tokens) <= max(count, 0) or slot.tokens == before
        assert slot.tokens == before[: len(slot.tokens)]
        self.unread[slot.seq_id][:0] = before[len(slot.tokens) :]

    @precondition(lambda self: self.unread)
    @rule(number=st.integers(0, 3), is_cleared=st.booleans())
    def release(self, number: int, is_cleared: bool) -> None:
        slot = self.pick(number)
        if is_cleared:
            self.cache.clear(slot)
        self.cache.release(slot)
        del self.unread[slot.seq_id]

    @precondition(lambda self: self.unread)
    @rule(number=st.integers(0, 3))
    def pause(self, number: int) -> None:
        slot = self.pick(number)
        self.snapshots.append(self.cache.snapshot(slot))
        self.cache.clear(slot)
        self.cache.release(slot)
        del self.unread[slot.seq_id]

    @precondition(lambda self: self.snapshots and self.cache.has_idle_slot)
    @rule(can_restore=st.booleans())
    def resume(self, can_restore: bool) -> None:
        snapshot = self.snapshots.pop()
        tokens = snapshot.tokens
        slot = self.cache.take_empty("resumed")
        assert slot.seq_id not in self.unread
        assert slot.tokens == []
        self.slots[slot.seq_id] = slot
        self.memory.can_restore = can_restore
        is_restored = self.cache.restore(slot, snapshot)
        self.memory.can_restore = True
        assert is_restored == (can_restore and bool(tokens))
        assert slot.tokens == (tokens if is_restored else [])
        self.unread[slot.seq_id] = [A]

    @rule()
    def evict(self) -> None:
        held = {seq_id for seq_id, slot in self.slots.items() if slot.tokens and seq_id not in self.unread}
        assert self.cache.evict_idle() == bool(held)
        left = {seq_id for seq_id in held if self.slots[seq_id].tokens}
        assert len(held) - len(left) == min(1, len(held))

    @invariant()
    def says_what_the_memory_holds(self) -> None:
        for seq_id, slot in self.slots.items():
            assert slot.tokens == self.memory.held(seq_id)
        assert all(seq_id in self.slots for seq_id, sequence in self.memory.sequences.items() if sequence)
        assert self.cache.num_used_cells == self.memory.num_cells
