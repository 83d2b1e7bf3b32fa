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


@pytest.mark.parametrize("is_drafted", [False, True], ids=["plain", "drafted"])
@pytest.mark.parametrize("temperature", [0.0, 0.001], ids=["greedy", "nearly greedy"])
def test_lines_are_not_lost_to_a_penalty_when_line_breaks_are_spared(
    backend: LlamaBackend, temperature: float, is_drafted: bool
) -> None:
    """What was said is but line breaks and ends of turns: a penalty changes the choice unless they are spared."""
    newline = backend.vocabulary.tokenize("\n", parse_special=False)[0]
    end = next(iter(backend.vocabulary.end_ids))
    said = [newline, end] * 40
    backend.seq_rm(0, 0)
    lines = backend.vocabulary.tokenize("- red\n- green\n- blue\n- white\n- black", parse_special=False)
    backend.decode([BatchPart(0, 0, lines, wants_logits=True)])
    raised = ((newline, 8.0), (end, 7.0))
    found = []
    for spared in (0, 1):
        params = SamplingParams(
            temperature=temperature,
            repeat_penalty=1.3,
            frequency_penalty=2.0,
            logit_bias=raised,
            spare_line_breaks=spared,
        )
        sampler = backend.new_sampler(params, 1, said, is_drafted=is_drafted)
        found.append([sampler.sample(0) for _ in range(8)])
        sampler.close()
    assert newline not in found[0]
    assert found[1] == [newline] * 8


@pytest.mark.parametrize("spared", [0, 1])
def test_other_tokens_are_penalised_as_ever_when_line_breaks_are_spared(backend: LlamaBackend, spared: int) -> None:
    backend.seq_rm(0, 0)
    words = backend.vocabulary.tokenize("one two three one two three one two", parse_special=False)
    backend.decode([BatchPart(0, 0, words, wants_logits=True)])
    tokens = []
    for strength in (0.0, 2.0):
        params = SamplingParams(
            temperature=0,
            frequency_penalty=strength,
            presence_penalty=strength,
            logit_bias=((words[1], 30.0),),
            spare_line_breaks=spared,
        )
        sampler = backend.new_sampler(params, 1, words * 8)
        tokens.append(sampler.sample(0))
        sampler.close()
    assert tokens[0] == words[1]
    assert tokens[1] not in words


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
