"""The real worker beside a program that spins: fewer threads compute, and it says why."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engine import (
    Delta,
    Finished,
    ModelLoaded,
    ModelParams,
    ProcessClient,
    SamplingParams,
    ThreadsChanged,
    ThreadsReason,
)
from engine.processors import default_threads
from tests.support.engine_driver import EngineDriver

_SPIN = "while True: pass"
_LONG = SamplingParams(temperature=0, max_tokens=100, logit_bias=((2, -1000.0), (0, -1000.0)))
_LIMIT_S = 30.0


@pytest.fixture
def driver() -> Iterator[EngineDriver]:
    driver = EngineDriver(ProcessClient())
    yield driver
    driver.close()


@pytest.fixture
def neighbours() -> Iterator[list[subprocess.Popen[bytes]]]:
    spinning: list[subprocess.Popen[bytes]] = []
    yield spinning
    for process in spinning:
        process.kill()
        process.wait()


def _changes(driver: EngineDriver) -> list[ThreadsChanged]:
    return [event for event in driver.events if isinstance(event, ThreadsChanged)]


@pytest.mark.skipif(default_threads() < 2, reason="one thread cannot become fewer")
def test_fewer_threads_compute_and_it_is_told_when_a_neighbour_spins(
    driver: EngineDriver, starter_path: Path, neighbours: list[subprocess.Popen[bytes]]
) -> None:
    assert isinstance(driver.load(str(starter_path), ModelParams(n_ctx=1024)), ModelLoaded)
    # On every core but one, so that there is one left whatever the system does with its threads.
    neighbours += [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range((os.cpu_count() or 2) - 1)]
    deadline = time.monotonic() + _LIMIT_S
    while not _changes(driver) and time.monotonic() < deadline:
        driver.reply("Count as far as you can.", sampling=_LONG)
    changed = _changes(driver)
    assert changed, "the neighbour went unnoticed"
    assert changed[0].num_threads < changed[0].num_available == default_threads()
    # Whether the others can be seen depends on the machine; that fewer are faster is measured on every one.
    assert changed[0].reason in (ThreadsReason.NEIGHBOUR, ThreadsReason.MEASURED)


def test_a_count_is_obeyed_when_the_user_has_set_one(
    driver: EngineDriver, starter_path: Path, neighbours: list[subprocess.Popen[bytes]]
) -> None:
    assert isinstance(driver.load(str(starter_path), ModelParams(n_ctx=1024, n_threads=2)), ModelLoaded)
    neighbours.append(subprocess.Popen([sys.executable, "-c", _SPIN]))
    reply = driver.reply("Say hello.", sampling=SamplingParams(temperature=0, max_tokens=6))
    assert reply.metrics.num_threads == 2
    assert _changes(driver) == []


@pytest.mark.parametrize(
    ("num_sentences", "num_tokens"), [(5, 12), pytest.param(30, 40, marks=pytest.mark.soak)], ids=["short", "long"]
)
def test_a_reproducible_text_is_the_same_when_a_neighbour_spins_and_others_are_answered(
    driver: EngineDriver,
    starter_path: Path,
    neighbours: list[subprocess.Popen[bytes]],
    num_sentences: int,
    num_tokens: int,
) -> None:
    assert isinstance(driver.load(str(starter_path), ModelParams(n_ctx=2048, n_threads=1)), ModelLoaded)
    asked = "Tell me about the sea. " * num_sentences
    sampling = SamplingParams(seed=5, max_tokens=num_tokens, reproducible=True)
    others = msgspec.structs.replace(_LONG, max_tokens=2 * num_tokens)
    quiet = driver.reply(asked, sampling=sampling)
    neighbours.append(subprocess.Popen([sys.executable, "-c", _SPIN]))
    beside = driver.generate("Count as far as you can.", sampling=others)
    driver.wait_type(Delta, beside)
    asked_again = driver.generate(asked, sampling=sampling)
    behind = driver.generate("Say hello.", sampling=others)
    busy = driver.wait_finished(asked_again)
    assert busy.token_ids == quiet.token_ids
    assert (busy.metrics.num_threads, busy.metrics.num_cached_tokens) == (1, 0)
    assert all(isinstance(driver.wait_final(request_id), Finished) for request_id in (beside, behind))
