"""How many checkpoints are kept: by bytes, of slots and of what is paused, the newest in any case."""

from typing import Any

import pytest

from engine.backend import BatchPart
from engine.backend_fake import FakeBackend
from engine.checkpoints import Checkpoint, new_checkpoint, too_many, up_to, with_checkpoint
from engine.kv_cache import KVCache
from engine.slot import Slot
from tests.unit.engine.fake_engine import make_backend


def _read(cache: KVCache, backend: FakeBackend, slot: Slot, count: int) -> None:
    tokens = [97] * count
    backend.decode([BatchPart(slot.seq_id, len(slot.tokens), tokens, wants_logits=False)])
    cache.append(slot, tokens)
    cache.checkpoint(slot)


def _made(num_tokens: int, size: int = 10, *, is_rolling: bool = False) -> Checkpoint:
    return new_checkpoint(num_tokens, b"x" * size, is_rolling=is_rolling)


@pytest.mark.parametrize("is_paused", [False, True])
def test_oldest_checkpoints_go_when_all_together_take_too_much(is_paused: bool):
    backend = make_backend("can_trim=0", n_seq_max=2)
    cache = KVCache(backend, backend.vocabulary, n_seq_max=2, n_ctx=4096, max_checkpoint_bytes=199)  # four a token
    first, second = cache.acquire("a", [98] * 99).slot, cache.acquire("b", [99] * 99).slot
    for _ in range(3):
        _read(cache, backend, first, 6)  # 6 + 12 + 18 tokens
    holder: Any = first
    if is_paused:
        holder = snapshot = cache.snapshot(first)
        cache.clear(first)
        cache.release(first)
    _read(cache, backend, second, 20)
    assert [item.num_tokens for item in holder.checkpoints] == [18]
    _read(cache, backend, second, 20)
    assert [item.num_tokens for item in second.checkpoints] == [40]
    assert not holder.checkpoints
    if is_paused:
        slot = cache.take_empty("a")
        assert cache.restore(slot, snapshot)
        assert not slot.checkpoints


def test_newest_stays_when_it_alone_takes_too_much():
    held = [_made(1), _made(2, 1000)]
    assert too_many([held], 100) == {held[0].number}


def test_shared_checkpoint_counts_once_when_two_slots_hold_it():
    shared = _made(1)
    assert too_many([[shared], [shared]], 10) == set()


def test_rolling_checkpoint_gives_way_when_the_next_is_made():
    first, second = _made(3), _made(5, is_rolling=True)
    held = with_checkpoint([first, second], _made(9, is_rolling=True))
    assert [item.num_tokens for item in held] == [3, 9]
    assert [item.num_tokens for item in up_to(held, 8)] == [3]
