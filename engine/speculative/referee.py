"""When drafting pays: chooses for every step of a reply who drafts and how much, and keeps account of what it cost.

Costs and gains are `Plan`'s; what may be lost is `Account`'s; nothing in here looks at a clock or at a token.
"""

from collections.abc import Sequence
from typing import NamedTuple

from engine.speculative.acceptance import FIRST_PROBE_STEPS, Acceptance
from engine.speculative.account import Account, Arm, Company, RefereeReport
from engine.speculative.ngram import MAX_MATCH, NgramProposal
from engine.speculative.plan import Plan
from engine.speculative.step_times import MAX_ROWS, DraftTimes, StepTimes

NGRAM_MAX = 32
_BASELINE_EVERY = 32  # steps with drafts, after which a plain one tells what plain steps take now
_FIRST_BASELINE = 8
_ON_MARGIN, _OFF_MARGIN = 1.02, 1.0  # of plain speed, to begin with drafts and to go on
_READ_SHARE = 0.4  # of what the draft model is expected to save, that reading for it may take
_UNTRIED_READ_SHARE = 0.05  # of the expected time of the reply, while it has never drafted
_MODEL_FLOOR, _NGRAM_FLOOR = (
    1.0,
    0.5,
)  # of a plain step, that a draft which is known to pay may lose whatever was lost before
_DEAR, _DEAR_MARGIN = 3.0, 0.02  # plain steps; more of speed for each beyond
_FLOOR_SPEED = 1.2  # that a draft from the chat must promise after such losses
_DOUBTED_MATCH = 6
_MODEST_READ = 8  # tokens that the draft model may have to read without another thought
_USUAL_RUN = 32.0  # tokens with the draft model until the chat foretells more and leaves it behind
_HOPEFUL = 0.9  # acceptance at most; where what may be hoped for would not pay, the draft model is not tried
_FORGIVING_STEPS = 1000.0  # after which anything may be hoped for again
_MOST_PROBE, _BURST = 4, 2
_MOST_PROBE_STEPS = 1024
_HOPE = 1.0  # deviations by which the draft model may be faster than it seems
_DRAFT_GUESS = 0.3  # of a plain step: a token of the draft model, before one was seen


class Choice(NamedTuple):
    """What a step does.

    Attributes:
        num_tokens: to draft; the draft model may draft fewer, see `Referee.goes_on`.
        is_probe: whether it is done to learn, and expected to lose.
        is_fresh: whether the draft model begins anew with the last tokens, in place of reading all it has missed.
        is_baseline: whether a draft would pay, but what plain steps take has to be seen again: no reply of the step is
            to have one.
    """

    arm: Arm
    num_tokens: int = 0
    is_probe: bool = False
    is_fresh: bool = False
    is_baseline: bool = False


PLAIN = Choice(Arm.PLAIN)


class Referee:
    """Decides for one reply.

    What drafts may lose, compared with plain steps, is an allowance: a share of the expected time, a share of the time
    spent, and what drafts have gained in this reply. A draft that is not known to pay is never longer than its complete
    rejection could be paid from that; one that is known to is risked by how well it is known.

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
        self._account = Account(acceptance)
        self._is_on = False
        self._since_plain = _BASELINE_EVERY - _FIRST_BASELINE
        self._run = _USUAL_RUN  # tokens of a run with the draft model
        self._in_run = 0
        self._burst = 0  # drafts that a reading is good for, even if the first ones disappoint
        self._plan: Plan | None = None
        self._proposal: NgramProposal | None = None
        self._streak = MAX_MATCH  # tokens that were foretold rightly since one was not
        self._reach = 1.0  # probability that all tokens of the draft so far are accepted
        self._chances: list[float] = []  # by place of the draft
        self._was_asked = False  # whether the draft model came to draw

    def choose(
        self,
        *,
        num_threads: int,
        ngram: NgramProposal | None = None,
        num_draft_behind: int | None = None,
        num_draft_fresh: int | None = None,
        num_expected_tokens: int = 256,
        num_room: int = MAX_ROWS,
        num_other_rows: int = 0,
        num_other_tokens: float = 0.0,
        num_replies: int = 1,
    ) -> Choice:
        """Return what the next step is to do.

        Args:
            num_threads: that will compute it.
            ngram: what the chat foretells; given at every step, it also tells at plain ones whether it was right.
            num_draft_behind: tokens the draft model has to read before it drafts, None where it cannot draft now.
            num_draft_fresh: tokens it would read to begin anew with the last ones; None where it cannot.
            num_expected_tokens: that the reply is still expected to have.
            num_room: most tokens that may be drafted: what is left of the context and of the token limit.
            num_other_rows: of neighbours in the same step.
            num_other_tokens: that these are expected to bring.
            num_replies: in the step.
        """
        self._proposal, self._plan, self._was_asked = ngram, None, False
        table, rows = self._times.table(num_threads=num_threads, num_replies=num_replies), 1 + num_other_rows
        if table is None or rows >= MAX_ROWS:
            return PLAIN
        draft = self._draft_times
        token_s = (draft and draft.token_s) or _DRAFT_GUESS * table[1]
        read_s = (draft and draft.read_s) or token_s / 4
        plan = Plan(table, rows, num_other_tokens, min(num_room, MAX_ROWS - rows), token_s, read_s)
        self._account.begin(num_expected_tokens, plan.base)
        choice, plan = PLAIN, plan._replace(speed=_OFF_MARGIN if self._is_on else _ON_MARGIN)
        if ngram is not None and Arm.NGRAM in self._allowed:
            choice, plan = self._foretold(plan, ngram)
        if num_draft_behind is not None and Arm.MODEL in self._allowed:
            num_reads = [num_draft_behind]
            if num_draft_fresh is not None and num_draft_fresh < num_draft_behind:
                num_reads.append(num_draft_fresh)
            choice, plan = self._drafted(choice, plan, num_reads, num_expected_tokens) or (choice, plan)
        self._is_on = choice.arm is not Arm.PLAIN and not choice.is_probe
        if choice.arm is not Arm.PLAIN and self._needs_baseline(num_threads, num_replies):
            choice = Choice(Arm.PLAIN, is_baseline=True)
        self._plan = plan
        return choice

    def _needs_baseline(self, num_threads: int, num_replies: int) -> bool:
        """Return whether a plain step has to tell, before the next draft, what plain ones take now."""
        times = self._times
        if num_replies > 1 and not times.has_plain(num_threads=num_threads, num_replies=num_replies):
            return True
        is_unsettled = times.is_unsettled(num_threads=num_threads, num_replies=num_replies)
        return self._is_on and (self._since_plain >= _BASELINE_EVERY or is_unsettled)

    def _foretold(self, plan: Plan, ngram: NgramProposal) -> tuple[Choice, Plan]:
        """Return the best draft from the chat, or a plain step."""
        acceptance, length = self._acceptance, self._credible(ngram)
        risk = acceptance.risk_after_match(length)
        floor_s = _NGRAM_FLOOR * (1 - risk) * plan.base
        allowance, needed = self._account.allowance_s, plan.speed
        if allowance < floor_s:
            allowance, needed = floor_s, max(needed, _FLOOR_SPEED)
        most = min(len(ngram.tokens), plan.most, self._ngram_max)
        chances = acceptance.after_match(length, most)
        draft = plan.best_foretold(chances, dearest_s=plan.base + allowance / risk)
        speed = plan.speed_of(draft)
        if speed <= needed:
            return PLAIN, plan
        return Choice(Arm.NGRAM, draft.length), plan._replace(speed=speed)

    def _credible(self, ngram: NgramProposal) -> int:
        """Return the length of a match, or less where what was foretold last has turned out wrong."""
        return min(ngram.match_length, _DOUBTED_MATCH + 2 * self._streak)

    def _drafted(
        self, choice: Choice, plan: Plan, num_reads: list[int], num_expected: int
    ) -> tuple[Choice, Plan] | None:
        """Return a draft of the draft model where that is faster than the choice so far, or has to be tried.

        Args:
            num_reads: tokens it may read before, the better first.
        """
        base, acceptance = plan.base, self._acceptance
        most = min(self._draft_max, plan.most)
        chances = self._chances = acceptance.of_draft(most)
        draft = plan.often_empty(plan.best_drafted(chances), acceptance.empty_share)
        alone = plan.speed_of(draft)
        if plan.num_rows == 1:
            alone = acceptance.model_speed(draft.tokens, draft.seconds / base)
        margin = _OFF_MARGIN if self._is_on else _ON_MARGIN
        # The dearer a draft, the more chance is in what it gained.
        margin += _DEAR_MARGIN * max(draft.seconds / base - _DEAR, 0.0)
        num_read = next((number for number in num_reads if self._may_read(plan, number, alone, num_expected)), None)
        is_known = acceptance.knows_draft and num_read is not None
        if num_read is None:
            is_hopeful = alone + _HOPE * acceptance.doubt_before() > max(margin, _ON_MARGIN)
            reading_s = self._account.reading_s(is_hopeful=is_hopeful)
            num_read = next((n for n in num_reads if plan.reading_s(n) <= reading_s), None)
        if num_read is None:
            return None
        share_s = plan.reading_s(num_read) / self._num_to_bear(num_expected)
        speed = 1 / (1 / alone + share_s / base)
        is_doubtful, is_probe = speed <= margin, False
        if is_doubtful:
            is_going = self._is_on or acceptance.since_model <= 1
            is_probe = not (is_going and (self._burst > 0 or speed + acceptance.doubt() > margin))
            if choice.arm is not Arm.PLAIN or (is_probe and not self._is_probe_due(plan, most, share_s)):
                return None
            most = min(most, _MOST_PROBE)
        elif speed <= plan.speed:
            return None
        allowance = self._account.exploring_s
        if is_known and not is_doubtful:
            allowance = self._account.floor_s(_MODEL_FLOOR * base) / acceptance.risk_of_draft()
        while most and plan.seconds_of(most) > base + allowance:
            most -= 1
        if not is_doubtful and most < draft.length:  # what is left has to pay too
            rest = plan.speed_of(plan.best_drafted(chances[:most]))
            most = most if 1 / rest + share_s / base < 1 / margin else 0
            speed = min(speed, rest)
        if not most:
            return None
        plan = plan._replace(speed=max(speed, 1.0), most=most, is_exploring=is_doubtful or not is_known)
        return Choice(Arm.MODEL, most, is_probe, num_read != num_reads[0]), plan

    def _num_to_bear(self, num_expected: int) -> float:
        """Return the tokens over which reading is spread: the reply's, or those until the chat foretells more."""
        has_rival = self._account.num_steps[Arm.NGRAM] > 0
        return max(min(num_expected, self._run) if has_rival else num_expected, 1)

    def _may_read(self, plan: Plan, num_read: int, speed: float, num_expected: int) -> bool:
        """Return whether the draft model, known to pay so much, may read before it drafts in this reply."""
        if num_read <= _MODEST_READ:
            return True
        if not self._account.has_paid_reading:
            return False
        rest_s = num_expected * plan.base
        speed -= self._acceptance.doubt_before() / 2
        saved_s = _READ_SHARE * rest_s * (1 - 1 / speed) if speed > 1 and self._acceptance.knows_draft else 0.0
        most_s = saved_s if self._acceptance.has_drafted else min(saved_s, _UNTRIED_READ_SHARE * rest_s)
        return plan.reading_s(num_read) <= most_s

    def _is_probe_due(self, plan: Plan, most: int, share_s: float) -> bool:
        if self._acceptance.since_model < self._acceptance.num_until_probe:
            return False
        hope = self._acceptance.hope_of_draft() + self._acceptance.since_model / _FORGIVING_STEPS
        draft = plan.best_drafted([min(hope, _HOPEFUL)] * most)
        return 1 / plan.speed_of(draft) + share_s / plan.base < 1 / _ON_MARGIN

    def steps_on(self, place: int) -> bool:
        """Return whether the draft model should do a step for its next token; asked before each but the first.

        Args:
            place: of the token in the draft, from 1.
        """
        plan = self._plan
        if plan is None or place >= plan.most:
            return False
        return plan.pays(place, self._reach, self._chances[place : plan.most], drafting_s=plan.token_s)

    def goes_on(self, place: int, confidence: float | None = None) -> bool:
        """Return whether the draft model should draw its next token, the step for it done; asked before each is drawn.

        It must not depend on that token: a drawn one that is thrown away would change what is drafted on average, and
        with it what the target's rejections leave.

        Args:
            place: in the draft, from 0.
            confidence: the largest probability that the draft model gives to a token; None where it is not known.
        """
        plan, self._was_asked = self._plan, True
        if plan is None or place >= plan.most:
            return False
        chance = self._chances[place] if confidence is None else self._acceptance.of_confidence(confidence)
        before = self._reach if place else 1.0
        self._reach = before * chance
        chances = [chance, *self._chances[place + 1 : plan.most]]
        return (plan.is_exploring and not place) or plan.pays(place, before, chances)

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
        num_sampled: int | None = None,
        company: Company | None = None,
    ) -> None:
        """Take what came of the step that was chosen last.

        Args:
            tokens: that the step brought the reply.
            step_s: of the step, verification included.
            draft_s: of drafting, reading included; of steps that the draft model does for several, a share.
            num_drafted: may be fewer than chosen.
            confidences: that `goes_on` was asked with, for the tokens that were drafted.
            num_draft_read: tokens the draft model has read, that which it begins with included; where it drew nothing
                after a long reading, it goes on with that at a later step.
            num_sampled: what plain decoding would have taken a step each for, where those are not `tokens`: one that
                ends the reply is none of these, and some of them nobody chose.
            company: of the step, None where the reply was alone.
        """
        plan, proposal = self._plan, self._proposal
        if plan is not None and company is not None:  # what came of the others' drafts was not known before
            plan = plan._replace(
                num_rows=min(1 + company.num_other_rows, MAX_ROWS), num_others=company.num_other_tokens
            )
        self._proposal = None
        if proposal is not None:
            num_right = self._acceptance.note_match(self._credible(proposal), proposal.tokens, tokens)
            self._streak = self._streak + num_right if num_right == len(tokens) else 0
        self._acceptance.since_model += 1
        if choice.arm is Arm.PLAIN or plan is None:
            self._since_plain = 0
            self._account.note_plain(step_s, company)
            return
        self._since_plain += 1
        num_tokens = len(tokens) if num_sampled is None else num_sampled
        worth = plan.worth(num_tokens)
        # A draft model that has much to read may do so over several steps, which are as good as plain.
        is_reading = choice.arm is Arm.MODEL and not self._was_asked and num_draft_read > _MODEST_READ
        is_exploring, read_s = plan.is_exploring, draft_s if is_reading else plan.reading_s(num_draft_read)
        arm = Arm.PLAIN if is_reading else choice.arm
        self._account.note_draft(
            arm, num_drafted=num_drafted, num_accepted=num_accepted, is_exploring=is_exploring and not is_reading
        )
        self._account.note_times(
            plain_s=plan.base,
            worth=worth,
            seconds=step_s + draft_s,
            num_tokens=num_tokens,
            read_s=read_s,
            is_exploring=is_exploring,
            company=company,
        )
        if is_reading and self._draft_times is not None:
            self._draft_times.observe_reading(num_draft_read - 1, draft_s)
        elif choice.arm is Arm.MODEL:
            self._acceptance.note_draft(num_drafted, num_accepted, confidences)
            if self._draft_times is not None:
                self._draft_times.observe(num_draft_read, num_drafted, draft_s)
            self._note_model_step(worth, max(step_s + draft_s - read_s, step_s) / plan.base, num_draft_read)
            self._in_run += len(tokens)

    def _note_model_step(self, worth: float, spent: float, num_read: int) -> None:
        acceptance = self._acceptance
        self._burst -= 1
        if num_read > _MODEST_READ:  # another run begins
            self._burst = _BURST
            if self._in_run:
                self._run += 0.3 * (self._in_run - self._run)
            self._in_run = 0
        acceptance.since_model = 0
        acceptance.note_model_step(worth, spent)
        if worth >= spent:
            acceptance.num_until_probe = FIRST_PROBE_STEPS
        elif not self._is_on:
            acceptance.num_until_probe = min(2 * acceptance.num_until_probe, _MOST_PROBE_STEPS)

    def report(self) -> RefereeReport:
        """Return the account so far."""
        return self._account.report(is_on=self._is_on)
