"""SAMPLER_STEPS: the ordered table of sampler steps, and what a request's settings make of it."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from engine.params import SamplingParams
from engine.params.sampling import MAX_SEED


class SamplerStep(NamedTuple):
    """One transform of the logits.

    Attributes:
        name: the builder a backend has for it.
        is_on: whether the settings make this step do anything.
        arguments: what the builder gets, in its order.
    """

    name: str
    is_on: Callable[[SamplingParams], bool]
    arguments: Callable[[SamplingParams], tuple[float, ...]]


# Order as in llama.cpp's default chain. Top-k comes early: the steps after it then see few tokens.
SAMPLER_STEPS: tuple[SamplerStep, ...] = (
    SamplerStep(
        "penalties",
        lambda p: p.repeat_penalty != 1.0 and p.repeat_last_n > 0,
        lambda p: (p.repeat_last_n, p.repeat_penalty),
    ),
    SamplerStep("top_k", lambda p: p.top_k > 0, lambda p: (p.top_k,)),
    SamplerStep("top_p", lambda p: p.top_p < 1.0, lambda p: (p.top_p,)),
    SamplerStep("min_p", lambda p: p.min_p > 0.0, lambda p: (p.min_p,)),
    SamplerStep("temperature", lambda p: p.temperature != 1.0, lambda p: (p.temperature,)),
)
# Steps that change which token is likeliest, so that they matter even at temperature 0.
_RERANKING = frozenset({"penalties"})


def chain_of(params: SamplingParams) -> list[SamplerStep]:
    """Return the steps that do something, in order; temperature 0 is greedy whatever else is set."""
    is_greedy = params.temperature == 0.0
    return [step for step in SAMPLER_STEPS if step.is_on(params) and (not is_greedy or step.name in _RERANKING)]


def seed_of(params: SamplingParams) -> int:
    """Return the seed to use: the one asked for, or a fresh random one."""
    return secrets.randbelow(MAX_SEED + 1) if params.seed is None else params.seed
