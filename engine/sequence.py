"""One request in the engine: its tokens, counts and times, and the arithmetic on them."""

import time
from typing import NamedTuple

from engine.backend import AdapterKey, Proposal, Sampler, Vocabulary
from engine.grammar import Matcher
from engine.messages import Adapter, Delta, Finished, FinishReason, PrefillProgress, RequestState, TurnsDropped
from engine.metrics import CacheReport, CacheSource, RequestMetrics, SpeculativeStats
from engine.params import DraftMode, SamplingParams, SpeculativeParams
from engine.reasoning import ThinkingStart
from engine.reply_text import ReplyText
from engine.slot import Slot, Snapshot
from engine.speculative.drafting import Drafting

# One Delta a request in this time: a message per token costs 4 % of decode on a small model, joined ones under 2 %.
_DELTA_INTERVAL_S = 0.033


class Prompt(NamedTuple):
    """A request that has been rendered and tokenised.

    Attributes:
        received_at: time.perf_counter() when Generate arrived.
        num_system_tokens: tokens at the beginning that belong to the system prompt.
        num_settled_tokens: tokens before the last user's message.
        reply: the half answer that is to be continued.
        matcher: what the answer has to follow, None where it is free.
        adapters: in effect for this request.
        dropped: what was left out of the chat.
        thinking: how the reply marks thinking, None where it does not.
        next_turn_tokens: what the prompt of the next message has behind this reply; none where it is not to be read
            ahead.
        is_private: whether it may be written nowhere.
        message_ends: how many tokens the prompt has up to the end of each message; none where it is not known.
        speculative: whether tokens of the reply are drafted ahead.
        rewritten_from: tokens before what the template writes anew once another message follows; None where it does
            not.
    """

    request_id: str
    tokens: list[int]
    sampling: SamplingParams
    seed: int
    received_at: float
    chat_id: str | None = None
    num_system_tokens: int = 0
    num_settled_tokens: int = 0
    reply: str = ""
    matcher: Matcher | None = None
    adapters: tuple[Adapter, ...] = ()
    dropped: TurnsDropped | None = None
    thinking: ThinkingStart | None = None
    next_turn_tokens: tuple[int, ...] = ()
    is_private: bool = False
    message_ends: tuple[int, ...] = ()
    speculative: SpeculativeParams = SpeculativeParams()
    rewritten_from: int | None = None


class Sequence:
    """The state of one request from admission to its last token.

    Attributes:
        prompt_tokens: what the prompt is in the cache's terms, set at admission.
        num_threads: that computed the latest token.
        snapshot: what it held, kept while the request is paused.
        is_private: whether it may be written nowhere; so it is, too, when its chat was forgotten meanwhile.
        is_forgotten: whether nothing of it is to stay when it has ended.
        proposals: tokens drafted for the next step, to come behind the latest.
        drafting: what drafts for it and how that goes; None where it was not asked for.
    """

    def __init__(self, prompt: Prompt, vocabulary: Vocabulary, adapters: AdapterKey = ()) -> None:
        self.prompt = prompt
        self.request_id = prompt.request_id
        self.state: RequestState | None = None  # None until it is let in or told to wait
        self.prompt_tokens = prompt.tokens
        self.slot: Slot | None = None
        self.sampler: Sampler | None = None
        self.generated: list[int] = []
        self.adapters = adapters
        self.num_threads: int | None = None
        self.snapshot: Snapshot | None = None
        self.is_private = prompt.is_private
        self.is_forgotten = False
        self.proposals: list[Proposal] = []
        self.drafting: Drafting | None = None
        self._checkpoints_due: list[int] = []  # token counts, rising
        self.cache = CacheReport(num_cached_tokens=0, source=CacheSource.NONE, miss_cause=None)
        has_begun = bool(prompt.reply) or _ends_in_frame(prompt, vocabulary)
        self._text = ReplyText(vocabulary, prompt.sampling, prompt.thinking, has_begun=has_begun)
        self._sent_at = 0.0
        self._prefill_began_at: float | None = None
        self._first_token_at: float | None = None
        self._last_token_at = 0.0

    @property
    def is_reproducible(self) -> bool:
        """Whether it is computed alone, with one thread count."""
        return self.prompt.sampling.reproducible

    @property
    def is_strict(self) -> bool:
        """Whether drafting may not change the text of a greedy reply; where nothing can draft, nothing would."""
        may_draft = self.drafting is None or self.drafting.referee is not None  # it is not known before it begins
        return may_draft and self.prompt.speculative.strict and self.prompt.speculative.mode is not DraftMode.OFF

    @property
    def runs_alone(self) -> bool:
        """Whether no other request may share its steps: their number of tokens changes what rounding does."""
        return self.is_reproducible or self.is_strict

    @property
    def num_tokens(self) -> int:
        """Tokens this request has so far, cached or not."""
        return len(self.prompt_tokens) + len(self.generated)

    @property
    def stop_string(self) -> str | None:
        """The stop string that was met."""
        return self._text.stop_string

    def unread_tokens(self) -> list[int]:
        """Return the tokens that are still to be evaluated before the next one can be sampled."""
        done = len(self.slot.tokens) if self.slot else 0
        num_prompt = len(self.prompt_tokens)
        if done >= num_prompt:
            return self.generated[done - num_prompt :]
        return self.prompt_tokens[done:] + self.generated

    def tokens_ahead(self) -> list[int]:
        """Return what the next message's prompt has beyond the cache, now that the reply has ended.

        A reply that was cut off counts like a whole one: a chat goes on behind it just as often. Nothing is known where
        a stop string took text away, where templates leave thinking out, or where the reply was being read again.
        """
        unread = self.unread_tokens()
        is_known = bool(self.generated) and len(unread) <= 1 and self.stop_string is None
        if not is_known or self._text.num_thinking_tokens or not self.prompt.next_turn_tokens:
            return []
        return [*unread, *self.prompt.next_turn_tokens]

    @property
    def is_decoding(self) -> bool:
        """Whether just the last sampled token is to be evaluated."""
        return bool(self.generated) and self.slot is not None and len(self.slot.tokens) == self.num_tokens - 1

    def plan_checkpoints(self) -> None:
        """Note where the memory is to be checkpointed: where a later prompt is likely to part from this one.

        That is after the system prompt (another chat), before the last user's message (an edit), and at the tail:
        before the last token (another reply to the same), or where a template that knows of thinking may write what
        follows anew. What lies behind the cached tokens has moved, where those are others for the same text.
        """
        moved = len(self.prompt_tokens) - len(self.prompt.tokens)
        known = (self.prompt.num_system_tokens, self.prompt.num_settled_tokens)
        counts = {self._tail, *(count + moved for count in known if count)}
        done = len(self.slot.tokens) if self.slot else 0
        self._checkpoints_due = sorted(count for count in counts if done < count < len(self.prompt_tokens))

    @property
    def rewritten_span(self) -> tuple[int, int] | None:
        """Where later prompts may part from this one because of its template, up to the end of the thinking; None where
        they do not."""
        start = self.prompt.rewritten_from
        if start is None:
            return None
        num_moved = len(self.prompt_tokens) - len(self.prompt.tokens)
        return start + num_moved, len(self.prompt_tokens) + self._text.num_thinking_tokens

    @property
    def _tail(self) -> int:
        """Where what asks for the reply begins, if the template may write that anew; else before the last token."""
        last = len(self.prompt_tokens) - 1
        if self.prompt.thinking is None or not self.prompt.message_ends:
            return last
        return min(self.prompt.message_ends[-1] + len(self.prompt_tokens) - len(self.prompt.tokens), last)

    @property
    def num_to_checkpoint(self) -> int:
        """Tokens until a checkpoint is due; 0 where none is."""
        done = len(self.slot.tokens) if self.slot else 0
        return next((count - done for count in self._checkpoints_due if count > done), 0)

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether the slot stands where a checkpoint was planned."""
        return self.slot is not None and len(self.slot.tokens) in self._checkpoints_due

    @property
    def is_before_answer(self) -> bool:
        """Whether a grammar has to wait: the model thinks, or writes what its family puts in front of an answer."""
        return self._text.is_before_answer

    @property
    def num_left(self) -> int | None:
        """Tokens the reply may still have, None where nothing limits it."""
        max_tokens = self.prompt.sampling.max_tokens
        return None if max_tokens is None else max(max_tokens - len(self.generated), 0)

    @property
    def is_full(self) -> bool:
        """Whether the reply has all the tokens it may have."""
        return self.num_left == 0

    def keep_to_budget(self) -> None:
        """End thinking, once, when its budget is used up: the reply goes on with tokens that nobody chose."""
        if not self.is_full:
            self.generated += self._text.close_thinking(self.num_left)

    def begin_prefill(self) -> None:
        """Note the start of the first prefill step."""
        if self._prefill_began_at is None:
            self._prefill_began_at = time.perf_counter()

    def accept(self, token: int, *, is_end: bool, is_drafted: bool = False) -> None:
        """Take a sampled token: count it, and turn it into text unless it is an end token.

        Args:
            is_drafted: whether it is an accepted token of a draft.
        """
        now = time.perf_counter()
        if self._first_token_at is None:
            self._first_token_at = self._last_token_at = now
        if is_end:  # not counted, so its time is not either
            return
        self._last_token_at = now
        self.generated.append(token)
        self._text.push(token, is_drafted=is_drafted)

    def next_delta(self) -> Delta | None:
        """Return the text that is due now, None when there is none or the last Delta was moments ago."""
        if not self._text.has_unsent or self._last_token_at - self._sent_at < _DELTA_INTERVAL_S:
            return None
        return self._delta()

    def last_delta(self) -> Delta | None:
        """Return the text that was not sent yet, whatever the time; None when there is none."""
        return self._delta() if self._text.has_unsent else None

    def finish(self, reason: FinishReason, peak_memory_bytes: int | None) -> list[Delta | Finished]:
        """Return the last Delta, if text is left, and Finished."""
        self._text.finish()
        finished = Finished(
            request_id=self.request_id,
            text=self._text.answer,
            token_ids=tuple(self.generated),
            finish_reason=FinishReason.STOP if self.stop_string is not None else reason,
            metrics=self.metrics(peak_memory_bytes),
            stop_string=self.stop_string,
            thinking=self._text.thinking,
            cache=self.cache,
            speculative=self._speculative_stats(),
            drafted_spans=self._text.drafted_spans,
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
        drafted = self._speculative_stats()
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
            num_thinking_tokens=self._text.num_thinking_tokens,
            thinking_s=self._text.thinking_s,
            num_threads=self.num_threads,
            num_drafts=drafted.num_drafts if drafted else 0,
            num_drafted_tokens=drafted.num_drafted_tokens if drafted else 0,
            num_accepted_tokens=drafted.num_accepted_tokens if drafted else 0,
        )

    def _speculative_stats(self) -> SpeculativeStats | None:
        return None if self.drafting is None else self.drafting.stats()

    def _delta(self) -> Delta:
        self._sent_at = self._last_token_at
        unsent = self._text.take_unsent()
        return Delta(
            request_id=self.request_id,
            text=unsent.text,
            num_generated_tokens=len(self.generated),
            num_context_tokens=self.num_tokens,
            decode_s=self._last_token_at - (self._first_token_at or self._last_token_at),
            thinking=unsent.thinking,
            was_thinking=unsent.was_thinking,
            speculative=self._speculative_stats(),
        )


def _ends_in_frame(prompt: Prompt, vocabulary: Vocabulary) -> bool:
    """Whether the prompt itself has begun the answer, in families that frame it."""
    frame = prompt.thinking.format.answering.encode() if prompt.thinking else b""
    end = b"".join(vocabulary.pieces[token] for token in prompt.tokens[-len(frame) :]) if frame else b""
    return bool(frame) and end.rstrip().endswith(frame)
