"""When drafting pays: chooses for every step of a reply who drafts and how much, and keeps account of what it cost.

Expected tokens of a step with k drafted ones are 1 + a1 + a1 a2 + ... + a1...ak (Leviathan, Kalman and Matias 2023,
"Fast Inference from Transformers via Speculative Decoding", with an acceptance for each place in place of one for all);
its time is measured. Nothing is drafted that could lose more time than an allowance, see `Referee`.
"""

import enum
from collections.abc import Sequence
from typing import NamedTuple

from engine.speculative.acceptance import FIRST_PROBE_STEPS, Acceptance
from engine.speculative.ngram import NgramProposal
from engine.speculative.step_times import MAX_ROWS, DraftTimes, StepTimes

NGRAM_MAX = 32
_GRANT_SHARE = 0.01  # of a reply's expected time may be lost to drafts before any has paid
_SPENT_SHARE = 0.01  # and of the time it has taken so far
_MOST_GRANT_STEPS = 4.0
_BASELINE_EVERY = 32  # steps with drafts, after which a plain one tells what plain steps take now
_FIRST_BASELINE = 8
_ON_MARGIN, _OFF_MARGIN = 1.02, 1.0  # of plain speed, to begin with drafts and to go on
_MODEST_READ = 8  # tokens; a draft model that is behind by more has its reading spread over the rest of the reply
_PROVEN_STEPS, _PROVEN_SPEED = 8.0, 1.05
_HOPEFUL = 0.9  # acceptance; where even that would not pay, the draft model is not tried
_MOST_PROBE_STEPS = 256
_MOST_PROBE = 4
_LOOK_AHEAD = 4
_DRAFT_GUESS = 0.3  # of a plain step: a token of the draft model, before one was seen
_JUDGED_STEPS = 3


class Arm(enum.Enum):
    """Who drafts in a step."""

    PLAIN = "plain"
    NGRAM = "ngram"
    MODEL = "model"


class Choice(NamedTuple):
    """What a step does.

    Attributes:
        num_tokens: to draft; the draft model may draft fewer, see `Referee.goes_on`.
        is_probe: whether it is done to learn, and expected to lose.
    """

    arm: Arm
    num_tokens: int = 0
    is_probe: bool = False


PLAIN = Choice(Arm.PLAIN)


class RefereeState(enum.Enum):
    """What can be said of drafting in this chat."""

    NOT_TRIED = "not_tried"
    MEASURING = "measuring"
    ON = "on"
    OFF_SLOWER = "off_slower"


class RefereeReport(NamedTuple):
    """The account of one reply so far.

    Attributes:
        net_speed_up: time of plain steps for all tokens over the time spent, probes and reading by the draft model
            included; None before the first step.
        drafting_speed: the same over all steps of the chat with drafts alone; None before the first.
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

    @property
    def percent_slower(self) -> int | None:
        """By how many percent drafts lengthened the time of their tokens, None where they did not."""
        if self.drafting_speed is None or self.drafting_speed >= 1:
            return None
        return max(1, round(100 * (1 / self.drafting_speed - 1)))


class _Plan(NamedTuple):
    """What `goes_on` and `note` need of the choice they follow."""

    table: list[float]
    num_rows: int  # plain ones: this reply's and its neighbours'
    num_others: float
    most: int
    speed: float
    token_s: float
    read_s: float


class Referee:
    """Decides for one reply.

    What drafts may lose, compared with plain steps, is an allowance: a share of the expected time, a share of the time
    spent, and what drafts have gained in this reply. A draft is never longer than its complete rejection could be paid
    from that.

    Args:
        times: of the target's steps; told of every step by whoever runs it.
        draft_times: of the draft model, None where there is none.
        acceptance: what the chat has shown.
        allowed: drafters that may be used.
        draft_max: most tokens of one draft of the draft model.
        ngram_max: most tokens of one draft from the chat.
    """

    def __init__(
        self,
        times: StepTimes,
        draft_times: DraftTimes | None,
        acceptance: Acceptance,
        *,
        allowed: frozenset[Arm],
        draft_max: int = 16,
        ngram_max: int = NGRAM_MAX,
    ) -> None:
        self._times, self._draft_times, self._acceptance = times, draft_times, acceptance
        self._allowed = allowed
        self._draft_max, self._ngram_max = draft_max, ngram_max
        self._is_on = False
        self._since_plain = _BASELINE_EVERY - _FIRST_BASELINE
        self._since_model = FIRST_PROBE_STEPS  # the first try need not wait
        self._grant_s: float | None = None
        self._gained_s = 0.0
        self._plan: _Plan | None = None
        self._proposal: NgramProposal | None = None
        self._reach = 1.0  # probability that all tokens of the draft so far are accepted
        self._later: list[float] = []
        self._is_probe = False
        self._num_steps = dict.fromkeys(Arm, 0)
        self._num_drafts = self._num_drafted = self._num_accepted = self._num_probes = 0
        self._baseline_s = self._spent_s = 0.0

    def choose(
        self,
        *,
        num_threads: int,
        ngram: NgramProposal | None = None,
        num_draft_behind: int | None = None,
        num_expected_tokens: int = 256,
        num_room: int = MAX_ROWS,
        num_other_rows: int = 0,
        num_other_tokens: float = 0.0,
    ) -> Choice:
        """Return what the next step is to do.

        Args:
            num_threads: that will compute it.
            ngram: what the chat foretells; given at every step, it also tells at plain ones whether it was right.
            num_draft_behind: tokens the draft model has to read before it drafts, None where it cannot draft now.
            num_expected_tokens: that the reply is still expected to have.
            num_room: most tokens that may be drafted: what is left of the context and of the token limit.
            num_other_rows: of neighbours in the same step.
            num_other_tokens: that these are expected to bring.
        """
        self._proposal = ngram
        self._reach = 1.0
        table = self._times.table(num_threads=num_threads)
        rows = 1 + num_other_rows
        if table is None or rows >= MAX_ROWS:
            self._plan = None
            return PLAIN
        base = table[rows]
        if self._grant_s is None:
            self._grant_s = min(_GRANT_SHARE * num_expected_tokens, _MOST_GRANT_STEPS) * base
        allowance = self._grant_s + _SPENT_SHARE * self._spent_s + self._gained_s
        draft = self._draft_times
        token_s = (draft and draft.token_s) or _DRAFT_GUESS * table[1]
        read_s = (draft and draft.read_s) or token_s / 4
        plan = _Plan(table, rows, num_other_tokens, min(num_room, MAX_ROWS - rows), 1.0, token_s, read_s)
        best, speed = PLAIN, _OFF_MARGIN if self._is_on else _ON_MARGIN
        if ngram is not None and Arm.NGRAM in self._allowed:
            number, rate = self._best_ngram(plan, ngram, allowance)
            if number and rate > speed:
                best, speed = Choice(Arm.NGRAM, number), rate
        if num_draft_behind is not None and Arm.MODEL in self._allowed:
            choice, rate = self._model(plan, num_draft_behind, num_expected_tokens, allowance)
            if choice.num_tokens and (rate > speed or (choice.is_probe and best.arm is Arm.PLAIN)):
                best, speed = choice, rate
        self._is_on = best.arm is not Arm.PLAIN and not best.is_probe
        if self._is_on and self._since_plain >= _BASELINE_EVERY:
            best = PLAIN
        if best.arm is Arm.MODEL:
            self._later = self._acceptance.of_draft(best.num_tokens)
        self._is_probe = best.is_probe
        self._plan = plan._replace(speed=max(speed, 1.0), most=best.num_tokens)
        return best

    def _best_ngram(self, plan: _Plan, ngram: NgramProposal, allowance: float) -> tuple[int, float]:
        """Return how many tokens of a proposal are best, and the speed over plain steps."""
        table, rows, others = plan.table, plan.num_rows, plan.num_others
        base = table[rows]
        dearest = base + allowance
        reach, tokens = 1.0, 1.0 + others
        best, best_rate = 0, 0.0
        most = min(len(ngram.tokens), plan.most, self._ngram_max)
        chances = self._acceptance.after_match(ngram.match_length, most)
        for number, chance in enumerate(chances, 1):
            reach *= chance
            tokens += reach
            seconds = table[rows + number]
            if seconds <= dearest and tokens > best_rate * seconds:
                best, best_rate = number, tokens / seconds
        return best, best_rate * base / (1.0 + others)

    def _model(self, plan: _Plan, num_behind: int, num_expected: int, allowance: float) -> tuple[Choice, float]:
        """Return a draft by the draft model, and the speed over plain steps; no tokens where it may not draft."""
        base = plan.table[plan.num_rows]
        read_s = plan.read_s * max(num_behind - 1, 0)
        share = read_s / max(num_expected, 1)  # each token of the rest of the reply bears as much
        most = min(self._draft_max, plan.most)
        tokens, spent = self._best_draft(plan, self._acceptance.of_draft(most), share)
        speed = self._acceptance.model_speed(tokens * base, spent) if plan.num_rows == 1 else tokens * base / spent
        speed = 1 / (1 / speed + share / base)
        if num_behind > _MODEST_READ and speed > _PROVEN_SPEED and self._acceptance.num_model_steps >= _PROVEN_STEPS:
            allowance += read_s
        is_probe = speed <= (_OFF_MARGIN if self._is_on else _ON_MARGIN)
        if is_probe:
            hopeful, hopeful_s = self._best_draft(plan, [_HOPEFUL] * most, share)
            is_due = self._since_model >= self._acceptance.num_until_probe
            if not is_due or hopeful * base <= (hopeful_s + hopeful * share) * _ON_MARGIN:
                return PLAIN, 0.0
            most = min(most, _MOST_PROBE)
        dearest = base + allowance - read_s
        while most and plan.table[plan.num_rows + most] + plan.token_s * most > dearest:
            most -= 1
        return (Choice(Arm.MODEL, most, is_probe=is_probe), speed) if most else (PLAIN, 0.0)

    @staticmethod
    def _best_draft(plan: _Plan, chances: Sequence[float], share: float) -> tuple[float, float]:
        """Return tokens and seconds of the best fixed draft, in units of what a plain step brings.

        Args:
            share: seconds that each token bears of a reading before.
        """
        reach, tokens, seconds = 1.0, 1.0 + plan.num_others, plan.table[plan.num_rows] + plan.token_s
        best = (tokens, seconds)
        for number, chance in enumerate(chances, 1):
            reach *= chance
            tokens += reach
            seconds = plan.table[plan.num_rows + number] + plan.token_s * number
            if tokens * (best[1] + share * best[0]) > best[0] * (seconds + share * tokens):
                best = (tokens, seconds)
        return best[0] / (1.0 + plan.num_others), best[1]

    def goes_on(self, place: int, confidence: float | None = None) -> bool:
        """Return whether the draft model should draw its next token; asked before each is drawn.

        It must not depend on the token: a drawn one that is thrown away would change what the target's rejection
        leaves. The draft model's step for this token is done, so that drawing costs a row of verification alone.

        Args:
            place: in the draft, from 0.
            confidence: the largest probability that the draft model gives to a token; None where it is not known.
        """
        plan = self._plan
        if plan is None or place >= plan.most:
            return False
        later = self._later
        chance = later[place] if confidence is None else self._acceptance.of_confidence(confidence)
        before = plan.table[plan.num_rows + place]
        needed = plan.speed * (1.0 + plan.num_others) / plan.table[plan.num_rows]  # tokens a second
        reach = self._reach = self._reach * chance
        if self._is_probe and not place:
            return True
        gained, seconds = 0.0, 0.0
        for further in range(place, min(plan.most, place + _LOOK_AHEAD)):
            if further > place:
                reach *= later[further]
                seconds += plan.token_s
            gained += reach
            if gained >= needed * (plan.table[plan.num_rows + further + 1] - before + seconds):
                return True
        return False

    def note(
        self,
        choice: Choice,
        tokens: Sequence[int],
        *,
        step_s: float,
        draft_s: float = 0.0,
        num_drafted: int = 0,
        num_accepted: int = 0,
        confidences: Sequence[float] = (),
        num_draft_read: int = 0,
    ) -> None:
        """Take what came of the step that was chosen last.

        Args:
            tokens: that the step brought the reply.
            step_s: of the step, verification included.
            draft_s: of drafting, reading included.
            num_drafted: may be fewer than chosen.
            confidences: that `goes_on` was asked with, for the tokens that were drafted.
            num_draft_read: tokens the draft model was behind.
        """
        plan, spent_s = self._plan, step_s + draft_s
        if self._proposal is not None:
            self._acceptance.note_match(self._proposal.match_length, self._proposal.tokens, tokens)
        if choice.arm is Arm.MODEL:
            self._acceptance.note_draft(num_drafted, num_accepted, confidences)
            if self._draft_times is not None:
                self._draft_times.observe(num_draft_read, num_drafted, draft_s)
        self._num_steps[choice.arm] += 1
        self._num_drafts += num_drafted > 0
        self._num_drafted += num_drafted
        self._num_accepted += num_accepted
        self._num_probes += choice.is_probe
        self._spent_s += spent_s
        self._since_model += 1
        if choice.arm is Arm.PLAIN or plan is None:
            self._since_plain = 0
            self._baseline_s += step_s
            return
        self._since_plain += 1
        base = plan.table[plan.num_rows]
        worth = (len(tokens) + plan.num_others) / (1.0 + plan.num_others)
        self._baseline_s += base * len(tokens)
        self._gained_s += worth * base - spent_s
        self._acceptance.worth += worth
        self._acceptance.spent += spent_s / base
        self._acceptance.num_steps += 1
        if choice.arm is Arm.MODEL:
            self._note_model(worth, (spent_s - plan.read_s * max(num_draft_read - 1, 0)) / base, plan)

    def _note_model(self, worth: float, spent: float, plan: _Plan) -> None:
        acceptance = self._acceptance
        self._since_model = 0
        if plan.num_rows == 1:
            acceptance.note_model_step(worth, max(spent, 0.5))
        if worth >= spent:
            acceptance.num_until_probe = FIRST_PROBE_STEPS
        elif not self._is_on:
            acceptance.num_until_probe = min(2 * acceptance.num_until_probe, _MOST_PROBE_STEPS)

    def report(self) -> RefereeReport:
        """Return the account so far."""
        spent, worth = self._acceptance.spent, self._acceptance.worth
        speed = worth / spent if spent else None
        if speed is None:
            state = RefereeState.NOT_TRIED
        elif self._is_on or speed >= 1:
            state = RefereeState.ON
        else:
            is_judged = self._acceptance.num_steps >= _JUDGED_STEPS
            state = RefereeState.OFF_SLOWER if is_judged else RefereeState.MEASURING
        return RefereeReport(
            state=state,
            net_speed_up=self._baseline_s / self._spent_s if self._spent_s else None,
            drafting_speed=speed,
            num_steps=dict(self._num_steps),
            num_drafts=self._num_drafts,
            num_drafted=self._num_drafted,
            num_accepted=self._num_accepted,
            num_probes=self._num_probes,
            baseline_s=self._baseline_s,
            spent_s=self._spent_s,
        )
