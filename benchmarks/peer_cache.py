"""What engines with a single slot do with chats they have read before: edited, left for another one, after a restart,
long, and while they are written to disk."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from app.bench.cache_round import wait_until, wrote_after
from benchmarks.bare_loop import BareLoop
from benchmarks.peer_chats import document, document_text, go_on
from benchmarks.peer_engines import Chat, Fireside, LastingPeer, Reply
from benchmarks.peer_table import Figures, Scenario

BARE = "bare loop"
_PAUSE_S = 0.2  # until what an engine does after a reply is done: no two compute at once
_SHORT = 8
_BESIDE = 128  # tokens of a reply that runs while a chat is written
_WRITE_LIMIT_S = 60.0
_MB = 1e6


class CacheSizes(NamedTuple):
    """Tokens of the chats, and of the one that grows."""

    document: int
    growth: tuple[int, ...]


def cache_scenarios(sizes: CacheSizes) -> list[Scenario]:
    """Return the lines of the table."""
    return [
        Scenario("cache_cold", f"one slot: first text, {sizes.document:,} tokens never seen", "s", 3),
        Scenario("edit_ttft", "one slot: first text, last message edited", "s", 3),
        Scenario("edit_evaluated", "one slot: tokens evaluated for that", "tok", 0),
        Scenario("switch_ram_ttft", "one slot: first text, back from memory to a chat", "s", 3),
        Scenario("restart_ttft", "one slot: first text, that chat after a restart", "s", 3),
        Scenario("snapshot", "one slot: that chat on disk", "MB", 1),
        *(
            Scenario(f"growth_{depth}", f"one slot: first text, follow-up behind {depth:,} tokens", "s", 3)
            for depth in sizes.growth
        ),
        Scenario("write_gap", "one slot: longest gap of a reply while a chat is written", "ms", 0),
        Scenario("quiet_gap", "one slot: longest gap of such a reply else", "ms", 0),
        Scenario("quiet_step", "one slot: mean step of that reply", "ms", 1),
    ]


class CacheRun:
    """All engines with one slot, and what is measured with them.

    Args:
        own: ours, which keeps chats in memory and in `folder`.
    """

    def __init__(
        self,
        own: Fireside,
        peers: Sequence[LastingPeer],
        bare: BareLoop,
        figures: Figures,
        *,
        sizes: CacheSizes,
        folder: Path,
    ) -> None:
        self._own = own
        self._engines: list[LastingPeer] = [own, *peers]
        self._bare = bare
        self._figures = figures
        self._sizes = sizes
        self._folder = folder
        self.sources: dict[str, dict[str, int]] = {}

    def repeat(self, number: int) -> None:
        """Measure everything once with each engine, another one first each time."""
        turn = number % len(self._engines)
        order = self._engines[turn:] + self._engines[:turn]
        first = self._document(50_000 + number, "Answer in one short sentence: who left the harbour?")
        other = self._document(60_000 + number, "What is this about?")
        chats = {engine.name: self._edit(engine, first) for engine in order}
        for engine in order:
            chats[engine.name] = self._leave(engine, chats[engine.name], other)
        self._write(number, self._document(70_000 + number, "What is this about?"))
        for engine in order:
            self._come_back(engine, chats[engine.name])
        for engine in order:
            self._grow(engine, number)

    def notes(self) -> list[str]:
        """Return what is to be told beside the figures."""
        told = [
            "With one slot: Fireside keeps chats in memory and on disk as it does for everybody. The server keeps them "
            "in memory by itself; it is told to save its slot before the restart, and its time after that includes the "
            "restoring, as ours does. llama-cpp-python keeps nothing, so it reads again.",
            "What the bare loop shows there is the reading of those tokens alone that Fireside evaluated, behind the "
            "same history: what a growing chat costs by attention.",
        ]
        for name, counts in self.sources.items():
            found = ", ".join(f"{source} {count}" for source, count in counts.items())
            told.append(f"{name}: what Fireside reused came from {found}.")
        return told

    def _edit(self, engine: LastingPeer, first: Chat) -> Chat:
        """Ask a chat, its next message, and another one in its place; return the chat after that."""
        reply = self._ask(engine, first, "cache_cold")
        if engine is self._own:
            self._figures.note("cache_cold", BARE, self._bare.run(self._tokens(first), 1).prefill_s)
        self._ask(engine, go_on(first, reply.text, "And where to?"), "")
        edited = go_on(first, reply.text, "Say it again in five words.")
        reply = self._ask(engine, edited, "edit_ttft")
        self._figures.note("edit_evaluated", engine.name, reply.num_evaluated)
        self._note_bare("edit_ttft", engine, edited, reply)
        return go_on(edited, reply.text, "Thank you. Name a ship.")

    def _leave(self, engine: LastingPeer, chat: Chat, other: Chat) -> Chat:
        """Ask another chat, and go back; return the chat after that."""
        self._ask(engine, other, "")
        reply = self._ask(engine, chat, "switch_ram_ttft")
        self._note_bare("switch_ram_ttft", engine, chat, reply)
        return go_on(chat, reply.text, "Name another one.")

    def _come_back(self, engine: LastingPeer, chat: Chat) -> None:
        """Ask a chat so that it is the one in the slot, start the engine again, and go on."""
        reply = self._ask(engine, chat, "")
        chat = go_on(chat, reply.text, "And a third one.")
        opening_s = engine.restart(chat)
        self._ask(engine, chat, "restart_ttft", opening_s)
        size = engine.kept_bytes()
        self._figures.note("snapshot", engine.name, None if size is None else size / _MB)

    def _grow(self, engine: LastingPeer, number: int) -> None:
        """Ask the next message of one chat as it grows."""
        chat = self._document(80_000 + number, "Name a ship.", self._sizes.growth[0] - 64)
        for depth in self._sizes.growth:
            if depth != self._sizes.growth[0]:
                chat = self._longer(chat, depth - 64)
            reply = self._ask(engine, chat, "")
            chat = go_on(chat, reply.text, "And another one.")
            reply = self._ask(engine, chat, f"growth_{depth}")
            self._note_bare(f"growth_{depth}", engine, chat, reply)
            chat = go_on(chat, reply.text, "Good.")

    def _write(self, number: int, chat: Chat) -> None:
        """Have a reply of ours run while another chat is written, and a like one before it."""
        own, other = self._own, (("user", f"{number}: tell me a long story about a lighthouse."),)
        quiet = own.ask(other, _BESIDE)
        self._note_gap("quiet_gap", quiet)
        if quiet.decode_rate:
            self._figures.note("quiet_step", own.name, 1000 / quiet.decode_rate)
        wait_until(lambda: not any(self._folder.glob("*.part")), _WRITE_LIMIT_S)
        own.ask(chat, 2)
        if wait_until(lambda: any(self._folder.glob("*.part")), _WRITE_LIMIT_S):
            asked_at = time.time()
            reply = own.ask(go_on(other, quiet.text, "And then?"), _BESIDE)
            if wrote_after(self._folder, asked_at + reply.ttft_s):
                self._note_gap("write_gap", reply)
        wait_until(lambda: not any(self._folder.glob("*.part")), _WRITE_LIMIT_S)

    def _note_gap(self, name: str, reply: Reply) -> None:
        if reply.longest_gap_s is not None:
            self._figures.note(name, self._own.name, 1000 * reply.longest_gap_s)

    def _note_bare(self, name: str, engine: LastingPeer, chat: Chat, reply: Reply) -> None:
        """Measure the bare loop with those tokens that ours had to read, behind the others."""
        if engine is self._own and reply.num_evaluated:
            tokens = self._tokens(chat)
            self._figures.note(name, BARE, self._bare.read_behind(tokens, len(tokens) - reply.num_evaluated))

    def _ask(self, engine: LastingPeer, chat: Chat, name: str, already_s: float = 0.0) -> Reply:
        reply = engine.ask(chat, _SHORT)
        if name:
            self._figures.note(name, engine.name, already_s + reply.ttft_s)
            if reply.source is not None:
                counts = self.sources.setdefault(name, {})
                counts[reply.source] = counts.get(reply.source, 0) + 1
        time.sleep(_PAUSE_S)
        return reply

    def _longer(self, chat: Chat, num_tokens: int) -> Chat:
        """Return a chat whose last message is longer, so that all of it has at most so many tokens."""
        (role, text), missing = chat[-1], num_tokens - self._count(chat)
        lines = document_text(len(chat), max(1, missing // 16))

        def grown() -> Chat:
            return (*chat[:-1], (role, "".join(lines) + text))

        while lines and (excess := self._count(grown()) - num_tokens) > 0:
            del lines[-max(1, excess // 40) :]
        return grown()

    def _document(self, number: int, question: str, num_tokens: int = 0) -> Chat:
        return document(number, num_tokens or self._sizes.document, question, self._count)

    def _count(self, chat: Chat) -> int:
        return len(self._tokens(chat))

    def _tokens(self, chat: Chat) -> list[int]:
        return self._bare.tokenize(self._own.render(chat))
