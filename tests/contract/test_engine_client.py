"""What every EngineClient promises, in this process and across the process border, without weights and with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import (
    Abort,
    CancelLoad,
    ChatMessage,
    Counted,
    CountTokens,
    Delta,
    DescribeEngine,
    EngineClient,
    EngineDescribed,
    Failed,
    FinishReason,
    Hello,
    InprocClient,
    LoadCancelled,
    LoadModel,
    LoadProgress,
    ModelLoaded,
    ModelParams,
    ModelUnloaded,
    PrefillProgress,
    ProcessClient,
    Rendered,
    RenderPrompt,
    RequestState,
    Role,
    SamplingParams,
    StateChanged,
    UnloadModel,
)
from tests.support.engine_driver import EngineDriver

# One thread: a reply then does not depend on what else the machine does.
_PARAMS = ModelParams(n_ctx=2048, n_threads=1, n_ubatch=64)
_GREEDY = SamplingParams(temperature=0, max_tokens=24)
_SHORT = SamplingParams(temperature=0, max_tokens=6)  # where any reply will do: with weights each token costs
_QUESTIONS = [
    "Name three primary colours.",
    "What is the capital of France?",
    "Count from one to five.",
    "Write one short sentence about rain.",
]


def _new_client(kind: str, *, fake: bool) -> EngineClient:
    return ProcessClient(fake=fake) if kind == "process" else InprocClient(fake=fake)


@pytest.fixture(
    scope="module",
    params=[("inproc", True), ("process", True), ("inproc", False), ("process", False)],
    ids=["inproc-fake", "process-fake", "inproc-llama", "process-llama"],
)
def setup(request: pytest.FixtureRequest, starter_path: Path) -> Iterator[tuple[EngineDriver, str, bool]]:
    """Return a driver with a loaded model, the model's path, and whether it is the fake one."""
    kind, is_fake = request.param
    driver = EngineDriver(_new_client(kind, fake=is_fake))
    path = "fake:step_s=0.001" if is_fake else str(starter_path)
    assert isinstance(driver.load(path, _PARAMS), ModelLoaded)
    yield driver, path, is_fake
    driver.close()


@pytest.fixture
def driver(setup: tuple[EngineDriver, str, bool]) -> EngineDriver:
    return setup[0]


def test_hello_is_first(driver: EngineDriver) -> None:
    assert isinstance(driver.events[0], Hello)


def test_load_progress_never_falls(driver: EngineDriver) -> None:
    shares = [event.progress for event in driver.events if isinstance(event, LoadProgress)]
    assert shares
    assert shares == sorted(shares)
    assert shares[0] >= 0 and shares[-1] <= 1


def test_reply_streams_and_reports_every_measure(driver: EngineDriver) -> None:
    request_id = driver.generate("Name three primary colours.", sampling=_GREEDY)
    finished = driver.wait_finished(request_id)
    states = [e.state for e in driver.events if isinstance(e, StateChanged) and e.request_id == request_id]
    assert states == [RequestState.PREFILL, RequestState.DECODE]
    assert len([e for e in driver.events if isinstance(e, Delta) and e.request_id == request_id]) > 1
    metrics = finished.metrics.as_dict()
    assert 0 < metrics["num_generated_tokens"] == len(finished.token_ids) <= 24
    assert 0 < metrics["prefill_s"] <= metrics["ttft_s"]
    assert metrics["decode_rate"] == pytest.approx((metrics["num_generated_tokens"] - 1) / metrics["decode_s"])
    assert metrics["peak_memory_bytes"] > 1_000_000
    assert metrics["seed"] is not None
    assert metrics["num_drafts"] == 0
    assert metrics["bandwidth_share"] is None


def test_length_ends_the_reply_when_max_tokens_is_reached(driver: EngineDriver) -> None:
    finished = driver.reply("Tell me a long story.", sampling=SamplingParams(temperature=0, max_tokens=3))
    assert finished.finish_reason is FinishReason.LENGTH
    assert finished.metrics.num_generated_tokens == 3


def test_follow_up_evaluates_only_new_tokens(driver: EngineDriver, setup: tuple[EngineDriver, str, bool]) -> None:
    system = ChatMessage(Role.SYSTEM, "You answer in one sentence about the sea.")
    first = driver.wait_finished(driver.generate(system, "What is a wave?", sampling=_SHORT, chat_id="sea"))
    chat = (system, ChatMessage(Role.USER, "What is a wave?"), ChatMessage(Role.ASSISTANT, first.text))
    second = driver.wait_finished(driver.generate(*chat, "And a tide?", sampling=_SHORT, chat_id="sea"))
    held = first.metrics.num_prompt_tokens + first.metrics.num_generated_tokens
    assert second.metrics.num_cached_tokens >= held - 1
    assert second.metrics.cache_miss_cause is None
    again = driver.wait_finished(driver.generate(*chat, "And a tide?", sampling=_SHORT, chat_id="sea"))
    assert again.metrics.num_prompt_tokens - again.metrics.num_cached_tokens == 1
    if setup[2]:
        assert again.text == second.text


def test_four_requests_at_once_finish_each_once(driver: EngineDriver, setup: tuple[EngineDriver, str, bool]) -> None:
    is_fake = setup[2]  # with weights the shape of a step changes the last bits of the logits
    alone = [driver.reply(question, sampling=_GREEDY).text for question in _QUESTIONS if is_fake]
    ids = [driver.generate(question, sampling=_GREEDY if is_fake else _SHORT) for question in _QUESTIONS]
    together = [driver.wait_finished(request_id).text for request_id in ids]
    assert all(len(driver.finals_of(request_id)) == 1 for request_id in ids)
    if is_fake:
        assert together == alone
    else:
        assert all(together)


def test_abort_of_one_leaves_the_others_untouched(driver: EngineDriver, setup: tuple[EngineDriver, str, bool]) -> None:
    is_fake = setup[2]
    alone = [driver.reply(question, sampling=_GREEDY).text for question in _QUESTIONS[:3] if is_fake]
    ids = [driver.generate(question, sampling=_GREEDY) for question in _QUESTIONS[:3]]
    victim = driver.generate("Tell me a very long story.", sampling=SamplingParams(temperature=0))
    driver.wait_type(Delta, victim)
    driver.client.send(Abort(request_id=victim))
    stopped = driver.wait_finished(victim)
    assert stopped.finish_reason is FinishReason.ABORT
    assert stopped.text
    together = [driver.wait_finished(request_id).text for request_id in ids]
    if is_fake:
        assert together == alone
    else:
        assert all(together)


def test_abort_in_prefill_keeps_finished_chunks(driver: EngineDriver, setup: tuple[EngineDriver, str, bool]) -> None:
    # Beside nothing else a prompt is read in chunks of n_ubatch; the first progress with a chunk tells it is under way.
    message = "0123456789 abcdefghij " * (30 if setup[2] else 12)  # with weights each token costs
    request_id = driver.generate(message, sampling=_SHORT)
    driver.wait(lambda e: isinstance(e, PrefillProgress) and e.request_id == request_id and e.num_done_tokens >= 64)
    driver.client.send(Abort(request_id=request_id))
    stopped = driver.wait_finished(request_id)
    if stopped.finish_reason is FinishReason.ABORT:
        again = driver.reply(message, sampling=_SHORT)
        assert again.metrics.num_cached_tokens >= 64


def test_abort_of_an_ended_request_does_nothing(driver: EngineDriver) -> None:
    finished = driver.reply("Hello", sampling=_SHORT)
    driver.client.send(Abort(request_id=finished.request_id))
    assert driver.reply("Hello", sampling=_SHORT).text
    assert len(driver.finals_of(finished.request_id)) == 1


def test_count_equals_what_is_evaluated(driver: EngineDriver) -> None:
    messages = (ChatMessage(Role.SYSTEM, "Be brief."), ChatMessage(Role.USER, "Hi 日本 <|im_end|> there"))
    request_id = driver.new_id()
    driver.client.send(CountTokens(request_id=request_id, messages=messages))
    counted = driver.wait_type(Counted, request_id)
    assert counted.num_tokens == driver.reply(*messages, sampling=_SHORT).metrics.num_prompt_tokens


def test_render_shows_the_prompt_with_the_message_as_typed(driver: EngineDriver) -> None:
    request_id = driver.new_id()
    driver.client.send(RenderPrompt(request_id=request_id, messages=(ChatMessage(Role.USER, "a<|im_end|>b"),)))
    text = driver.wait_type(Rendered, request_id).text
    assert "a<|im_end|>b" in text
    assert text.endswith("<|im_start|>assistant\n")


def test_stop_string_ends_the_reply_and_is_named(driver: EngineDriver) -> None:
    # Every English reply of some length holds an "e"; what comes before it is shown and nothing else.
    finished = driver.reply(_QUESTIONS[0], sampling=SamplingParams(temperature=0, max_tokens=60, stop=("zzz", "e")))
    assert finished.finish_reason is FinishReason.STOP
    assert finished.stop_string == "e"
    assert "e" not in finished.text


def test_empty_stop_string_does_not_end_the_reply(driver: EngineDriver) -> None:
    finished = driver.reply(_QUESTIONS[1], sampling=SamplingParams(temperature=0, max_tokens=8, stop=("",)))
    assert finished.stop_string is None
    assert finished.metrics.num_generated_tokens > 1


def test_request_without_messages_is_refused_and_the_next_one_works(driver: EngineDriver) -> None:
    failed = driver.wait_failed(driver.generate())
    assert failed.error.error == "RequestError"
    assert failed.error.hint
    assert driver.reply("hi", sampling=_SHORT).text


def test_too_long_prompt_is_refused_with_both_numbers(driver: EngineDriver) -> None:
    failed = driver.wait_failed(driver.generate("word " * 3000))
    assert failed.error.error == "ContextOverflow"
    assert "2,048" in failed.error.message
    assert driver.reply("hi", sampling=_SHORT).text


def test_missing_file_fails_the_load_and_the_next_load_works(setup: tuple[EngineDriver, str, bool]) -> None:
    driver, path, _ = setup
    failed = driver.load("missing.gguf")
    assert isinstance(failed, Failed)
    assert failed.error.error == "ModelFileMissing"
    assert driver.wait_failed(driver.generate("hi")).error.error == "EngineUnavailable"
    assert isinstance(driver.load(path, _PARAMS), ModelLoaded)
    assert driver.reply("hi", sampling=_SHORT).text


def test_cancelled_load_says_so_and_the_next_one_answers_what_was_sent_right_after_it(
    setup: tuple[EngineDriver, str, bool],
) -> None:
    driver, path, is_fake = setup
    request_id = driver.new_id()
    driver.client.send(LoadModel(request_id=request_id, path="fake:load_s=30" if is_fake else path, params=_PARAMS))
    driver.client.send(CancelLoad(request_id=request_id))
    assert isinstance(driver.wait_final(request_id), LoadCancelled)
    load_id = driver.new_id()
    driver.client.send(LoadModel(request_id=load_id, path=path, params=_PARAMS))
    request_id = driver.generate("hi", sampling=_SHORT)
    assert driver.wait_finished(request_id).text
    assert isinstance(driver.finals_of(load_id)[0], ModelLoaded)


def test_unload_fails_open_requests_once(setup: tuple[EngineDriver, str, bool]) -> None:
    driver, path, _ = setup
    request_id = driver.generate("Tell me a very long story.", sampling=SamplingParams(temperature=0))
    driver.wait_type(Delta, request_id)
    driver.client.send(UnloadModel())
    assert driver.wait_failed(request_id).error.error == "EngineUnavailable"
    assert driver.wait_type(ModelUnloaded)
    assert isinstance(driver.load(path, _PARAMS), ModelLoaded)


def test_engine_describes_itself(driver: EngineDriver) -> None:
    request_id = driver.new_id()
    driver.client.send(DescribeEngine(request_id=request_id))
    assert driver.wait_type(EngineDescribed, request_id).description.default_threads >= 1
