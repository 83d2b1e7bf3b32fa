"""Who is in the next step, with how many tokens, and who is let in."""

import pytest

from engine.params import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Prompt, Sequence
from engine.slot import Slot
from tests.unit.engine.fake_engine import VOCABULARY


def _sequence(request_id: str, num_prompt: int, *, num_read: int | None = None, max_tokens: int | None = None):
    """Return a waiting sequence, or with `num_read` a running one."""
    prompt = Prompt(request_id, [97] * num_prompt, SamplingParams(max_tokens=max_tokens), 0, 0.0)
    sequence = Sequence(prompt, VOCABULARY)
    if num_read is not None:
        sequence.slot = Slot(int(request_id))
        sequence.slot.tokens = [97] * min(num_read, num_prompt)
        if num_read >= num_prompt:
            sequence.accept(98, is_end=False)
    return sequence


def _scheduler(*running: Sequence, n_batch: int = 2048, n_ubatch: int = 128, n_ctx: int = 1000) -> Scheduler:
    scheduler = Scheduler(n_batch=n_batch, n_ubatch=n_ubatch, n_ctx=n_ctx)
    scheduler.running.extend(running)
    return scheduler


def _sizes(scheduler: Scheduler) -> dict[str, int]:
    return {sequence.request_id: len(part.tokens) for sequence, part in scheduler.plan()}


def test_prompt_gets_a_full_micro_batch_when_it_is_alone():
    scheduler = _scheduler(_sequence("0", 300, num_read=0))
    ((sequence, part),) = scheduler.plan()
    assert (part.seq_id, part.start, len(part.tokens), part.wants_logits) == (0, 0, 128, False)
    sequence.slot.tokens = [97] * 256
    ((_, part),) = scheduler.plan()
    assert (part.start, len(part.tokens), part.wants_logits) == (256, 44, True)


def test_every_reply_decodes_first_and_logits_are_wanted_when_prompts_are_read_beside():
    scheduler = _scheduler(
        _sequence("0", 300, num_read=0), _sequence("1", 5, num_read=5), _sequence("2", 9, num_read=9)
    )
    planned = scheduler.plan()
    assert [part.seq_id for _, part in planned] == [1, 2, 0]
    assert [part.wants_logits for _, part in planned] == [True, True, False]
    assert planned[0].part.tokens == [98]
    assert planned[0].part.start == 5
    assert 1 < len(planned[2].part.tokens) <= 128


def test_prompts_share_a_step_in_the_order_of_arrival_when_they_are_short():
    scheduler = _scheduler(*(_sequence(str(i), 50, num_read=0) for i in range(4)))
    planned = scheduler.plan()
    assert [(part.seq_id, len(part.tokens), part.wants_logits) for _, part in planned] == [
        (0, 50, True),
        (1, 50, True),
        (2, 28, False),
    ]


@pytest.mark.parametrize("n_batch", [3, 16, 128, 130])
def test_step_stays_within_the_batch_when_a_prompt_is_read_beside_replies(n_batch: int):
    replies = [_sequence(str(number), 5, num_read=5) for number in range(2)]
    scheduler = _scheduler(*replies, _sequence("2", 900, num_read=0), n_batch=n_batch)
    for _ in range(6):
        assert sum(_sizes(scheduler).values()) <= n_batch
        assert {"0", "1"} <= set(_sizes(scheduler))
        scheduler.note_step(scheduler.plan(), 1e-6)  # a machine that could read everything at once


@pytest.mark.parametrize("ms_per_token", [0.01, 0.2, 1, 3, 5])
def test_step_stays_within_the_latency_budget_when_a_prompt_is_read_beside_a_reply(ms_per_token: float):
    scheduler = _scheduler(_sequence("0", 5, num_read=5), _sequence("1", 9000, num_read=0), n_ubatch=512)
    for _ in range(12):
        size = _sizes(scheduler)["1"]
        scheduler.note_step(scheduler.plan(), size * ms_per_token / 1000)
    size = _sizes(scheduler)["1"]
    assert 1 <= size <= 512
    assert size * ms_per_token <= 150
    if ms_per_token >= 0.2:
        assert size * ms_per_token >= 45, "the budget is used"
    else:
        assert size == 512


def test_chunks_do_not_become_tiny_when_the_machine_is_very_slow():
    scheduler = _scheduler(_sequence("0", 5, num_read=5), _sequence("1", 9000, num_read=0))
    for _ in range(5):
        scheduler.note_step(scheduler.plan(), 10.0)
    assert 8 <= _sizes(scheduler)["1"] <= 32


def test_prefill_rate_is_soon_right_when_the_first_step_waited_for_the_weights():
    scheduler = _scheduler(_sequence("0", 32, num_read=0))
    planned = scheduler.plan()
    for duration_s in (20.0, 0.1):
        scheduler.note_step(planned, duration_s)
    rate = scheduler.prefill_s_per_token
    assert rate is not None and rate <= 1.5 * 0.1 / 32


def test_prefill_rate_is_not_learned_when_a_step_only_decodes():
    scheduler = _scheduler(_sequence("0", 5, num_read=5), _sequence("1", 5, num_read=5))
    for _ in range(5):
        scheduler.note_step(scheduler.plan(), 10.0)
    scheduler.running.append(_sequence("2", 500, num_read=0))
    assert _sizes(scheduler)["2"] >= 64


def test_tokens_of_a_reply_are_read_again_with_its_prompt_when_its_cache_is_gone():
    sequence = _sequence("0", 5, num_read=5)
    sequence.accept(99, is_end=False)
    sequence.slot.tokens = []
    ((_, part),) = _scheduler(sequence).plan()
    assert list(part.tokens) == [97] * 5 + [98, 99]
    assert part.wants_logits


def test_replies_and_a_prompt_take_turns_when_they_may_not_share_a_step():
    replies = [_sequence(name, 5, num_read=5) for name in "01"]
    scheduler = Scheduler(n_batch=2048, n_ubatch=128, n_ctx=1000, mixes_parts=False)
    scheduler.running = [*replies, _sequence("2", 300, num_read=0), _sequence("3", 300, num_read=0)]
    steps = [{item.sequence.request_id: len(item.part.tokens) for item in scheduler.plan()} for _ in range(4)]
    assert steps == [{"2": 64}, {"0": 1, "1": 1}] * 2


@pytest.mark.parametrize("num_groups", [1, 2, 4])
def test_reply_waits_no_longer_than_the_budget_when_prompts_with_other_adapters_are_read(num_groups: int):
    answering = _sequence("0", 5, num_read=5)
    reading = [_sequence(str(number + 1), 9000, num_read=0) for number in range(num_groups)]
    for number, sequence in enumerate(reading):
        sequence.adapters = ((f"adapter {number}", 1.0),)
    scheduler = _scheduler(answering, *reading, n_ubatch=512)
    gaps: list[float] = []
    now = last = 0.0
    for _ in range(200):
        planned = scheduler.plan()
        duration_s = 0.005 + sum(len(item.part.tokens) for item in planned) * 0.001
        scheduler.note_step(planned, duration_s)
        now += duration_s
        if planned[0].sequence is answering:
            gaps, last = [*gaps, now - last], now
    assert len(gaps) >= 20
    assert max(gaps[5:]) <= 0.15
    scheduler.running[:] = [reading[0]]
    assert _sizes(scheduler) == {"1": 512}


def test_decode_rows_count_when_a_step_is_small():
    replies = [_sequence(name, 5, num_read=5) for name in "01"]
    scheduler = Scheduler(n_batch=32, n_ubatch=32, n_ctx=1000)
    scheduler.running = [*replies, _sequence("2", 300, num_read=0)]
    assert sum(len(item.part.tokens) for item in scheduler.plan()) == 32


# --- admission ---


def _admissible(scheduler: Scheduler, *, has_idle_slot: bool = True, num_cells: int = 0) -> str | None:
    found = scheduler.next_admissible(
        has_idle_slot=has_idle_slot, num_cells_with=lambda tokens, adapters: num_cells + len(tokens)
    )
    return found.request_id if found else None


def test_first_of_the_queue_is_let_in_when_there_is_a_slot():
    scheduler = _scheduler()
    assert _admissible(scheduler) is None
    scheduler.waiting.extend([_sequence("0", 10), _sequence("1", 10)])
    assert _admissible(scheduler) == "0"
    assert _admissible(scheduler, has_idle_slot=False) is None


def test_prompt_of_the_whole_context_is_let_in_only_when_nothing_runs():
    scheduler = _scheduler()
    scheduler.waiting.append(_sequence("0", 1000))
    assert _admissible(scheduler) == "0"
    scheduler.running.append(_sequence("1", 5, num_read=5))
    assert _admissible(scheduler, num_cells=5) is None


def test_none_overtakes_when_the_first_of_the_queue_does_not_fit():
    scheduler = _scheduler(_sequence("9", 100, num_read=100))
    scheduler.waiting.extend([_sequence("0", 950), _sequence("1", 5)])
    assert _admissible(scheduler, num_cells=100) is None


@pytest.mark.parametrize(("max_tokens", "is_in"), [(None, False), (1000, False), (5, True)])
def test_room_for_some_reply_is_kept_when_others_run(max_tokens: int | None, is_in: bool):
    scheduler = _scheduler(_sequence("9", 100, num_read=100))
    scheduler.waiting.append(_sequence("0", 890, max_tokens=max_tokens))
    assert (_admissible(scheduler, num_cells=100) == "0") is is_in


def test_youngest_is_the_last_let_in_and_none_when_only_one_runs():
    first, second = _sequence("0", 5, num_read=5), _sequence("1", 5, num_read=0)
    assert _scheduler().youngest() is None
    assert _scheduler(first).youngest() is None
    assert _scheduler(first, second).youngest() is second
