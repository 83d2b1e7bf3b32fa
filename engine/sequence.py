"""One request in the engine: its tokens, counts and times, and the arithmetic on them."""

import time
from typing import NamedTuple

from engine.backend import Sampler, Vocabulary
from engine.detokenizer import Detokenizer
from engine.kv_cache import Slot
from engine.messages import Delta, Finished, FinishReason, PrefillProgress, RequestState
from engine.metrics import CacheReport, CacheSource, RequestMetrics
from engine.params import SamplingParams
from engine.stopping import StopMatcher

# One Delta a request in this time: a message per token costs 4 % of decode on a small model, joined ones under 2 %.
_DELTA_INTERVAL_S = 0.033


class Prompt(NamedTuple):
    """A request that has been rendered and tokenised.

    Attributes:
        received_at: time.perf_counter() when Generate arrived.
        num_system_tokens: tokens at the beginning that belong to the system prompt.
    """

    request_id: str
    tokens: list[int]
    sampling: SamplingParams
    seed: int
    received_at: float
    chat_id: str | None = None
    num_system_tokens: int = 0


class Sequence:
    """The state of one request from admission to its last token.

    Attributes:
        prompt_tokens: what the prompt is in the cache's terms, set at admission.
        snapshot: state and tokens kept while the request is paused.
    """

    def __init__(self, prompt: Prompt, vocabulary: Vocabulary) -> None:
        self.prompt = prompt
        self.request_id = prompt.request_id
        self.state: RequestState | None = None  # None until it is let in or told to wait
        self.prompt_tokens = prompt.tokens
        self.slot: Slot | None = None
        self.sampler: Sampler | None = None
        self.generated: list[int] = []
        self.snapshot: tuple[bytes, list[int]] | None = None
        self.cache = CacheReport(num_cached_tokens=0, source=CacheSource.NONE, miss_cause=None)
        self._detokenizer = Detokenizer(vocabulary.pieces, vocabulary.control_ids)
        self._stop = StopMatcher(prompt.sampling.stop)
        self._shown: list[str] = []
        self._unsent = ""
        self._sent_at = 0.0
        self._prefill_began_at: float | None = None
        self._first_token_at: float | None = None
        self._last_token_at = 0.0

    @property
    def num_tokens(self) -> int:
        """Tokens this request has so far, cached or not."""
        return len(self.prompt_tokens) + len(self.generated)

    @property
    def stop_string(self) -> str | None:
        """The stop string that was met."""
        return self._stop.matched

    def unread_tokens(self) -> list[int]:
        """Return the tokens that are still to be evaluated before the next one can be sampled."""
        done = len(self.slot.tokens) if self.slot else 0
        num_prompt = len(self.prompt_tokens)
        if done >= num_prompt:
            return self.generated[done - num_prompt :]
        return self.prompt_tokens[done:] + self.generated

    @property
    def is_decoding(self) -> bool:
        """Whether just the last sampled token is to be evaluated."""
        return bool(self.generated) and self.slot is not None and len(self.slot.tokens) == self.num_tokens - 1

    def begin_prefill(self) -> None:
        """Note the start of the first prefill step."""
        if self._prefill_began_at is None:
            self._prefill_began_at = time.perf_counter()

    def accept(self, token: int, *, is_end: bool) -> None:
        """Take a sampled token: count it, and turn it into text unless it is an end token."""
        now = time.perf_counter()
        if self._first_token_at is None:
            self._first_token_at = self._last_token_at = now
        if is_end:  # not counted, so its time is not either
            return
        self._last_token_at = now
        self.generated.append(token)
        self._show(self._stop.push(self._detokenizer.push(token)))

    def next_delta(self) -> Delta | None:
        """Return the text that is due now, None when there is none or the last Delta was moments ago."""
        if not self._unsent or self._last_token_at - self._sent_at < _DELTA_INTERVAL_S:
            return None
        return self._delta()

    def last_delta(self) -> Delta | None:
        """Return the text that was not sent yet, whatever the time; None when there is none."""
        return self._delta() if self._unsent else None

    def finish(self, reason: FinishReason, peak_memory_bytes: int | None) -> list[Delta | Finished]:
        """Return the last Delta, if text is left, and Finished."""
        if self._stop.matched is None:
            self._show(self._stop.push(self._detokenizer.flush()))
        if self._stop.matched is None:
            self._show(self._stop.flush())
        finished = Finished(
            request_id=self.request_id,
            text="".join(self._shown),
            token_ids=tuple(self.generated),
            finish_reason=FinishReason.STOP if self._stop.matched is not None else reason,
            metrics=self.metrics(peak_memory_bytes),
            stop_string=self._stop.matched,
        )
        delta = self.last_delta()
        return [finished] if delta is None else [delta, finished]

    def progress(self) -> PrefillProgress:
        """Return how much of the prompt is in the cache."""
        return PrefillProgress(
            request_id=self.request_id,
            num_done_tokens=min(len(self.slot.tokens) if self.slot else 0, len(self.prompt_tokens)),
            num_total_tokens=len(self.prompt_tokens),
            num_cached_tokens=self.cache.num_cached_tokens,
        )

    def metrics(self, peak_memory_bytes: int | None) -> RequestMetrics:
        """Return the measures so far."""
        first, began = self._first_token_at, self._prefill_began_at
        return RequestMetrics(
            num_prompt_tokens=len(self.prompt_tokens),
            num_cached_tokens=self.cache.num_cached_tokens,
            num_generated_tokens=len(self.generated),
            ttft_s=None if first is None else first - self.prompt.received_at,
            prefill_s=None if first is None or began is None else first - began,
            decode_s=None if first is None else self._last_token_at - first,
            cache_source=self.cache.source,
            cache_miss_cause=self.cache.miss_cause,
            peak_memory_bytes=peak_memory_bytes,
            seed=self.prompt.seed,
        )

    def _show(self, text: str) -> None:
        if text:
            self._shown.append(text)
            self._unsent += text

    def _delta(self) -> Delta:
        self._sent_at = self._last_token_at
        text, self._unsent = self._unsent, ""
        return Delta(
            request_id=self.request_id,
            text=text,
            num_generated_tokens=len(self.generated),
            num_context_tokens=self.num_tokens,
            decode_s=self._last_token_at - (self._first_token_at or self._last_token_at),
        )
