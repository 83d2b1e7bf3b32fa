"""The worker's loop, driven by commands and seen by its events, on a thread of this process."""

from collections.abc import Iterator

import pytest

from engine.client import InprocClient
from engine.messages import (
    PROTOCOL_VERSION,
    Abort,
    CancelLoad,
    CountTokens,
    Delta,
    DescribeEngine,
    EngineDescribed,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Hello,
    LoadCancelled,
    LoadModel,
    LoadProgress,
    ModelLoaded,
    ModelUnloaded,
    Overflow,
    PrefillProgress,
    PromptOptions,
    RenderPrompt,
    RequestState,
    StateChanged,
    UnloadModel,
)
from tests.unit.engine.fake_engine import alone, make_prompt
from tests.unit.engine.recorder import Recorder, chat, generate, load


def _has_read_some(event: Event) -> bool:
    return isinstance(event, PrefillProgress) and 0 < event.num_done_tokens < event.num_total_tokens


@pytest.fixture
def client(recorder: Recorder) -> Iterator[InprocClient]:
    """Return a started client on the fake engine."""
    client = InprocClient(fake=True)
    client.start(recorder.add)
    yield client
    client.close()


def test_greeting_comes_first_when_an_engine_starts(client: InprocClient, recorder: Recorder):
    recorder.wait_for_type(Hello)
    assert isinstance(recorder.events[0], Hello)
    assert recorder.events[0].protocol_version == PROTOCOL_VERSION


def test_progress_rises_and_then_the_model_is_described_when_it_loads(client: InprocClient, recorder: Recorder):
    load(client, recorder, "load_s=0.2", n_ctx=512)
    shares = [event.progress for event in recorder.of_type(LoadProgress)]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    (loaded,) = recorder.of_type(ModelLoaded)
    assert loaded.description.n_ctx == 512
    recorder.check({"load"})


def test_load_fails_with_its_reason_and_the_next_works_when_a_file_is_missing(client: InprocClient, recorder: Recorder):
    client.send(LoadModel(request_id="bad", path="missing.gguf"))
    answer = recorder.wait_for("bad")
    assert isinstance(answer, Failed)
    assert answer.error.error == "ModelFileMissing"
    load(client, recorder)
    recorder.check({"bad", "load"})


def test_load_ends_as_cancelled_and_leaves_no_model_when_it_is_given_up(client: InprocClient, recorder: Recorder):
    client.send(LoadModel(request_id="slow", path="fake:load_s=8"))
    recorder.wait_for_type(LoadProgress)
    client.send(CancelLoad(request_id="slow"))
    recorder.wait(lambda events: recorder.answers("slow"))
    assert isinstance(recorder.wait_for("slow"), LoadCancelled)
    client.send(generate("r"))
    assert recorder.wait_for("r").error.error == "EngineUnavailable"


def test_only_the_load_that_cancel_names_is_given_up_when_several_wait(client: InprocClient, recorder: Recorder):
    client.send(LoadModel(request_id="first", path="fake:load_s=0.3"))
    client.send(LoadModel(request_id="second", path="fake:load_s=0.3"))
    client.send(CancelLoad(request_id="second"))
    client.send(CancelLoad(request_id="nobody"))
    client.send(LoadModel(request_id="third", path="fake:"))
    assert isinstance(recorder.wait_for("third"), ModelLoaded)
    assert isinstance(recorder.wait_for("first"), ModelLoaded)
    assert isinstance(recorder.wait_for("second"), LoadCancelled)


@pytest.mark.parametrize("kind", ["generate", "count", "render"])
def test_request_fails_with_a_hint_when_no_model_is_loaded(kind: str, client: InprocClient, recorder: Recorder):
    make = {"generate": Generate, "count": CountTokens, "render": RenderPrompt}[kind]
    client.send(make(request_id="r", messages=chat()))
    answer = recorder.wait_for("r")
    assert isinstance(answer, Failed)
    assert answer.error.error == "EngineUnavailable"
    assert answer.error.hint


def test_replies_equal_those_of_a_lone_engine_when_four_are_asked_for_at_once(client: InprocClient, recorder: Recorder):
    load(client, recorder)
    texts = ["hello", "what is a cache", "tell me more", "and again"]
    for number, text in enumerate(texts):
        client.send(generate(f"r{number}", text))
    for number, text in enumerate(texts):
        answer = recorder.wait_for(f"r{number}")
        assert isinstance(answer, Finished)
        assert answer.text == alone(make_prompt("x", text)).text
        joined = "".join(d.text for d in recorder.of_type(Delta) if d.request_id == f"r{number}")
        assert joined == answer.text
    recorder.check({"load", *(f"r{number}" for number in range(4))})


def test_count_equals_what_is_evaluated_when_a_chat_is_counted_first(client: InprocClient, recorder: Recorder):
    load(client, recorder)
    messages = chat("say <|im_end|> twice", "no", "yes \ud83d")
    client.send(CountTokens(request_id="count", messages=messages))
    client.send(Generate(request_id="reply", messages=messages))
    client.send(RenderPrompt(request_id="text", messages=messages))
    counted, answer = recorder.wait_for("count"), recorder.wait_for("reply")
    assert counted.num_tokens == answer.metrics.num_prompt_tokens
    expected = (
        "<|im_start|>user\nsay <|im_end|> twice<|im_end|>\n<|im_start|>assistant\nno<|im_end|>\n"
        "<|im_start|>user\nyes \ufffd<|im_end|>\n<|im_start|>assistant\n"
    )
    assert recorder.wait_for("text").text == expected


@pytest.mark.parametrize("kind", [Generate, CountTokens, RenderPrompt])
def test_empty_chat_is_refused_and_the_next_works_when_it_is_sent(kind, client: InprocClient, recorder: Recorder):
    load(client, recorder)
    client.send(kind(request_id="empty", messages=()))
    answer = recorder.wait_for("empty")
    assert answer.error.error == "RequestError"
    client.send(generate("r"))
    assert isinstance(recorder.wait_for("r"), Finished)
    recorder.check({"load", "empty", "r"})


@pytest.mark.parametrize("num_letters", [2000, 2_000_000], ids=["counted", "estimated"])
def test_message_longer_than_the_context_is_refused_and_the_next_works_when_sent(
    num_letters: int, client: InprocClient, recorder: Recorder
):
    load(client, recorder, n_ctx=512)
    client.send(generate("long", "x" * num_letters))
    answer = recorder.wait_for("long")
    assert answer.error.error == "ContextOverflow"
    assert "512" in answer.error.message
    client.send(generate("r"))
    assert isinstance(recorder.wait_for("r"), Finished)


def test_reply_ends_as_aborted_with_its_text_when_it_is_stopped(client: InprocClient, recorder: Recorder):
    load(client, recorder, "step_s=0.01,n_words=1000")
    client.send(generate("r"))
    recorder.wait_for_text("r")
    client.send(Abort(request_id="r"))
    answer = recorder.wait_for("r")
    assert answer.finish_reason is FinishReason.ABORT
    assert answer.text
    recorder.check({"load", "r"})


def test_request_ends_as_aborted_when_it_is_stopped_before_it_was_tokenised(client: InprocClient, recorder: Recorder):
    load(client, recorder)
    client.send(generate("r"))
    client.send(Abort(request_id="r"))
    assert recorder.wait_for("r").finish_reason is FinishReason.ABORT
    client.send(Abort(request_id="r"))
    client.send(Abort(request_id="nobody"))
    client.send(generate("next"))
    assert recorder.wait_for("next").finish_reason is FinishReason.STOP


def test_prompt_stops_soon_when_it_is_aborted_while_it_is_read(client: InprocClient, recorder: Recorder):
    load(client, recorder, "token_s=0.03", n_ubatch=8)  # the whole prompt would take twelve seconds
    client.send(generate("long", "word " * 80))
    recorder.wait(lambda events: any(_has_read_some(event) for event in events))
    client.send(Abort(request_id="long"))
    recorder.wait(lambda events: recorder.answers("long"), timeout_s=2.0)
    assert recorder.wait_for("long").finish_reason is FinishReason.ABORT
    assert not recorder.of_type(Delta)


def test_reading_is_told_before_the_first_step_ends_when_that_takes_long(client: InprocClient, recorder: Recorder):
    load(client, recorder, "token_s=0.02")
    client.send(generate("long", "word " * 80))
    in_prefill = StateChanged(request_id="long", state=RequestState.PREFILL)
    recorder.wait(lambda events: in_prefill in events, timeout_s=3.0)
    assert not recorder.answers("long")


def test_open_requests_fail_once_when_their_model_is_unloaded(client: InprocClient, recorder: Recorder):
    load(client, recorder, "step_s=0.01,n_words=1000", n_seq_max=2)
    for number in range(4):
        client.send(generate(f"r{number}"))
    recorder.wait_for_text("r0")
    client.send(UnloadModel())
    recorder.wait_for_type(ModelUnloaded)
    for number in range(4):
        assert isinstance(recorder.wait_for(f"r{number}"), Failed)
    client.send(generate("late"))
    assert isinstance(recorder.wait_for("late"), Failed)
    load(client, recorder, request_id="again")
    client.send(generate("r"))
    assert isinstance(recorder.wait_for("r"), Finished)
    recorder.check({"load", "again", "late", "r", *(f"r{number}" for number in range(4))})


@pytest.mark.parametrize("messages", [(), chat("x" * 9000), chat("hello")], ids=["empty", "too long", "good"])
@pytest.mark.parametrize("follow_up", ["unload", "load"])
def test_request_fails_only_once_when_its_model_goes_before_it_is_tokenised(
    messages, follow_up: str, client: InprocClient, recorder: Recorder
):
    load(client, recorder, n_ctx=512)
    client.send(CountTokens(request_id="count", messages=chat("x" * 6000)))  # keeps the tokeniser busy for a moment
    client.send(Generate(request_id="r", messages=messages))
    client.send(UnloadModel() if follow_up == "unload" else LoadModel(request_id="other", path="fake:"))
    recorder.wait_for("r")
    client.send(LoadModel(request_id="last", path="fake:"))
    recorder.wait_for("last")
    client.send(generate("next"))
    recorder.wait_for("next")
    assert len(recorder.answers("r")) == 1


def test_open_requests_fail_when_another_model_is_loaded(client: InprocClient, recorder: Recorder):
    load(client, recorder, "step_s=0.01,n_words=1000")
    client.send(generate("r"))
    recorder.wait_for_text("r")
    load(client, recorder, request_id="other")
    assert isinstance(recorder.wait_for("r"), Failed)
    recorder.check({"load", "other", "r"})


def test_step_failure_is_told_and_the_loop_goes_on_when_the_backend_fails(client: InprocClient, recorder: Recorder):
    load(client, recorder, "fail=1")
    client.send(generate("r"))
    assert recorder.wait_for("r").error.error == "DecodeFailed"
    load(client, recorder, request_id="good")
    client.send(generate("s"))
    assert isinstance(recorder.wait_for("s"), Finished)


def test_engine_describes_itself_when_asked_with_or_without_a_model(client: InprocClient, recorder: Recorder):
    client.send(DescribeEngine(request_id="d"))
    assert isinstance(recorder.wait_for("d"), EngineDescribed)


def test_seed_is_drawn_for_each_request_and_kept_when_set(client: InprocClient, recorder: Recorder):
    load(client, recorder)
    for number in range(3):
        client.send(generate(f"random{number}", max_tokens=1))
    client.send(generate("fixed", max_tokens=1, seed=0))
    seeds = {recorder.wait_for(f"random{number}").metrics.seed for number in range(3)}
    assert len(seeds) == 3
    assert recorder.wait_for("fixed").metrics.seed == 0


def test_pool_is_shared_and_every_reply_ends_when_the_context_is_small(client: InprocClient, recorder: Recorder):
    load(client, recorder, n_ctx=300, n_seq_max=4)
    for number in range(6):
        client.send(generate(f"r{number}", f"question {number}"))
    for number in range(6):
        answer = recorder.wait_for(f"r{number}")
        assert isinstance(answer, Finished)
        assert answer.text == alone(make_prompt("x", f"question {number}"), n_ctx=300).text


def test_count_and_prompt_text_are_those_of_the_reply_when_turns_are_left_out(client: InprocClient, recorder: Recorder):
    load(client, recorder, "n_words=2", n_ctx=512)
    messages = chat(*(f"{number} ".ljust(60, "q") for number in range(31)))
    options = PromptOptions(overflow=Overflow.DROP_OLDEST)
    client.send(CountTokens(request_id="count", messages=messages, options=options))
    client.send(RenderPrompt(request_id="render", messages=messages, options=options))
    client.send(Generate(request_id="reply", messages=messages, options=options))
    num_tokens = recorder.wait_for("reply").metrics.num_prompt_tokens
    assert recorder.wait_for("count").num_tokens == num_tokens <= 512
    text = recorder.wait_for("render").text
    assert "30 qq" in text and "user\n0 qq" not in text
    client.send(RenderPrompt(request_id="whole", messages=messages))
    assert "user\n0 qq" in recorder.wait_for("whole").text
