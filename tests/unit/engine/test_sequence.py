"""One request's own arithmetic, on a clock that the test turns."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine import sequence as sequence_module
from engine.messages import Delta, FinishReason
from engine.params import SamplingParams
from engine.sequence import Prompt, Sequence
from engine.slot import Slot
from tests.unit.engine.fake_engine import VOCABULARY

END = 257


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that sequences look at."""
    clock = Clock()
    monkeypatch.setattr(sequence_module, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def _sequence(**sampling) -> Sequence:
    sequence = Sequence(Prompt("r", [10] * 6, SamplingParams(**sampling), 7, received_at=100.0), VOCABULARY)
    sequence.slot = Slot(0)
    return sequence


def _say(sequence: Sequence, clock: Clock, text: str, *, gap_s: float) -> list[Delta]:
    deltas = []
    for value in text.encode():
        clock.now += gap_s
        sequence.accept(value, is_end=False)
        if (delta := sequence.next_delta()) is not None:
            deltas.append(delta)
    return deltas


def _finish(sequence: Sequence, reason: FinishReason = FinishReason.LENGTH) -> tuple[list[Any], Any]:
    *deltas, end = sequence.finish(reason, 4096)
    return deltas, end


def test_measures_follow_their_definitions_when_tokens_come_a_second_apart(clock: Clock):
    sequence = _sequence()
    clock.now = 100.5
    sequence.begin_prefill()
    clock.now = 101.0
    sequence.begin_prefill()  # the second step of the same prompt
    _say(sequence, clock, "abc", gap_s=1.0)  # at 102, 103 and 104
    metrics = _finish(sequence)[1].metrics
    assert metrics.ttft_s == 2.0
    assert metrics.prefill_s == 1.5
    assert metrics.decode_s == 2.0
    assert metrics.num_generated_tokens == 3
    assert metrics.num_prompt_tokens == 6
    assert metrics.prefill_rate == 4.0
    assert metrics.decode_rate == 1.0
    assert metrics.tpot_s == 1.0
    assert metrics.peak_memory_bytes == 4096
    assert metrics.seed == 7


def test_decode_rate_is_the_rate_of_the_tokens_when_the_reply_ends_with_an_end_token(clock: Clock):
    sequence = _sequence()
    sequence.begin_prefill()
    _say(sequence, clock, "abc", gap_s=1.0)
    clock.now += 1.0
    sequence.accept(END, is_end=True)
    end = _finish(sequence, FinishReason.STOP)[1]
    assert end.token_ids == tuple(b"abc")
    assert end.metrics.decode_rate == 1.0
    assert end.metrics.tpot_s == 1.0


def test_times_are_none_when_no_token_came(clock: Clock):
    sequence = _sequence()
    sequence.begin_prefill()
    metrics = _finish(sequence, FinishReason.ABORT)[1].metrics
    assert metrics.ttft_s is None
    assert metrics.prefill_s is None
    assert metrics.decode_s is None
    assert metrics.num_generated_tokens == 0


def test_first_token_is_sent_at_once_and_later_ones_joined_when_tokens_come_fast(clock: Clock):
    sequence = _sequence()
    text = "x" * 200
    deltas = _say(sequence, clock, text, gap_s=0.001)
    assert deltas[0].text == "x"
    assert deltas[0].num_generated_tokens == 1
    assert 200 / 33 - 1 <= len(deltas) <= 200 / 16 + 1
    rest, end = _finish(sequence)
    assert "".join(delta.text for delta in [*deltas, *rest]) == end.text == text


def test_every_token_is_sent_when_tokens_come_slowly(clock: Clock):
    deltas = _say(_sequence(), clock, "abcd", gap_s=0.05)
    assert [delta.text for delta in deltas] == ["a", "b", "c", "d"]
    assert [delta.num_generated_tokens for delta in deltas] == [1, 2, 3, 4]
    assert [delta.num_context_tokens for delta in deltas] == [7, 8, 9, 10]
    assert [round(delta.decode_s, 3) for delta in deltas] == [0, 0.05, 0.1, 0.15]


def test_no_delta_is_empty_when_characters_are_split(clock: Clock):
    deltas = _say(_sequence(), clock, "日", gap_s=0.05)
    assert [delta.text for delta in deltas] == ["日"]


def test_half_a_character_becomes_a_mark_when_the_reply_is_cut(clock: Clock):
    sequence = _sequence()
    sequence.accept(0xE6, is_end=False)
    deltas, end = _finish(sequence)
    assert end.text == "\ufffd"
    assert [delta.text for delta in deltas] == ["\ufffd"]


def test_held_text_is_given_out_when_a_reply_ends_without_its_stop_string(clock: Clock):
    sequence = _sequence(stop=("STOP",))
    _say(sequence, clock, "go ST", gap_s=0.05)
    _, end = _finish(sequence, FinishReason.ABORT)
    assert end.text == "go ST"
    assert end.finish_reason is FinishReason.ABORT
    assert end.stop_string is None


def test_stop_string_ends_the_reply_when_its_last_letter_is_also_the_last_allowed(clock: Clock):
    sequence = _sequence(stop=("STOP",))
    _say(sequence, clock, "go STOP", gap_s=0.05)
    assert sequence.stop_string == "STOP"
    _, end = _finish(sequence, FinishReason.LENGTH)
    assert (end.text, end.finish_reason, end.stop_string) == ("go ", FinishReason.STOP, "STOP")


def test_control_token_is_not_shown_but_counted_when_it_is_sampled_as_text(clock: Clock):
    sequence = _sequence()
    for token in (97, 256, 98):
        sequence.accept(token, is_end=False)
    _, end = _finish(sequence)
    assert end.text == "ab"
    assert end.token_ids == (97, 256, 98)


@pytest.mark.parametrize(
    ("num_held", "num_generated", "unread", "is_decoding"),
    [
        (0, 0, 6, False),
        (4, 0, 2, False),
        (6, 1, 1, True),
        (7, 2, 1, True),
        (6, 2, 2, False),
        (0, 2, 8, False),
        (3, 1, 4, False),
    ],
)
def test_unread_tokens_are_those_after_what_is_held_when_asked(num_held, num_generated, unread, is_decoding):
    sequence = _sequence()
    for number in range(num_generated):
        sequence.accept(97 + number, is_end=False)
    everything = [*sequence.prompt_tokens, *sequence.generated]
    sequence.slot.tokens = everything[:num_held]
    assert sequence.unread_tokens() == everything[num_held:]
    assert len(sequence.unread_tokens()) == unread
    assert sequence.is_decoding is is_decoding


def test_progress_never_exceeds_the_prompt_when_the_reply_is_in_the_cache_too():
    sequence = _sequence()
    sequence.slot.tokens = [10] * 9
    progress = sequence.progress()
    assert (progress.num_done_tokens, progress.num_total_tokens) == (6, 6)
