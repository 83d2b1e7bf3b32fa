"""The engine in a process of its own: whatever becomes of it, each request has one answer and the next load works."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.context import SpawnProcess

import msgspec
import psutil
import pytest

from engine import process as process_module
from engine.messages import (
    Abort,
    Counted,
    CountTokens,
    DescribeEngine,
    EngineDescribed,
    EngineDied,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Hello,
    LoadModel,
    LoadProgress,
    ModelLoaded,
    RenderPrompt,
    UnloadModel,
)
from engine.process import ProcessClient
from tests.unit.engine import bad_workers
from tests.unit.engine.fake_engine import alone, make_prompt
from tests.unit.engine.recorder import Recorder, chat, generate, load, pid_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="ends processes by signals")


@pytest.fixture
def client(recorder: Recorder) -> Iterator[ProcessClient]:
    """Return a started client on the fake engine."""
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    yield client
    client.close()


def _start_with(monkeypatch: pytest.MonkeyPatch, recorder: Recorder, program) -> ProcessClient:
    """Return a started client whose child runs another program."""
    monkeypatch.setattr(process_module, "_run_worker", program)
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    return client


def _is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_replies_are_those_of_a_lone_engine_when_they_come_from_another_process(client, recorder: Recorder):
    load(client, recorder)
    for number in range(4):
        client.send(generate(f"r{number}", f"question {number}"))
    client.send(CountTokens(request_id="count", messages=chat("question 0")))
    client.send(RenderPrompt(request_id="text", messages=chat("question 0")))
    client.send(DescribeEngine(request_id="engine"))
    for number in range(4):
        answer = recorder.wait_for(f"r{number}")
        assert isinstance(answer, Finished)
        assert answer.text == alone(make_prompt("x", f"question {number}")).text
    assert recorder.wait_for("count").num_tokens == len(make_prompt("x", "question 0").tokens)
    assert "question 0" in recorder.wait_for("text").text
    assert isinstance(recorder.wait_for("engine"), EngineDescribed)
    assert recorder.of_type(Hello)[0].pid == client.pid
    client.close()
    recorder.check({"load", "count", "text", "engine", *(f"r{number}" for number in range(4))})


@pytest.mark.parametrize("doing", ["nothing", "generating", "reading", "loading"])
def test_open_requests_fail_once_and_the_next_load_works_when_the_worker_is_killed(
    doing: str, client: ProcessClient, recorder: Recorder
):
    open_requests: list[str] = []
    if doing == "nothing":
        recorder.wait_for_type(Hello)
    elif doing == "loading":
        client.send(LoadModel(request_id="slow", path="fake:load_s=60"))
        client.send(generate("waiting"))
        recorder.wait_for_type(LoadProgress)
        open_requests = ["slow", "waiting"]
    else:
        load(client, recorder, "step_s=0.01,n_words=1000" if doing == "generating" else "token_s=10", n_seq_max=2)
        open_requests = ["r0", "r1", "r2"]
        for request_id in open_requests:
            client.send(generate(request_id))
        if doing == "generating":
            recorder.wait_for_text("r0")
    os.kill(pid_of(client), signal.SIGKILL)
    recorder.wait_for_type(EngineDied)
    failures = recorder.of_type(Failed)
    assert sorted(event.request_id for event in failures) == open_requests
    assert all(event.error.error in ("EngineDied", "EngineStartFailed") for event in failures)
    assert all(event in recorder.events[: recorder.num_before_death()] for event in failures)
    (death,) = recorder.of_type(EngineDied)
    assert death.exit_code == -signal.SIGKILL
    assert "SIGKILL" in death.error.message
    assert death.error.hint
    assert client.pid is None

    client.send(generate("while dead"))
    assert recorder.wait_for("while dead").error.error == "EngineUnavailable"
    load(client, recorder, request_id="again")
    client.send(generate("after"))
    assert recorder.wait_for("after").text == alone(make_prompt("x", "hello")).text
    client.close()
    assert len(recorder.of_type(EngineDied)) == 1
    assert all(len(recorder.answers(request_id)) == 1 for request_id in [*open_requests, "again", "after"])


def test_every_kind_of_request_fails_when_the_worker_is_dead(client: ProcessClient, recorder: Recorder):
    recorder.wait_for_type(Hello)
    os.kill(pid_of(client), signal.SIGKILL)
    recorder.wait_for_type(EngineDied)
    client.send(Abort(request_id="nobody"))
    client.send(UnloadModel())
    client.send(Generate(request_id="generate", messages=chat()))
    client.send(CountTokens(request_id="count", messages=chat()))
    client.send(RenderPrompt(request_id="render", messages=chat()))
    client.send(DescribeEngine(request_id="describe"))
    for request_id in ("generate", "count", "render", "describe"):
        answer = recorder.wait_for(request_id)
        assert isinstance(answer, Failed)
        assert answer.error.hint
    recorder.check({"generate", "count", "render", "describe"})


def test_load_starts_one_engine_when_several_are_sent_after_a_death(client: ProcessClient, recorder: Recorder):
    recorder.wait_for_type(Hello)
    os.kill(pid_of(client), signal.SIGKILL)
    recorder.wait_for_type(EngineDied)
    for number in range(3):
        client.send(LoadModel(request_id=f"load{number}", path="fake:"))
    for number in range(3):
        recorder.wait_for(f"load{number}")
    assert len(recorder.of_type(Hello)) == 2


def test_reply_stops_when_it_is_aborted_in_another_process(client: ProcessClient, recorder: Recorder):
    load(client, recorder, "step_s=0.01,n_words=1000")
    client.send(generate("r"))
    recorder.wait_for_text("r")
    client.send(Abort(request_id="r"))
    assert recorder.wait_for("r").finish_reason is FinishReason.ABORT


# --- close ---


@pytest.mark.parametrize("doing", ["starting", "nothing", "generating", "reading", "loading", "hanging"])
def test_close_is_quick_and_final_when_the_worker_is(doing: str, recorder: Recorder):
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    if doing == "loading":
        client.send(LoadModel(request_id="slow", path="fake:load_s=600"))
        recorder.wait_for_type(LoadProgress)
    elif doing in ("generating", "reading"):
        load(client, recorder, "step_s=0.01,n_words=1000" if doing == "generating" else "token_s=0.03", n_ubatch=8)
        client.send(generate("r", "word " * 80))
        recorder.wait(lambda events: len(events) > 4)
    elif doing != "starting":
        recorder.wait_for_type(Hello)
    pid = client.pid
    if doing == "hanging":
        os.kill(pid_of(client), signal.SIGSTOP)
    num_children = len(psutil.Process().children())
    began = time.monotonic()
    client.close(1.0)
    assert time.monotonic() - began < 2.0
    events = list(recorder.events)
    assert not any(thread.name == "engine-sender" for thread in threading.enumerate())
    assert pid is None or not _is_alive(pid)
    assert len(psutil.Process().children()) < num_children or doing == "starting"
    client.close()
    assert recorder.events == events


def test_close_is_quicker_when_it_is_given_less_time(recorder: Recorder):
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    recorder.wait_for_type(Hello)
    os.kill(pid_of(client), signal.SIGSTOP)
    began = time.monotonic()
    client.close(0.2)
    assert time.monotonic() - began < 1.5


def test_nothing_comes_when_a_closed_client_is_used_again(recorder: Recorder):
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    recorder.wait_for_type(Hello)
    client.close()
    num_events = len(recorder.events)
    client.send(generate("late"))
    client.send(LoadModel(request_id="load", path="fake:"))
    client.close()
    assert len(recorder.events) == num_events
    assert client.pid is None or not _is_alive(client.pid)


def test_close_is_harmless_when_the_client_was_never_started():
    before = threading.active_count()
    client = ProcessClient(fake=True)
    client.close()
    client.close()
    assert threading.active_count() == before


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the children of a child")
def test_no_process_is_left_when_a_worker_is_killed(client: ProcessClient, recorder: Recorder):
    load(client, recorder)
    client.send(generate("r"))  # its template runs in a process of its own
    recorder.wait_for("r")
    worker = psutil.Process(client.pid)
    family = [worker, *worker.children(recursive=True)]
    assert len(family) >= 2
    worker.kill()
    recorder.wait_for_type(EngineDied)
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


# --- what is sent ---


def test_request_id_is_refused_only_while_it_is_in_use(client: ProcessClient, recorder: Recorder):
    load(client, recorder, "step_s=0.01,n_words=1000")
    client.send(generate("r"))
    for command in (generate("r"), CountTokens(request_id="r", messages=chat()), LoadModel(request_id="r", path="x")):
        with pytest.raises(ValueError, match="r"):
            client.send(command)
    client.send(Abort(request_id="r"))
    recorder.wait_for("r")
    client.send(CountTokens(request_id="r", messages=chat()))
    recorder.wait(lambda events: any(isinstance(event, Counted) for event in events))
    assert len(recorder.answers("r")) == 2


def test_path_is_refused_and_the_client_lives_when_it_is_no_text(client: ProcessClient, recorder: Recorder):
    client.send(LoadModel(request_id="bad", path=os.fsdecode(b"/models/\xff.gguf")))
    recorder.wait_for("bad")
    (failed,) = recorder.answers("bad")
    assert isinstance(failed, Failed)
    assert failed.error.error == "InvalidParams"
    load(client, recorder)
    assert len(recorder.answers("bad")) == 1


def test_setting_of_the_wrong_kind_is_answered_and_the_client_lives(client: ProcessClient, recorder: Recorder):
    load(client, recorder)
    command = generate("bad")
    # What no check of the settings knows: a field that the other side declares as something else.
    client.send(msgspec.structs.replace(command, chat_id=7))
    recorder.wait_for("bad")
    (failed,) = recorder.answers("bad")
    assert isinstance(failed, Failed)
    client.send(generate("good"))
    recorder.wait_for("good")


def test_every_request_is_answered_once_when_many_threads_send(client: ProcessClient, recorder: Recorder):
    load(client, recorder, n_seq_max=4)

    def send_some(name: int) -> None:
        for number in range(6):
            client.send(generate(f"{name}-{number}", f"{name} {number}", max_tokens=5))

    threads = [threading.Thread(target=send_some, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = {f"{name}-{number}" for name in range(4) for number in range(6)}
    for request_id in ids:
        assert isinstance(recorder.wait_for(request_id), Finished)
    client.close()
    recorder.check(ids | {"load"})


def test_large_message_is_refused_by_the_engine_when_it_crosses_the_pipe(client: ProcessClient, recorder: Recorder):
    load(client, recorder, n_ctx=512)
    client.send(generate("huge", "é" * 3_000_000))
    assert recorder.wait_for("huge").error.error == "ContextOverflow"
    client.send(generate("r"))
    assert isinstance(recorder.wait_for("r"), Finished)


def test_callback_may_send_when_it_is_called(recorder: Recorder):
    client = ProcessClient(fake=True)

    def on_event(event) -> None:
        recorder.add(event)
        if isinstance(event, Hello):
            client.send(LoadModel(request_id="load", path="fake:"))
        elif isinstance(event, EngineDied):
            client.send(LoadModel(request_id="after death", path="fake:"))

    client.start(on_event)
    try:
        recorder.wait_for("load")
        os.kill(pid_of(client), signal.SIGKILL)
        recorder.wait_for("after death")
    finally:
        client.close()


def test_request_sent_from_the_callback_of_a_failure_is_answered_when_the_worker_died(recorder: Recorder):
    client = ProcessClient(fake=True)

    def on_event(event) -> None:
        recorder.add(event)
        if isinstance(event, Failed) and event.request_id == "r":
            client.send(LoadModel(request_id="retry", path="fake:"))

    client.start(on_event)
    try:
        load(client, recorder, "step_s=0.01,n_words=1000")
        client.send(generate("r"))
        recorder.wait_for_text("r")
        os.kill(pid_of(client), signal.SIGKILL)
        assert isinstance(recorder.wait_for("retry"), ModelLoaded)
    finally:
        client.close()
    recorder.check({"load", "r", "retry"})


# --- workers that do wrong ---


@pytest.mark.parametrize(
    ("program", "error", "text", "exit_code"),
    [
        (bad_workers.ends_at_once, "EngineStartFailed", "exit code 3", 3),
        (bad_workers.speaks_another_version, "ProtocolMismatch", "protocol", -signal.SIGKILL),
        (bad_workers.sends_garbage, "ProtocolMismatch", "no message", -signal.SIGKILL),
        (bad_workers.logs_and_crashes, "EngineDied", "SIGABRT", -signal.SIGABRT),
    ],
    ids=["ends at once", "another version", "garbage", "crash"],
)
def test_death_is_told_after_the_failures_when_a_worker(
    program, error: str, text: str, exit_code: int, monkeypatch: pytest.MonkeyPatch, recorder: Recorder
):
    client = _start_with(monkeypatch, recorder, program)
    try:
        client.send(LoadModel(request_id="load", path="fake:"))
        client.send(generate("r"))
        recorder.wait_for_type(EngineDied)
        (death,) = recorder.of_type(EngineDied)
        assert death.error.error == error
        assert text in death.error.message
        assert death.error.hint
        assert death.exit_code == exit_code
        for request_id in ("load", "r"):
            assert isinstance(recorder.wait_for(request_id), Failed)
        assert [type(event) for event in recorder.events[-3:]] == [Failed, Failed, EngineDied]
        monkeypatch.undo()
        load(client, recorder, request_id="again")
    finally:
        client.close()
    recorder.check({"load", "r", "again"})


def test_last_log_lines_come_with_the_death_when_a_worker_crashes(monkeypatch: pytest.MonkeyPatch, recorder: Recorder):
    client = _start_with(monkeypatch, recorder, bad_workers.logs_and_crashes)
    try:
        client.send(generate("r"))
        recorder.wait_for_type(EngineDied)
    finally:
        client.close()
    (death,) = recorder.of_type(EngineDied)
    assert death.log_tail[-1] == "line 99"
    assert 10 <= len(death.log_tail) < 100
    assert "line 99" in death.error.details


def test_second_answer_is_dropped_and_logged_when_a_worker_sends_one(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder, allow_log, caplog: pytest.LogCaptureFixture
):
    allow_log("second answer")
    client = _start_with(monkeypatch, recorder, bad_workers.answers_twice)
    try:
        with caplog.at_level(logging.WARNING):
            client.send(CountTokens(request_id="a", messages=chat()))
            client.send(CountTokens(request_id="b", messages=chat()))
            recorder.wait_for("b")
    finally:
        client.close()
    recorder.check({"a", "b"})
    assert [event.num_tokens for event in recorder.of_type(Counted)] == [1, 1]
    assert "second answer" in caplog.text


def test_close_ends_a_worker_that_hears_nothing_when_its_pipe_is_full(monkeypatch, recorder: Recorder):
    client = _start_with(monkeypatch, recorder, bad_workers.hears_nothing)
    recorder.wait_for_type(Hello)
    pid = pid_of(client)
    for number in range(20):
        client.send(generate(f"r{number}", "x" * 500_000))
    began = time.monotonic()
    client.close(0.5)
    assert time.monotonic() - began < 2.0
    assert not _is_alive(pid)
    assert not any(thread.name == "engine-sender" for thread in threading.enumerate())


def test_start_is_told_as_failed_and_tried_again_when_no_process_can_be_made(monkeypatch, recorder: Recorder):
    def fail(process) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(SpawnProcess, "start", fail)
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    try:
        recorder.wait_for_type(EngineDied)
        client.send(LoadModel(request_id="load", path="fake:"))
        assert recorder.wait_for("load").error.error == "EngineStartFailed"
        recorder.wait_for_type(EngineDied, 2)
        monkeypatch.undo()
        load(client, recorder, request_id="again")
    finally:
        client.close()
    recorder.check({"load", "again"})


def test_load_is_not_done_after_it_failed_when_it_waited_for_a_start_that_failed(monkeypatch, recorder: Recorder):
    real_start, may_fail, num_starts = SpawnProcess.start, threading.Event(), []

    def start(process) -> None:
        num_starts.append(1)
        if len(num_starts) == 1:
            assert may_fail.wait(20)
            raise OSError("no more processes")
        real_start(process)

    monkeypatch.setattr(SpawnProcess, "start", start)
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    try:
        for request_id in ("a", "b"):
            client.send(LoadModel(request_id=request_id, path="fake:"))
        may_fail.set()
        for request_id in ("a", "b"):
            assert isinstance(recorder.wait_for(request_id), Failed)
        load(client, recorder, request_id="c")
        assert len(num_starts) == 2
        assert [event.request_id for event in recorder.of_type(ModelLoaded)] == ["c"]
    finally:
        client.close()
    recorder.check({"a", "b", "c"})
