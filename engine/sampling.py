"""SAMPLER_STEPS: the table of sampler steps, and what a request's settings make of it."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from engine.params import SAMPLER_NAMES, SamplingParams
from engine.params.sampling import MAX_SEED


class SamplerStep(NamedTuple):
    """One transform of the logits, or the choice at the end.

    Attributes:
        name: the builder a backend has for it.
        is_on: whether the settings make this step do anything.
        arguments: what the builder gets, in its order.
    """

    name: str
    is_on: Callable[[SamplingParams], bool]
    arguments: Callable[[SamplingParams], tuple[float, ...]]


def _penalises(p: SamplingParams) -> bool:
    return p.repeat_last_n > 0 and (p.repeat_penalty, p.frequency_penalty, p.presence_penalty) != (1.0, 0.0, 0.0)


SAMPLER_STEPS: dict[str, SamplerStep] = {
    step.name: step
    for step in (
        SamplerStep(
            "penalties",
            _penalises,
            lambda p: (p.repeat_last_n, p.repeat_penalty, p.frequency_penalty, p.presence_penalty),
        ),
        SamplerStep(
            "dry",
            lambda p: p.dry_multiplier > 0.0 and p.dry_last_n > 0,
            lambda p: (p.dry_multiplier, p.dry_base, p.dry_allowed_length, p.dry_last_n),
        ),
        SamplerStep("top_n_sigma", lambda p: p.top_n_sigma > 0.0, lambda p: (p.top_n_sigma,)),
        SamplerStep("top_k", lambda p: p.top_k > 0, lambda p: (p.top_k,)),
        SamplerStep("typical_p", lambda p: p.typical_p < 1.0, lambda p: (p.typical_p,)),
        SamplerStep("top_p", lambda p: p.top_p < 1.0, lambda p: (p.top_p,)),
        SamplerStep("min_p", lambda p: p.min_p > 0.0, lambda p: (p.min_p,)),
        SamplerStep("xtc", lambda p: p.xtc_probability > 0.0, lambda p: (p.xtc_probability, p.xtc_threshold)),
        SamplerStep(
            "temperature",
            lambda p: p.temperature != 1.0 or p.dynatemp_range > 0.0,
            lambda p: (p.temperature, p.dynatemp_range, p.dynatemp_exponent),
        ),
    )
}
# Steps that change which token is likeliest, so that they matter even at temperature 0.
RERANKING = frozenset({"penalties", "dry"})

# What chooses in the end, the first that is on.
SELECTORS: tuple[SamplerStep, ...] = (
    SamplerStep("greedy", lambda p: p.temperature == 0.0, lambda p: ()),
    SamplerStep("mirostat", lambda p: p.mirostat == 1, lambda p: (p.mirostat_tau, p.mirostat_eta)),
    SamplerStep("mirostat_v2", lambda p: p.mirostat == 2, lambda p: (p.mirostat_tau, p.mirostat_eta)),
    SamplerStep(
        "adaptive_p",
        lambda p: p.adaptive_target is not None,
        lambda p: (p.adaptive_target or 0.0, p.adaptive_decay),
    ),
    SamplerStep("dist", lambda p: True, lambda p: ()),
)


def chain_of(params: SamplingParams) -> list[SamplerStep]:
    """Return the steps that do something, in order.

    Temperature 0 is greedy whatever else is set, and mirostat takes the place of the filters: both keep what ranks
    the tokens anew.
    """
    steps = [SAMPLER_STEPS[name] for name in params.samplers or SAMPLER_NAMES]
    if params.temperature == 0.0:
        steps = [step for step in steps if step.name in RERANKING]
    elif params.mirostat:
        steps = [step for step in steps if step.name in RERANKING or step.name == "temperature"]
    return [step for step in steps if step.is_on(params)]


def selector_of(params: SamplingParams) -> SamplerStep:
    """Return what chooses the token at the end of the chain."""
    return next(step for step in SELECTORS if step.is_on(params))


def num_remembered(params: SamplingParams) -> int:
    """Return how many tokens of the prompt the chain has to know."""
    names = {step.name for step in chain_of(params)}
    windows = (params.repeat_last_n if "penalties" in names else 0, params.dry_last_n if "dry" in names else 0)
    return max(windows)


def seed_of(params: SamplingParams) -> int:
    """Return the seed to use: the one asked for, or a fresh random one."""
    return secrets.randbelow(MAX_SEED + 1) if params.seed is None else params.seed
