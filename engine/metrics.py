"""What is measured of a reply: definitions and arithmetic. Times are seconds on the worker's own clock."""

import enum
from typing import Any

import msgspec

_MILLION = 1_000_000
_JOULES_PER_KWH = 3_600_000


class CacheSource(enum.Enum):
    """Where the reused tokens came from."""

    NONE = "none"
    SLOT = "slot"
    RAM = "ram"
    DISK = "disk"
    RESPONSE = "response"


class CacheMissCause(enum.Enum):
    """Why tokens that were read once had to be read again; None in a report means that nothing was missed."""

    FIRST_USE = "first_use"
    EDITED = "edited"
    SYSTEM_PROMPT_CHANGED = "system_prompt_changed"
    TEMPLATE_CHANGED = "template_changed"
    ADAPTER_CHANGED = "adapter_changed"
    SETTINGS_CHANGED = "settings_changed"
    TRIMMED = "trimmed"
    EVICTED = "evicted"
    MODEL_RELOADED = "model_reloaded"
    UNSUPPORTED_BY_MODEL = "unsupported_by_model"
    DAMAGED = "damaged"


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the prefix cache did for one request.

    Attributes:
        num_cached_tokens: prompt tokens that were not evaluated.
        miss_cause: None when nothing that had been read before was read again.
        num_recomputed_tokens: prompt tokens that this chat had in the cache before, and that were evaluated again.
        seconds_saved: what evaluating the cached ones takes at the measured rate, less what it took to bring them back;
            None until a rate is known. Of a stored reply (`response`), what it took when it was computed.
        miss_message: place, in the request, of the message in which evaluating began; None where nothing was missed, or
            it is not known.
    """

    num_cached_tokens: int
    source: CacheSource
    miss_cause: CacheMissCause | None
    num_recomputed_tokens: int = 0
    seconds_saved: float | None = None
    miss_message: int | None = None


class DraftState(enum.Enum):
    """What became of drafting in a reply."""

    OFF = "off"  # it was not asked for
    UNAVAILABLE = "unavailable"  # see the reason
    IDLE = "idle"  # nothing was worth a draft
    ON = "on"
    SLOWER = "slower"  # tried, and given up


class DrafterStats(msgspec.Struct, frozen=True, kw_only=True):
    """What one drafter did in a reply.

    Attributes:
        drafter: "ngram" or "model".
        draft_s: seconds that drafting took, catching up with the chat included; of steps that the draft model did for
            several replies, a share.
    """

    drafter: str
    num_drafts: int
    num_drafted_tokens: int
    num_accepted_tokens: int
    draft_s: float = 0.0


class SpeculativeStats(msgspec.Struct, frozen=True, kw_only=True):
    """What speculative decoding did for a reply.

    Attributes:
        net_speedup: seconds that its tokens would have taken in plain steps of the same replies, by those measured in
            between, over the seconds that passed, drafting and tries included, for neighbours too; None until known.
        drafting_speedup: the same of this chat's steps with drafts of its own alone, by what these brought and took;
            below 1 they lost. None before the first.
        reason: why nothing could be drafted, one sentence; empty where it could.
        drafters: those that drafted.
    """

    state: DraftState
    net_speedup: float | None = None
    drafting_speedup: float | None = None
    reason: str = ""
    drafters: tuple[DrafterStats, ...] = ()

    @property
    def num_drafts(self) -> int:
        """Steps that checked a draft."""
        return sum(item.num_drafts for item in self.drafters)

    @property
    def num_drafted_tokens(self) -> int:
        """Tokens that were proposed."""
        return sum(item.num_drafted_tokens for item in self.drafters)

    @property
    def num_accepted_tokens(self) -> int:
        """Proposed tokens that became part of the reply."""
        return sum(item.num_accepted_tokens for item in self.drafters)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted share of the drafted tokens, or None where nothing was drafted."""
        return self.num_accepted_tokens / self.num_drafted_tokens if self.num_drafted_tokens else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens a drafted step brought on average, the one after the accepted ones included."""
        return 1 + self.num_accepted_tokens / self.num_drafts if self.num_drafts else None


class RequestMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """All measures of one reply; None until known.

    Of a stored reply, with the source `response`, the counts are those of its text, and there is no time but `ttft_s`:
    nothing was read or generated.

    Attributes:
        num_prompt_tokens: tokens of the rendered prompt, cached ones included.
        ttft_s: Generate received by the worker until the first token was emitted.
        prefill_s: first prefill step begun until the first token was sampled.
        decode_s: first token until last token.
        prefill_rate: (prompt - cached) / prefill time, tokens/s.
        decode_rate: (generated - 1) / decode time, tokens/s.
        tpot_s: mean gap between tokens.
        acceptance_rate: accepted / drafted tokens.
        peak_memory_bytes: high-water resident memory of the worker since load.
        seed: the seed that was used; pin it to repeat the reply.
        num_thinking_tokens: generated tokens that were thinking, tags included.
        num_threads: that computed its last token.
        thinking_s: first token until thinking ended; None where there was none.
    """

    num_prompt_tokens: int
    num_cached_tokens: int
    num_generated_tokens: int
    ttft_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    num_drafts: int = 0
    num_drafted_tokens: int = 0
    num_accepted_tokens: int = 0
    cache_source: CacheSource = CacheSource.NONE
    cache_miss_cause: CacheMissCause | None = None
    peak_memory_bytes: int | None = None
    bandwidth_share: float | None = None
    joules_per_token: float | None = None
    cost_per_million_tokens: float | None = None
    seed: int | None = None
    num_thinking_tokens: int = 0
    thinking_s: float | None = None
    num_threads: int | None = None

    @property
    def prefill_rate(self) -> float | None:
        """Evaluated prompt tokens a second, or None before the prompt was read."""
        return _ratio(self.num_prompt_tokens - self.num_cached_tokens, self.prefill_s)

    @property
    def decode_rate(self) -> float | None:
        """Generated tokens a second between the first and the last one, or None below two tokens."""
        return _ratio(self.num_generated_tokens - 1, self.decode_s)

    @property
    def tpot_s(self) -> float | None:
        """Mean seconds between two tokens, or None below two tokens."""
        gaps = self.num_generated_tokens - 1
        return self.decode_s / gaps if self.decode_s is not None and gaps > 0 else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted share of the drafted tokens, or None where nothing was drafted."""
        return self.num_accepted_tokens / self.num_drafted_tokens if self.num_drafted_tokens else None

    def as_dict(self) -> dict[str, Any]:
        """Return every measure by name, derived ones included, in plain JSON types."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        for name in ("prefill_rate", "decode_rate", "tpot_s", "acceptance_rate"):
            plain[name] = getattr(self, name)
        return plain


def decode_bytes(active_weight_bytes: int, kv_bytes_per_token: int, num_context_tokens: float) -> float:
    """Return the bytes that one step of decode reads: the active weights, and the cache of its context."""
    return active_weight_bytes + kv_bytes_per_token * num_context_tokens


def bandwidth_share(read_bandwidth: float, bytes_per_token: float, decode_rate: float) -> float | None:
    """Return the share of what memory can be read at that a decode rate takes; None without a bandwidth or bytes."""
    return bytes_per_token * decode_rate / read_bandwidth if read_bandwidth > 0 and bytes_per_token > 0 else None


def joules_per_token(joules: float, num_tokens: int) -> float | None:
    """Return the energy of a generated token, that of reading the prompt included."""
    return joules / num_tokens if num_tokens > 0 else None


def cost_per_million_tokens(joules_a_token: float, price_per_kwh: float) -> float:
    """Return what the electricity of a million tokens costs, in the currency of the price."""
    return joules_a_token * _MILLION / _JOULES_PER_KWH * price_per_kwh


def _ratio(count: int, seconds: float | None) -> float | None:
    return count / seconds if seconds and count > 0 else None
