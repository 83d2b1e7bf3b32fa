"""Chats on the tiny models, and a life of random operations on them; every reply is compared with a cold context."""

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from engine.params import CacheParams, ModelParams
from engine.prompt_cache import NOTHING_KEPT
from tests.support.cold_check import EXACT, Bench, ColdContext, RecordingBackend, Reply
from tests.support.tiny_models import TINY_MODELS, TOLERANCE

_WORDS = "the sea is wide and the sky over it has no end that a person on the shore could see or name".split()  # noqa: SIM905


def tiny_path(folder: Path, name: str) -> Path:
    """Return the path of a tiny model, which is made if it is not there yet."""
    path = folder / f"{name}.gguf"
    return path if path.exists() else TINY_MODELS[name].write(path)


class Texts:
    """Makes the tokens of chats in ChatML."""

    def __init__(self, tokenize: Callable[..., list[int]]) -> None:
        self._tokenize = tokenize

    def block(self, role: str, text: str) -> list[int]:
        """Return a whole message."""
        return self._tokenize(f"<|im_start|>{role}\n{text}<|im_end|>\n", parse_special=True)

    def words(self, role: str, count: int, seed: int = 0) -> list[int]:
        """Return a message of `count` words, others for each seed."""
        return self.block(role, " ".join(_WORDS[(seed + n * (seed + 1)) % len(_WORDS)] for n in range(count)))

    def ask(self) -> list[int]:
        """Return what asks for a reply."""
        return self._tokenize("<|im_start|>assistant\n", parse_special=True)

    def end(self) -> list[int]:
        """Return what ends a reply."""
        return self._tokenize("<|im_end|>\n", parse_special=True)


class Chat(NamedTuple):
    """A system prompt and turns; the reply of a turn is its own tokens."""

    system: list[int]
    turns: tuple[tuple[list[int], list[int]], ...]

    def answered(self, user: list[int], reply: Reply) -> "Chat":
        """Return the chat with one turn more."""
        return self._replace(turns=(*self.turns, (user, reply.tokens)))


class Matrix:
    """A tiny model, with a cold context of it, for making benches."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path = tiny_path(folder, name)
        self.memory = TINY_MODELS[name].memory
        self.tolerance = TOLERANCE.get(name, 1e-3)
        params: dict[str, Any] = {"n_ctx": 2048, "n_batch": 64, "n_ubatch": 64, "n_seq_max": 1}
        self.cold = ColdContext(self.path, ModelParams(**(params | EXACT)))
        self.texts = Texts(self.cold.vocabulary.tokenize)

    def close(self) -> None:
        """Free the cold context."""
        self.cold.close()

    def bench(
        self,
        *,
        wrap: Callable[[Any], RecordingBackend] = RecordingBackend,
        kept: CacheParams = NOTHING_KEPT,
        **params: Any,
    ) -> Bench:
        """Return an engine on this model, to be closed."""
        chosen = ModelParams(**({"n_ctx": 1024, "n_batch": 256, "n_ubatch": 64, "n_seq_max": 4} | EXACT | params))
        return Bench(self.path, chosen, cold=self.cold, tolerance=self.tolerance, wrap=wrap, kept=kept)

    def prompt(self, chat: Chat, user: list[int]) -> dict[str, Any]:
        """Return the arguments of a request: its tokens, and where checkpoints are wanted."""
        tokens = list(chat.system)
        for said, reply in chat.turns:
            tokens += said + self.texts.ask() + reply + self.texts.end()
        settled = len(tokens)
        tokens += user + self.texts.ask()
        return {"tokens": tokens, "num_system": len(chat.system), "num_settled": settled}


class _Life:
    """One chat of a random run, and the request that goes on in it."""

    def __init__(self, chat: Chat, name: str) -> None:
        self.chat = chat
        self.name = name
        self.user: list[int] = []
        self.number: int | None = None


def live_randomly(matrix: Matrix, *, seed: int, num_operations: int, folder: Path | None = None) -> None:
    """Send, repeat, edit, cut, stop and break off at random, in a small pool; check every reply.

    With a folder, chats also leave for memory and disk, are opened, and the engine is started again at times.
    """
    random_number = random.Random(seed)
    choose = random_number.choice
    params: dict[str, Any] = {
        "n_ctx": choose((256, 512, 1024)),
        "n_seq_max": choose((1, 2, 3, 4)),
        "n_ubatch": choose((16, 64)),
    }
    kept = NOTHING_KEPT
    more: tuple[str, ...] = ()
    if folder is not None:
        kept = CacheParams(ram_mib=choose((0, 1, 64)), disk_mib=64, folder=str(folder))
        more = ("evict", "evict", "restart", "open", "open", "open")
    with contextlib.closing(matrix.bench(kept=kept, **params)) as bench:
        texts = matrix.texts
        lives = [_Life(Chat(texts.words("system", 6, number % 2), ()), str(number)) for number in range(5)]
        for _ in range(num_operations):
            life = choose(lives)
            match choose(("send", "send", "again", "edit", "delete", "steps", "steps", "stop", "break", *more)):
                case "steps":
                    for _ in range(random_number.randint(1, 8)):
                        if bench.engine.has_work:
                            bench.step()
                    _collect(bench, lives)
                case "stop" if life.number is not None:
                    bench.abort(life.number)
                case "break":
                    bench.backend.is_break_due = True
                case "evict":
                    bench.evict()
                case "open":
                    bench.open_chat(life.name)
                case "restart":
                    bench.run()
                    _collect(bench, lives)
                    bench.restart()
                case operation if life.number is None:
                    user = texts.words("user", random_number.randint(1, 25), random_number.randrange(50))
                    _ask(matrix, bench, life, *_changed(life, operation, user, random_number))
        bench.run()
        _collect(bench, lives)


def _changed(life: _Life, operation: str, user: list[int], random_number: random.Random) -> tuple[Chat, list[int]]:
    """Return the chat before the message to send, and that message."""
    turns = life.chat.turns
    if not turns:
        return life.chat, user
    position = random_number.randrange(len(turns))
    match operation:
        case "again":
            return life.chat._replace(turns=turns[:-1]), turns[-1][0]
        case "edit":
            return life.chat._replace(turns=turns[:position]), user
        case "delete":
            return life.chat._replace(turns=(*turns[:position], *turns[position + 1 :])), user
    return life.chat, user


def _ask(matrix: Matrix, bench: Bench, life: _Life, chat: Chat, user: list[int]) -> None:
    prompt = matrix.prompt(chat, user)
    if len(prompt["tokens"]) > bench.n_ctx:
        chat = chat._replace(turns=())
        prompt = matrix.prompt(chat, user)
    life.chat, life.user = chat, user
    life.number = bench.send(**prompt, max_tokens=len(user) % 30 + 1, chat_id=life.name)


def _collect(bench: Bench, lives: list[_Life]) -> None:
    for life in lives:
        if life.number is not None and bench.has_ended(life.number):
            life.chat = life.chat.answered(life.user, bench.checked(life.number))
            life.number = None
