"""Drafting beside neighbours, by a clock that only steps move: whose time is whose, and drafts in common steps."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.backend_fake import FakeBackend
from engine.backend_fake_settings import settings_of
from engine.core import Engine
from engine.messages import Finished
from engine.params import DraftMode, ModelParams
from engine.speculative.account import Arm
from engine.speculative.draft_model import ModelDrafter
from engine.speculative.referee import PLAIN, Choice, Referee
from tests.support.eager_referee import FullReferee
from tests.unit.engine.drafting_engine import drafted
from tests.unit.engine.fake_engine import ask, make_prompt

ROW_S, STEP_S = 0.004, 0.006  # of the target; each row beyond the first, and what a step takes whatever is in it
DRAFT_ROW_S, DRAFT_STEP_S = 0.001, 0.001
NUM_TOKENS = 40


def plain_s(num_rows: int) -> float:
    """Return the seconds of a step of the target."""
    return STEP_S + ROW_S * num_rows


class Step(NamedTuple):
    """A step of the target, and the seconds of the draft model before it."""

    parts: list[BatchPart]
    drafting_s: float
    own_s: float

    @property
    def num_rows(self) -> int:
        """Rows of logits."""
        return sum(1 + part.num_drafted for part in self.parts)

    @property
    def seconds(self) -> float:
        """What passed, drafting included."""
        return self.drafting_s + self.own_s


class Clock:
    """Moved by the steps of two backends, which it notes.

    Args:
        saved_s: by each reply beside the first: its row has a cache of its own, that of a draft has not.
    """

    def __init__(self, *, saved_s: float = 0.0) -> None:
        self.saved_s = saved_s
        self.now = 0.0
        self.drafting_s = 0.0
        self.num_draft_steps = 0
        self.steps: list[Step] = []

    def take_draft(self, parts: Sequence[BatchPart]) -> None:
        """Note a step of the draft model."""
        seconds = DRAFT_STEP_S + DRAFT_ROW_S * sum(len(part.tokens) for part in parts)
        self.now += seconds
        self.drafting_s += seconds
        self.num_draft_steps += 1

    def take(self, parts: Sequence[BatchPart]) -> None:
        """Note a step of the target."""
        began = self.now
        self.now += plain_s(sum(len(part.tokens) for part in parts)) - self.saved_s * (len(parts) - 1)
        if all(len(part.tokens) == 1 + part.num_drafted for part in parts):
            self.steps.append(Step(list(parts), self.drafting_s, self.now - began))
        self.drafting_s = 0.0


class TimedBackend(FakeBackend):
    """Tells a clock of its steps."""

    def __init__(self, take: Callable[[Sequence[BatchPart]], None], settings: str = "", **params: Any) -> None:
        path = f"fake:{settings}"
        super().__init__(path, ModelParams(**params), settings_of(path))
        self._take_step = take

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        self._take_step(parts)
        return super().decode(parts)


class NeverReferee(Referee):
    """Has nothing drafted."""

    def choose(self, **circumstances: Any) -> Choice:
        """See Referee."""
        super().choose(**circumstances)
        return PLAIN


class LookingReferee(FullReferee):
    """Wants to see a plain step at every third one."""

    def choose(self, **circumstances: Any) -> Choice:
        """See Referee."""
        choice = super().choose(**circumstances)
        self._number = getattr(self, "_number", 0) + 1
        return choice if self._number % 3 else Choice(Arm.PLAIN, is_baseline=True)


def converse(
    clock: Clock, *referees: type[Referee], right: float = 1.0, knows_plain: bool = True
) -> dict[str, Finished]:
    """Return the replies to one request for each referee, `a` and so on, all at the same time.

    Args:
        knows_plain: whether plain steps of several replies were seen before.
    """
    target = TimedBackend(clock.take, n_seq_max=len(referees), n_ctx=4096)
    engine = Engine(target)
    waiting = iter(referees)
    engine.speculator.referee = lambda *args, **options: next(waiting)(*args, **options)
    engine.speculator.clock = lambda: clock.now
    described = target.description
    drafting = TimedBackend(clock.take_draft, f"draft_right={right}", n_ctx=4096, n_seq_max=described.n_seq_max)
    engine.speculator.set_model(ModelDrafter(drafting, vocabulary_size=described.n_vocab))
    for num_rows in (1, 2, 3, 4, 5, 6, 8, 12, 16, 33) * 4:
        engine.speculator._times.observe(num_rows, plain_s(num_rows), num_threads=engine.threads.count)
    for number in range(2, 5) if knows_plain else ():
        seconds = plain_s(number) - clock.saved_s * (number - 1)
        engine.speculator._times.observe(number, seconds, num_threads=engine.threads.count, num_replies=number)
    clock.drafting_s, clock.num_draft_steps = 0.0, 0
    prompts = [
        make_prompt(name, f"{name} says it", max_tokens=NUM_TOKENS) for name, _ in zip("abcd", referees, strict=False)
    ]
    return ask(engine, *(drafted(prompt, DraftMode.MODEL, draft_max=3) for prompt in prompts))


def test_a_reply_that_drafts_nothing_is_as_much_slower_as_it_waited_for_its_neighbour():
    clock = Clock()
    replies = converse(clock, FullReferee, NeverReferee)
    beside = [step for step in clock.steps if len(step.parts) == 2 and step.parts[0].num_drafted]
    rest = [step for step in clock.steps if len(step.parts) == 1 and not step.parts[0].num_drafted]
    assert len(beside) >= 8
    assert rest
    plain = len(beside) * plain_s(2) + len(rest) * plain_s(1)
    passed = sum(step.seconds for step in [*beside, *rest])
    stats = replies["b"].speculative
    assert stats.net_speedup == pytest.approx(plain / passed, rel=0.02)
    assert stats.net_speedup < 0.9
    assert stats.num_drafts == 0
    assert stats.drafting_speedup is None


def test_a_reply_that_drafts_is_measured_by_plain_steps_of_all_and_all_the_time_that_passed():
    clock = Clock()
    replies = converse(clock, FullReferee, FullReferee)
    shared = [step for step in clock.steps if len(step.parts) == 2]
    assert len(shared) == len(clock.steps) >= 8, "both end in the same step"
    plain, passed = (NUM_TOKENS - 1) * plain_s(2), sum(step.seconds for step in shared)
    for got in replies.values():
        assert len(got.token_ids) == NUM_TOKENS
        assert got.speculative.net_speedup == pytest.approx(plain / passed, rel=0.02)


def test_a_lone_reply_is_measured_as_ever():
    clock = Clock()
    replies = converse(clock, FullReferee)
    passed = sum(step.seconds for step in clock.steps)
    assert replies["a"].speculative.net_speedup == pytest.approx((NUM_TOKENS - 1) * plain_s(1) / passed, rel=0.02)


def test_times_of_drafting_add_up_to_what_passed_when_replies_share_its_steps():
    clock = Clock()
    replies = converse(clock, FullReferee, FullReferee, FullReferee, right=0.6)
    told = sum(drafter.draft_s for got in replies.values() for drafter in got.speculative.drafters)
    assert told == pytest.approx(sum(step.drafting_s for step in clock.steps), rel=1e-6)


@pytest.mark.parametrize("num_replies", [2, 4])
def test_drafts_of_neighbours_take_no_more_steps_than_the_longest(num_replies):
    clock = Clock()
    converse(clock, *[FullReferee] * num_replies)
    num_with_drafts = sum(any(part.num_drafted for part in step.parts) for step in clock.steps)
    # One for each of three tokens, and one for the tokens that the target has and the draft model has not.
    assert clock.num_draft_steps <= 4 * num_with_drafts + 1


def test_no_reply_of_a_step_has_a_draft_when_one_wants_to_see_a_plain_step():
    clock = Clock()
    converse(clock, LookingReferee, FullReferee)
    shared = [step for step in clock.steps if len(step.parts) == 2]
    assert any(all(part.num_drafted for part in step.parts) for step in shared)
    plain = [step for step in shared if not any(part.num_drafted for part in step.parts)]
    assert len(plain) >= len(shared) // 3
    assert not any(step.drafting_s for step in plain)
    assert all(all(part.num_drafted for part in step.parts) for step in shared if step not in plain)


@pytest.mark.parametrize("num_replies", [2, 4])
def test_what_is_told_is_measured_by_plain_steps_of_as_many_replies_when_these_take_less_than_drafts(num_replies):
    clock = Clock(saved_s=0.003)
    replies = converse(clock, *[LookingReferee] * num_replies, knows_plain=False)
    shared = [step for step in clock.steps if len(step.parts) == num_replies]
    plain = [step.own_s for step in shared if step.num_rows == num_replies]
    assert plain[0] < 0.9 * plain_s(num_replies)
    passed = sum(step.seconds for step in shared)
    truth = (NUM_TOKENS - 1) * plain[0] / passed
    for got in replies.values():
        assert truth * 0.9 <= got.speculative.net_speedup <= truth * 1.02


def test_too_little_is_told_when_no_plain_step_of_as_many_replies_was_seen():
    clock = Clock(saved_s=0.003)
    replies = converse(clock, FullReferee, FullReferee, knows_plain=False)
    shared = [step for step in clock.steps if len(step.parts) == 2]
    assert not [step for step in shared if step.num_rows == 2]
    truth = (NUM_TOKENS - 1) * (plain_s(2) - 0.003) / sum(step.seconds for step in shared)
    assert all(got.speculative.net_speedup <= truth * 1.02 for got in replies.values())


def test_a_plain_step_comes_before_drafts_when_as_many_replies_were_never_seen():
    clock = Clock()
    converse(clock, Referee, Referee, knows_plain=False)
    shared = [step for step in clock.steps if len(step.parts) == 2]
    assert any(step.num_rows > 2 for step in shared), "drafts pay here"
    assert shared[0].num_rows == 2
