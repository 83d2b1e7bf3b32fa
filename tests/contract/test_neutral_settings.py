"""Settings that must not change a reply: a penalty that is off, and all others at temperature 0."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.backend import BatchPart
from engine.backend_llama import LlamaLoader
from engine.backend_llama.context import LlamaBackend
from engine.params import SAMPLER_NAMES, ModelParams, SamplingParams, param_infos

QUESTION = "<|im_start|>user\nList five colours, one per line.<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def backend(starter_path: Path) -> Iterator[LlamaBackend]:
    loaded = LlamaLoader().load(str(starter_path), ModelParams(n_ctx=256, n_threads=1), lambda share: True)
    assert isinstance(loaded, LlamaBackend)
    yield loaded
    loaded.close()


def tokens_of(backend: LlamaBackend, params: SamplingParams) -> list[int]:
    prompt = backend.vocabulary.tokenize(QUESTION, parse_special=True)
    backend.seq_rm(0, 0)
    sampler = backend.new_sampler(params, 1, prompt)
    found: list[int] = []
    while len(found) < 12:
        start = backend.seq_len(0)
        backend.decode([BatchPart(0, start, found[-1:] or prompt, wants_logits=True)])
        found.append(sampler.sample(0))
    sampler.close()
    return found


def test_repeat_penalty_is_off_by_default_and_its_help_says_what_it_harms() -> None:
    assert SamplingParams().repeat_penalty == 1.0
    words = param_infos(SamplingParams)["repeat_penalty"].help
    assert all(word in words for word in ("lists", "code", "line breaks"))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_penalty_that_is_off_is_as_if_it_were_not_there(backend: LlamaBackend, temperature: float) -> None:
    without = tuple(name for name in SAMPLER_NAMES if name != "penalties")
    off = tokens_of(backend, SamplingParams(temperature=temperature, repeat_penalty=1.0))
    assert off == tokens_of(backend, SamplingParams(temperature=temperature, repeat_penalty=1.3, samplers=without))


@pytest.mark.parametrize(
    "settings",
    [
        *({"temperature": 0, "typical_p": p} for p in (0, 0.5)),
        {"temperature": 0, "xtc_probability": 1.0},
        {"temperature": 0, "mirostat": 2},
        {"temperature": 0, "grammar": "root ::= .+"},
        {"temperature": 0, "grammar": "root ::= .+", "logit_bias": ((0, 0.0),)},
        {"temperature": 1, "top_k": 1, "grammar": "root ::= .+"},
    ],
    ids=str,
)
def test_reply_is_greedy_whatever_else_is_set(backend: LlamaBackend, settings: dict[str, Any]) -> None:
    expected = tokens_of(backend, SamplingParams(temperature=0))
    assert tokens_of(backend, SamplingParams(**settings)) == expected
