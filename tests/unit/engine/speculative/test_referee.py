"""What the referee chooses, and how it accounts for it."""

import pytest

from engine.speculative.acceptance import Acceptance, AcceptanceMemory
from engine.speculative.account import Arm, RefereeState
from engine.speculative.ngram import NgramProposal
from engine.speculative.referee import PLAIN, Choice, Referee
from engine.speculative.step_times import MAX_ROWS, DraftTimes, StepTimes
from tests.unit.engine.speculative.simulated_chat import Machine, agreeing, misleading, modelled, refereed

_BOTH = frozenset((Arm.NGRAM, Arm.MODEL))
_LONG = NgramProposal(tuple(range(32)), 64)


def _times(slope: float, step_s: float = 0.01) -> StepTimes:
    """Return times where each row beyond the first costs `slope` plain steps."""
    times = StepTimes()
    for _ in range(4):
        for rows in (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 33, MAX_ROWS):
            times.observe(rows, step_s * (1 + slope * (rows - 1)))
    return times


def _draft_times(token_s: float = 0.001, read_s: float = 0.0001) -> DraftTimes:
    draft = DraftTimes()
    for _ in range(4):
        draft.observe(1, 1, token_s)
        draft.observe(41, 1, token_s + 40 * read_s)
    return draft


def _acceptance(*, matches: float | None = None, drafts: float | None = None) -> Acceptance:
    """Return what a chat has shown in which such shares of tokens were right."""
    acceptance = AcceptanceMemory().of_chat(None, temperature=0.0)
    for number in range(400):
        if matches is not None:
            acceptance.note_match(64, [1], [1 if number % 20 < 20 * matches else 2])
        if drafts is not None:
            for length in range(1, 11):
                acceptance.note_draft(length, length if number % 20 < 20 * drafts else length - 1)
    return acceptance


def _referee(times: StepTimes, acceptance: Acceptance, draft: DraftTimes | None = None) -> Referee:
    return Referee(times, draft or _draft_times(), acceptance, allowed=_BOTH)


def test_longest_draft_is_taken_when_more_rows_cost_nothing() -> None:
    referee = _referee(_times(0.0), _acceptance(matches=0.95))

    assert referee.choose(num_threads=1, ngram=_LONG) == Choice(Arm.NGRAM, 32)


@pytest.mark.parametrize("matches", [0.3, 0.0], ids=["0.3", "never"])
def test_step_is_plain_when_rows_are_dear_and_matches_mislead(matches: float) -> None:
    referee = _referee(_times(0.5), _acceptance(matches=matches))

    assert referee.choose(num_threads=1, ngram=_LONG) == PLAIN


@pytest.mark.parametrize(("slope", "best"), [(0.1, 6), (0.2, 4), (0.5, 1)], ids=["cheap", "dear", "dearer"])
def test_draft_has_the_length_that_brings_most_tokens_a_second(slope: float, best: int) -> None:
    referee = _referee(_times(slope), _acceptance(matches=0.85))

    choice = referee.choose(num_threads=1, ngram=_LONG)

    assert choice.arm is Arm.NGRAM
    assert abs(choice.num_tokens - best) <= 1 + best // 4


def test_draft_model_drafts_when_it_is_right_mostly_and_cheap() -> None:
    referee = _referee(_times(0.1), _acceptance(drafts=0.9))

    choice = referee.choose(num_threads=1, num_draft_behind=1)

    assert choice.arm is Arm.MODEL
    assert not choice.is_probe
    assert referee.goes_on(0, 0.95)


def test_matches_are_preferred_to_the_draft_model_when_both_are_right() -> None:
    acceptance = _acceptance(matches=0.95, drafts=0.95)

    choice = _referee(_times(0.1), acceptance).choose(num_threads=1, ngram=_LONG, num_draft_behind=1)

    assert choice.arm is Arm.NGRAM


@pytest.mark.parametrize("allowed", [frozenset(), frozenset((Arm.MODEL,))], ids=["none", "model"])
def test_drafter_that_is_not_allowed_never_drafts(allowed: frozenset[Arm]) -> None:
    referee = Referee(_times(0.0), None, _acceptance(matches=0.95), allowed=allowed)

    assert referee.choose(num_threads=1, ngram=_LONG) == PLAIN


def test_draft_is_no_longer_than_there_is_room() -> None:
    referee = _referee(_times(0.0), _acceptance(matches=0.95, drafts=0.95))

    assert referee.choose(num_threads=1, ngram=_LONG, num_room=3) == Choice(Arm.NGRAM, 3)
    assert referee.choose(num_threads=1, ngram=_LONG, num_draft_behind=1, num_room=0) == PLAIN
    assert referee.choose(num_threads=1, num_draft_behind=1, num_room=2).num_tokens == 2


def test_steps_are_plain_until_one_was_seen_at_the_thread_count() -> None:
    times = _times(0.0)
    referee = _referee(times, _acceptance(matches=0.95))

    assert referee.choose(num_threads=2, ngram=_LONG) == PLAIN
    referee.note(PLAIN, [1], step_s=0.01)
    times.observe(1, 0.01, num_threads=2)
    assert referee.choose(num_threads=2, ngram=_LONG).arm is Arm.NGRAM


def test_neighbours_that_would_wait_count_for_plain_steps() -> None:
    acceptance = _acceptance(matches=0.85)
    alone = _referee(_times(0.4), acceptance).choose(num_threads=1, ngram=_LONG)
    beside = _referee(_times(0.4), acceptance).choose(
        num_threads=1, ngram=_LONG, num_other_rows=6, num_other_tokens=6.0
    )

    assert alone.arm is Arm.NGRAM
    assert beside == PLAIN


def test_unknown_draft_model_does_not_read_a_long_prompt_but_begins_with_its_last_tokens() -> None:
    draft = _draft_times(token_s=0.001, read_s=0.0002)

    def choice(fresh: int | None) -> Choice:
        referee = _referee(_times(0.05), AcceptanceMemory().of_chat(None, temperature=0.0), draft)
        return referee.choose(num_threads=1, num_draft_behind=2000, num_draft_fresh=fresh, num_expected_tokens=200)

    assert choice(None) == PLAIN
    assert choice(32).is_fresh
    assert choice(32).arm is Arm.MODEL


def test_draft_model_that_pays_reads_what_it_has_missed() -> None:
    referee = _referee(_times(0.1), _acceptance(drafts=0.9))

    choice = referee.choose(num_threads=1, num_draft_behind=500, num_draft_fresh=32, num_expected_tokens=500)

    assert choice.arm is Arm.MODEL
    assert not choice.is_fresh


def test_draft_model_that_reads_over_several_steps_is_not_thought_to_draft_nothing() -> None:
    acceptance = _acceptance(drafts=0.9)
    referee = _referee(_times(0.1), acceptance)
    for behind in (500, 436, 372):
        choice = referee.choose(num_threads=1, num_draft_behind=behind, num_expected_tokens=500)
        assert choice.arm is Arm.MODEL
        referee.note(choice, [1], step_s=0.01, draft_s=0.0064, num_draft_read=65)

    assert acceptance.empty_share == 0.0
    assert referee.report().num_steps[Arm.MODEL] == 0
    assert referee.report().net_speed_up == pytest.approx(0.01 / 0.0164, rel=0.02)
    choice = referee.choose(num_threads=1, num_draft_behind=1, num_expected_tokens=500)
    assert choice.arm is Arm.MODEL
    assert referee.goes_on(0, 0.95)


def test_draft_stops_where_its_next_token_would_not_pay() -> None:
    referee = _referee(_times(0.3), _acceptance(drafts=0.8))
    for _ in range(3):
        choice = referee.choose(num_threads=1, num_draft_behind=1)
        assert choice.arm is Arm.MODEL
        assert referee.goes_on(0, 0.99)
        assert not referee.goes_on(1, 0.01) or not referee.steps_on(2)


def test_answer_of_goes_on_depends_on_confidences_alone() -> None:
    answers = []
    for _ in range(2):
        referee = _referee(_times(0.2), _acceptance(drafts=0.8))
        referee.choose(num_threads=1, num_draft_behind=1)
        answers.append([referee.goes_on(place, 0.8) for place in range(8)])

    assert answers[0] == answers[1]
    assert answers[0] == sorted(answers[0], reverse=True)


def test_twelve_tokens_come_from_three_rounds_when_three_drafts_are_accepted_in_each() -> None:
    acceptance = _acceptance(drafts=0.95)
    referee = Referee(_times(0.1), _draft_times(), acceptance, allowed=_BOTH, draft_max=3)
    tokens: list[int] = []
    for _ in range(3):
        choice = referee.choose(num_threads=1, num_draft_behind=1)
        assert choice == Choice(Arm.MODEL, 3)
        new = list(range(len(tokens), len(tokens) + 4))
        referee.note(choice, new, step_s=0.013, draft_s=0.003, num_drafted=3, num_accepted=3, num_draft_read=1)
        tokens += new

    report = referee.report()
    assert len(tokens) == 12
    assert report.num_steps == {Arm.PLAIN: 0, Arm.NGRAM: 0, Arm.MODEL: 3}
    assert (report.num_drafts, report.num_drafted, report.num_accepted) == (3, 9, 9)
    assert report.state is RefereeState.ON
    assert report.net_speed_up == pytest.approx(12 * 0.01 / (3 * 0.016), rel=0.02)


def test_plain_steps_lie_between_drafts_that_pay() -> None:
    arms: list[Arm] = []
    refereed(
        Machine("deep-f16-2threads"),
        [modelled(1, lambda place: 0.9, num_tokens=600)],
        agreement=agreeing(0.9),
        watch=lambda place, choice, drafted, accepted: arms.append(choice.arm),
    )
    plain = [number for number, arm in enumerate(arms) if arm is Arm.PLAIN]

    gaps = [later - earlier for earlier, later in zip([-1, *plain], [*plain, len(arms)], strict=True)]
    assert max(gaps) <= 34
    assert len(plain) < 0.1 * len(arms)


def test_drafting_is_off_and_says_by_how_much_it_was_slower_when_it_lost() -> None:
    outcome = refereed(Machine("f16-2threads"), [misleading(1)], agreement=agreeing(0.8))
    report = outcome.reports[0]

    assert report.state is RefereeState.OFF_SLOWER
    assert report.drafting_speed is not None
    assert report.drafting_speed < 1 / 1.05
    assert report.net_speed_up == pytest.approx(200 * Machine("f16-2threads").seconds[1] / outcome.total, rel=0.02)


def test_nothing_is_said_to_be_tried_when_only_plain_steps_were_done() -> None:
    referee = _referee(_times(0.5), _acceptance(matches=0.0))
    assert referee.report().net_speed_up is None
    for _ in range(20):
        choice = referee.choose(num_threads=1, ngram=_LONG)
        referee.note(choice, [-1], step_s=0.01)

    report = referee.report()
    assert report.state is RefereeState.NOT_TRIED
    assert report.net_speed_up == pytest.approx(1.0)
    assert report.drafting_speed is None


def test_what_matches_foretell_is_learned_while_steps_are_plain() -> None:
    referee = _referee(_times(0.35), _acceptance(matches=0.2))
    assert referee.choose(num_threads=1, ngram=_LONG) == PLAIN
    for _ in range(60):
        choice = referee.choose(num_threads=1, ngram=_LONG)
        referee.note(choice, [0], step_s=0.01)
        if choice.arm is Arm.NGRAM:
            break

    assert choice.arm is Arm.NGRAM
