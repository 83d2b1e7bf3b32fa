"""The slots of a context against a plain model of its memory: what they say is what it holds, and nothing is lost."""

import pytest
from hypothesis import given, settings

from engine.slot import Snapshot
from tests.unit.engine.cache_machine import (
    AB,
    ABA,
    BA,
    CONTROL,
    OTHER_CONTROL,
    TOKENS,
    A,
    B,
    CacheMachine,
    canonical,
    fill,
    make,
)

# --- small scenes ---


def test_follow_up_stays_in_its_slot_when_it_continues_what_is_held():
    cache, memory = make()
    slot, _ = fill(cache, memory, "one", [A, B, CONTROL])
    cache.release(slot)
    again, num_cached = fill(cache, memory, "two", [A, B, CONTROL, A, A])
    assert again is slot
    assert num_cached == 3
    assert cache.num_used_cells == 5


def test_one_token_is_left_to_evaluate_when_all_of_the_prompt_is_held():
    cache, memory = make()
    slot, _ = fill(cache, memory, "one", [A, B, A])
    cache.release(slot)
    _, num_cached = fill(cache, memory, "two", [A, B, A])
    assert num_cached == 2


def test_old_branch_stays_when_an_edit_finds_another_slot_free():
    cache, memory = make()
    slot, _ = fill(cache, memory, "one", [A, A, A, B, B])
    cache.release(slot)
    edited, num_cached = fill(cache, memory, "two", [A, A, A, CONTROL, A])
    assert edited is not slot
    assert num_cached == 3
    assert memory.held(slot.seq_id) == [A, A, A, B, B]
    assert cache.num_used_cells == 7, "three of them are shared"


def test_tail_is_dropped_when_an_edit_finds_only_its_own_slot():
    cache, memory = make(n_seq_max=1)
    slot, _ = fill(cache, memory, "one", [A, A, A, B, B])
    cache.release(slot)
    edited, num_cached = fill(cache, memory, "two", [A, A, A, CONTROL, A])
    assert edited is slot
    assert num_cached == 3
    assert memory.held(slot.seq_id) == [A, A, A, CONTROL, A]
    assert cache.num_used_cells == 5


def test_prefix_is_shared_and_the_other_untouched_when_its_slot_is_busy():
    cache, memory = make()
    busy, _ = fill(cache, memory, "one", [A, B, A, B])
    slot, num_cached = fill(cache, memory, "two", [A, B, CONTROL])
    assert slot is not busy
    assert num_cached == 2
    assert cache.num_used_cells == 5
    assert busy.owner == "one"
    assert memory.held(busy.seq_id) == [A, B, A, B]


def test_shared_cells_stay_when_one_of_their_slots_is_cleared():
    cache, memory = make()
    first, _ = fill(cache, memory, "one", [A, B, A, B])
    second, _ = fill(cache, memory, "two", [A, B, CONTROL])
    cache.clear(first)
    assert cache.num_used_cells == memory.num_cells == 3
    assert memory.held(second.seq_id) == [A, B, CONTROL]


def test_slots_are_evicted_in_the_order_of_their_last_use_when_room_is_needed():
    cache, memory = make(n_seq_max=3)
    slots = [fill(cache, memory, f"{number}", [number, number])[0] for number in (A, B, CONTROL)]
    for index in (1, 2, 0):
        cache.release(slots[index])
    emptied = []
    while cache.evict_idle():
        emptied += [index for index in range(3) if not slots[index].tokens and index not in emptied]
    assert emptied == [1, 2, 0]
    assert cache.num_used_cells == memory.num_cells == 0
    assert cache.evict_idle() is False


def test_busy_slot_is_never_evicted_when_room_is_needed():
    cache, memory = make()
    slot, _ = fill(cache, memory, "one", [A, B])
    assert cache.evict_idle() is False
    assert memory.held(slot.seq_id) == [A, B]
    cache.release(slot)
    assert cache.evict_idle() is True


def test_least_recently_used_slot_is_taken_when_all_hold_something_else():
    cache, memory = make(n_seq_max=2)
    first, _ = fill(cache, memory, "one", [A, A])
    second, _ = fill(cache, memory, "two", [B, B])
    cache.release(second)
    cache.release(first)
    taken, num_cached = fill(cache, memory, "three", [CONTROL, A])
    assert taken is second
    assert num_cached == 0
    assert memory.held(first.seq_id) == [A, A]


@pytest.mark.parametrize(
    ("held", "prompt", "expected"),
    [
        ([AB, A], [A, B, A, B], (2, 3)),
        ([A, B, A], [AB, A, B], (3, 2)),
        ([ABA, B], [AB, AB, A], (2, 2)),
        ([ABA], [AB, B, A], (0, 0)),
        ([A, B], [AB], (0, 0)),
        ([AB, AB], [A, BA, B, A], (2, 3)),
    ],
    ids=["finer", "coarser", "crossing", "no border", "whole prompt", "border at the end"],
)
def test_same_bytes_are_found_up_to_a_common_border_when_they_are_split_differently(held, prompt, expected):
    cache, _ = make()
    assert cache.common(held, prompt) == expected


def test_tokens_of_the_slot_are_used_when_the_prompt_splits_the_same_text_differently():
    cache, memory = make()
    slot, _ = fill(cache, memory, "one", [AB, A, CONTROL])
    cache.release(slot)
    slot, num_cached = fill(cache, memory, "two", [A, B, A, CONTROL, B])
    assert num_cached == 3
    assert memory.held(slot.seq_id) == [AB, A, CONTROL, B]


@pytest.mark.parametrize(
    ("held", "prompt"),
    [([CONTROL, A], [AB, A]), ([AB, A], [CONTROL, A]), ([CONTROL, A], [A, B, A]), ([CONTROL, A], [OTHER_CONTROL, A])],
    ids=["control held", "text held", "text in pieces", "another control"],
)
def test_nothing_is_reused_when_text_spells_a_control_token(held: list[int], prompt: list[int]):
    cache, memory = make()
    slot, _ = fill(cache, memory, "one", held)
    cache.release(slot)
    assert fill(cache, memory, "two", prompt)[1] == 0


def test_everything_is_read_again_when_the_memory_cannot_drop_a_tail():
    cache, memory = make(n_seq_max=1, kind="recurrent")
    slot, _ = fill(cache, memory, "one", [A, B, A, B])
    cache.release(slot)
    slot, num_cached = fill(cache, memory, "two", [A, B, CONTROL, A])
    assert num_cached == 0
    assert memory.held(slot.seq_id) == [A, B, CONTROL, A]
    assert cache.num_used_cells == memory.num_cells == 4


def test_snapshot_comes_back_in_another_slot_when_it_is_restored():
    cache, memory = make()
    slot, _ = fill(cache, memory, "one", [A, B, CONTROL])
    snapshot = cache.snapshot(slot)
    cache.clear(slot)
    other = cache.take_empty("two")
    assert other is not slot
    assert cache.restore(other, snapshot)
    assert other.tokens == memory.held(other.seq_id) == [A, B, CONTROL]
    assert cache.num_used_cells == 3


@pytest.mark.parametrize("is_empty", [True, False], ids=["no snapshot", "refused"])
def test_slot_is_empty_when_a_snapshot_cannot_be_restored(is_empty: bool):
    cache, memory = make()
    slot = cache.take_empty("one")
    memory.can_restore = False
    assert not cache.restore(slot, Snapshot(b"" if is_empty else bytes([A, B]), [A, B], (), []))
    assert slot.tokens == memory.held(slot.seq_id) == []
    assert cache.num_used_cells == 0


@pytest.mark.parametrize("num_kept", [0, 1, 3])
def test_slot_follows_the_memory_when_a_step_kept_a_part(num_kept: int):
    cache, memory = make()
    slot, _ = fill(cache, memory, "one", [A, B])
    attempted = [B, AB, CONTROL]
    memory.put(slot.seq_id, attempted[:num_kept])
    assert cache.resync(slot, attempted) == num_kept
    assert slot.tokens == memory.held(slot.seq_id) == [A, B, *attempted[:num_kept]]


def test_slot_is_emptied_when_the_memory_lost_more_than_the_step():
    cache, memory = make()
    slot, _ = fill(cache, memory, "one", [A, B, A])
    memory.seq_rm(slot.seq_id, 1)
    assert cache.resync(slot, [B]) == -3
    assert slot.tokens == memory.held(slot.seq_id) == []
    assert cache.num_used_cells == 0


def test_memory_is_emptied_when_a_slot_that_noted_nothing_is_cleared():
    cache, memory = make()
    slot = cache.take_empty("one")
    memory.put(slot.seq_id, [A, B])  # a step wrote this and then failed
    cache.clear(slot)
    assert memory.held(slot.seq_id) == []


def test_idle_slots_do_not_count_when_cells_with_a_prompt_are_told():
    cache, memory = make(n_seq_max=3)
    idle, _ = fill(cache, memory, "one", [B, B, B, B])
    cache.release(idle)
    fill(cache, memory, "two", [A, B, A])
    assert cache.num_cells_with([CONTROL, A]) == 3 + 2
    assert cache.num_cells_with([A, B, CONTROL]) == 3 + 1, "two are shared with a busy slot"
    assert cache.num_cells_with([B, B, B]) == 3 + 3, "two of an idle slot stay"


def test_slots_run_out_and_come_back_when_they_are_taken_and_released():
    cache, memory = make(n_seq_max=2)
    first, _ = fill(cache, memory, "one", [A])
    assert cache.has_idle_slot
    fill(cache, memory, "two", [B])
    assert not cache.has_idle_slot
    cache.release(first)
    assert cache.has_idle_slot


# --- the longest common beginning, against trying all ---


@settings(max_examples=400)
@given(shared=TOKENS, left=TOKENS, right=TOKENS)
def test_common_beginning_is_the_longest_there_is_when_texts_are_split_anyhow(shared, left, right):
    cache, _ = make()
    cached, prompt = [*shared, *left], [*shared, *right, A]
    num_cached, num_covered = cache.common(cached, prompt)
    said = {canonical(cached[:count]): count for count in range(len(cached) + 1)}
    best = max(count for count in range(len(prompt)) if canonical(prompt[:count]) in said)
    assert num_covered == best
    assert num_cached == said[canonical(prompt[:best])]


@pytest.mark.parametrize("length", [255, 256, 257, 1000])
@pytest.mark.parametrize("differs_at", [0, 255, 256, 999, None])
def test_common_beginning_is_found_when_lists_are_long(length: int, differs_at: int | None):
    cache, _ = make()
    cached, prompt = [A] * length, [A] * length
    if differs_at is not None and differs_at < length:
        prompt[differs_at] = CONTROL
    expected = min(length - 1, length if differs_at is None or differs_at >= length else differs_at)
    assert cache.common(cached, prompt) == (expected, expected)


# --- any order of events ---

CacheMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=30)
TestCacheInAnyOrder = CacheMachine.TestCase
