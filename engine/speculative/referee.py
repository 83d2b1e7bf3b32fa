"""When drafting pays: chooses for every step of a reply who drafts and how much, and keeps account of what it cost.

Expected tokens of a step with k drafted ones are 1 + a1 + a1 a2 + ... + a1...ak (Leviathan, Kalman and Matias 2023,
"Fast Inference from Transformers via Speculative Decoding", with an acceptance for each place in place of one for all);
its time is measured. Nothing is drafted that could lose more time than an allowance, see `Referee`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from engine.speculative.acceptance import FIRST_PROBE_STEPS, Acceptance
from engine.speculative.account import Account, Arm, RefereeReport
from engine.speculative.ngram import NgramProposal
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
_MODEST_READ = 8  # tokens that the draft model may have to read without another thought
_USUAL_RUN = 32.0  # tokens with the draft model until the chat foretells more and leaves it behind
_HOPEFUL = 0.9  # acceptance; where even that would not pay, the draft model is not tried
_MOST_PROBE = 4
_MOST_PROBE_STEPS = 1024
_LOOK_AHEAD = 4
_DRAFT_GUESS = 0.3  # of a plain step: a token of the draft model, before one was seen


class Choice(NamedTuple):
    """What a step does.

    Attributes:
        num_tokens: to draft; the draft model may draft fewer, see `Referee.goes_on`.
        is_probe: whether it is done to learn, and expected to lose.
        is_fresh: whether the draft model begins anew with the last tokens, in place of reading all it has missed.
    """

    arm: Arm
    num_tokens: int = 0
    is_probe: bool = False
    is_fresh: bool = False


PLAIN = Choice(Arm.PLAIN)


class _Plan(NamedTuple):
    """What a choice is made by, and what `goes_on` and `note` need of it.

    Attributes:
        table: seconds of a step by its rows.
        num_rows: of the plain step: this reply's and its neighbours'.
        num_others: tokens the neighbours get.
        most: tokens that may be drafted.
        token_s, read_s: of the draft model, for each token it drafts and for each it reads before.
        speed: expected, over plain steps.
    """

    table: list[float]
    num_rows: int
    num_others: float
    most: int
    token_s: float
    read_s: float
    speed: float = 1.0
    is_exploring: bool = False

    @property
    def base(self) -> float:
        return self.table[self.num_rows]


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
        self._plan: _Plan | None = None
        self._proposal: NgramProposal | None = None
        self._reach = 1.0  # probability that all tokens of the draft so far are accepted
        self._chances: list[float] = []  # by place of the draft

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
        """
        self._proposal, self._plan = ngram, None
        table, rows = self._times.table(num_threads=num_threads), 1 + num_other_rows
        if table is None or rows >= MAX_ROWS:
            return PLAIN
        draft = self._draft_times
        token_s = (draft and draft.token_s) or _DRAFT_GUESS * table[1]
        read_s = (draft and draft.read_s) or token_s / 4
        plan = _Plan(table, rows, num_other_tokens, min(num_room, MAX_ROWS - rows), token_s, read_s)
        self._account.begin(num_expected_tokens, plan.base)
        choice, plan = PLAIN, plan._replace(speed=_OFF_MARGIN if self._is_on else _ON_MARGIN)
        if ngram is not None and Arm.NGRAM in self._allowed:
            number, speed = self._best_ngram(plan, ngram)
            if speed > plan.speed:
                choice, plan = Choice(Arm.NGRAM, number), plan._replace(speed=speed, most=number)
        if num_draft_behind is not None and Arm.MODEL in self._allowed:
            drafted = self._model(choice, plan, num_draft_behind, num_expected_tokens)
            if drafted is None and num_draft_fresh is not None and num_draft_fresh < num_draft_behind:
                drafted = self._model(choice, plan, num_draft_fresh, num_expected_tokens)
                drafted = drafted and (drafted[0]._replace(is_fresh=True), drafted[1])
            choice, plan = drafted or (choice, plan)
        self._is_on = choice.arm is not Arm.PLAIN and not choice.is_probe
        is_due = self._since_plain >= _BASELINE_EVERY or self._times.is_unsettled(num_threads=num_threads)
        if self._is_on and is_due:
            choice = PLAIN
        self._plan = plan
        return choice

    def _best_ngram(self, plan: _Plan, ngram: NgramProposal) -> tuple[int, float]:
        """Return how many tokens of a proposal are best, and the speed over plain steps."""
        table, rows, base = plan.table, plan.num_rows, plan.base
        risk = self._acceptance.risk_after_match(ngram.match_length)
        allowance = self._account.floor_s(_NGRAM_FLOOR * (1 - risk) * base)
        dearest = base + allowance / risk
        reach, tokens = 1.0, 1.0 + plan.num_others
        best, best_rate = 0, 0.0
        most = min(len(ngram.tokens), plan.most, self._ngram_max)
        for number, chance in enumerate(self._acceptance.after_match(ngram.match_length, most), 1):
            reach *= chance
            tokens += reach
            seconds = table[rows + number]
            if seconds <= dearest and tokens > best_rate * seconds:
                best, best_rate = number, tokens / seconds
        return best, best_rate * base / (1.0 + plan.num_others)

    def _model(self, choice: Choice, plan: _Plan, num_behind: int, num_expected: int) -> tuple[Choice, _Plan] | None:
        """Return a draft of the draft model where that is faster than the choice so far, or has to be tried."""
        base, acceptance = plan.base, self._acceptance
        read_s = plan.read_s * max(num_behind - 1, 0)
        has_rival = self._account.num_steps[Arm.NGRAM] > 0
        share_s = read_s / max(min(num_expected, self._run) if has_rival else num_expected, 1)
        most = min(self._draft_max, MAX_ROWS - plan.num_rows) if choice.arm is Arm.NGRAM else plan.most
        most = min(most, self._draft_max)
        self._chances = acceptance.of_draft(most)
        tokens, seconds = _best_draft(plan, self._chances, share_s)
        speed = acceptance.model_speed(tokens, seconds / base) if plan.num_rows == 1 else tokens * base / seconds
        is_known = acceptance.knows_draft and (
            num_behind <= _MODEST_READ or self._may_read(plan, read_s, speed, num_expected)
        )
        speed = 1 / (1 / speed + share_s / base)
        margin = _OFF_MARGIN if self._is_on else _ON_MARGIN
        is_doubtful, is_going = speed <= margin, self._is_on or self._acceptance.since_model <= 1
        is_probe = is_doubtful and not (is_going and speed + acceptance.doubt() > margin)
        if is_doubtful:
            if choice.arm is not Arm.PLAIN or (is_probe and not self._is_probe_due(plan, most, share_s)):
                return None
            most = min(most, _MOST_PROBE)
        elif speed <= plan.speed:
            return None
        if is_known and not is_doubtful:
            allowance = self._account.floor_s(_MODEL_FLOOR * base) / acceptance.risk_of_draft()
        elif read_s <= self._account.reading_s or num_behind <= _MODEST_READ:
            allowance = self._account.exploring_s
        else:
            return None
        while most and plan.table[plan.num_rows + most] + plan.token_s * most > base + allowance:
            most -= 1
        if not is_doubtful and most < len(self._chances):  # what is left has to pay too
            tokens, seconds = _best_draft(plan, self._chances[:most], share_s)
            if tokens * base <= (seconds + share_s * tokens) * margin:
                return None
        if not most:
            return None
        plan = plan._replace(speed=max(speed, 1.0), most=most, is_exploring=is_doubtful or not is_known)
        return Choice(Arm.MODEL, most, is_probe), plan

    def _may_read(self, plan: _Plan, read_s: float, speed: float, num_expected: int) -> bool:
        """Return whether the draft model, known to pay so much, may read before it drafts in this reply."""
        rest_s = num_expected * plan.base
        speed -= self._acceptance.doubt() / 2
        saved_s = _READ_SHARE * rest_s * (1 - 1 / speed) if speed > 1 else 0.0
        return read_s <= (saved_s if self._acceptance.has_drafted else min(saved_s, _UNTRIED_READ_SHARE * rest_s))

    def _is_probe_due(self, plan: _Plan, most: int, share_s: float) -> bool:
        if self._acceptance.since_model < self._acceptance.num_until_probe:
            return False
        tokens, seconds = _best_draft(plan, [_HOPEFUL] * most, share_s)
        return tokens * plan.base > (seconds + tokens * share_s) * _ON_MARGIN

    def steps_on(self, place: int) -> bool:
        """Return whether the draft model should do a step for its next token; asked before each but the first.

        Args:
            place: of the token in the draft, from 1.
        """
        plan = self._plan
        return plan is not None and place < plan.most and self._pays(plan, place, self._reach, plan.token_s)

    def goes_on(self, place: int, confidence: float | None = None) -> bool:
        """Return whether the draft model should draw its next token, the step for it done; asked before each is drawn.

        It must not depend on that token: a drawn one that is thrown away would change what is drafted on average, and
        with it what the target's rejections leave.

        Args:
            place: in the draft, from 0.
            confidence: the largest probability that the draft model gives to a token; None where it is not known.
        """
        plan = self._plan
        if plan is None or place >= plan.most:
            return False
        chance = self._chances[place] if confidence is None else self._acceptance.of_confidence(confidence)
        before = self._reach if place else 1.0
        self._reach = before * chance
        return (plan.is_exploring and not place) or self._pays(plan, place, before, 0.0, chance)

    def _pays(self, plan: _Plan, place: int, reach: float, drafting_s: float, chance: float | None = None) -> bool:
        """Return whether one of the next tokens brings the draft more than its cost.

        Args:
            reach: probability that the tokens before `place` are accepted.
            drafting_s: that the first of them still takes.
            chance: of the first of them.
        """
        table, rows = plan.table, plan.num_rows
        needed = plan.speed * (1.0 + plan.num_others) / plan.base  # tokens a second
        gained = 0.0
        for last in range(place, min(plan.most, place + _LOOK_AHEAD)):
            reach *= self._chances[last] if chance is None or last > place else chance
            gained += reach
            if gained >= needed * (table[rows + last + 1] - table[rows + place] + drafting_s):
                return True
            drafting_s += plan.token_s
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
        plan, proposal = self._plan, self._proposal
        self._proposal = None
        if proposal is not None:
            self._acceptance.note_match(proposal.match_length, proposal.tokens, tokens)
        self._acceptance.since_model += 1
        if choice.arm is Arm.PLAIN or plan is None:
            self._since_plain = 0
            self._account.note_plain(step_s)
            return
        self._since_plain += 1
        worth = (len(tokens) + plan.num_others) / (1.0 + plan.num_others)
        is_exploring, read_s = plan.is_exploring, plan.read_s * max(num_draft_read - 1, 0)
        self._account.note_draft(
            choice.arm, num_drafted=num_drafted, num_accepted=num_accepted, is_exploring=is_exploring
        )
        self._account.note_times(
            plain_s=plan.base,
            worth=worth,
            seconds=step_s + draft_s,
            num_tokens=len(tokens),
            read_s=read_s,
            is_exploring=is_exploring,
        )
        if choice.arm is Arm.MODEL:
            self._acceptance.note_draft(num_drafted, num_accepted, confidences)
            if self._draft_times is not None:
                self._draft_times.observe(num_draft_read, num_drafted, draft_s)
            self._note_model_step(worth, max(step_s + draft_s - read_s, step_s) / plan.base, num_draft_read)
            self._in_run += len(tokens)

    def _note_model_step(self, worth: float, spent: float, num_read: int) -> None:
        acceptance = self._acceptance
        if num_read > _MODEST_READ:  # another run begins
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


def _best_draft(plan: _Plan, chances: Sequence[float], share_s: float) -> tuple[float, float]:
    """Return what the best draft of fixed length brings, in units of a plain step's tokens, and its seconds.

    Args:
        share_s: seconds that each token bears of a reading before; not in what is returned.
    """
    reach, tokens, seconds = 1.0, 1.0 + plan.num_others, plan.base + plan.token_s
    best = (tokens, seconds)
    for number, chance in enumerate(chances, 1):
        reach *= chance
        tokens += reach
        seconds = plan.table[plan.num_rows + number] + plan.token_s * number
        if tokens * (best[1] + share_s * best[0]) > best[0] * (seconds + share_s * tokens):
            best = (tokens, seconds)
    return best[0] / (1.0 + plan.num_others), best[1]
