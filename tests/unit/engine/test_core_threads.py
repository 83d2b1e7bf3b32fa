"""Threads in the engine: a reproducible reply is computed alone, with its own count, and says which."""

import msgspec
import pytest

from engine.core import Engine
from engine.messages import ThreadsChanged
from engine.sequence import Prompt
from engine.threads import StepThreads
from tests.unit.engine.fake_engine import ask, finished, make_backend, make_prompt, reply, run

TELLS = "tells_threads=1"


def make_governed(*, most: int | None) -> Engine:
    """Return an engine of two threads, with one of them taken away as beside a neighbour, or with both for good."""
    backend = make_backend(TELLS, n_seq_max=4)
    backend.set_threads(2, 2)
    threads = StepThreads(
        backend.set_threads, count=2, is_fixed=most is None, count_allowed=lambda: 2, others=lambda now: None
    )
    threads.set_most(most or 0)
    return Engine(backend, threads=threads)


def reproducible(prompt: Prompt) -> Prompt:
    """Return the request as one that is computed alone."""
    return prompt._replace(sampling=msgspec.structs.replace(prompt.sampling, reproducible=True))


@pytest.mark.parametrize("others", [0, 1, 3], ids=["alone", "beside one", "beside three"])
def test_a_reproducible_text_is_the_same_when_a_neighbour_takes_threads_away(others: int) -> None:
    asked = reproducible(make_prompt("r", "tell me about weights"))
    quiet = reply(make_governed(most=None), asked)
    engine = make_governed(most=1)
    company = [make_prompt(f"o{number}", f"another question {number}") for number in range(others)]
    busy = ask(engine, *company, asked)["r"]
    assert busy.token_ids == quiet.token_ids
    assert (busy.metrics.num_threads, quiet.metrics.num_threads) == (2, 2)


def test_other_texts_may_differ_when_a_neighbour_takes_threads_away() -> None:
    asked = make_prompt("r", "tell me about weights")
    quiet, busy = (reply(make_governed(most=most), asked) for most in (None, 1))
    assert (quiet.metrics.num_threads, busy.metrics.num_threads) == (2, 1)
    assert quiet.token_ids != busy.token_ids


def test_a_reproducible_request_takes_nothing_from_the_cache_and_leaves_all_to_the_next() -> None:
    engine = make_governed(most=None)
    first = reply(engine, make_prompt("a", "tell me about weights"))
    again = reply(engine, reproducible(make_prompt("b", "tell me about weights")))
    later = reply(engine, make_prompt("c", "tell me about weights"))
    assert first.metrics.num_cached_tokens == again.metrics.num_cached_tokens == 0
    assert later.metrics.num_cached_tokens > 0


def test_a_reproducible_request_has_all_steps_for_itself_when_others_come_before_and_after() -> None:
    sizes: list[int] = []
    engine = make_governed(most=None)
    decode = engine.backend.decode

    def noted(parts):
        sizes.append(len(parts))
        return decode(parts)

    engine.backend.decode = noted
    before, after = make_prompt("before", "question 1"), make_prompt("after", "question 2")
    asked = [reproducible(make_prompt(f"r{number}", f"question {number}")) for number in range(2)]
    together = ask(engine, before, *asked, after)
    assert set(sizes) == {1}
    for prompt in asked:
        assert together[prompt.request_id].text == reply(make_governed(most=None), prompt).text


def test_a_change_of_threads_is_an_event_when_the_limit_falls_in_the_middle_of_a_reply() -> None:
    engine = make_governed(most=0)
    events = engine.add(make_prompt("r", "tell me a long story"))
    for _ in range(3):
        events += engine.step()
    assert not [event for event in events if isinstance(event, ThreadsChanged)]
    engine.threads.set_most(1)
    events += run(engine)
    assert [event.num_threads for event in events if isinstance(event, ThreadsChanged)] == [1]
    assert finished(events)["r"].metrics.num_threads == 1


def test_threads_stay_as_they_are_when_nobody_governs() -> None:
    backend = make_backend()
    told = reply(Engine(backend), make_prompt("r", "hello"))
    assert told.metrics.num_threads == 1
    assert backend.n_threads == (1, 1)
