"""Runs an engine on a real model step by step, and compares each token's logits with those of a cold context.

What a cold context would hold is the prompt's tokens and the reply's own ones, never their text.
"""

import concurrent.futures
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.backend import Backend, BatchPart, DecodeStatus, Proposal, Vocabulary
from engine.backend_llama import LlamaLoader
from engine.core import Engine
from engine.errors import EngineError
from engine.messages import Event, Failed, Finished, MemoryKind, ModelDescription, RequestState, StateChanged
from engine.params import CacheParams, FlashAttention, ModelParams, SamplingParams
from engine.prompt_cache import NOTHING_KEPT, PromptCache
from engine.sequence import Prompt

EXACT: dict[str, Any] = {"n_threads": 1, "flash_attn": FlashAttention.OFF, "type_k": "f32", "type_v": "f32"}
"""Settings of a context whose logits do not depend on the shape of its steps, but for the last digits."""

_Logits = npt.NDArray[np.float32]


def load_llama(path: Path, params: ModelParams) -> Any:
    """Load a model as the worker does, one that is sound: it is not tried in a process of its own."""
    backend = LlamaLoader().load(str(path), params, lambda share: True, is_known=True)
    assert backend is not None
    return backend


class _Recorder:
    """Samples the likeliest token that does not end the reply, and keeps the logits it was chosen from.

    So replies are as long as a test asks for.
    """

    def __init__(self, backend: Any, seen: list[_Logits]) -> None:
        self._backend = backend
        self._end_ids = list(backend.vocabulary.end_ids)
        self._seen = seen

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        """See Sampler."""
        logits: _Logits = self._backend.logits(row).copy()
        self._seen.append(logits)
        allowed = logits.copy()
        allowed[self._end_ids] = -np.inf
        return int(allowed.argmax())

    @property
    def is_complete(self) -> bool:
        """See Sampler."""
        return False

    def end_thinking(self) -> None:
        """See Sampler."""

    def close(self) -> None:
        """See Sampler."""


class RecordingBackend:
    """A loaded backend whose samplers are greedy and remember; all else goes to the real one.

    Attributes:
        seen: logits each token was chosen from, by seed, which says whose sampler it was.
        num_micro_batches_most: into how many llama.cpp cut a step.
        is_break_due: whether to break the next step off, as an abort may: where sequences have states, only one of a
            single sequence, since llama.cpp notes at once where it moves the states of others and moves them later.
    """

    def __init__(self, backend: Any) -> None:
        self.real = backend
        self.seen: dict[int, list[_Logits]] = {}
        self.num_micro_batches_most = 0
        self.is_break_due = False
        self.num_broken = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def new_sampler(self, params: SamplingParams, seed: int, prompt: Sequence[int], **more: Any) -> _Recorder:
        """See Backend."""
        return _Recorder(self.real, self.seen.setdefault(seed, []))

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        """See Backend."""
        self.num_micro_batches_most = max(self.num_micro_batches_most, self._num_micro_batches(parts))
        may_break = self.real.survives_abort or len(parts) == 1
        if self.is_break_due and may_break and any(len(part.tokens) > 1 for part in parts):
            self.is_break_due = False
            self.num_broken += 1
            self.real.raise_abort()
        status: DecodeStatus = self.real.decode(parts)
        return status

    def _num_micro_batches(self, parts: Sequence[BatchPart]) -> int:
        """Return into how many llama.cpp cuts a step; with recurrent layers, each takes as much of every part."""
        description: ModelDescription = self.real.description
        lengths = {len(part.tokens) for part in parts}
        total = sum(len(part.tokens) for part in parts)
        pieces = len(lengths) if description.memory in (MemoryKind.RECURRENT, MemoryKind.HYBRID) else 1
        return max(pieces, math.ceil(total / description.n_ubatch))


class ColdContext:
    """Gives the logits that a context which holds nothing else computes."""

    def __init__(self, path: Path, params: ModelParams) -> None:
        self._backend = load_llama(path, params)
        self._held: list[int] = []
        self._known: dict[tuple[int, ...], _Logits] = {}

    def logits(self, tokens: Sequence[int]) -> _Logits:
        """Return the logits after `tokens`; goes on from the last call where these begin with all of those."""
        key = tuple(tokens)
        if key not in self._known:
            if list(key[: len(self._held)]) != self._held or len(key) <= len(self._held):
                self._backend.seq_rm(0, 0)
                self._held = []
            size = min(self._backend.description.n_batch, self._backend.description.n_ubatch)
            while len(self._held) < len(key):
                part = list(key[len(self._held) : len(self._held) + size])
                step = BatchPart(0, len(self._held), part, wants_logits=True)
                assert self._backend.decode([step]) is DecodeStatus.DONE
                self._held += part
            self._known[key] = self._backend.logits(0).copy()
        return self._known[key]

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        vocabulary: Vocabulary = self._backend.vocabulary
        return vocabulary

    def close(self) -> None:
        """Free the context."""
        self._backend.close()


class Reply(NamedTuple):
    """How a request ended."""

    prompt: list[int]
    finished: Finished

    @property
    def tokens(self) -> list[int]:
        """What was generated."""
        return list(self.finished.token_ids)

    @property
    def num_evaluated(self) -> int:
        """Prompt tokens that were not cached."""
        return self.finished.metrics.num_prompt_tokens - self.finished.metrics.num_cached_tokens


def _pays_always(num_bytes: int, num_tokens: int, *, is_in_file: bool = False) -> bool:
    return num_tokens > 0


class Bench:
    """An engine on one model, driven step by step.

    Args:
        wrap: puts something between the engine and the model's context.
        cold: what replies are compared with.
        tolerance: the largest difference of a logit that rounding makes.
        kept: what is kept beside the context.
    """

    def __init__(
        self,
        path: Path,
        params: ModelParams,
        *,
        cold: ColdContext,
        tolerance: float,
        wrap: Callable[[Any], RecordingBackend] = RecordingBackend,
        kept: CacheParams = NOTHING_KEPT,
    ) -> None:
        self._path, self._params, self._wrap, self._kept = path, params, wrap, kept
        self._start()
        self.events: list[Event] = []
        self._cold = cold
        self._tolerance = tolerance
        self.n_ctx = int(self.backend.description.n_ctx)
        self._prompts: list[list[int]] = []

    def _start(self) -> None:
        self.backend = self._wrap(load_llama(self._path, self._params))
        backend: Backend = self.backend
        self._prompt_cache = PromptCache(self._kept)
        self.engine = Engine(backend, prompt_cache=self._prompt_cache)
        if self._kept is not NOTHING_KEPT:  # of such small models, reading again may be faster
            self.engine.room.cost.pays = _pays_always

    def restart(self) -> None:
        """End the engine and start another; requests must have ended, and been checked."""
        self.close()
        self._start()

    @property
    def kept_files(self) -> list[str]:
        """Names of the files that are known."""
        folder = self._prompt_cache.folder
        return [] if folder is None else [entry.name for entry in folder.entries]

    def evict(self) -> None:
        """Have all idle slots make room."""
        while self.engine._cache.evict_idle():
            pass

    def open_chat(self, chat_id: str) -> None:
        """Open a chat, and let the time pass after which it is brought back where nothing else is to be done."""
        opened = self.engine.room.opened
        opened.open(chat_id)
        if opened._reading is not None:
            concurrent.futures.wait([opened._reading[1]], 10)
        opened._settled_at = 0.0

    def send(
        self,
        tokens: list[int],
        *,
        max_tokens: int | None = 8,
        num_system: int = 0,
        num_settled: int = 0,
        chat_id: str | None = None,
    ) -> int:
        """Add a request and return its number.

        Args:
            num_system, num_settled: tokens of the system prompt, and before the last user's message.
        """
        sampling = SamplingParams(temperature=0, max_tokens=max_tokens)
        return self.send_prompt(Prompt("", tokens, sampling, 0, 0.0, chat_id, num_system, num_settled))

    def send_prompt(self, prompt: Prompt) -> int:
        """Add a request, of which all but its name and seed is known, and return its number."""
        number = len(self._prompts)
        self._prompts.append(prompt.tokens)
        self.events += self.engine.add(prompt._replace(request_id=str(number), seed=number))
        return number

    def abort(self, number: int) -> None:
        """Ask for a request's end."""
        self.engine.request_abort(str(number))

    def step(self) -> None:
        """Let the engine make one step."""
        self.events += self.engine.step()

    def step_until_generated(self, number: int, count: int) -> None:
        """Let the engine make steps until a request has so many tokens."""
        while len(self.backend.seen.get(number, [])) < count:
            assert self.engine.has_work
            self.step()

    def run(self) -> None:
        """Let the engine go on until nothing is left to do."""
        while self.engine.has_work:
            self.step()

    def reply(self, tokens: list[int], **more: Any) -> Reply:
        """Ask for a reply, wait for it, and check it."""
        number = self.send(tokens, **more)
        self.run()
        return self.checked(number)

    def checked(self, number: int) -> Reply:
        """Return the reply of a request after comparing it with a cold context."""
        ends = [e for e in self.events if isinstance(e, Finished | Failed) and e.request_id == str(number)]
        assert len(ends) == 1, ends
        [finished] = ends
        assert isinstance(finished, Finished), finished
        reply = Reply(self._prompts[number], finished)
        seen = self.backend.seen.get(number, [])
        assert len(seen) == len(reply.tokens)
        for position, logits in enumerate(seen):
            expected = self._cold.logits(reply.prompt + reply.tokens[:position])
            difference = float(np.abs(logits - expected).max())
            assert difference <= self._tolerance, (
                f"request {number}: token {position} after {len(reply.prompt)} prompt tokens "
                f"({finished.metrics.num_cached_tokens} cached) is off by {difference:.2g}"
            )
        return reply

    def has_ended(self, number: int) -> bool:
        """Return whether a request has its final event."""
        return any(isinstance(e, Finished | Failed) and e.request_id == str(number) for e in self.events)

    def has_been(self, number: int, state: RequestState) -> bool:
        """Return whether a request has been in a state."""
        return any(
            isinstance(e, StateChanged) and e.request_id == str(number) and e.state is state for e in self.events
        )

    def close(self) -> None:
        """Free the model; a request that a failed test left open ends with it."""
        self.engine.fail_all(EngineError("The test is over.", "None."))
        self.engine.close()
        self._prompt_cache.close()
