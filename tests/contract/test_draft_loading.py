"""Loading a draft model beside running replies: it holds none of them up, and what comes later takes its place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import (
    CancelLoad,
    ChatMessage,
    Delta,
    DraftMode,
    DraftSet,
    DraftState,
    EngineClient,
    Failed,
    Generate,
    InprocClient,
    LoadCancelled,
    ModelLoaded,
    ModelParams,
    ModelUnloaded,
    ProcessClient,
    Role,
    SamplingParams,
    SetDraft,
    SpeculativeParams,
    UnloadModel,
)
from tests.support.engine_driver import EngineDriver

TARGET = "fake:step_s=0.001,n_words=100000"
SLOW = "fake:load_s=45"  # as long as a test may take: what waited for it would fail
_PARAMS = ModelParams(n_ctx=2048, n_seq_max=2, n_threads=1)
_SHORT = SamplingParams(temperature=0, max_tokens=24)


@pytest.fixture(params=[InprocClient, ProcessClient], ids=["inproc", "process"])
def driver(request: pytest.FixtureRequest) -> Iterator[EngineDriver]:
    """Return the driver of an engine without weights that has a model."""
    client: EngineClient = request.param(fake=True)
    driver = EngineDriver(client)
    assert isinstance(driver.load(TARGET, _PARAMS), ModelLoaded)
    yield driver
    client.close()


@pytest.fixture
def real(starter_path: Path) -> Iterator[EngineDriver]:
    """Return the driver of a process that has a model."""
    client = ProcessClient()
    driver = EngineDriver(client)
    assert isinstance(driver.load(str(starter_path), _PARAMS), ModelLoaded)
    yield driver
    client.close()


def set_draft(driver: EngineDriver, path: str | None) -> str:
    """Ask for a draft model, and return the request id."""
    request_id = driver.new_id()
    driver.client.send(SetDraft(request_id=request_id, path=path, params=ModelParams(n_threads=1)))
    return request_id


def ask(driver: EngineDriver, sampling: SamplingParams = _SHORT) -> str:
    """Ask for a reply that a draft model may draft for, and return the request id."""
    request_id = driver.new_id()
    driver.client.send(
        Generate(
            request_id=request_id,
            messages=(ChatMessage(Role.USER, "Tell me a story."),),
            sampling=sampling,
            speculative=SpeculativeParams(mode=DraftMode.MODEL),
        )
    )
    return request_id


def test_replies_begin_and_end_while_a_draft_model_is_loaded(driver: EngineDriver) -> None:
    running = ask(driver, SamplingParams(temperature=0, max_tokens=200))
    driver.wait_type(Delta, running)
    loading = set_draft(driver, SLOW)
    late = ask(driver)
    assert len(driver.wait_finished(running).token_ids) == 200
    stats = driver.wait_finished(late).speculative
    assert stats is not None
    assert stats.state is DraftState.UNAVAILABLE
    assert "still being loaded" in stats.reason
    driver.client.send(CancelLoad(request_id=loading))
    assert isinstance(driver.wait_final(loading), LoadCancelled)


def test_a_reply_that_began_before_goes_on_without_and_the_next_one_drafts(driver: EngineDriver) -> None:
    running = ask(driver, SamplingParams(temperature=0))
    driver.wait_type(Delta, running)
    answer = driver.wait_final(set_draft(driver, "fake:"))
    assert isinstance(answer, DraftSet)
    assert answer.draft is not None
    later = driver.wait_finished(ask(driver)).speculative
    assert later is not None
    assert later.state is not DraftState.UNAVAILABLE


@pytest.mark.parametrize("path", ["fake:", None], ids=["another", "none"])
def test_a_later_wish_takes_the_place_of_a_load(driver: EngineDriver, path: str | None) -> None:
    first, second = set_draft(driver, SLOW), set_draft(driver, SLOW)
    last = set_draft(driver, path)
    assert isinstance(driver.wait_final(first), LoadCancelled)
    assert isinstance(driver.wait_final(second), LoadCancelled)
    answer = driver.wait_final(last)
    assert isinstance(answer, DraftSet)
    assert (answer.draft is None) is (path is None)


def test_a_load_is_given_up_when_its_model_goes(driver: EngineDriver) -> None:
    loading = set_draft(driver, SLOW)
    driver.client.send(UnloadModel())
    assert isinstance(driver.wait_final(loading), LoadCancelled)
    driver.wait_type(ModelUnloaded)
    assert isinstance(driver.load(TARGET, _PARAMS), ModelLoaded)
    assert isinstance(driver.wait_final(set_draft(driver, "fake:")), DraftSet)


def test_only_the_load_that_cancel_names_is_given_up(driver: EngineDriver) -> None:
    loading = set_draft(driver, SLOW)
    driver.client.send(CancelLoad(request_id="nobody"))
    driver.wait_finished(ask(driver))
    assert not any(isinstance(event, LoadCancelled) for event in driver.events)
    driver.client.send(CancelLoad(request_id=loading))
    assert isinstance(driver.wait_final(loading), LoadCancelled)


def test_a_file_that_is_missing_is_told_and_replies_go_on(driver: EngineDriver) -> None:
    failed = driver.wait_final(set_draft(driver, "missing.gguf"))
    assert isinstance(failed, Failed)
    assert failed.error.error == "ModelFileMissing"
    stats = driver.wait_finished(ask(driver)).speculative
    assert stats is not None
    assert "no draft model" in stats.reason


def test_each_wish_has_one_answer_when_a_real_process_is_asked_again_and_again(
    real: EngineDriver, starter_path: Path
) -> None:
    running = ask(real, SamplingParams(temperature=0, max_tokens=120))
    real.wait_type(Delta, running)
    asked = [set_draft(real, path) for path in (str(starter_path), None, str(starter_path), str(starter_path))]
    answers = [real.wait_final(request_id) for request_id in asked]
    assert all(isinstance(answer, LoadCancelled | DraftSet) for answer in answers)
    assert isinstance(answers[-1], DraftSet)
    assert answers[-1].draft is not None
    assert real.wait_finished(running).text
    later = real.wait_finished(ask(real)).speculative
    assert later is not None
    assert later.state is not DraftState.UNAVAILABLE
