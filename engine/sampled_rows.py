"""The logits of a step become tokens of a reply: one, and as many more as drafts turn out right."""

from collections.abc import Container
from typing import NamedTuple

from engine.backend import BatchPart
from engine.messages import FinishReason
from engine.sequence import Sequence


class Sampled(NamedTuple):
    """What a reply took from a step.

    Attributes:
        reason: why it has ended, None where it goes on.
        num_accepted: drafted tokens that it took.
        num_sampled: tokens that were chosen: one that ends the reply counts, those that close its thinking do not.
        num_held: tokens of the step's part that it goes on from; what is behind them was not taken.
    """

    reason: FinishReason | None
    num_accepted: int
    num_sampled: int
    num_held: int


def sample_rows(sequence: Sequence, part: BatchPart, row: int, *, end_ids: Container[int]) -> Sampled:
    """Sample the rows of a sequence's part of a step, from `row` on, up to the first that refuses a draft.

    Each row is sampled after the tokens before it were accepted, so that penalties, a grammar, stop strings and a
    thinking budget see what they would see in plain decoding.

    Raises:
        EngineError: a row could not be sampled.
    """
    assert sequence.sampler is not None
    proposals = sequence.proposals[: part.num_drafted]
    num_accepted, num_sampled, reason = 0, 0, None
    for number in range(part.num_drafted + 1):
        proposal = proposals[number] if number < part.num_drafted else None
        token = sequence.sampler.sample(row + number, proposal)
        is_drafted = proposal is not None and token == proposal.token
        num_accepted += is_drafted
        num_sampled += 1
        num_before = len(sequence.generated)
        reason = _take(sequence, token, is_end=token in end_ids, is_drafted=is_drafted)
        if reason is not None or not is_drafted or len(sequence.generated) != num_before + 1:
            break
    return Sampled(reason, num_accepted, num_sampled, _num_held(sequence, part, is_over=reason is not None))


def keep_to_budget(sequence: Sequence, *, was_before_answer: bool) -> None:
    """End thinking that has used up its budget, and let the grammar apply once the answer has begun."""
    assert sequence.sampler is not None
    sequence.keep_to_budget()
    if was_before_answer and not sequence.is_before_answer:
        sequence.sampler.end_thinking()


def _take(sequence: Sequence, token: int, *, is_end: bool, is_drafted: bool) -> FinishReason | None:
    """Add a token to a reply; return why it ends with it, None where it does not."""
    assert sequence.sampler is not None
    was_before_answer = sequence.is_before_answer
    sequence.accept(token, is_end=is_end, is_drafted=is_drafted)
    if not is_end and sequence.stop_string is None:
        keep_to_budget(sequence, was_before_answer=was_before_answer)
    if is_end or sequence.stop_string is not None or sequence.sampler.is_complete:
        return FinishReason.STOP
    return FinishReason.LENGTH if sequence.is_full else None


def _num_held(sequence: Sequence, part: BatchPart, *, is_over: bool) -> int:
    """Return how many of a part's tokens are the reply's: at least one is left to compute where it goes on."""
    if not part.num_drafted:
        return len(part.tokens)
    own = sequence.generated[part.start - len(sequence.prompt_tokens) :]
    most = len(own) if is_over else len(own) - 1
    num_equal = 0
    for theirs, ours in zip(part.tokens, own[:most], strict=False):
        if theirs != ours:
            break
        num_equal += 1
    return num_equal
