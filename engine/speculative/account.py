"""What drafting has cost and gained in one reply, and what it may still lose."""

import enum
from typing import NamedTuple

from engine.params import DraftMode
from engine.speculative.acceptance import Acceptance

_GRANT_SHARE = 0.018  # of a reply's expected time may be lost to drafts before any has paid
_MOST_GRANT_STEPS = 6.0
_GRANT_AFTER_LOSS, _LEAST_GRANT = 0.6, 0.4  # of that after each reply in which drafts lost
_SPENT_SHARE = 0.005  # and of the time it has taken so far
_READING_SHARE = 0.5  # of both, for reading by a draft model that is not known to pay
_HOPEFUL_READING_SHARE = 0.8  # and by one that may well
_OVERDRAWN_SHARE = 1.0  # of both, that a draft which is known to pay may lose once they are lost
_JUDGED_STEPS = 3


class Company(NamedTuple):
    """What a step was for all of its replies together.

    Attributes:
        plain_s: seconds of a step in which none of them has a draft.
        others_s: seconds that choosing and drafting took before it, for all but this reply, which waited for it.
        num_other_rows: of the others, drafted ones included.
        num_other_tokens: that the step brought them.
    """

    plain_s: float
    others_s: float
    num_other_rows: int
    num_other_tokens: int


class Arm(enum.Enum):
    """Who drafts in a step."""

    PLAIN = "plain"
    NGRAM = "ngram"
    MODEL = "model"


ARMS_OF = {
    DraftMode.NGRAM: frozenset({Arm.NGRAM}),
    DraftMode.MODEL: frozenset({Arm.MODEL}),
    DraftMode.BOTH: frozenset({Arm.NGRAM, Arm.MODEL}),
    DraftMode.AUTO: frozenset({Arm.NGRAM, Arm.MODEL}),
}


class RefereeState(enum.Enum):
    """What can be said of drafting in this chat."""

    NOT_TRIED = "not_tried"
    MEASURING = "measuring"
    ON = "on"
    OFF_SLOWER = "off_slower"


class RefereeReport(NamedTuple):
    """The account of one reply so far.

    Attributes:
        net_speed_up: time of plain steps for all tokens, in the same company, over the time that passed: probes,
            reading by the draft model, and drafting for neighbours included; None before the first step.
        drafting_speed: over all steps of the chat with drafts of its own, what they brought all replies of the step
            over what they took, drafts of neighbours left out; None before the first.
        num_steps: by arm.
        num_drafts, num_drafted, num_accepted: of both drafters.
        num_probes: steps that were done to learn.
        baseline_s, spent_s: the two times of the net speed-up.
    """

    state: RefereeState
    net_speed_up: float | None
    drafting_speed: float | None
    num_steps: dict[Arm, int]
    num_drafts: int
    num_drafted: int
    num_accepted: int
    num_probes: int
    baseline_s: float
    spent_s: float


class Account:
    """The seconds and counts of one reply.

    Attributes:
        num_steps: by arm.
    """

    def __init__(self, acceptance: Acceptance) -> None:
        self._acceptance = acceptance
        self._grant_s: float | None = None
        self._spent_s = self._baseline_s = 0.0
        self._gained_s = 0.0  # by steps with drafts
        self._explored_s = 0.0  # lost by those of them that were not known to pay
        self._read_s = 0.0  # spent on reading for these
        self._all_read_s = 0.0  # and for all
        self.num_steps = dict.fromkeys(Arm, 0)
        self._num_drafts = self._num_drafted = self._num_accepted = self._num_probes = 0

    def begin(self, expected_steps: int, step_s: float) -> None:
        """Fix the grant at the first step whose cost is known."""
        if self._grant_s is None:
            share = max(_GRANT_AFTER_LOSS**self._acceptance.num_losses, _LEAST_GRANT)
            self._grant_s = share * min(_GRANT_SHARE * expected_steps, _MOST_GRANT_STEPS) * step_s

    @property
    def allowance_s(self) -> float:
        """Seconds that drafts may lose now."""
        return self._own_s + self._gained_s

    def floor_s(self, seconds: float) -> float:
        """Return what a draft that is known to pay may lose: the allowance, and `seconds` until more is lost."""
        return max(self.allowance_s, seconds if self.allowance_s > -_OVERDRAWN_SHARE * self._own_s else 0.0)

    @property
    def exploring_s(self) -> float:
        """Seconds that drafts not known to pay may lose now: what others have gained is not theirs to lose."""
        return min(self._own_s - self._explored_s - self._read_s, self.allowance_s)

    def reading_s(self, *, is_hopeful: bool) -> float:
        """Return the seconds that the draft model may read now while it is not known to pay."""
        return (_HOPEFUL_READING_SHARE if is_hopeful else _READING_SHARE) * self._own_s - self._read_s

    @property
    def has_paid_reading(self) -> bool:
        """Whether drafts have brought back what reading for them took, but for the allowance."""
        return self._all_read_s <= self._own_s + max(self._gained_s, 0.0)

    @property
    def _own_s(self) -> float:
        return (self._grant_s or 0.0) + _SPENT_SHARE * self._spent_s

    def note_plain(self, seconds: float, company: Company | None) -> None:
        """Take a step without a draft of this reply; neighbours may have had some."""
        self.num_steps[Arm.PLAIN] += 1
        self._spent_s += seconds if company is None else seconds + company.others_s
        self._baseline_s += seconds if company is None else company.plain_s

    def note_draft(self, arm: Arm, *, num_drafted: int, num_accepted: int, is_exploring: bool) -> None:
        """Count a step with a drafter."""
        self.num_steps[arm] += 1
        self._num_drafts += num_drafted > 0
        self._num_drafted += num_drafted
        self._num_accepted += num_accepted
        self._num_probes += is_exploring

    def note_times(
        self,
        *,
        plain_s: float,
        worth: float,
        seconds: float,
        num_tokens: int,
        read_s: float,
        is_exploring: bool,
        company: Company | None = None,
    ) -> None:
        """Take what a step with a drafter cost.

        Args:
            plain_s: of the step without this reply's draft.
            worth: plain steps for what all replies of the step got.
            seconds: of the step, and of drafting for this reply.
            num_tokens: that this reply got.
            read_s: of the seconds, what reading took: once done, it says nothing against going on.
        """
        gained_s = worth * plain_s - (seconds - read_s)
        self._spent_s += seconds if company is None else seconds + company.others_s
        self._baseline_s += (plain_s if company is None else company.plain_s) * num_tokens
        self._gained_s += gained_s
        self._all_read_s += read_s
        if is_exploring:
            self._explored_s = max(self._explored_s - gained_s, 0.0)
            self._read_s += read_s
        self._acceptance.worth += worth
        self._acceptance.spent += seconds / plain_s
        self._acceptance.num_steps += 1

    def report(self, *, is_on: bool) -> RefereeReport:
        """Return the account so far."""
        spent, worth = self._acceptance.spent, self._acceptance.worth
        speed = worth / spent if spent else None
        if speed is None:
            state = RefereeState.NOT_TRIED
        elif is_on or speed >= 1:
            state = RefereeState.ON
        else:
            is_judged = self._acceptance.num_steps >= _JUDGED_STEPS
            state = RefereeState.OFF_SLOWER if is_judged else RefereeState.MEASURING
        return RefereeReport(
            state=state,
            net_speed_up=self._baseline_s / self._spent_s if self._spent_s else None,
            drafting_speed=speed,
            num_steps=dict(self.num_steps),
            num_drafts=self._num_drafts,
            num_drafted=self._num_drafted,
            num_accepted=self._num_accepted,
            num_probes=self._num_probes,
            baseline_s=self._baseline_s,
            spent_s=self._spent_s,
        )
