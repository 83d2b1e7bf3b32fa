"""Snapshots in memory: which are kept within the limit, and what a prompt can have of them."""

from array import array

import pytest

from engine.checkpoints import Checkpoint
from engine.metrics import CacheSource
from engine.prompt_store import PromptStore, StoredPrompt, reusable
from engine.reuse_cost import ReuseCost
from engine.slot import Snapshot
from tests.unit.engine.cache_machine import AB, CONTROL, A, B, make


def stored(tokens: list[int], *, size: int = 100, adapters=(), chat_id="c", checkpoints=()) -> StoredPrompt:
    points = [Checkpoint(count, b"x" * 10, number, False) for number, count in enumerate(checkpoints)]
    return StoredPrompt(Snapshot(bytes(size), tokens, adapters, points), chat_id=chat_id, is_private=False)


def make_store(max_bytes: int = 10_000, *, can_cut: bool = True) -> PromptStore:
    return PromptStore(max_bytes=max_bytes, common=make()[0].common, can_cut=can_cut)


def held(store: PromptStore) -> list[list[int]]:
    return [list(entry.tokens) for entry in store.entries]


def test_longest_beginning_is_found_when_several_are_kept():
    store = make_store()
    for tokens in ([A, A, A, A], [A, A, B, B, B, B], [B]):
        assert store.put(stored(tokens))
    match = store.find([A, A, B, B, A, A], ())
    assert match is not None
    assert (list(match.entry.tokens), match.num_cached, match.num_covered) == ([A, A, B, B, B, B], 4, 4)
    assert store.find([CONTROL, A], ()) is None


def test_smallest_is_found_when_two_give_as_much():
    store = make_store()
    store.put(stored([A, A, B, B, B, B], size=500))
    store.put(stored([A, A, CONTROL], size=50))
    match = store.find([A, A, A, A], ())
    assert match is not None
    assert match.entry.num_bytes < 200


def test_same_bytes_are_found_when_they_are_split_differently():
    store = make_store()
    store.put(stored([AB, A, CONTROL]))
    match = store.find([A, B, A, CONTROL, B], ())
    assert match is not None
    assert (match.num_cached, match.num_covered) == (3, 4)


def test_nothing_is_found_when_the_adapters_are_others():
    store = make_store()
    store.put(stored([A, A, A], adapters=(("x", 1.0),)))
    assert store.find([A, A, A, B], ()) is None
    assert store.find([A, A, A, B], (("x", 0.5),)) is None
    assert store.find([A, A, A, B], (("x", 1.0),)) is not None


@pytest.mark.parametrize(
    ("checkpoints", "prompt", "expected"),
    [
        ((2, 4), [A, A, A, A, A, B], (5, 5)),
        ((2, 4), [A, A, A, A, B, B], (4, 4)),
        ((2, 4), [A, A, A, B, B], (2, 2)),
        ((2, 4), [A, B, B], (0, 0)),
        ((), [A, A, A, A, B], (0, 0)),
    ],
    ids=["whole", "at the last", "at the first", "before all", "without any"],
)
def test_checkpoint_is_gone_back_to_when_a_memory_cannot_be_cut(checkpoints, prompt, expected):
    tokens = array("i", [A] * 5)
    common = make()[0].common
    assert reusable(tokens, checkpoints, array("i", prompt), common, can_cut=False) == expected
    num_same = next((i for i, token in enumerate(prompt) if token != A), len(prompt))
    assert reusable(tokens, checkpoints, array("i", prompt), common, can_cut=True) == (num_same, num_same)


def test_beginning_makes_way_when_what_goes_on_from_it_is_kept():
    store = make_store()
    for tokens in ([A, A], [A, B], [A, A, B], [A, A, B]):
        store.put(stored(tokens, chat_id=str(tokens)))
    assert held(store) == [[A, B], [A, A, B]]


@pytest.mark.parametrize(
    ("chat_id", "checkpoints", "is_kept"),
    [("c", (), False), ("d", (), True), ("d", (2,), False), ("d", (1,), True)],
    ids=["same chat", "other chat", "a checkpoint there", "a checkpoint elsewhere"],
)
def test_beginning_stays_when_a_memory_cannot_go_back_to_it(chat_id: str, checkpoints: tuple, is_kept: bool):
    store = make_store(can_cut=False)
    store.put(stored([A, A], chat_id="c"))
    store.put(stored([A, A, B], chat_id=chat_id, checkpoints=checkpoints))
    assert ([A, A] in held(store)) is is_kept


def test_what_was_used_longest_ago_goes_when_the_limit_is_reached():
    store = make_store(330)
    first, second, third = stored([A, A]), stored([B, B]), stored([CONTROL])
    for entry in (first, second, third):
        store.put(entry)
    store.use(first)
    store.put(stored([A, B], size=60))
    assert held(store) == [[CONTROL], [A, A], [A, B]]
    assert store.num_bytes <= store.max_bytes
    store.max_bytes = 150
    store.make_room(0)
    assert held(store) == [[A, B]]


@pytest.mark.parametrize("max_bytes", [0, 50])
def test_nothing_is_kept_when_it_is_larger_than_the_limit(max_bytes: int):
    store = make_store(max_bytes)
    assert not store.put(stored([A, A]))
    assert not store.make_room(100)
    assert held(store) == []


def test_holder_is_told_when_a_snapshot_makes_another_needless():
    for can_cut in (True, False):
        store = make_store(can_cut=can_cut)
        store.put(stored([A, A, B]))
        assert store.holder_of([A, A, B], ()) is not None
        assert (store.holder_of([A, A], ()) is not None) is can_cut
        assert store.holder_of([A, A, B, B], ()) is None
        assert store.holder_of([A, A, B], (("x", 1.0),)) is None


def test_chats_are_forgotten_when_they_are_named():
    store = make_store()
    for number, chat_id in enumerate(("a", "b", None)):
        store.put(stored([number], chat_id=chat_id))
    store.forget(["a", "nothing"])
    assert [entry.chat_id for entry in store.entries] == ["b", None]
    store.clear()
    assert store.entries == []


def test_what_is_kept_is_counted_with_tokens_and_checkpoints():
    entry = stored([A, B, A], size=100, checkpoints=(1, 2))
    assert entry.num_bytes == 100 + 3 * 4 + 2 * 10
    assert entry.source is CacheSource.RAM


# --- when it pays ---


def test_going_back_pays_when_it_is_faster_than_reading():
    cost = ReuseCost()
    assert cost.pays(10**9, 16), "nothing is known yet"
    assert not cost.pays(1, 15), "so few are read at once"
    cost.prefill_s_per_token = 0.001
    assert cost.pays(100 * 10**6, 1000), "0.025 s for 1 s"
    assert not cost.pays(8 * 10**9, 1000), "2 s for 1 s"
    assert not cost.pays(900 * 10**6, 1000, is_in_file=True), "2 s from the disk"


def test_going_back_stops_to_pay_when_copies_turn_out_to_be_slow():
    cost = ReuseCost()
    cost.prefill_s_per_token = 0.001
    assert cost.pays(10**8, 100)
    for _ in range(8):
        cost.note_copy(10**8, 1.0)
        cost.note_copy(10, 1.0)  # says nothing
    assert not cost.pays(10**8, 100)
    assert cost.restore_s(10**8) == pytest.approx(1.0, rel=0.01)


def test_files_and_copies_are_learned_apart_when_both_are_measured():
    cost = ReuseCost()
    for _ in range(20):
        cost.note_copy(10**8, 0.1)
        cost.note_file(10**8, 0.4)
    assert cost.restore_s(10**9) == pytest.approx(1.0, rel=0.01)
    assert cost.restore_s(10**9, is_in_file=True) == pytest.approx(5.0, rel=0.01)


@pytest.mark.parametrize(
    ("num_cells", "num_bytes", "num_tokens", "max_tokens", "pays"),
    [
        (1250, 29 * 10**6, 1000, None, True),
        (1250, 29 * 10**6, 1, 8, False),
        (1250, 29 * 10**6, 20, None, True),
        (255, 1, 10**6, None, False),
        (1250, 10**9, 20, None, False),
    ],
    ids=["long prompt", "a word", "a reply", "few cells", "large states"],
)
def test_idle_chat_leaves_when_the_other_has_much_to_compute(num_cells, num_bytes, num_tokens, max_tokens, pays):
    assert ReuseCost().leaving_pays(num_cells, num_bytes, num_tokens, max_tokens) is pays


def test_time_saved_is_told_when_the_rate_is_known():
    cost = ReuseCost()
    assert cost.saved_s(100, 0.0) is None
    cost.prefill_s_per_token = 0.01
    assert cost.saved_s(100, 0.25) == pytest.approx(0.75)
    assert cost.saved_s(10, 5.0) == 0.0
