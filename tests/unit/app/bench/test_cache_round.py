"""The cache scenarios of a measuring run, on the engine without a model, and their arithmetic."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from app.bench import BenchDriver, BenchPlan, read_record
from app.bench.cache_round import CacheRound, measure_growth, wait_until, wrote_after
from app.bench.measures import GROWTH_MEASURES, MEASURES, Values
from app.bench.plan import GROWTH
from app.bench.prompts import Messages, Prompts
from app.bench.record import Measure
from app.bench.report import measure_rows
from engine import CacheParams, CacheSource, InprocClient, ModelParams
from tests.unit.app.bench.records import record

PLAN = BenchPlan(repeats=1, prompt_tokens=256)
FAKE = "fake:n_words=16"
PARAMS = ModelParams(n_ctx=2048, n_seq_max=4)


@pytest.fixture(autouse=True)
def _written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.chat_saver._IDLE_S", 0.01)


class Asked(BenchDriver):
    """Notes the chats that were asked, and the sources of their replies."""

    def __init__(self, *, can_restart: bool = True) -> None:
        def make() -> InprocClient:
            return InprocClient(fake=True)

        super().__init__(make(), successor=make if can_restart else None)
        self.sources: list[CacheSource] = []
        self.chats: list[Messages] = []
        self.num_restarts = 0

    def ask_at_once(self, chats, *args, **options):
        done = super().ask_at_once(chats, *args, **options)
        self.chats += chats
        self.sources += [reply.finished.cache.source for reply in done[0] if reply.finished.cache]
        return done

    def restart(self) -> None:
        super().restart()
        self.num_restarts += 1


@pytest.fixture
def driver() -> Iterator[Asked]:
    """Return a driver of the engine without a model, with one loaded."""
    with Asked() as made:
        made.load(FAKE, PARAMS)
        yield made


def measured(driver: Asked, folder: Path) -> dict[str, list[float]]:
    """Return what one round notes."""
    values: dict[str, list[float]] = defaultdict(list)

    def note(name: str, value: float | None) -> None:
        if value is not None:
            values[name].append(value)

    stages = list(CacheRound(driver, Prompts(driver.count_tokens), PLAN, note, number=7).run(FAKE, PARAMS, folder))
    assert stages == list(CacheRound.stages)
    return values


def test_every_scenario_has_a_value_from_where_its_name_says(driver: Asked, tmp_path: Path) -> None:
    values = measured(driver, tmp_path)
    assert set(values) >= {"edit_ttft", "edit_evaluated", "switch_ram_ttft", "restart_ttft", "snapshot_bytes"}
    assert set(values) <= set(MEASURES)
    assert all(len(each) == 1 for each in values.values())
    assert [source for source in driver.sources if source is not CacheSource.SLOT][-3:] == [
        *(CacheSource.RAM, CacheSource.RAM),  # back to the first chat, and on with the other one
        CacheSource.DISK,
    ]
    assert driver.num_restarts == 1
    assert list(tmp_path.iterdir()) == [], "the folder of the run is gone"


def test_edit_reads_its_message_and_what_follows_alone(driver: Asked, tmp_path: Path) -> None:
    (evaluated,) = measured(driver, tmp_path)["edit_evaluated"]
    edited = driver.chats[2]
    assert evaluated < driver.count_tokens(edited) - driver.count_tokens(edited[:2]) + 8


def test_chat_that_did_not_come_from_memory_is_not_noted(
    driver: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.reuse_cost.ReuseCost.pays", lambda *args, **options: False)
    values = measured(driver, tmp_path)
    assert "switch_ram_ttft" not in values
    assert "restart_ttft" not in values
    assert values["edit_ttft"]


def test_engine_that_cannot_start_again_is_measured_but_for_that(tmp_path: Path) -> None:
    with Asked(can_restart=False) as driver:
        driver.load(FAKE, PARAMS)
        assert "restart_ttft" not in measured(driver, tmp_path)
        with pytest.raises(RuntimeError, match="cannot be started again"):
            driver.restart()


def test_driver_starts_another_engine_and_asks_it(driver: Asked) -> None:
    driver.restart()
    assert driver.load(FAKE, PARAMS, cache=CacheParams(ram_mib=0)).n_ctx == PARAMS.n_ctx


@pytest.mark.parametrize(
    ("files", "expected"),
    [({"a.part": 50}, True), ({"a.snapshot": 150}, True), ({"a.snapshot": 50}, False), ({}, False)],
    ids=["still written", "ended after it", "ended before it", "nothing"],
)
def test_writing_counts_when_it_went_on_after_the_moment(
    tmp_path: Path, files: dict[str, float], expected: bool
) -> None:
    for name, changed_at in files.items():
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (changed_at, changed_at))
    assert wrote_after(tmp_path, 100.0) is expected


@pytest.mark.parametrize(("answers", "expected"), [([False, False, True], True), ([False] * 99, False)])
def test_wait_ends_with_what_comes_or_with_its_limit(answers: list[bool], expected: bool) -> None:
    left = iter(answers)
    assert wait_until(lambda: next(left), 0.01 if not expected else 60.0) is expected


# --- growth ---


@pytest.mark.parametrize(
    ("n_ctx", "names"),
    [
        (8192, list(GROWTH_MEASURES)),
        (4608, ["growth_1k", "growth_2k", "growth_4k"]),
        (1300, ["growth_1k"]),
        (512, []),
    ],
    ids=["all", "half", "small", "tiny"],
)
def test_chat_grows_to_what_the_context_holds(n_ctx: int, names: list[str]) -> None:
    noted: list[str] = []
    with Asked() as driver:
        driver.load(FAKE, ModelParams(n_ctx=max(n_ctx, 1024), n_seq_max=1))
        prompts = Prompts(driver.count_tokens)
        measure_growth(driver, prompts, PLAN, lambda name, value: noted.append(name), number=3, n_ctx=n_ctx)
        lengths = [driver.count_tokens(chat) for chat in driver.chats[1::2]]
    assert noted == names
    for size, length in zip(GROWTH, lengths, strict=False):
        assert 0.85 * size < length <= n_ctx


def test_measures_of_growth_are_there_when_asked_for() -> None:
    plan = BenchPlan(is_growing=True, is_busy=True)
    names = [measure.name for measure in Values().measures(plan)]
    assert set(GROWTH_MEASURES) <= set(names)
    assert "busy_growth_8k" in names
    assert not set(GROWTH_MEASURES) & {measure.name for measure in Values().measures(BenchPlan())}


# --- records and lines ---


def test_record_of_a_run_without_these_is_read(tmp_path: Path) -> None:
    old = record({"load": (1.0,)}).to_plain()
    del old["plan"]["is_growing"]
    file = tmp_path / "old.json"
    file.write_bytes(msgspec.json.encode(old))
    assert not read_record(file).plan.is_growing


@pytest.mark.parametrize(
    ("name", "unit", "value", "text"),
    [
        ("snapshot_bytes", "bytes", 29.0e6, "29.0 MB"),
        ("edit_evaluated", "tokens", 15.0, "15 tokens"),
        ("restart_ttft", "s", 0.125, "125 ms"),
    ],
)
def test_values_are_shown_with_their_units(name: str, unit: str, value: float, text: str) -> None:
    measure = Measure(name=name, unit=unit, values=(value,))
    assert measure_rows(record({}, measures=(measure,)))[0][1] == text


def test_gap_is_the_longest_between_two_pieces(driver: Asked) -> None:
    make: Callable[[], Messages] = lambda: Prompts(driver.count_tokens).short(1)  # noqa: E731
    reply = driver.ask(make(), 8, PLAN.sampling)
    assert reply.longest_gap_s is None or 0 <= reply.longest_gap_s <= reply.ended_at - reply.first_at
