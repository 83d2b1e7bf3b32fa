"""Fireside's engine, and llama.cpp's server, as drafting is measured with them: whole replies on the caller's clock.

Each reply reads its prompt anew, so that the time until its first text is part of what is compared.
"""

import itertools
import queue
import time
from pathlib import Path
from typing import Any

from benchmarks.peer_http import Server
from benchmarks.speculation_cells import BOTH, NGRAM, OFF, Drafted, Prompt, Whole
from engine import (
    CacheParams,
    ChatMessage,
    Delta,
    DraftMode,
    DraftSet,
    EngineClient,
    EngineError,
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    ModelLoaded,
    ModelParams,
    Role,
    SamplingParams,
    SetDraft,
    SpeculativeParams,
    error_from_info,
)

N_CTX = 1024
_LIMIT_S = 600.0
_MODES = {OFF: DraftMode.OFF, NGRAM: DraftMode.NGRAM, BOTH: DraftMode.BOTH}


class DraftingEngine:
    """Ours, with one target.

    Args:
        client: not started; closed with this object.
        draft: the draft model's file.

    Attributes:
        refusal: why the draft model cannot be used; empty where it can or there is none.
    """

    def __init__(self, client: EngineClient, target: Path | str, draft: Path | str | None) -> None:
        self._client = client
        self._events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
        self._ids = itertools.count()
        client.start(lambda event: self._events.put((time.perf_counter(), event)))
        params, cache = ModelParams(n_ctx=N_CTX, n_seq_max=1, n_gpu_layers=0), CacheParams(ram_mib=0, reuse=False)
        client.send(LoadModel(request_id=self._new_id(), path=str(target), params=params, cache=cache))
        self._until(ModelLoaded)
        self.refusal = "" if draft is None else self._set_draft(draft)

    def ask(self, prompt: Prompt, temperature: float, mode: str, seed: int) -> Whole:
        """Return a whole reply.

        Args:
            mode: off, ngram or both.
        """
        messages = tuple(ChatMessage(Role(role), text) for role, text in prompt.messages)
        began = time.perf_counter()
        self._client.send(
            Generate(
                request_id=self._new_id(),
                messages=messages,
                sampling=SamplingParams(temperature=temperature, seed=seed, max_tokens=prompt.tokens),
                speculative=SpeculativeParams(mode=_MODES[mode]),
                read_ahead=False,
            )
        )
        first, event = self._until(Delta | Finished)
        last = first
        while not isinstance(event, Finished):
            last, event = self._until(Delta | Finished)
        stats = event.speculative
        return Whole(
            ttft_s=first - began,
            wall_s=last - began,
            num_tokens=event.metrics.num_generated_tokens,
            token_ids=event.token_ids,
            drafted=()
            if stats is None
            else tuple(
                Drafted(item.drafter, item.num_drafts, item.num_drafted_tokens, item.num_accepted_tokens)
                for item in stats.drafters
            ),
            net_speedup=None if stats is None else stats.net_speedup,
            state="" if stats is None else stats.state.value,
        )

    def close(self) -> None:
        """End the engine."""
        self._client.close()

    def _set_draft(self, path: Path | str) -> str:
        self._client.send(SetDraft(request_id=self._new_id(), path=str(path)))
        try:
            self._until(DraftSet)
        except EngineError as error:
            return error.message
        return ""

    def _new_id(self) -> str:
        return f"r{next(self._ids)}"

    def _until(self, event_type: Any) -> tuple[float, Any]:
        while True:
            at, event = self._events.get(timeout=_LIMIT_S)
            if isinstance(event, Failed):
                raise error_from_info(event.error)
            if isinstance(event, event_type):
                return at, event


class DraftingServer:
    """llama.cpp's server with one target and one way of drafting.

    Args:
        options: of `benchmarks.peer_server`; none drafts nothing.
    """

    def __init__(self, target: Path, n_threads: int, options: tuple[str, ...]) -> None:
        self._server = Server(target, n_threads, n_slots=1, options=options)

    def ask(self, prompt: Prompt, temperature: float, mode: str, seed: int) -> Whole:
        """Return a whole reply; the mode is that of the server."""
        options = {"temperature": temperature, "seed": seed, "cache_prompt": False}
        reply = self._server.ask(prompt.messages, prompt.tokens, **options)
        drafted, accepted = reply.num_drafted or 0, reply.num_accepted or 0
        assert reply.wall_s is not None
        # It does not tell how many drafts there were, so no length comes of it.
        return Whole(
            ttft_s=reply.ttft_s,
            wall_s=reply.wall_s,
            num_tokens=reply.num_tokens,
            drafted=(Drafted(mode, 0, drafted, accepted),) if drafted else (),
        )

    def close(self) -> None:
        """End the server."""
        self._server.close()
