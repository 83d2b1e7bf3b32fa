"""Drafting on and off in a measuring run: its pairs, its arithmetic, its lines."""

from collections import defaultdict
from pathlib import Path

import msgspec
import pytest

from app.bench import BenchDriver, BenchPlan, read_record
from app.bench.draft_round import DraftRound, rate, speedup
from app.bench.driver import Timed
from app.bench.measures import DRAFT_MEASURES, MEASURES, Values
from app.bench.plan import GROWTH
from app.bench.prompts import Messages, Prompts
from app.bench.record import Measure
from app.bench.report import compared_rows, measure_rows
from engine import (
    CannotTrim,
    DrafterStats,
    DraftMode,
    DraftState,
    Finished,
    FinishReason,
    InprocClient,
    ModelParams,
    RequestMetrics,
    SamplingParams,
    SpeculativeParams,
    SpeculativeStats,
)
from tests.unit.app.bench.records import record

PARAMS = ModelParams(n_ctx=2048, n_seq_max=2)
STATS = SpeculativeStats(
    state=DraftState.ON,
    net_speedup=1.5,
    drafters=(DrafterStats(drafter="ngram", num_drafts=4, num_drafted_tokens=16, num_accepted_tokens=12),),
)


def timed(ttft_s: float, wall_s: float, num_tokens: int, stats: SpeculativeStats | None = None) -> Timed:
    finished = Finished(
        request_id="r",
        text="text",
        token_ids=(),
        finish_reason=FinishReason.STOP,
        metrics=RequestMetrics(num_prompt_tokens=9, num_cached_tokens=0, num_generated_tokens=num_tokens),
        speculative=stats,
    )
    return Timed(finished, ttft_s, None, ended_at=100 + wall_s, first_at=100 + ttft_s)


@pytest.mark.parametrize(
    ("plain", "drafted", "expected"),
    [
        (timed(1, 3, 21), timed(1, 1.5, 21), 2.0),
        (timed(1, 3, 21), timed(1, 2, 11), 1.0),
        (timed(1, 3, 21), timed(1, 1, 1), None),
        (timed(1, 1, 1), timed(1, 2, 11), None),
    ],
    ids=["twice as fast", "shorter", "drafted too short", "plain too short"],
)
def test_speedup_is_against_as_many_plain_tokens(plain: Timed, drafted: Timed, expected: float | None) -> None:
    assert speedup(plain, drafted) == (None if expected is None else pytest.approx(expected))


def test_rate_is_that_of_the_whole_reply() -> None:
    assert rate(timed(1, 4, 20)) == pytest.approx(5.0)


class Scripted(BenchDriver):
    """Gives the same replies whatever is asked, and notes with what drafting."""

    def __init__(self) -> None:
        super().__init__(InprocClient(fake=True))
        self.asked: list[tuple[Messages, DraftMode]] = []
        self.drafts: list[str] = []

    def ask(
        self,
        messages: Messages,
        num_tokens: int,
        sampling: SamplingParams,
        *,
        chat_id: str | None = None,
        speculative: SpeculativeParams = SpeculativeParams(),  # noqa: B008 - it is frozen
    ) -> Timed:
        self.asked.append((messages, speculative.mode))
        return timed(1, 3, 21) if speculative.mode is DraftMode.OFF else timed(1, 2, 21, STATS)

    def set_draft(self, path: str, params: ModelParams) -> None:
        self.drafts.append(path)


@pytest.mark.parametrize("is_drafted_first", [False, True])
def test_pairs_take_turns_and_every_measure_has_its_value(is_drafted_first: bool) -> None:
    noted: dict[str, list[float | None]] = defaultdict(list)
    plan = BenchPlan(draft_mode=DraftMode.BOTH, draft_path="small.gguf")
    with Scripted() as driver:
        DraftRound(
            driver,
            Prompts(lambda messages: sum(len(message.content) for message in messages)),
            plan,
            lambda name, value: noted[name].append(value),
            number=3,
            is_drafted_first=is_drafted_first,
        ).run("fake:", PARAMS)
    assert driver.drafts == ["small.gguf"]
    modes = [mode for _, mode in driver.asked]
    assert modes == [DraftMode.OFF, DraftMode.BOTH][:: -1 if is_drafted_first else 1] * 2
    assert driver.asked[0][0] == driver.asked[1][0] != driver.asked[2][0]
    assert set(noted) == set(DRAFT_MEASURES)
    for kind in ("story", "copy"):
        values = [noted[f"{kind}_{name}"][0] for name in ("plain", "drafted", "speedup")]
        assert values == [pytest.approx(7.0), pytest.approx(10.5), pytest.approx(1.5)]
        assert [noted[f"{kind}_{name}"][0] for name in ("acceptance", "length", "net_speedup")] == [0.75, 4.0, 1.5]


def test_engine_without_a_model_drafts_in_a_run() -> None:
    noted: dict[str, float | None] = {}
    with BenchDriver(InprocClient(fake=True)) as driver:
        driver.load("fake:n_words=60", PARAMS)
        plan = BenchPlan(draft_mode=DraftMode.NGRAM)
        DraftRound(driver, Prompts(driver.count_tokens), plan, noted.__setitem__, number=3).run(
            "fake:n_words=60", PARAMS
        )
    assert set(noted) == set(DRAFT_MEASURES)
    assert all((noted[f"{kind}_plain"] or 0) > 0 for kind in ("story", "copy"))


def test_draft_model_that_cannot_draft_is_an_error() -> None:
    with BenchDriver(InprocClient(fake=True)) as driver:
        driver.load("fake:can_trim=0", PARAMS)
        with pytest.raises(CannotTrim):
            driver.set_draft("fake:", ModelParams())


def test_measures_of_drafting_are_there_when_asked_for() -> None:
    names = [measure.name for measure in Values().measures(BenchPlan(draft_mode=DraftMode.NGRAM))]
    assert names == [*MEASURES, *DRAFT_MEASURES]
    assert [measure.name for measure in Values().measures(BenchPlan())] == list(MEASURES)


def test_record_of_a_run_before_drafting_is_read_and_compared(tmp_path: Path) -> None:
    old = record({"story_plain": (1.0,)}).to_plain()
    for name in ("draft_mode", "draft_path"):
        del old["plan"][name]
    file = tmp_path / "old.json"
    file.write_bytes(msgspec.json.encode(old))
    before = read_record(file)
    assert before.plan.draft_mode is DraftMode.OFF
    assert len(compared_rows(record({"story_plain": (2.0,), "story_speedup": (1.5,)}), before)) == 1


@pytest.mark.parametrize(
    ("name", "unit", "value", "label", "text"),
    [
        ("copy_speedup", "times", 1.5, "a text told again, speed-up by drafting", "1.50 x"),
        ("story_acceptance", "share", 0.25, "a story, accepted of the drafted", "25 %"),
        ("story_length", "tokens/step", 2.25, "a story, tokens a drafted step", "2.2 tokens"),
    ],
)
def test_lines_have_labels_and_units(name: str, unit: str, value: float, label: str, text: str) -> None:
    measure = Measure(name=name, unit=unit, values=(value,))
    assert measure_rows(record({}, measures=(measure,)))[0][:2] == (label, text)


def test_text_to_be_told_again_is_not_said_twice_and_fits() -> None:
    prompts = Prompts(lambda messages: sum(len(message.content.split()) for message in messages))
    chat = prompts.copy(4)
    assert prompts.num_tokens(chat) < GROWTH[0] // 2
    assert chat[0] != prompts.copy(5)[0]
