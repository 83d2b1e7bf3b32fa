"""The engine's long runs: the same checks as the unit tests, with full counts; every seed is fixed."""

import os
import random
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from engine.client import InprocClient
from engine.messages import (
    Abort,
    CancelLoad,
    Command,
    CountTokens,
    EngineDied,
    Failed,
    Finished,
    Generate,
    Hello,
    LoadModel,
    RenderPrompt,
    UnloadModel,
    decode_command,
    decode_event,
    encode,
)
from engine.params import ModelParams
from engine.process import ProcessClient
from tests.unit.engine.cache_machine import CacheMachine
from tests.unit.engine.fake_engine import alone, make_prompt
from tests.unit.engine.fuzz import check_fuzz, damaged
from tests.unit.engine.message_values import COMMANDS, EVENTS, structs
from tests.unit.engine.recorder import Recorder, chat, generate, load, pid_of
from tests.unit.engine.schedules import ACTIONS, MEMORIES, SHAPES, check_schedule

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

NUM_SCHEDULES = 2000
NUM_CACHE_LIVES = 2000
NUM_KILLS = 200
NUM_COMMANDS = 3000
NUM_FUZZED = 200_000
_QUIET: dict[str, Any] = {"suppress_health_check": list(HealthCheck)}
_KNOWN: dict[tuple, Finished] = {}


@settings(max_examples=NUM_SCHEDULES, **_QUIET)
@given(actions=st.lists(ACTIONS, min_size=1, max_size=25), shape=SHAPES, memory=MEMORIES)
def test_each_request_ends_once_with_the_text_of_a_lone_engine_when_schedules_are_random(actions, shape, memory):
    check_schedule(actions, shape, _KNOWN, memory)


def test_slots_say_what_the_memory_holds_when_events_come_in_any_order():
    run_state_machine_as_test(
        CacheMachine, settings=settings(max_examples=NUM_CACHE_LIVES, stateful_step_count=60, **_QUIET)
    )


def test_nothing_but_a_refusal_comes_when_messages_are_fuzzed():
    generator = random.Random(7)
    samples: list[bytes] = []

    @settings(max_examples=20, **_QUIET)
    @given(data=st.data())
    def collect(data: st.DataObject) -> None:
        samples.extend(encode(data.draw(structs(message_type))) for message_type in (*COMMANDS, *EVENTS))

    collect()
    for number in range(NUM_FUZZED):
        if number % 10:
            data = damaged(generator, generator.choice(samples))
        else:
            data = generator.randbytes(generator.randint(0, 80))
        check_fuzz(decode_command, data)
        check_fuzz(decode_event, data)


def test_every_request_fails_once_and_the_next_load_works_when_the_worker_is_killed_at_any_moment():
    generator = random.Random(11)
    recorder = Recorder()
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    expected = alone(make_prompt("x", "hello")).text
    try:
        for number in range(NUM_KILLS):
            recorder.wait_for_type(Hello, number + 1)
            victim, num_seen = pid_of(client), len(recorder.events)
            load_id = f"load{number}"
            client.send(
                LoadModel(
                    request_id=load_id,
                    path=f"fake:step_s={generator.choice([0, 0.001])},load_s={generator.choice([0, 0.02])}",
                    params=ModelParams(n_ctx=512, n_seq_max=2),
                )
            )
            requests = [f"r{number}-{index}" for index in range(generator.randint(0, 5))]
            for request_id in requests:
                client.send(generate(request_id))
            num_awaited = generator.randint(0, 25 if requests else 1)
            recorder.wait(
                lambda events, enough=num_seen + num_awaited, asked=(load_id, *requests): (
                    len(events) >= enough or all(map(recorder.answers, asked))
                )
            )
            os.kill(victim, signal.SIGKILL)
            recorder.wait_for_type(EngineDied, number + 1)
            for request_id in (load_id, *requests):
                (answer,) = recorder.answers(request_id)
                assert not isinstance(answer, Finished) or answer.text == expected
            client.send(LoadModel(request_id=f"again{number}", path="fake:"))
            client.send(generate(f"after{number}"))
            assert recorder.wait_for(f"after{number}").text == expected
            recorder.check({load_id, *requests, f"again{number}", f"after{number}"})
            recorder.events[:] = [event for event in recorder.events if isinstance(event, (Hello, EngineDied))]
    finally:
        client.close()
    assert len(recorder.of_type(EngineDied)) == NUM_KILLS


class Commands:
    """Draws commands, and remembers what was asked."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self.asked: list[str] = []
        self.texts = ["hello", "what is a cache", "so", "word " * 40]
        self.text_of: dict[str, str] = {}

    def draw(self) -> Command:
        """Return the next command."""
        kinds = {self._generate: 40, self._abort: 25, self._ask: 15, self._unload: 2, self._load: 6, self._cancel: 2}
        return self._generator.choices(list(kinds), list(kinds.values()))[0]()

    def some_id(self) -> str:
        """Return a request that was asked for, most likely a late one."""
        return self._generator.choice([*self.asked[-5:], *self.asked[-50:], "nobody"])

    def _new_id(self) -> str:
        self.asked.append(f"r{len(self.asked)}")
        return self.asked[-1]

    def _generate(self) -> Command:
        request_id, text = self._new_id(), self._generator.choice(self.texts)
        self.text_of[request_id] = text
        return generate(request_id, text)

    def _ask(self) -> Command:
        request_id, text = self._new_id(), self._generator.choice(self.texts)
        kinds = (
            CountTokens(request_id=request_id, messages=chat(text)),
            RenderPrompt(request_id=request_id, messages=chat(text)),
            Generate(request_id=request_id, messages=()),
        )
        return self._generator.choice(kinds)

    def _load(self) -> Command:
        params = ModelParams(n_ctx=400, n_seq_max=3)
        return LoadModel(request_id=self._new_id(), path="fake:n_words=6", params=params)

    def _abort(self) -> Command:
        return Abort(request_id=self.some_id())

    def _cancel(self) -> Command:
        return CancelLoad(request_id=self.some_id())

    def _unload(self) -> Command:
        return UnloadModel()


def test_every_request_is_answered_once_when_commands_come_at_any_moment():
    generator, recorder, client = random.Random(13), Recorder(), InprocClient(fake=True)
    commands = Commands(generator)
    expected = {text: alone(make_prompt("x", text), "n_words=6").text for text in commands.texts}
    client.start(recorder.add)
    try:
        load(client, recorder, "n_words=6", n_ctx=400, n_seq_max=3)
        for _ in range(NUM_COMMANDS):
            client.send(commands.draw())
            if generator.random() < 0.1 and (awaited := commands.some_id()) != "nobody":
                recorder.wait_for(awaited)
        for request_id in commands.asked:
            recorder.wait_for(request_id)
    finally:
        client.close()
    recorder.check({"load", *commands.asked})
    replies = recorder.of_type(Finished)
    assert len(replies) > NUM_COMMANDS // 20
    for event in replies:
        assert expected[commands.text_of[event.request_id]].startswith(event.text)
    assert all(event.error.error != "InternalError" for event in recorder.of_type(Failed))
