"""The client that runs its engine on a thread of this process."""

import threading

import pytest

from engine.client import InprocClient
from engine.messages import Delta, LoadModel, LoadProgress, PrefillProgress, Shutdown
from tests.unit.engine.recorder import Recorder, generate, load


def test_command_is_refused_when_the_engine_was_not_started():
    with pytest.raises(RuntimeError):
        InprocClient(fake=True).send(Shutdown())


def test_close_is_harmless_when_the_client_was_never_started():
    before = threading.active_count()
    client = InprocClient(fake=True)
    client.close()
    client.close()
    assert threading.active_count() == before


def test_events_come_one_at_a_time_when_two_threads_make_them(recorder: Recorder):
    client, is_inside, overlaps = InprocClient(fake=True), threading.Event(), []

    def on_event(event) -> None:
        overlaps.append(is_inside.is_set())
        is_inside.set()
        recorder.add(event)
        is_inside.clear()

    client.start(on_event)
    try:
        load(client, recorder)
        for number in range(10):
            client.send(generate(f"r{number}", f"question {number}"))
        for number in range(10):
            recorder.wait_for(f"r{number}")
    finally:
        client.close()
    assert len(overlaps) > 50
    assert not any(overlaps)


@pytest.mark.parametrize("doing", ["nothing", "generating", "reading", "loading"])
def test_no_event_comes_after_close_when_the_engine_is(doing: str, recorder: Recorder):
    client = InprocClient(fake=True)
    client.start(recorder.add)
    if doing == "loading":
        client.send(LoadModel(request_id="slow", path="fake:load_s=2"))
        recorder.wait_for_type(LoadProgress)
    elif doing != "nothing":
        load(client, recorder, "step_s=0.01,n_words=1000" if doing == "generating" else "token_s=0.03", n_ubatch=8)
        client.send(generate("r", "word " * 80))
        recorder.wait_for_type(Delta if doing == "generating" else PrefillProgress, 2)
    client.close()
    num_events = len(recorder.events)
    assert not any(thread.name.startswith("engine-") for thread in threading.enumerate())
    client.close()
    assert len(recorder.events) == num_events
