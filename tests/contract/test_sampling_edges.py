"""Settings at the ends of their ranges, on logits that are as far apart as they get: the choice stays the right one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine.backend import BatchPart
from engine.backend_llama import LlamaLoader
from engine.backend_llama.context import LlamaBackend
from engine.params import SAMPLER_NAMES, ModelParams, SamplingParams
from tests.support.gguf_files import write_tiny_model

_OPEN: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
_SURE = 90.0  # so much more than the others that their probabilities are 0 in single precision


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaBackend]:
    path = write_tiny_model(tmp_path_factory.mktemp("edges") / "tiny.gguf")
    loaded = LlamaLoader().load(str(path), ModelParams(n_ctx=64, n_threads=1), lambda share: True, is_known=True)
    assert isinstance(loaded, LlamaBackend)
    prompt = loaded.vocabulary.tokenize("one two three", parse_special=False)
    loaded.decode([BatchPart(0, 0, prompt, wants_logits=True)])
    yield loaded
    loaded.close()


def tokens_of(backend: LlamaBackend, settings: dict[str, Any], *, is_drafted: bool) -> set[int]:
    found = set()
    for seed in range(6):
        sampler = backend.new_sampler(SamplingParams(**settings), seed, [], is_drafted=is_drafted)
        found.add(sampler.sample(0))
        sampler.close()
    return found


@pytest.mark.parametrize("is_drafted", [False, True], ids=["plain", "drafted"])
@pytest.mark.parametrize(
    "settings",
    [
        *({"temperature": t} for t in (1e-3, 1e-20, 1e-45, 5e-324)),
        {"min_p": 1.0, "temperature": 1.0},
        {"top_p": 0.0, "temperature": 100.0, "samplers": ("top_p", "temperature")},
        {"top_p": 5e-324, "temperature": 1.0},
        {"top_k": 1, "temperature": 100.0},
        {"top_n_sigma": 1e-30, "temperature": 100.0},
        {"temperature": 1e-3, "samplers": ("temperature", "min_p", "top_p", "typical_p"), "typical_p": 0.5},
        {"temperature": 0.5, "dynatemp_range": 0.499999, "dynatemp_exponent": 10.0, "logit_bias": "sure"},
        {"temperature": 0.5, "dynatemp_range": 0.5, "logit_bias": "sure"},
        {"temperature": 0.5, "dynatemp_range": 10.0, "dynatemp_exponent": 10.0, "logit_bias": "sure"},
        {"temperature": 1e-3, "dynatemp_range": 1e-3, "logit_bias": "sure"},
        {"temperature": 1.0, "dynatemp_range": 1.0, "samplers": ("temperature", "min_p"), "logit_bias": "sure"},
        {"temperature": 1.0, "mirostat": 1, "mirostat_tau": 0.0, "logit_bias": "sure"},
        {"temperature": 1.0, "mirostat": 2, "mirostat_tau": 0.0, "mirostat_eta": 0.0, "logit_bias": "sure"},
        {"temperature": 1.0, "adaptive_target": 1.0, "logit_bias": "sure"},
        {"temperature": 1.0, "xtc_probability": 1.0, "xtc_threshold": 1.0, "logit_bias": "sure"},
    ],
    ids=str,
)
def test_likeliest_token_is_taken_when_the_settings_leave_no_other(
    backend: LlamaBackend, settings: dict[str, Any], is_drafted: bool
) -> None:
    likeliest = int(backend.logits(0).argmax())
    if settings.get("logit_bias") == "sure":
        settings = {**_OPEN, **settings, "logit_bias": ((likeliest, _SURE),)}
    assert tokens_of(backend, settings, is_drafted=is_drafted) == {likeliest}


@pytest.mark.parametrize("is_drafted", [False, True], ids=["plain", "drafted"])
@pytest.mark.parametrize(
    "settings",
    [
        {"dry_multiplier": 100.0, "dry_base": 10.0, "dry_allowed_length": 1, "dry_last_n": 65_536},
        {"repeat_penalty": 10.0, "frequency_penalty": 2.0, "presence_penalty": 2.0, "repeat_last_n": 65_536},
        {"repeat_penalty": 0.1, "frequency_penalty": -2.0, "presence_penalty": -2.0, "temperature": 0.0},
        {"xtc_probability": 1.0, "xtc_threshold": 0.0},
        {"temperature": 100.0, "dynatemp_range": 10.0, **_OPEN},
        {"samplers": tuple(reversed(SAMPLER_NAMES)), "typical_p": 0.0, "top_n_sigma": 0.1, "xtc_probability": 1.0},
        {"samplers": ("dry",), "temperature": 1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("num_tokens", [0, 1, 2, 40])
def test_token_of_the_model_is_taken_when_all_that_was_said_is_the_same(
    backend: LlamaBackend, settings: dict[str, Any], num_tokens: int, is_drafted: bool
) -> None:
    likeliest = int(backend.logits(0).argmax())
    sampler = backend.new_sampler(SamplingParams(**settings), 1, [likeliest] * num_tokens, is_drafted=is_drafted)
    tokens = [sampler.sample(0) for _ in range(8)]
    sampler.close()
    assert all(0 <= token < len(backend.vocabulary.pieces) for token in tokens)


def test_dynamic_temperature_moves_between_its_ends_when_its_range_is_wider_than_the_temperature(
    backend: LlamaBackend,
) -> None:
    """Two equal tokens are as unsure as can be: the temperature is the highest, and both come as often."""
    first, second = (int(token) for token in np.argsort(backend.logits(0))[-2:])
    gap = float(backend.logits(0)[second] - backend.logits(0)[first])
    settings: dict[str, Any] = {"temperature": 0.5, "dynatemp_range": 2.0, "logit_bias": ((first, gap),)}
    counts = [0, 0]
    for seed in range(60):
        sampler = backend.new_sampler(SamplingParams(**{**_OPEN, "top_k": 2, **settings}), seed, [])
        counts[sampler.sample(0) == second] += 1
        sampler.close()
    assert min(counts) > 10, counts
