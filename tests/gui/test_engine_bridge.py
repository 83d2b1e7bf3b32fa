"""The bridge: order kept, deltas joined, one timer that rests."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt, QThread
from pytestqt.qtbot import QtBot

from app.desktop.bridge.engine_bridge import EngineBridge
from engine import (
    Abort,
    ChatMessage,
    Counted,
    CountTokens,
    Delta,
    DescribeEngine,
    EngineDescribed,
    EngineDescription,
    EngineDied,
    EngineStartFailed,
    ErrorInfo,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Hello,
    LoadCancelled,
    LoadProgress,
    LogLine,
    ModelParams,
    OnEvent,
    PrefillProgress,
    PromptMode,
    PromptOptions,
    RequestMetrics,
    RequestState,
    Role,
    SamplingParams,
    StateChanged,
    TurnsDropped,
)


class Client:
    def __init__(self, *, fails: bool = False) -> None:
        self.sent: list[Any] = []
        self.on_event: OnEvent = lambda event: None
        self._fails = fails

    def start(self, on_event: OnEvent) -> None:
        if self._fails:
            raise EngineStartFailed("The engine could not be started.", "Try again.")
        self.on_event = on_event

    def send(self, command: Any) -> None:
        self.sent.append(command)

    def close(self, timeout_s: float = 2.0) -> None:
        self.on_event(LogLine(level=20, text="a last word"))

    def from_thread(self, *events: Event) -> None:
        thread = threading.Thread(target=lambda: [self.on_event(event) for event in events])
        thread.start()
        thread.join()


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def bridge(qtbot: QtBot, client: Client) -> Iterator[EngineBridge]:
    bridge = EngineBridge(client)
    bridge.start()
    yield bridge
    bridge.close(0.1)


def ask(bridge: EngineBridge) -> str:
    return bridge.generate(
        [ChatMessage(Role.USER, "hi")],
        SamplingParams(),
        chat_id="chat",
        options=PromptOptions(mode=PromptMode.CONTINUE),
    )


def delta(request_id: str, text: str, count: int, **parts: Any) -> Delta:
    return Delta(
        request_id=request_id,
        text=text,
        num_generated_tokens=count,
        num_context_tokens=count,
        decode_s=count / 10,
        **parts,
    )


def finished(request_id: str, text: str) -> Finished:
    measures = RequestMetrics(num_prompt_tokens=1, num_cached_tokens=0, num_generated_tokens=2)
    return Finished(request_id=request_id, text=text, token_ids=(), finish_reason=FinishReason.STOP, metrics=measures)


def test_deltas_of_a_tick_come_as_one(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    request_id = ask(bridge)
    seen: list[Delta] = []
    bridge.delta_received.connect(seen.append)
    client.from_thread(*(delta(request_id, f"{n} ", n) for n in range(1, 101)))
    qtbot.waitUntil(lambda: bool(seen))
    assert len(seen) == 1
    assert seen[0].text == "".join(f"{n} " for n in range(1, 101))
    assert seen[0].num_generated_tokens == 100


def test_text_comes_before_the_end_and_on_the_window_thread(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    request_id = ask(bridge)
    order: list[str] = []
    threads: list[bool] = []
    bridge.delta_received.connect(lambda event: order.append(event.text))
    bridge.reply_finished.connect(lambda event: order.append("end"))
    bridge.reply_finished.connect(lambda event: threads.append(QThread.currentThread() is bridge.thread()))
    client.from_thread(delta(request_id, "a", 1), delta(request_id, "b", 2), finished(request_id, "ab"))
    qtbot.waitUntil(lambda: "end" in order)
    assert order == ["ab", "end"]
    assert threads == [True]


def thought(text: str, *, thinking: str = "", was_thinking: bool = False) -> dict[str, Any]:
    return {"text": text, "thinking": thinking, "was_thinking": was_thinking}


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        ([thought("", thinking="a"), thought("", thinking="b")], thought("", thinking="ab")),
        ([thought("", thinking="a"), thought("x"), thought("y")], thought("xy", thinking="a")),
        ([thought("a"), thought("x", was_thinking=True)], thought("x", thinking="a", was_thinking=True)),
        (
            [thought("a"), thought("b"), thought("x", thinking="c", was_thinking=True), thought("y")],
            thought("xy", thinking="abc", was_thinking=True),
        ),
        ([thought("x", was_thinking=True), thought("y")], thought("xy", was_thinking=True)),
    ],
    ids=["thinking", "thinking then answer", "taken back", "taken back in the middle", "taken back at the start"],
)
def test_thinking_and_answer_of_a_tick_are_joined_apart(
    bridge: EngineBridge, client: Client, qtbot: QtBot, parts: list[dict[str, Any]], joined: dict[str, Any]
) -> None:
    request_id = ask(bridge)
    seen: list[Delta] = []
    bridge.delta_received.connect(seen.append)
    client.from_thread(*(delta(request_id, count=n, **part) for n, part in enumerate(parts, 1)))
    qtbot.waitUntil(lambda: bool(seen))
    (event,) = seen
    assert {"text": event.text, "thinking": event.thinking, "was_thinking": event.was_thinking} == joined
    assert event.num_generated_tokens == len(parts)


def test_dropped_turns_come_before_the_text(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    request_id = ask(bridge)
    dropped = TurnsDropped(request_id=request_id, num_messages=4, num_tokens=300)
    order: list[object] = []
    bridge.turns_dropped.connect(order.append)
    bridge.delta_received.connect(lambda event: order.append(event.text))
    client.from_thread(dropped, delta(request_id, "a", 1))
    qtbot.waitUntil(lambda: len(order) == 2)
    assert order == [dropped, "a"]


def test_options_of_a_request_are_sent(bridge: EngineBridge, client: Client) -> None:
    ask(bridge)
    command = client.sent[-1]
    assert isinstance(command, Generate)
    assert command.options.mode is PromptMode.CONTINUE


def test_two_requests_keep_their_own_text(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    first, second = ask(bridge), ask(bridge)
    seen: dict[str, str] = {}
    bridge.delta_received.connect(lambda event: seen.update({event.request_id: event.text}))
    client.from_thread(delta(first, "a", 1), delta(second, "x", 1), delta(first, "b", 2), delta(second, "y", 2))
    qtbot.waitUntil(lambda: len(seen) == 2)
    assert seen == {first: "ab", second: "xy"}


def test_timer_runs_only_while_a_request_is_open(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    assert not bridge.is_ticking
    request_id = ask(bridge)
    assert bridge.is_ticking
    client.from_thread(finished(request_id, ""))
    qtbot.waitUntil(lambda: not bridge.is_ticking)
    load_id = bridge.load_model("/m.gguf", ModelParams())
    assert bridge.is_ticking
    client.from_thread(LoadProgress(request_id=load_id, progress=0.5), LoadCancelled(request_id=load_id))
    qtbot.waitUntil(lambda: not bridge.is_ticking)


def test_failures_reach_the_signal_of_their_kind(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    load_id = bridge.load_model("/m.gguf", ModelParams())
    reply_id = ask(bridge)
    error = ErrorInfo("OutOfMemory", "Too little memory.")
    seen: list[tuple[str, str, ErrorInfo]] = []
    bridge.load_failed.connect(lambda request_id, error: seen.append(("load", request_id, error)))
    bridge.reply_failed.connect(lambda request_id, error: seen.append(("reply", request_id, error)))
    client.from_thread(Failed(request_id=load_id, error=error), Failed(request_id=reply_id, error=error))
    qtbot.waitUntil(lambda: len(seen) == 2)
    assert seen == [("load", load_id, error), ("reply", reply_id, error)]


def test_progress_events_pass_through(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    request_id = ask(bridge)
    state = StateChanged(request_id=request_id, state=RequestState.PREFILL)
    prefill = PrefillProgress(request_id=request_id, num_done_tokens=1, num_total_tokens=9, num_cached_tokens=0)
    with qtbot.waitSignals([bridge.state_changed, bridge.prefill_progressed]):
        client.from_thread(state, prefill)


def test_abort_is_sent(bridge: EngineBridge, client: Client) -> None:
    request_id = ask(bridge)
    bridge.abort(request_id)
    assert client.sent[-1] == Abort(request_id=request_id)


@pytest.mark.allow_log("the engine died")
def test_failed_start_is_told_as_death(qtbot: QtBot) -> None:
    bridge = EngineBridge(Client(fails=True))
    with qtbot.waitSignal(bridge.engine_died) as caught:
        bridge.start()
    event = caught.args[0]
    assert isinstance(event, EngineDied)
    assert event.error.message == "The engine could not be started."
    bridge.close(0.1)


def test_nothing_is_told_after_close(client: Client, qtbot: QtBot) -> None:
    bridge = EngineBridge(client)
    bridge.start()
    request_id = ask(bridge)
    seen: list[Any] = []
    bridge.reply_finished.connect(seen.append)
    client.from_thread(finished(request_id, "late"))
    bridge.close(0.1)
    qtbot.wait(50)
    assert seen == []
    assert not bridge.is_ticking


def test_slow_updates_slow_the_timer_down(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    request_id = ask(bridge)
    wait = threading.Event()
    bridge.delta_received.connect(lambda event: wait.wait(0.03))
    client.from_thread(delta(request_id, "a", 1))
    qtbot.waitUntil(lambda: bridge._timer.interval() >= 110)
    bridge.delta_received.disconnect()
    client.from_thread(delta(request_id, "b", 2))
    qtbot.waitUntil(lambda: bridge._timer.interval() == 33)


MESSAGES = [ChatMessage(Role.SYSTEM, "be short"), ChatMessage(Role.USER, "hi")]
DEATH = ErrorInfo("EngineDied", "The engine stopped unexpectedly (SIGKILL).")


def test_count_is_answered_without_a_ticking_timer(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    options = PromptOptions(mode=PromptMode.CONTINUE)
    request_id = bridge.count_tokens(MESSAGES, options)
    assert client.sent == [CountTokens(request_id=request_id, messages=tuple(MESSAGES), options=options)]
    assert not bridge.is_ticking
    with qtbot.waitSignal(bridge.counted) as caught:
        client.from_thread(Counted(request_id=request_id, num_tokens=37))
    assert caught.args == [request_id, 37]
    assert not bridge.is_ticking


def test_counts_beside_a_reply_leave_its_timer_alone(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    reply_id = ask(bridge)
    request_id = bridge.count_tokens(MESSAGES, PromptOptions())
    with qtbot.waitSignal(bridge.counted):
        client.from_thread(Counted(request_id=request_id, num_tokens=1))
    assert bridge.is_ticking
    client.from_thread(finished(reply_id, ""))
    qtbot.waitUntil(lambda: not bridge.is_ticking)


def test_death_fails_what_is_asked_beside_replies(
    bridge: EngineBridge, client: Client, qtbot: QtBot, allow_log: Callable[[str], None]
) -> None:
    allow_log("the engine died")
    count_id = bridge.count_tokens(MESSAGES, PromptOptions())
    bridge.describe_engine()
    describe_id = client.sent[-1].request_id
    order: list[Any] = []
    bridge.count_failed.connect(lambda request_id, error: order.append((request_id, error)))
    bridge.engine_died.connect(lambda event: order.append("died"))
    client.from_thread(
        Failed(request_id=count_id, error=DEATH),
        Failed(request_id=describe_id, error=DEATH),
        EngineDied(exit_code=-9, log_tail=(), error=DEATH),
    )
    qtbot.waitUntil(lambda: "died" in order)
    assert order == [(count_id, DEATH), "died"]
    assert not bridge.is_ticking


def test_engine_is_described(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    bridge.describe_engine()
    command = client.sent[-1]
    assert isinstance(command, DescribeEngine)
    description = EngineDescription(binding="1", library="2", features="", devices=(), default_threads=4)
    with qtbot.waitSignal(bridge.engine_described) as caught:
        client.from_thread(EngineDescribed(request_id=command.request_id, description=description))
    assert caught.args == [description]
    assert not bridge.is_ticking


@pytest.mark.allow_log("the engine died")
def test_worker_is_known_from_its_hello_to_its_death(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    assert bridge.worker_pid is None
    client.from_thread(Hello(protocol_version=1, pid=4711, engine_version="1"))
    qtbot.waitUntil(lambda: bridge.worker_pid == 4711)
    seen: list[int | None] = []
    bridge.engine_died.connect(lambda event: seen.append(bridge.worker_pid))
    client.from_thread(EngineDied(exit_code=-9, log_tail=(), error=DEATH))
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [None]


def test_one_wake_is_enough_for_many_answers(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    wakes: list[None] = []
    bridge._woken.connect(lambda: wakes.append(None), Qt.ConnectionType.DirectConnection)
    seen: list[str] = []
    bridge.counted.connect(lambda request_id, num_tokens: seen.append(request_id))
    ids = [bridge.count_tokens(MESSAGES, PromptOptions()) for _ in range(50)]
    client.from_thread(*(Counted(request_id=request_id, num_tokens=1) for request_id in ids))
    assert len(wakes) == 1
    qtbot.waitUntil(lambda: seen == ids)
    client.from_thread(Counted(request_id=bridge.count_tokens(MESSAGES, PromptOptions()), num_tokens=1))
    assert len(wakes) == 2


def test_answers_behind_a_failing_listener_are_handed_out(bridge: EngineBridge, client: Client, qtbot: QtBot) -> None:
    first, second = (bridge.count_tokens(MESSAGES, PromptOptions()) for _ in range(2))
    seen: list[str] = []

    def listen(event: Event) -> None:
        bridge._dispatch = dispatch
        raise RuntimeError("a fault of a listener")

    dispatch, bridge._dispatch = bridge._dispatch, listen
    bridge.counted.connect(lambda request_id, num_tokens: seen.append(request_id))
    with qtbot.captureExceptions() as faults:
        client.from_thread(Counted(request_id=first, num_tokens=1), Counted(request_id=second, num_tokens=2))
        qtbot.waitUntil(lambda: seen == [second])
    assert [str(fault[1]) for fault in faults] == ["a fault of a listener"]
