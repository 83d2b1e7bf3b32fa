"""Strict replies for which nothing can draft: they cost no more than plain ones."""

import msgspec
import pytest

from engine.core import Engine
from engine.messages import MemoryKind
from engine.metrics import DraftState
from engine.params import DraftMode
from engine.threads import StepThreads
from tests.unit.engine.drafting_engine import drafted
from tests.unit.engine.fake_engine import ask, make_backend, make_prompt


@pytest.mark.parametrize(
    ("settings", "mode", "memory"),
    [
        ("same_to=1", DraftMode.AUTO, MemoryKind.PLAIN),
        ("", DraftMode.MODEL, MemoryKind.PLAIN),
        ("", DraftMode.AUTO, MemoryKind.RECURRENT),
    ],
    ids=["rounded", "no-draft-model", "recurrent"],
)
def test_a_strict_reply_takes_all_threads_when_nothing_can_draft(settings: str, mode: DraftMode, memory: MemoryKind):
    backend = make_backend(settings)
    backend.description = msgspec.structs.replace(backend.description, n_threads=2, memory=memory)
    engine = Engine(backend, threads=StepThreads(backend.set_threads, count=2))
    got = ask(engine, drafted(make_prompt("a", "hello"), mode, strict=True))["a"]
    assert got.speculative is not None
    assert got.speculative.state is DraftState.UNAVAILABLE
    assert got.speculative.reason
    assert got.metrics.num_threads == 2


def test_a_strict_reply_takes_one_thread_when_something_can_draft():
    backend = make_backend("")
    backend.description = msgspec.structs.replace(backend.description, n_threads=2)
    engine = Engine(backend, threads=StepThreads(backend.set_threads, count=2))
    got = ask(engine, drafted(make_prompt("a", "hello"), strict=True))["a"]
    assert got.metrics.num_threads == 1
