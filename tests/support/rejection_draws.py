"""Draws many tokens from a small real model while another one drafts, and tests how they are distributed."""

import math
from pathlib import Path
from typing import Any

import pytest

from engine.backend import BatchPart
from engine.backend_llama.context import LlamaBackend
from engine.backend_llama.sampler import RejectionSampler
from engine.params import ModelParams, SamplingParams
from tests.support.cold_check import load_llama
from tests.support.distributions import chance_of, expected_distribution, overlap
from tests.support.gguf_files import write_tiny_model

NUM_DRAWS = 20_000
TEMPERATURES = (0.5, 1.0, 1.5)
PROMPT = [30, 41, 30, 52, 63, 41, 30, 99]
SETTINGS: dict[str, dict[str, Any]] = {
    "top_k": {"top_k": 12, "top_p": 1.0, "min_p": 0.0},
    "top_p": {"top_k": 0, "top_p": 0.7, "min_p": 0.0},
    "min_p": {"top_k": 0, "top_p": 1.0, "min_p": 0.2},
    "penalties": {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.7, "repeat_last_n": len(PROMPT)},
}


def load_pair(folder: Path) -> tuple[LlamaBackend, LlamaBackend]:
    """Return a random model and another one to draft for it, which seldom agree."""
    params = ModelParams(n_ctx=256, n_threads=1)
    first, second = (load_llama(write_tiny_model(folder / f"{seed}.gguf", seed=seed), params) for seed in (1, 2))
    return first, second


def read(backend: LlamaBackend) -> LlamaBackend:
    """Have a model read the prompt and nothing else; return it."""
    backend.seq_rm(0, 0)
    backend.decode([BatchPart(0, 0, PROMPT, wants_logits=True)])
    return backend


def assert_distributed(
    target: LlamaBackend, draft: LlamaBackend, params: SamplingParams, *, alpha: float, num_draws: int = NUM_DRAWS
) -> None:
    """Test what is drafted and what is sampled against the definitions of the settings, and how much is accepted.

    Args:
        alpha: chance that one of two right distributions is called wrong.
    """
    p = expected_distribution(target.logits(0), params, PROMPT)
    kept = SamplingParams(
        temperature=params.temperature, top_k=min(params.top_k or 40, 40), top_p=params.top_p, min_p=params.min_p
    )
    q = expected_distribution(draft.logits(0), kept)
    found = _draws(target, draft, params, num_draws)
    assert chance_of((proposed for proposed, _ in found), q) > alpha
    assert chance_of((sampled for _, sampled in found), p) > alpha
    rate = sum(proposed == sampled for proposed, sampled in found) / num_draws
    assert rate == pytest.approx(overlap(p, q), abs=5 * 0.5 / math.sqrt(num_draws))


def _draws(target: LlamaBackend, draft: LlamaBackend, params: SamplingParams, num_draws: int) -> list[tuple[int, int]]:
    """Return (proposed, sampled), each drawn as if nothing but the prompt had been seen."""
    sampler, drafter = target.new_sampler(params, 1, PROMPT, is_drafted=True), draft.new_draft_sampler(params, 1)
    assert isinstance(sampler, RejectionSampler)
    drafter.look(0)
    found = []
    for _ in range(num_draws):
        proposal = drafter.draw()
        found.append((proposal.token, sampler.sample(0, proposal)))
        for token in PROMPT:  # as long as what the penalties look at
            sampler.accept(token)
    sampler.close()
    drafter.close()
    return found
