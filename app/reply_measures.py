"""What a front end adds to the measures of a reply: energy, cost, and the share of the machine's memory bandwidth."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from app.settings import Settings
from engine import (
    CacheSource,
    Finished,
    ModelDescription,
    RequestMetrics,
    SpeculativeStats,
    bandwidth_share,
    cost_per_million_tokens,
    decode_bytes,
    joules_per_token,
)


def completed(
    metrics: RequestMetrics, model: ModelDescription, settings: Settings, *, joules: float | None
) -> RequestMetrics:
    """Return the measures with what only the front end knows; each stays None until it is known.

    Args:
        joules: drawn for this reply, None where that cannot be known; of replies that ran at once, each one's part.
    """
    is_stored = metrics.cache_source is CacheSource.RESPONSE  # nothing was computed for it
    energy = None if joules is None or is_stored else joules_per_token(joules, metrics.num_generated_tokens)
    price = settings.electricity_price
    return msgspec.structs.replace(
        metrics,
        bandwidth_share=_share(metrics, model, settings.read_bandwidth),
        joules_per_token=energy,
        cost_per_million_tokens=cost_per_million_tokens(energy, price) if energy is not None and price > 0 else None,
    )


def measures_of(finished: Finished) -> dict[str, Any]:
    """Return every measure of a reply by name, those of drafting too, in plain JSON types; null until known."""
    return finished.metrics.as_dict() | drafting_measures(finished.speculative)


def drafting_measures(stats: SpeculativeStats | None) -> dict[str, Any]:
    """Return the measures of drafting that a reply has beside its counts; see SpeculativeStats."""
    return {
        "mean_acceptance_length": None if stats is None else stats.mean_acceptance_length,
        "net_speedup": None if stats is None else stats.net_speedup,
        "drafting_speedup": None if stats is None else stats.drafting_speedup,
        "draft_state": None if stats is None else stats.state.value,
        "draft_reason": None if stats is None else stats.reason or None,
        "drafters": [] if stats is None else [msgspec.to_builtins(item) for item in stats.drafters],
    }


def _share(metrics: RequestMetrics, model: ModelDescription, measured: Mapping[str, Any]) -> float | None:
    bandwidth, rate = measured.get(str(model.n_threads)), metrics.decode_rate
    if not isinstance(bandwidth, int | float) or not math.isfinite(bandwidth) or rate is None:
        return None
    if not model.active_weight_bytes or model.n_gpu_layers:  # a graphics processor reads its own memory
        return None
    context = metrics.num_prompt_tokens + metrics.num_generated_tokens / 2  # on average over the reply
    size = decode_bytes(model.active_weight_bytes, model.kv_bytes_per_token, context)
    return bandwidth_share(bandwidth, size, rate)
