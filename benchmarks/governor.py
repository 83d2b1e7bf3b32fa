"""How soon the thread governor moves when another program comes and goes, and what it costs when none does:
`python -m benchmarks.governor`.

All times are taken on the client's clock. The program beside is a process that spins; it is made to wait and to go on
by signals, so that it comes and goes at once.
"""

import argparse
import contextlib
import datetime
import itertools
import os
import platform
import queue
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.engine import _processor
from engine import (
    Abort,
    ChatMessage,
    Delta,
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    ModelLoaded,
    ModelParams,
    ProcessClient,
    Role,
    SamplingParams,
    ThreadsChanged,
)
from engine.processors import default_threads
from models import find_starter

_ASKED = (ChatMessage(Role.USER, "Tell me a long story about a lighthouse."),)
_NO_END = ((0, -1000.0), (2, -1000.0))  # the starter's end tokens: a reply is as long as it has to be
_REPLY_TOKENS = 128
_QUIET_S, _BUSY_S, _AFTER_S = 1.5, 3.0, 4.0
_SETTLED_S = 1.0  # at the end of a phase: its steady speed


class Talker:
    """An engine that is asked for one reply after another; every event is noted with its time."""

    def __init__(self, path: Path, n_threads: int) -> None:
        self._events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
        self._ids = itertools.count()
        self._client = ProcessClient()
        self._client.start(lambda event: self._events.put((time.perf_counter(), event)))
        self._client.send(
            LoadModel(request_id="load", path=str(path), params=ModelParams(n_ctx=4096, n_threads=n_threads))
        )
        while not isinstance(self._next()[1], ModelLoaded):
            pass

    def rate(self) -> float:
        """Return tokens/s of one reply after its first text."""
        self._ask(_REPLY_TOKENS)
        first: tuple[float, int] | None = None
        while True:
            at, event = self._next()
            if isinstance(event, Delta) and first is None:
                first = (at, event.num_generated_tokens)
            if isinstance(event, Finished) and first is not None:
                return (event.metrics.num_generated_tokens - first[1]) / (at - first[0])

    def reply_through(self, phases: Sequence[tuple[float, signal.Signals]], pid: int) -> list[tuple[float, Event]]:
        """Return the events of one reply, during which another process is sent a signal at the end of each phase.

        Args:
            phases: seconds, and what is sent after them.
        """
        request_id = self._ask(100_000)
        events: list[tuple[float, Event]] = []
        for seconds, sent in phases:
            self._collect(events, time.perf_counter() + seconds)
            os.kill(pid, sent)
        self._client.send(Abort(request_id=request_id))
        while not isinstance(self._next()[1], Finished):
            pass
        return events

    def close(self) -> None:
        """End the engine."""
        self._client.close()

    def _ask(self, num_tokens: int) -> str:
        request_id = f"r{next(self._ids)}"
        sampling = SamplingParams(temperature=0, max_tokens=num_tokens, logit_bias=_NO_END)
        self._client.send(Generate(request_id=request_id, messages=_ASKED, sampling=sampling))
        return request_id

    def _next(self, timeout_s: float = 600.0) -> tuple[float, Event]:
        at, event = self._events.get(timeout=timeout_s)
        if isinstance(event, Failed):
            raise SystemExit(f"{event.error.message} {event.error.hint}")
        return at, event

    def _collect(self, events: list[tuple[float, Event]], end: float) -> None:
        while (left := end - time.perf_counter()) > 0:
            with contextlib.suppress(queue.Empty):
                events.append(self._next(left))


def _rate_between(events: Sequence[tuple[float, Event]], start: float, end: float) -> float:
    """Return tokens/s from the texts that came between two times."""
    inside = [
        (at, event.num_generated_tokens) for at, event in events if isinstance(event, Delta) and start <= at < end
    ]
    if len(inside) < 2:
        return float("nan")
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def _moved_after(events: Sequence[tuple[float, Event]], start: float, end: float) -> float | None:
    """Return seconds from `start` until it took up for good the count it has at `end`; None where it never moved."""
    changes = [
        (at, event.num_threads) for at, event in events if isinstance(event, ThreadsChanged) and start <= at < end
    ]
    if not changes:
        return None
    last = changes[-1][1]
    return min(at for at, _ in itertools.takewhile(lambda change: change[1] == last, reversed(changes))) - start


@contextlib.contextmanager
def _waiting_neighbour() -> Iterator[int]:
    """Start a process that would spin and is stopped; yields its id."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _reactions(talker: Talker, repeats: int) -> dict[str, list[float]]:
    """Return seconds until it had moved and speeds before, beside and after the other program."""
    found: dict[str, list[float]] = {name: [] for name in ("come", "go", "quiet", "busy", "after")}
    with _waiting_neighbour() as pid:
        for number in range(repeats):
            # Not always at the same moment of its own probing.
            quiet_s = _QUIET_S + 0.13 * (number % 5)
            began = time.perf_counter()
            phases = ((quiet_s, signal.SIGCONT), (_BUSY_S, signal.SIGSTOP), (_AFTER_S, signal.SIGSTOP))
            events = talker.reply_through(phases, pid)
            come = began + quiet_s
            go = come + _BUSY_S
            end = go + _AFTER_S
            found["quiet"].append(_rate_between(events, come - _SETTLED_S, come))
            found["busy"].append(_rate_between(events, go - _BUSY_S + 0.5, go))
            found["after"].append(_rate_between(events, end - _SETTLED_S, end))
            for name, start, stop in (("come", come, go), ("go", go, end)):
                if (seconds := _moved_after(events, start, stop)) is not None:
                    found[name].append(seconds)
    return found


def _told(values: Sequence[float], unit: str) -> str:
    if not values:
        return "never"
    return f"{statistics.median(values):.2f} {unit} (min {min(values):.2f}, max {max(values):.2f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; default: the starter model")
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    path = arguments.model or find_starter()
    if path is None:
        sys.exit("The starter model is not installed: run `make run` once.")
    print(f"{_processor()}, {os.cpu_count()} processors, {platform.system()}; {path.stem}; {datetime.date.today()}")
    with contextlib.ExitStack() as stack:
        counts = range(1, default_threads() + 1)
        governed = Talker(path, 0)
        stack.callback(governed.close)
        fixed = {count: Talker(path, count) for count in counts}
        for talker in fixed.values():
            stack.callback(talker.close)
        for busy in (False, True):
            rates: dict[int, list[float]] = {count: [] for count in (0, *counts)}
            with _waiting_neighbour() as pid:
                if busy:
                    os.kill(pid, signal.SIGCONT)
                for _ in range(arguments.repeats):
                    for count in rates:
                        rates[count].append((fixed[count] if count else governed).rate())
            best = max(counts, key=lambda count: statistics.median(rates[count]))
            ratios = [mine / other for mine, other in zip(rates[0], rates[best], strict=True)]
            where = "beside a program that spins" if busy else "quiet"
            print(f"{where}: {_told(ratios, f'of the best fixed count, {best}')}; tokens/s governed "
                  f"{statistics.median(rates[0]):.1f}, fixed "
                  + ", ".join(f"{count}: {statistics.median(rates[count]):.1f}" for count in counts))  # fmt: skip
        found = _reactions(governed, arguments.repeats)
    for name, what in (("come", "the other program came"), ("go", "it went")):
        print(f"moved {len(found[name])} of {arguments.repeats} times after {what}: {_told(found[name], 's')}")
    print(f"speed beside it, of the speed before: {_told(_ratio(found['busy'], found['quiet']), '')}")
    print(f"speed after it, of the speed before: {_told(_ratio(found['after'], found['quiet']), '')}")


def _ratio(left: Sequence[float], right: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(left, right, strict=True)]


if __name__ == "__main__":
    main()
