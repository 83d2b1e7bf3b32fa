"""What the engine relies on in every backend: the fake one, and llama.cpp with the starter model."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backend import Backend, BatchPart, DecodeStatus
from engine.backend_fake import FakeLoader
from engine.backend_llama import LlamaLoader
from engine.backend_llama.context import LlamaBackend
from engine.errors import InvalidParams
from engine.params import ModelParams, SamplingParams

_PARAMS = ModelParams(n_ctx=512, n_threads=1, n_ubatch=32)
_TEXT = "The cache holds every token once, and each later question reads only what is new. "


@pytest.fixture(scope="module", params=["fake", "llama"])
def backend(request: pytest.FixtureRequest, starter_path: Path) -> Iterator[Backend]:
    path = "fake:" if request.param == "fake" else str(starter_path)
    loader = FakeLoader() if request.param == "fake" else LlamaLoader()
    loaded = loader.load(path, _PARAMS, lambda share: True)
    assert loaded is not None
    yield loaded
    loaded.close()


@pytest.fixture(autouse=True)
def _empty(backend: Backend) -> None:
    backend.clear_abort()
    for seq_id in range(_PARAMS.n_seq_max):
        backend.seq_rm(seq_id, 0)


def _next_token(backend: Backend, seq_id: int, start: int, tokens: list[int]) -> int:
    assert backend.decode([BatchPart(seq_id, start, tokens, wants_logits=True)]) is DecodeStatus.DONE
    sampler = backend.new_sampler(SamplingParams(temperature=0), 1, tokens)
    try:
        return sampler.sample(0)
    finally:
        sampler.close()


@pytest.fixture
def observe(backend: Backend) -> Callable[[int, int, list[int]], np.ndarray]:
    """Return a function that decodes and returns what can be compared: logits, or the fake backend's token."""

    def run(seq_id: int, start: int, tokens: list[int]) -> np.ndarray:
        token = _next_token(backend, seq_id, start, tokens)
        return backend.logits(0).copy() if isinstance(backend, LlamaBackend) else np.array([token], np.float32)

    return run


def _assert_same(left: np.ndarray, right: np.ndarray) -> None:
    """Logits of one prefix differ by rounding only; another prefix differs by far more (several units)."""
    assert np.abs(left - right).max() < 0.6, np.abs(left - right).max()
    assert np.corrcoef(left, right)[0, 1] > 0.999 if left.size > 1 else left[0] == right[0]


def test_length_follows_what_was_decoded(backend: Backend) -> None:
    tokens = backend.vocabulary.tokenize(_TEXT, parse_special=False)
    _next_token(backend, 0, 0, tokens)
    assert backend.seq_len(0) == len(tokens)
    assert backend.seq_len(1) == 0
    assert backend.seq_rm(0, 5)
    assert backend.seq_len(0) == 5


def test_trimmed_tail_computes_like_a_fresh_sequence(backend: Backend, observe: Callable[..., np.ndarray]) -> None:
    tokens = backend.vocabulary.tokenize(_TEXT * 3, parse_special=False)
    other = backend.vocabulary.tokenize("Something quite different stands here.", parse_special=False)
    observe(0, 0, tokens[:20] + other)
    assert backend.seq_rm(0, 20)
    trimmed = observe(0, 20, tokens[20:])
    fresh = observe(1, 0, tokens)
    _assert_same(trimmed, fresh)


def test_shared_prefix_computes_like_its_own_and_survives_the_source(
    backend: Backend, observe: Callable[..., np.ndarray]
) -> None:
    tokens = backend.vocabulary.tokenize(_TEXT * 3, parse_special=False)
    observe(0, 0, tokens)
    backend.seq_cp(0, 1, 24)
    assert backend.seq_len(1) == 24
    assert backend.seq_rm(0, 0)
    shared = observe(1, 24, tokens[24:])
    fresh = observe(2, 0, tokens)
    _assert_same(shared, fresh)


def test_snapshot_restores_into_another_sequence(backend: Backend, observe: Callable[..., np.ndarray]) -> None:
    tokens = backend.vocabulary.tokenize(_TEXT * 3, parse_special=False)
    observe(0, 0, tokens[:-3])
    state = backend.seq_state(0)
    assert state
    backend.seq_rm(0, 0)
    assert backend.set_seq_state(3, state)
    assert backend.seq_len(3) == len(tokens) - 3
    _assert_same(observe(3, len(tokens) - 3, tokens[-3:]), observe(1, 0, tokens))


def test_two_sequences_in_one_step_do_not_mix(backend: Backend) -> None:
    first = backend.vocabulary.tokenize(_TEXT, parse_special=False)
    second = backend.vocabulary.tokenize("Name the colours of the rainbow, please.", parse_special=False)
    alone = [_next_token(backend, 0, 0, first), _next_token(backend, 1, 0, second)]
    backend.seq_rm(0, 0)
    backend.seq_rm(1, 0)
    parts = [BatchPart(0, 0, first, wants_logits=True), BatchPart(1, 0, second, wants_logits=True)]
    assert backend.decode(parts) is DecodeStatus.DONE
    sampler = backend.new_sampler(SamplingParams(temperature=0), 1, first)
    assert [sampler.sample(0), sampler.sample(1)] == alone
    sampler.close()


def test_full_pool_is_told_and_changes_nothing(backend: Backend) -> None:
    tokens = (backend.vocabulary.tokenize(_TEXT, parse_special=False) * 200)[:512]
    for start in range(0, 512, 256):
        part = BatchPart(0, start, tokens[start : start + 256], wants_logits=False)
        assert backend.decode([part]) is DecodeStatus.DONE
    assert backend.decode([BatchPart(1, 0, tokens[:8], wants_logits=True)]) is DecodeStatus.NO_ROOM
    assert backend.seq_len(0) == 512
    assert backend.seq_len(1) == 0


def test_raised_abort_ends_the_step_and_the_next_one_works(backend: Backend) -> None:
    tokens = backend.vocabulary.tokenize(_TEXT * 4, parse_special=False)[:64]
    backend.raise_abort()
    assert backend.decode([BatchPart(0, 0, tokens, wants_logits=True)]) is DecodeStatus.ABORTED
    assert backend.seq_len(0) % 32 == 0  # whole micro-batches only
    backend.clear_abort()
    backend.seq_rm(0, 0)
    assert _next_token(backend, 0, 0, tokens) >= 0


def test_control_text_becomes_the_token_only_when_asked(backend: Backend) -> None:
    vocabulary = backend.vocabulary
    special = vocabulary.tokenize("<|im_end|>", parse_special=True)
    assert len(special) == 1
    assert special[0] in vocabulary.control_ids and special[0] in vocabulary.end_ids
    plain = vocabulary.tokenize("<|im_end|>", parse_special=False)
    assert not vocabulary.control_ids.intersection(plain)
    assert b"".join(vocabulary.pieces[token] for token in plain) == b"<|im_end|>"
    assert "<|im_end|>" in vocabulary.special_texts


@pytest.mark.parametrize("text", ["", "a", "日本語 👍🏽", "a\0b", "\ufeffhello", "e\u0301", "\u202eabc\u2028"])
def test_text_survives_the_tokeniser(backend: Backend, text: str) -> None:
    tokens = backend.vocabulary.tokenize(text, parse_special=False)
    assert b"".join(backend.vocabulary.pieces[token] for token in tokens) == text.encode()


@pytest.mark.parametrize(
    "settings",
    [
        {"repeat_penalty": 1.3},
        {"repeat_penalty": 1.3, "temperature": 0},
        {"repeat_penalty": 0.5, "repeat_last_n": 1},
        {"top_k": 1_000_000, "top_p": 0.0, "min_p": 1.0},
        {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 100},
        {"temperature": 1e-30, "top_k": 0},
        {"dynatemp_range": 10.0, "dynatemp_exponent": 0.01},
        {"typical_p": 0.0},
        {"top_n_sigma": 0.01},
        {"xtc_probability": 1.0, "xtc_threshold": 0.0},
        {"dry_multiplier": 100.0, "dry_base": 1.0, "dry_allowed_length": 1, "dry_last_n": 65_536},
        {"frequency_penalty": -2.0, "presence_penalty": 2.0},
        {"mirostat": 1},
        {"mirostat": 2, "mirostat_tau": 0.0, "mirostat_eta": 1.0},
        {"adaptive_target": 0.0, "adaptive_decay": 0.99},
        {"adaptive_target": 1.0, "dry_multiplier": 1.0},
        {"logit_bias": ((5, 1000.0), (6, -1000.0))},
        {"samplers": ("temperature", "xtc", "min_p", "top_k", "dry", "penalties"), "xtc_probability": 0.5},
    ],
    ids=str,
)
def test_every_step_of_the_chain_samples_a_token(backend: Backend, settings: dict[str, Any]) -> None:
    tokens = backend.vocabulary.tokenize(_TEXT, parse_special=False)
    backend.decode([BatchPart(0, 0, tokens, wants_logits=True)])
    sampler = backend.new_sampler(SamplingParams(**settings), 7, tokens)
    assert 0 <= sampler.sample(0) < len(backend.vocabulary.pieces)
    sampler.close()


@pytest.mark.parametrize("backend", ["llama"], indirect=True)  # the fake one has no choice to make
def test_logit_bias_chooses_the_token_and_one_beyond_the_vocabulary_is_refused(backend: Backend) -> None:
    tokens = backend.vocabulary.tokenize(_TEXT, parse_special=False)
    backend.decode([BatchPart(0, 0, tokens, wants_logits=True)])
    for temperature in (0, 1):
        params = SamplingParams(temperature=temperature, logit_bias=((1234, 1000.0),))
        sampler = backend.new_sampler(params, 1, tokens)
        assert sampler.sample(0) == 1234
        sampler.close()
    with pytest.raises(InvalidParams):
        backend.new_sampler(SamplingParams(logit_bias=((len(backend.vocabulary.pieces), 1.0),)), 1, tokens)


@pytest.mark.parametrize("backend", ["llama"], indirect=True)  # the fake one has no choice to make
def test_repeat_penalty_makes_what_was_said_unlikely(backend: Backend) -> None:
    tokens = backend.vocabulary.tokenize("one two one two one two one two one", parse_special=False)
    plain = _next_token(backend, 0, 0, tokens)
    assert plain in tokens
    sampler = backend.new_sampler(SamplingParams(temperature=0, repeat_penalty=10), 1, tokens)
    assert sampler.sample(0) not in tokens
    sampler.close()
