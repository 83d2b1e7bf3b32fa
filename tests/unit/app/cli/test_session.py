"""The session: what a waiting program gets of an engine, and how Ctrl-C and death reach it."""

import os
import signal
import threading
from pathlib import Path

import pytest

from app.cli.session import Answer, ChatSession
from app.memory_record import MemoryRecord
from engine import (
    Abort,
    CancelLoad,
    ChatMessage,
    ContextOverflow,
    Delta,
    EngineDiedError,
    FinishReason,
    ModelDescription,
    ModelParams,
    PrefillProgress,
    RequestMetrics,
    Role,
    SamplingParams,
    UnsupportedModel,
)
from tests.unit.app.cli.scripted_client import DEATH, ScriptedClient

QUESTION = (ChatMessage(Role.USER, "hi"),)
PARAMS, SAMPLING = ModelParams(), SamplingParams()
death_is_logged = pytest.mark.allow_log(r"ERROR app\.cli\.session: ")


def test_load_yields_progress_and_describes_the_model() -> None:
    with ChatSession(ScriptedClient()) as session:
        assert list(session.load("/x.gguf", PARAMS)) == [0.5]
        assert session.model is not None
        assert session.model.path == "/x.gguf"


@death_is_logged
def test_failed_load_raises_its_error() -> None:
    with ChatSession(ScriptedClient(load=UnsupportedModel("No.", "Choose another."))) as session:
        with pytest.raises(UnsupportedModel) as caught:
            list(session.load("/x.gguf", PARAMS))
        assert caught.value.hint == "Choose another."
        assert session.model is None


def test_session_learns_from_a_reply_what_its_model_has_taken() -> None:
    learned: list[tuple[str, int, str]] = []

    class Record(MemoryRecord):
        def note(self, model: ModelDescription, metrics: RequestMetrics, *, features: str = "") -> None:
            learned.append((model.path, metrics.num_prompt_tokens, features))

    with ChatSession(ScriptedClient(["a b c"]), memory=Record(Path("/none"))) as session:
        list(session.load("/x.gguf", PARAMS))
        reply = next(item for item in session.ask(QUESTION, SAMPLING) if isinstance(item, Answer))  # asks for no more
        features = session.describe_engine().features
    assert learned == [("/x.gguf", reply.finished.metrics.num_prompt_tokens, features)]


def test_interrupted_load_is_cancelled() -> None:
    client = ScriptedClient(load=lambda: session.interrupt())
    session: ChatSession = ChatSession(client)
    with session, pytest.raises(KeyboardInterrupt):
        list(session.load("/x.gguf", PARAMS))
    assert isinstance(client.commands[-1], CancelLoad)
    assert client.is_closed


def test_ask_yields_prefill_text_and_the_answer() -> None:
    with ChatSession(ScriptedClient(["a b c"])) as session:
        items = list(session.ask(QUESTION, SAMPLING))
    assert isinstance(items[0], PrefillProgress)
    answer = items[-1]
    assert isinstance(answer, Answer)
    assert "".join(item.text for item in items if isinstance(item, Delta)) == answer.finished.text == "a b c"
    assert answer.client_ttft_s is not None
    assert not session.was_interrupted


@death_is_logged
def test_failed_request_raises_and_the_next_one_works() -> None:
    with ChatSession(ScriptedClient([ContextOverflow("Too long."), "ok"])) as session:
        with pytest.raises(ContextOverflow):
            list(session.ask(QUESTION, SAMPLING))
        assert isinstance(list(session.ask(QUESTION, SAMPLING))[-1], Answer)


def test_interrupted_request_ends_with_what_there_is() -> None:
    client = ScriptedClient([lambda: session.interrupt(), "next"])
    session = ChatSession(client)
    with session:
        answer = list(session.ask(QUESTION, SAMPLING))[-1]
        assert session.was_interrupted
        assert isinstance(answer, Answer)
        assert (answer.finished.text, answer.finished.finish_reason) == ("par", FinishReason.ABORT)
        list(session.ask(QUESTION, SAMPLING))
        assert not session.was_interrupted
    assert sum(isinstance(command, Abort) for command in client.commands) == 1


def test_second_interrupt_does_not_wait_for_the_engine() -> None:
    def press_twice() -> None:
        session.interrupt()
        session.interrupt()

    client = ScriptedClient([press_twice])
    session: ChatSession = ChatSession(client)
    with session, pytest.raises(KeyboardInterrupt):
        list(session.ask(QUESTION, SAMPLING))


def test_interrupt_between_requests_stops_the_next_one_unless_forgotten() -> None:
    client = ScriptedClient(["one", "two words", "three"])
    with ChatSession(client) as session:
        list(session.ask(QUESTION, SAMPLING))
        session.interrupt()
        list(session.ask(QUESTION, SAMPLING))
        assert session.was_interrupted
        session.interrupt()
        session.forget_the_past()
        list(session.ask(QUESTION, SAMPLING))
        assert not session.was_interrupted


@death_is_logged
def test_death_fails_the_request_and_is_noted() -> None:
    client = ScriptedClient([DEATH, "again"])
    with ChatSession(client) as session:
        list(session.load("/x.gguf", PARAMS))
        with pytest.raises(EngineDiedError):
            list(session.ask(QUESTION, SAMPLING))
        session.forget_the_past()
        assert session.model is None


@death_is_logged
def test_death_while_idle_is_noted() -> None:
    client = ScriptedClient()
    with ChatSession(client) as session:
        list(session.load("/x.gguf", PARAMS))
        client.die()
        session.forget_the_past()
        assert session.model is None


def test_engine_is_described() -> None:
    with ChatSession(ScriptedClient()) as session:
        assert session.describe_engine().library == "0.5"


def test_session_that_asked_nothing_starts_nothing() -> None:
    client = ScriptedClient()
    with ChatSession(client):
        pass
    assert client.commands == []
    assert not client.is_closed


@pytest.mark.skipif(os.name != "posix", reason="a process cannot send itself Ctrl-C on Windows")
def test_ctrl_c_stops_the_request_and_not_the_program() -> None:
    def press() -> None:
        # From another thread: this one waits in the queue when the signal comes.
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    before = signal.getsignal(signal.SIGINT)
    session = ChatSession(ScriptedClient([press]))
    with session, session.interrupted_by_ctrl_c():
        answer = list(session.ask(QUESTION, SAMPLING))[-1]
    assert isinstance(answer, Answer)
    assert answer.finished.finish_reason is FinishReason.ABORT
    assert signal.getsignal(signal.SIGINT) is before
