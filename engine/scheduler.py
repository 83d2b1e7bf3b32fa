"""Which sequences decode and which prefill in the next step, and who is let in; decides, touches no cache."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from engine.backend import AdapterKey, BatchPart
from engine.reuse_cost import followed_rate
from engine.sequence import Sequence

# Beside a running reply a step may take this long: with the decode row and noise its gap stays under 150 ms.
_STEP_BUDGET_S = 0.075
_FIRST_CHUNK_TOKENS = 64  # beside a reply, before the prefill rate is known
_MIN_CHUNK_TOKENS = 16  # smaller ones cost more than they save: the weights are read for each
_RATE_MIN_TOKENS = 16  # steps below this say little about the prefill rate
_TURN_S = 0.05  # replies with other adapters cannot share a step: a group computes this long while all others wait
_MARGIN_TOKENS = 64  # room a reply must have beside its prompt when others run


class PlannedPart(NamedTuple):
    """One sequence's share of the next step."""

    sequence: Sequence
    part: BatchPart


class Scheduler:
    """The waiting and the running sequences of one engine.

    Args:
        n_batch: most tokens in a step, at least one for each slot.
        n_ubatch: most prompt tokens in a step; whole ones survive an abort.
        n_ctx: cells in the pool.
        mixes_parts: whether replies and a prompt may share a step; else they take turns.
    """

    def __init__(self, *, n_batch: int, n_ubatch: int, n_ctx: int, mixes_parts: bool = True) -> None:
        self._n_batch = n_batch
        self._n_ubatch = n_ubatch
        self._n_ctx = n_ctx
        self._prefill_s_per_token: float | None = None
        self._mixes_parts = mixes_parts
        self._is_prompt_next = False
        self._turn: AdapterKey = ()
        self._turn_spent_s = 0.0
        self._num_others = 0  # groups that wait while one has its turn
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    def next_admissible(
        self, *, has_idle_slot: bool, num_cells_with: Callable[[list[int], AdapterKey], int]
    ) -> Sequence | None:
        """Return the first waiting sequence if it can run now; none overtakes it, some run alone.

        Args:
            num_cells_with: cells in use with a prompt for some adapters added, idle slots emptied.
        """
        if not self.waiting or not has_idle_slot:
            return None
        first = self.waiting[0]
        if self.running and (first.runs_alone or self.running[0].runs_alone):
            return None
        if self.running:
            tokens = [*first.prompt_tokens, *first.generated]
            margin = min(first.prompt.sampling.max_tokens or _MARGIN_TOKENS, _MARGIN_TOKENS)
            if num_cells_with(tokens, first.adapters) + margin > self._n_ctx:
                return None
        return first

    def plan(self) -> list[PlannedPart]:
        """Return the next step: every running reply decodes, prompts fill the latency budget in order of arrival.

        A step computes with one set of adapters; its sequences are those whose turn it is.
        """
        planned: list[PlannedPart] = []
        reading: list[Sequence] = []
        for sequence in self._group():
            if sequence.is_decoding:
                planned.append(_checked(sequence))
            else:
                reading.append(sequence)
        if not reading:
            return planned
        # Replies with other adapters wait for this step as those beside it do.
        budget = self._chunk_tokens() if any(other.is_decoding for other in self.running) else self._n_ubatch
        if not self._mixes_parts:
            reading = reading[:1]
            self._is_prompt_next = not self._is_prompt_next
            if planned and not self._is_prompt_next:
                return planned
            planned = []
        budget = min(budget, self._n_batch - sum(len(part.tokens) for _, part in planned))
        for sequence in reading:
            if budget <= 0:
                break
            unread = sequence.unread_tokens()
            chunk = unread[: min(budget, sequence.num_to_checkpoint or budget)]
            budget -= len(chunk)
            planned.append(_planned(sequence, chunk, wants_logits=len(chunk) == len(unread)))
        return planned

    def is_long(self, planned: list[PlannedPart]) -> bool:
        """Whether a step is expected to take longer than the budget."""
        num_prefill = _num_prefill(planned)
        if self._prefill_s_per_token is None:
            return num_prefill > _FIRST_CHUNK_TOKENS
        return num_prefill * self._prefill_s_per_token > 1.5 * _STEP_BUDGET_S

    def note_step(self, planned: list[PlannedPart], duration_s: float) -> None:
        """Learn the prefill rate from a finished step, and how much of a group's turn it took."""
        self._turn_spent_s += duration_s
        num_prefill = _num_prefill(planned)
        if num_prefill >= _RATE_MIN_TOKENS:
            self._prefill_s_per_token = followed_rate(self._prefill_s_per_token, duration_s / num_prefill)

    @property
    def prefill_s_per_token(self) -> float | None:
        """What reading a prompt takes, None until one was read."""
        return self._prefill_s_per_token

    def youngest(self) -> Sequence | None:
        """Return the sequence to pause when the pool is full; None when only one runs."""
        return self.running[-1] if len(self.running) > 1 else None

    def _group(self) -> list[Sequence]:
        """Return the running sequences whose adapters have their turn."""
        keys = list(dict.fromkeys(sequence.adapters for sequence in self.running))
        self._num_others = max(len(keys) - 1, 0)
        turn_s = _TURN_S / max(self._num_others, 1)
        if self._turn not in keys or (len(keys) > 1 and self._turn_spent_s >= turn_s):
            position = keys.index(self._turn) + 1 if self._turn in keys else 0
            self._turn, self._turn_spent_s = keys[position % len(keys)] if keys else (), 0.0
        return [sequence for sequence in self.running if sequence.adapters == self._turn]

    def _chunk_tokens(self) -> int:
        if self._prefill_s_per_token is None:
            return min(_FIRST_CHUNK_TOKENS, self._n_ubatch)
        # With several groups a reply waits for a step of each of the others.
        fitting = int(_STEP_BUDGET_S / max(self._num_others, 1) / self._prefill_s_per_token)
        return min(max(fitting, _MIN_CHUNK_TOKENS), self._n_ubatch)


def _num_prefill(planned: list[PlannedPart]) -> int:
    return sum(len(part.tokens) for _, part in planned if len(part.tokens) > 1 + part.num_drafted)


def _checked(sequence: Sequence) -> PlannedPart:
    """Return the part that decodes a sequence: its latest token, and what is drafted behind it."""
    latest = _planned(sequence, sequence.generated[-1:], wants_logits=True)
    if not sequence.proposals:
        return latest
    tokens = [*latest.part.tokens, *(proposal.token for proposal in sequence.proposals)]
    part = latest.part._replace(tokens=tokens, num_drafted=len(sequence.proposals))
    return PlannedPart(sequence, part)


def _planned(sequence: Sequence, tokens: list[int], *, wants_logits: bool) -> PlannedPart:
    assert sequence.slot is not None, "a running sequence has a slot"
    return PlannedPart(
        sequence, BatchPart(sequence.slot.seq_id, len(sequence.slot.tokens), tokens, wants_logits=wants_logits)
    )
