"""Drafting for one reply: who may draft for it, what its next step checks, and the account of it."""

from engine.backend import DraftSampler
from engine.metrics import DrafterStats, DraftState, SpeculativeStats
from engine.speculative.account import Arm, RefereeState
from engine.speculative.ngram import NgramIndex
from engine.speculative.referee import Choice, Referee

_STATES = {
    RefereeState.NOT_TRIED: DraftState.IDLE,
    RefereeState.MEASURING: DraftState.ON,
    RefereeState.ON: DraftState.ON,
    RefereeState.OFF_SLOWER: DraftState.SLOWER,
}


class _Count:
    """What one drafter did."""

    def __init__(self) -> None:
        self.num_drafts = self.num_drafted = self.num_accepted = 0
        self.draft_s = 0.0


class Drafting:
    """What drafts for one reply.

    Args:
        reason: why nothing can; empty where something may.
        index: of the chat's tokens, where they may be drafted from.
        sampler: draws from the draft model, where it may draft.

    Attributes:
        most: tokens of a draft at most.
        first: token of the chat from which on the draft model reads; later ones are read sooner.
        choice: what the referee chose for the step.
        draft_s: what drafting for the step took; of steps that the draft model does for several replies, a share.
        num_read: tokens the draft model read for it.
        confidences: the draft model's, of each token it was asked for.
        num_looks: its steps for this reply, that which ended the draft included.
    """

    def __init__(
        self,
        *,
        reason: str = "",
        referee: Referee | None = None,
        index: NgramIndex | None = None,
        sampler: DraftSampler | None = None,
        most: int = 0,
    ) -> None:
        self.reason = reason
        self.referee = referee
        self.index = index
        self.sampler = sampler
        self.most = most
        self.first = 0
        self.choice = Choice(Arm.PLAIN)
        self.draft_s = 0.0
        self.num_read = 0
        self.confidences: list[float] = []
        self.num_looks = 0
        self.num_generated = 0  # of the reply before the step; the index has these
        self._counts = {Arm.NGRAM: _Count(), Arm.MODEL: _Count()}

    def begin_step(self, generated: list[int]) -> None:
        """Forget the step before, and take what it brought into the index."""
        if self.index is not None:
            self.index.extend(generated[self.num_generated :])
        self.choice, self.draft_s, self.num_read, self.num_looks = Choice(Arm.PLAIN), 0.0, 0, 0
        self.confidences = []
        self.num_generated = len(generated)

    def usual_length(self, num_tokens: int) -> int:
        """Return how long a draft of the draft model is usually, which may have so many tokens."""
        counted = self._counts[Arm.MODEL]
        if not counted.num_drafts:
            return num_tokens
        return min(num_tokens, max(round(counted.num_drafted / counted.num_drafts), 1))

    def count(self, num_drafted: int, num_accepted: int) -> None:
        """Add the step to the account."""
        if self.choice.arm is Arm.PLAIN:
            return
        counted = self._counts[self.choice.arm]
        counted.num_drafts += num_drafted > 0
        counted.num_drafted += num_drafted
        counted.num_accepted += num_accepted
        counted.draft_s += self.draft_s

    def stats(self) -> SpeculativeStats:
        """Return the account so far."""
        if self.referee is None:
            return SpeculativeStats(state=DraftState.UNAVAILABLE, reason=self.reason)
        report = self.referee.report()
        return SpeculativeStats(
            state=_STATES[report.state],
            net_speedup=report.net_speed_up,
            drafting_speedup=report.drafting_speed,
            drafters=tuple(
                DrafterStats(
                    drafter=arm.value,
                    num_drafts=counted.num_drafts,
                    num_drafted_tokens=counted.num_drafted,
                    num_accepted_tokens=counted.num_accepted,
                    draft_s=counted.draft_s,
                )
                for arm, counted in self._counts.items()
                if counted.num_drafts or counted.draft_s
            ),
        )

    def close(self) -> None:
        """Free native memory."""
        if self.sampler is not None:
            self.sampler.close()
            self.sampler = None
