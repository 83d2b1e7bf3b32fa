"""Questions behind long prompts: their steps are no slow prompts, so fewer threads are not tried for them."""

from engine.backend import BatchPart
from engine.threads import StepThreads

# Seconds on two cores, as measured with SmolLM2-135M: of a token of a long step, of a question's 13 tokens behind 1,250
# others, and of one token; one thread takes twice as long for the first two.
_LONG_S, _QUESTION_S, _TOKEN_S = 0.0034, 0.083, 0.0081


class _Clock:
    now = 0.0


def _step(threads: StepThreads, clock: _Clock, start: int, num_tokens: int, seconds: float) -> int:
    threads.begin([BatchPart(0, start, (1,) * num_tokens, wants_logits=True)])
    taken = seconds * (1 if threads.count == 2 or num_tokens == 1 else 2)
    clock.now += taken
    threads.end(taken)
    return threads.count


def test_questions_are_read_by_all_threads_when_prompts_are_long() -> None:
    clock = _Clock()
    threads = StepThreads(
        lambda n_decode, n_prefill: None,
        count=2,
        is_fixed=False,
        count_allowed=lambda: 2,
        others=lambda now: 0.0,
        clock=lambda: clock.now,
    )
    counts = []
    for _ in range(8):
        for start, num_tokens in ((0, 512), (512, 512), (1024, 204)):
            _step(threads, clock, start, num_tokens, num_tokens * _LONG_S)
        position = 1228
        for _ in range(3):
            counts.append(_step(threads, clock, position, 13, _QUESTION_S))
            for index in range(8):
                _step(threads, clock, position + 13 + index, 1, _TOKEN_S)
            position += 21
    # One of the first may be tried with fewer: that is how it is known what they cost.
    assert counts.count(1) <= 1
