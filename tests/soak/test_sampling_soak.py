"""Thousands of drawn settings through the native sampler chain: none may end the process that samples."""

import multiprocessing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from engine.backend import BatchPart
from engine.backend_llama import LlamaLoader
from engine.errors import GrammarError, InvalidParams
from engine.grammar import TokenTable, new_matcher
from engine.params import ModelParams, SamplingParams
from tests.unit.engine.message_values import values_of

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
NUM_SETTINGS = 2000


def sample_with_drawn_settings(path: str) -> None:
    """Sample three tokens with each of many settings; runs in a process of its own, which a fault would end."""
    backend = LlamaLoader().load(path, ModelParams(n_ctx=256, n_threads=1), lambda share: True)
    assert backend is not None
    tokens = backend.vocabulary.tokenize("one two three one two three one two", parse_special=False)
    backend.decode([BatchPart(0, 0, tokens, wants_logits=True)])

    table = TokenTable(backend.vocabulary)

    @settings(max_examples=NUM_SETTINGS, suppress_health_check=list(HealthCheck))
    @given(params=values_of(SamplingParams))
    def draw(params: SamplingParams) -> None:
        try:
            matcher = new_matcher(params, table)
            sampler = backend.new_sampler(params, params.seed or 0, tokens, matcher=matcher)
        except (InvalidParams, GrammarError):  # a bias beyond this vocabulary, a drawn text that is no grammar
            return
        assert all(0 <= sampler.sample(0) < len(backend.vocabulary.pieces) for _ in range(3))
        sampler.close()

    draw()
    backend.close()


def test_no_legal_setting_ends_the_process_that_samples(starter_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=sample_with_drawn_settings, args=(str(starter_path),))
    process.start()
    process.join()
    assert process.exitcode == 0
