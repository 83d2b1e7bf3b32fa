"""Fireside's engine beside a bare loop on the same library, in one run: `python -m benchmarks.engine`.

Times are taken on the client's clock, through the worker process and the pipe. Runs of both alternate, so that a
machine that changes its speed changes both; ratios are medians over the pairs.
"""

import argparse
import contextlib
import datetime
import itertools
import json
import os
import platform
import queue
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeVar

import psutil

from benchmarks.bare_loop import BareLoop
from engine import (
    Abort,
    ChatMessage,
    Delta,
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    ModelDescription,
    ModelLoaded,
    ModelParams,
    PrefillProgress,
    ProcessClient,
    Rendered,
    RenderPrompt,
    Role,
    SamplingParams,
)
from engine.backend_llama.library import library
from models import find_starter

_PROMPT_TOKENS = 1228
_REPLY_TOKENS = 128
_N_CTX = 4096
_MIB = 1024 * 1024
_Event = TypeVar("_Event")
_FILLER = "The quick brown fox jumps over the lazy dog while seven small boats drift slowly past the old harbour wall. "


class Client:
    """A client of the engine that reads the clock at every event."""

    def __init__(self, path: Path, n_threads: int) -> None:
        self._events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
        self._ids = itertools.count()
        self._client = ProcessClient()
        self._client.start(lambda event: self._events.put((time.perf_counter(), event)))
        self._load = (str(path), ModelParams(n_ctx=_N_CTX, n_threads=n_threads))
        self.description: ModelDescription
        self.reload()

    def reload(self) -> None:
        """Load the model again: nothing is cached afterwards."""
        path, params = self._load
        self._client.send(LoadModel(request_id=self._new_id(), path=path, params=params))
        self.description = self._until(ModelLoaded)[1].description

    def render(self, messages: tuple[ChatMessage, ...]) -> str:
        """Return the prompt text of a chat."""
        self._client.send(RenderPrompt(request_id=self._new_id(), messages=messages))
        return self._until(Rendered)[1].text

    def run(self, messages: tuple[ChatMessage, ...], num_tokens: int) -> tuple[float, float, Finished]:
        """Ask and return seconds to the first text, tokens/s after it, and the reply."""
        sampling = SamplingParams(temperature=0, max_tokens=num_tokens)
        began = time.perf_counter()
        self._client.send(Generate(request_id=self._new_id(), messages=messages, sampling=sampling))
        first, delta = self._until(Delta)
        already = delta.num_generated_tokens
        last, finished = self._until(Finished)
        return first - began, (finished.metrics.num_generated_tokens - already) / (last - first), finished

    def stop_in_prefill(self, messages: tuple[ChatMessage, ...], after_s: float) -> float:
        """Ask, stop while the prompt is read, and return seconds from Abort to its answer."""
        request_id = self._new_id()
        self._client.send(Generate(request_id=request_id, messages=messages))
        self._until(PrefillProgress)
        deadline = time.perf_counter() + after_s
        while time.perf_counter() < deadline:  # the clock of a sleep is too coarse, and the worker has its own core
            time.sleep(0.005)
        began = time.perf_counter()
        self._client.send(Abort(request_id=request_id))
        return self._until(Finished)[0] - began

    def join_running_reply(
        self, running: tuple[ChatMessage, ...], newcomer: tuple[ChatMessage, ...]
    ) -> tuple[list[float], float]:
        """Ask, and while the reply runs ask again; return the gaps of the running reply until the newcomer's first
        text, and the seconds to that text."""
        first_id, second_id = self._new_id(), self._new_id()
        self._client.send(Generate(request_id=first_id, messages=running, sampling=SamplingParams(temperature=0)))
        for _ in range(4):
            previous, _delta = self._until(Delta)
        began = time.perf_counter()
        sampling = SamplingParams(temperature=0, max_tokens=2)
        self._client.send(Generate(request_id=second_id, messages=newcomer, sampling=sampling))
        gaps = []
        while True:
            at, delta = self._until(Delta)
            if delta.request_id == second_id:
                break
            gaps.append(at - previous)
            previous = at
        self._client.send(Abort(request_id=first_id))
        for _ in range(2):
            self._until(Finished)
        return gaps, at - began

    def close(self) -> None:
        """End the engine."""
        self._client.close()

    def _new_id(self) -> str:
        return f"r{next(self._ids)}"

    def _until(self, event_type: type[_Event]) -> tuple[float, _Event]:
        while True:
            at, event = self._events.get(timeout=120)
            if isinstance(event, Failed):
                raise RuntimeError(event.error.message)
            if isinstance(event, event_type):
                return at, event


def _chat(number: int, bare: BareLoop, client: Client) -> tuple[tuple[ChatMessage, ...], list[int]]:
    """Return a chat of about _PROMPT_TOKENS tokens that shares no beginning with another number's, and its tokens."""
    system = ChatMessage(Role.SYSTEM, f"{number} is the number of this chat.")
    text = _FILLER * 60
    while True:
        messages = (system, ChatMessage(Role.USER, text))
        tokens = bare.tokenize(client.render(messages))
        if len(tokens) <= _PROMPT_TOKENS:
            return messages, tokens
        text = text[: -4 * max(1, (len(tokens) - _PROMPT_TOKENS) // 2)]


def _window_start_s(repeats: int) -> list[float]:
    """Return seconds from process start until the window has painted and its event loop is idle."""
    command = [sys.executable, "-m", "benchmarks.window_start"]
    environment = {**os.environ, "QT_QPA_PLATFORM": os.environ.get("QT_QPA_PLATFORM", "offscreen")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode
    runs = []
    for _ in range(repeats + 1):
        arguments = [*command, str(time.time())]
        output = subprocess.run(arguments, check=True, capture_output=True, text=True, env=environment).stdout
        runs.append(float(output.split()[-1]))
    return runs[1:]  # the first one writes the bytecode


class Measures:
    """All figures of the run, a list of one value a repeat for each name."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def note(self, **values: float) -> None:
        """Add one value to each list."""
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def row(self, label: str, name: str, unit: str, digits: int, target: str = "") -> tuple[str, str, str]:
        """Return a line of the table."""
        values = self.values[name]
        low, middle, high = min(values), statistics.median(values), max(values)
        text = f"{middle:.{digits}f} {unit}".rstrip() + f" ({low:.{digits}f} to {high:.{digits}f})"
        return label, text, target


def _repeat(number: int, bare: BareLoop, client: Client, measures: Measures) -> None:
    """Measure everything once. What is compared with the bare loop stands between two runs of it."""
    short = (ChatMessage(Role.USER, "Tell me a long story about a lighthouse."),)
    client.reload()
    short_tokens = bare.tokenize(client.render(short))
    before = bare.run(short_tokens, _REPLY_TOKENS).decode_rate
    _, rate, _ = client.run(short, _REPLY_TOKENS)
    after = bare.run(short_tokens, _REPLY_TOKENS).decode_rate
    measures.note(decode=rate, bare_decode=(before + after) / 2, decode_ratio=rate / ((before + after) / 2))

    messages, tokens = _chat(number, bare, client)
    client.reload()
    before = bare.run(tokens, 1).prefill_s
    cold, _, reply = client.run(messages, 8)
    after = bare.run(tokens, 1).prefill_s
    assert reply.metrics.num_prompt_tokens == len(tokens), "both read the same prompt"
    measures.note(ttft=cold, bare_prefill=(before + after) / 2, ttft_ratio=cold / ((before + after) / 2))
    expected = client.description.weight_bytes + client.description.kv_bytes_per_token * client.description.n_ctx
    measures.note(memory=((reply.metrics.peak_memory_bytes or 0) - expected) / _MIB)

    follow = (*messages, ChatMessage(Role.ASSISTANT, reply.text), ChatMessage(Role.USER, "Go on."))
    warm, _, second = client.run(follow, 8)
    measures.note(follow_ttft=warm, evaluated=second.metrics.num_prompt_tokens - second.metrics.num_cached_tokens)
    measures.note(stop=1000 * client.stop_in_prefill(_chat(1000 + number, bare, client)[0], 0.1 + 0.05 * number))

    client.reload()
    gaps, joined = client.join_running_reply(short, messages)
    measures.note(gap=1000 * max(gaps), joined_ratio=joined / cold)
    client.run(_chat(2000 + number, bare, client)[0], 2)
    client.run(_chat(3000 + number, bare, client)[0], 2)
    _, crowded, _ = client.run(short, _REPLY_TOKENS)
    measures.note(crowded_ratio=crowded / bare.run(short_tokens, _REPLY_TOKENS).decode_rate)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; default: the starter model")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    arguments = parser.parse_args()
    path = arguments.model or find_starter()
    if path is None:
        sys.exit("The starter model is not installed: run `make run` once.")

    bare = BareLoop(library(), str(path), n_ctx=_N_CTX, n_threads=arguments.threads)
    client = Client(path, arguments.threads)
    measures = Measures()
    bare.run(bare.tokenize("Warm up."), 16)
    for number in range(arguments.repeats):
        _repeat(number, bare, client, measures)
    client.close()
    bare.close()
    for seconds in _window_start_s(max(3, arguments.repeats // 2)):
        measures.note(window=seconds)
    row = measures.row
    rows = [
        row("decode, through worker and client", "decode", "tok/s", 1),
        row("decode, bare loop", "bare_decode", "tok/s", 1),
        row("decode, ratio to the bare loop", "decode_ratio", "", 3, ">= 0.97"),
        row("the same with three long chats cached beside it", "crowded_ratio", "", 3),
        row(f"cold TTFT, {_PROMPT_TOKENS:,} tokens", "ttft", "s", 3),
        row("prefill of the same tokens, bare loop", "bare_prefill", "s", 3),
        row("cold TTFT, ratio to the bare prefill", "ttft_ratio", "", 3, "<= 1.05"),
        row("follow-up TTFT", "follow_ttft", "s", 3),
        row("follow-up, tokens evaluated", "evaluated", "", 0, "only the new ones"),
        row("stop during prefill, answered in", "stop", "ms", 0, "<= 150 ms"),
        row("longest gap of a running reply while such a prompt is read", "gap", "ms", 0, "<= 150 ms"),
        row("that prompt's TTFT, ratio to alone", "joined_ratio", "", 2, "<= 1.6"),
        row("worker memory beyond weights and KV cache", "memory", "MiB", 0, "<= 95 MiB (100 MB)"),
        row("window usable after process start", "window", "s", 2, "<= 0.7 s"),
    ]
    machine = (
        f"{_processor()}, {psutil.cpu_count()} processors, {arguments.threads} threads, {platform.system()}; "
        f"{path.stem}; {datetime.date.today().isoformat()}; load average {os.getloadavg()[0]:.1f}"
    )
    if arguments.json:
        print(json.dumps({"machine": machine, "rows": rows}))
        return
    print(machine + "\n\n| measure | median (minimum to maximum) | target |\n|---|---|---|")
    for line in rows:
        print("| " + " | ".join(line) + " |")


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
