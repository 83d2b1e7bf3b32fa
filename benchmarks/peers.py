"""Fireside's engine beside llama-cpp-python's `Llama` and llama.cpp's own server: `python -m benchmarks.peers`.

The same chats go to each in turn, never to two at once, and each is timed on the caller's clock. All have the same
file, context and greedy sampling. The peers and the bare loop have the threads that are given; ours chooses, as it does
for everybody who sets none. What cannot be made the same is told under the table.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.bare_loop import BareLoop
from benchmarks.engine import _processor
from benchmarks.model_files import write_level
from benchmarks.peer_cache import BARE, CacheRun, CacheSizes, cache_scenarios
from benchmarks.peer_chats import SUBJECTS, document, go_on, story_chat
from benchmarks.peer_engines import N_CTX, N_SLOTS, Binding, Chat, Fireside, LastingPeer, Peer, Reply
from benchmarks.peer_http import Server, has_server
from benchmarks.peer_table import Figures, Scenario, differences, table
from engine.backend_llama.library import library
from models import find_starter

_PAUSE_S = 0.2  # until what an engine does after a reply is done: no two compute at once


class Sizes(NamedTuple):
    """How much a run measures; counts are of tokens."""

    repeats: int
    document: int
    cache: CacheSizes
    depths: tuple[int, ...]
    story: int
    answer: int
    together: int


_FULL = Sizes(
    repeats=5,
    document=1228,
    cache=CacheSizes(1228, (1024, 2048, 4096, 7936)),
    depths=(512, 2048, 4032),
    story=128,
    answer=160,
    together=128,
)
_QUICK = Sizes(
    repeats=1, document=256, cache=CacheSizes(256, (256, 512)), depths=(128,), story=12, answer=12, together=6
)


def scenarios(sizes: Sizes) -> list[Scenario]:
    """Return the lines of the table."""
    return [
        Scenario("story_ttft", "first text, short prompt", "s", 3),
        Scenario("story", "decode, a story from a short prompt", "tok/s", 1),
        Scenario("cold", f"first text, question on {sizes.document:,} tokens, nothing cached", "s", 3),
        Scenario("follow", "first text, follow-up", "s", 3),
        Scenario("other", "first text, another chat", "s", 3),
        Scenario("back", "first text, back to the first chat", "s", 3),
        Scenario("switch", f"first text, back after {sizes.document:,} tokens of another, {N_SLOTS} slots", "s", 3),
        *(Scenario(f"decode_{depth}", f"decode behind {depth:,} tokens", "tok/s", 1) for depth in sizes.depths),
        Scenario("stop", "stop while a prompt is read", "ms", 0),
        Scenario("busy_story", "story beside a program that spins", "tok/s", 1),
        Scenario("busy_cold", "first text of the cold question beside it", "s", 3),
        *(
            Scenario(f"{number}_{quant}", f"{label}, {quant.upper()}, in total", "tok/s", 1)
            for quant in ("q4_1", "f16")
            for number, label in (("one", "one reply"), ("eight", f"{N_SLOTS} replies at once"))
        ),
        *cache_scenarios(sizes.cache),
    ]


class Run:
    """All engines on one file, and what was measured with them.

    Args:
        own, peers: ours comes first.
        plain: ours without read-ahead.
    """

    def __init__(
        self,
        own: Fireside,
        peers: Sequence[Peer],
        bare: BareLoop,
        figures: Figures,
        *,
        plain: Fireside | None,
        sizes: Sizes,
    ) -> None:
        self._own = own
        self._engines: list[Peer] = [own, *peers]
        self._bare = bare
        self._plain = plain
        self._sizes = sizes
        self.figures = figures
        self.prompts: dict[str, dict[str, int]] = {}
        self.lengths: dict[str, dict[str, int]] = {}
        self.num_unfinished = 0

    def repeat(self, number: int, *, only_busy: bool = False) -> None:
        """Measure every chat scenario once with each engine, another one first each time."""
        turn = number % len(self._engines)
        self._order = self._engines[turn:] + self._engines[:turn]
        if not only_busy:
            self._repeat_quiet(number)
        self._reset()
        with _spinning_neighbour():
            self._story("busy_story", number + 500)
            self._cold("busy_cold", self._document(30_000 + number, self._sizes.document, "What is this about?"))

    def _repeat_quiet(self, number: int) -> None:
        self._reset()
        self._story("story", number)
        self._reset()
        self._chats(number)
        for depth in self._sizes.depths:
            self._reset()
            request = "Go on with this story, and make it long."
            chat = self._document(10_000 + depth + number, depth, request)
            for engine in self._order:
                self._decode(f"decode_{depth}", engine, chat)
            self._bare_decode(f"decode_{depth}", chat)
        self._reset()
        chat = self._document(20_000 + number, self._sizes.document, "What is this about?")
        for engine in self._order:
            self.figures.note("stop", engine.name, 1000 * engine.stop_in_prefill(chat, 0.15 + 0.07 * number))
            time.sleep(_PAUSE_S)

    def together(self, quant: str, number: int) -> None:
        """Measure one reply and eight at once."""
        turn = number % len(self._engines)
        tokens = self._sizes.together
        for name, count in (("one", 1), ("eight", N_SLOTS)):
            chats = [story_chat(number, subject) for subject in SUBJECTS[:count]]
            for engine in self._engines[turn:] + self._engines[:turn]:
                engine.reset()
                engine.ask((("user", "Hi"),), 2)
                time.sleep(_PAUSE_S)
                result = engine.ask_together(chats, tokens)
                self.figures.note(f"{name}_{quant}", engine.name, result.num_tokens / result.wall_s)
                time.sleep(_PAUSE_S)
        one = self._tokens(story_chat(number, SUBJECTS[0]))
        run = self._bare.run(one, tokens)
        self.figures.note(f"one_{quant}", BARE, tokens / (run.prefill_s + sum(run.gaps_s)))

    def _story(self, name: str, number: int) -> None:
        chat = story_chat(number, SUBJECTS[number % len(SUBJECTS)])
        for engine in self._order:
            reply = self._decode(name, engine, chat)
            if name == "story":
                self.figures.note("story_ttft", engine.name, reply.ttft_s)
        self._bare_decode(name, chat)

    def _chats(self, number: int) -> None:
        first = self._document(number, self._sizes.document, "Answer in one short sentence: who left the harbour?")
        other: Chat = (("user", f"{number} is my lucky number. Name a colour."),)
        answers = self._cold("cold", first)
        engines = [*self._order] if self._plain is None else [*self._order, self._plain]
        chats: dict[str, Chat] = {}
        for engine in engines:
            said = answers.get(engine.name) or self._ask("", engine, first, self._sizes.answer)
            self.num_unfinished += not said.is_whole
            chats[engine.name] = go_on(first, said.text, "And where to?")
        for engine in engines:
            reply = self._ask("follow", engine, chats[engine.name], 8)
            chats[engine.name] = go_on(chats[engine.name], reply.text, "Thank you. Name a ship.")
        for engine in self._order:
            self._ask("other", engine, other, 8)
        for engine in self._order:
            reply = self._ask("back", engine, chats[engine.name], 8)
            chats[engine.name] = go_on(chats[engine.name], reply.text, "Name another one.")
        long = self._document(40_000 + number, self._sizes.document, "What is this about?")
        for engine in self._order:
            self._ask("", engine, long, 8)
        for engine in self._order:
            self._ask("switch", engine, chats[engine.name], 8)

    def _cold(self, name: str, chat: Chat) -> dict[str, Reply]:
        length = self._sizes.answer if name == "cold" else 4
        replies = {engine.name: self._ask(name, engine, chat, length) for engine in self._order}
        tokens = self._tokens(chat)
        self.figures.note(name, BARE, self._bare.run(tokens, 1).prefill_s)
        told = {engine: reply.num_prompt_tokens for engine, reply in replies.items()}
        self.prompts[name] = {BARE: len(tokens)} | {engine: n for engine, n in told.items() if n is not None}
        return replies

    def _ask(self, name: str, engine: Peer, chat: Chat, num_tokens: int) -> Reply:
        reply = engine.ask(chat, num_tokens)
        if name:
            self.figures.note(name, engine.name, reply.ttft_s)
        time.sleep(_PAUSE_S)
        return reply

    def _decode(self, name: str, engine: Peer, chat: Chat) -> Reply:
        reply = engine.ask(chat, self._sizes.story)
        self.figures.note(name, engine.name, reply.decode_rate)
        self.lengths.setdefault(name, {})[engine.name] = reply.num_tokens
        time.sleep(_PAUSE_S)
        return reply

    def _bare_decode(self, name: str, chat: Chat) -> None:
        run = self._bare.run(self._tokens(chat), self._sizes.story)
        self.figures.note(name, BARE, run.decode_rate)

    def _reset(self) -> None:
        for engine in self._engines if self._plain is None else [*self._engines, self._plain]:
            engine.reset()
            engine.ask((("user", "Hi"),), 2)  # what is made on first use is made
        time.sleep(_PAUSE_S)

    def _tokens(self, chat: Chat) -> list[int]:
        return self._bare.tokenize(self._own.render(chat))

    def _document(self, number: int, num_tokens: int, question: str) -> Chat:
        return document(number, num_tokens, question, lambda chat: len(self._tokens(chat)))


@contextlib.contextmanager
def _spinning_neighbour() -> Iterator[None]:
    """Keep one core busy from another process."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(_PAUSE_S)
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _run(path: Path, n_threads: int, sizes: Sizes, figures: Figures, *, only_together: bool = False) -> Iterator[Run]:
    """Load a file into every engine."""
    with contextlib.ExitStack() as stack:

        def ended(engine):
            stack.callback(engine.close)
            return engine

        own = ended(Fireside(path))
        plain = None if only_together else ended(Fireside(path, reads_ahead=False))
        peers: list[Peer] = [ended(Binding(path, n_threads))]
        if has_server():
            peers.append(ended(Server(path, n_threads)))
        bare = ended(BareLoop(library(), str(path), n_ctx=N_CTX, n_threads=n_threads))
        bare.run(bare.tokenize("Warm up."), 8)
        yield Run(own, peers, bare, figures, plain=plain, sizes=sizes)


def _cache(path: Path, n_threads: int, sizes: Sizes, figures: Figures) -> list[str]:
    """Measure what the caches do with one slot; return what is to be told of it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        own = Fireside(path, n_slots=1, folder=Path(folder))
        stack.callback(own.close)
        peers: list[LastingPeer] = [Binding(path, n_threads)]
        stack.callback(peers[0].close)
        if has_server():
            peers.append(Server(path, n_threads, n_slots=1))
            stack.callback(peers[-1].close)
        bare = BareLoop(library(), str(path), n_ctx=N_CTX, n_threads=n_threads)
        stack.callback(bare.close)
        run = CacheRun(own, peers, bare, figures, sizes=sizes.cache, folder=Path(folder))
        for number in range(sizes.repeats):
            _say(f"cache, repeat {number + 1} of {sizes.repeats}")
            run.repeat(number)
        return run.notes()


def _notes(run: Run, num_chats: int) -> list[str]:
    notes = [
        "Times are from the call to the first text. llama-cpp-python is called in this process; the others are reached "
        "over a pipe and over HTTP. The bare loop is given tokens, and its time to the first token is its prefill.",
        f"Fireside and the server have {N_SLOTS} slots over one cache of {N_CTX:,} tokens; llama-cpp-python has one "
        "sequence: it keeps one chat and gives replies one after the other.",
        "llama-cpp-python runs with n_batch=2048 and flash attention, the server with its own settings but for these.",
        "A stop is over when the engine computes no longer: Fireside answers it, llama-cpp-python returns from the "
        "prompt, the server reports idle slots.",
        "The bare loop has no eight at once. F16 is written from the Q4_1 file: same speed as any F16, other values.",
        *differences(run.prompts),
        *differences(run.lengths),
    ]
    if run.num_unfinished:
        notes.append(
            f"{run.num_unfinished} of {num_chats} first answers were cut off: nothing was read ahead behind those."
        )
    if not has_server():
        notes.append(
            "The package xllamacpp is not installed, so llama.cpp's server is missing: pip install '.[bench]'."
        )
    return notes


def _together_f16(path: Path, n_threads: int, sizes: Sizes, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        f16 = Path(folder) / "f16.gguf"
        write_level(path, f16)
        with _run(f16, n_threads, sizes, figures, only_together=True) as run:
            for number in range(sizes.repeats):
                _say(f"F16, repeat {number + 1} of {sizes.repeats}")
                run.together("f16", number)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; default: the starter model")
    parser.add_argument("--repeats", type=int, default=None)
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    parser.add_argument("--busy", action="store_true", help="only what is measured beside a program that spins")
    parser.add_argument("--cache", action="store_true", help="only what caches do with one slot")
    parser.add_argument("--quick", action="store_true", help="one short repeat, to see that everything runs")
    parser.add_argument("--json", type=Path, default=Path("build/peers.json"), help="where all values are written")
    arguments = parser.parse_args()
    path = arguments.model or find_starter()
    if path is None:
        sys.exit("The starter model is not installed: run `make run` once.")
    sizes = _QUICK if arguments.quick else _FULL
    sizes = sizes._replace(repeats=arguments.repeats or sizes.repeats)
    machine = (
        f"{_processor()}, {psutil.cpu_count()} processors, {arguments.threads} threads, {platform.system()}; "
        f"{path.stem}; {datetime.date.today().isoformat()}; load average {os.getloadavg()[0]:.1f}"
    )
    figures, notes = Figures(), list[str]()
    peers, beside = [Binding.name, *([Server.name] if has_server() else [])], ["Fireside without read-ahead", BARE]
    if not arguments.cache:
        with _run(path, arguments.threads, sizes, figures) as run:
            for number in range(sizes.repeats):
                _say(f"repeat {number + 1} of {sizes.repeats}")
                run.repeat(number, only_busy=arguments.busy)
                if not arguments.busy:
                    run.together("q4_1", number)
        notes += _notes(run, sizes.repeats * (len(peers) + 2))
    if not arguments.busy:
        if not arguments.cache:
            _together_f16(path, arguments.threads, sizes, figures)
        notes += _cache(path, arguments.threads, sizes, figures)
    lines = table(figures, scenarios(sizes), ours="Fireside", peers=peers, beside=beside)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine, "sizes": sizes._asdict(), "values": figures.values, "notes": notes}
    arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join([machine, "", *lines, "", *(f"- {note}" for note in notes)]))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
