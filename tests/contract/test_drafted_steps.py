"""A step that checks a draft gives the logits of single steps, whatever stands beside it."""

from pathlib import Path

import numpy as np
import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.backend_llama.context import LlamaBackend
from engine.messages import MemoryKind
from engine.params import MAX_DRAFT, ModelParams
from engine.speculative.strict import strict_max
from tests.support.cold_check import EXACT, load_llama
from tests.support.tiny_models import TINY_MODELS, TOLERANCE

NUM_PROMPT, NUM_DRAFT = 20, 6
NEIGHBOUR = [5, 9, 13, 17, 21]


def tokens_of(backend: LlamaBackend, count: int) -> list[int]:
    drawn = np.random.default_rng(1).integers(4, min(backend.n_vocab, 250), count)
    return [int(token) for token in drawn]


def single_rows(backend: LlamaBackend, tokens: list[int]) -> list[np.ndarray]:
    """Return the logits after each token behind the prompt, computed one at a time."""
    backend.seq_rm(0, 0)
    assert backend.decode([BatchPart(0, 0, tokens[:NUM_PROMPT], wants_logits=False)]) is DecodeStatus.DONE
    rows = []
    for position in range(NUM_PROMPT, len(tokens)):
        assert backend.decode([BatchPart(0, position, [tokens[position]], wants_logits=True)]) is DecodeStatus.DONE
        rows.append(backend.logits(0).copy())
    return rows


def drafted_rows(backend: LlamaBackend, tokens: list[int]) -> list[np.ndarray]:
    """Return the same from one step, between two neighbours."""
    for seq_id in range(3):
        backend.seq_rm(seq_id, 0)
    backend.decode([BatchPart(0, 0, tokens[:NUM_PROMPT], wants_logits=False)])
    parts = [
        BatchPart(1, 0, NEIGHBOUR, wants_logits=False),
        BatchPart(0, NUM_PROMPT, tokens[NUM_PROMPT:], wants_logits=True, num_drafted=len(tokens) - NUM_PROMPT - 1),
        BatchPart(2, 0, NEIGHBOUR, wants_logits=True),
    ]
    assert backend.decode(parts) is DecodeStatus.DONE
    rows = [backend.logits(row).copy() for row in range(len(tokens) - NUM_PROMPT + 1)]
    backend.seq_rm(1, 0)
    backend.decode([BatchPart(1, 0, NEIGHBOUR, wants_logits=True)])
    assert np.abs(rows.pop() - backend.logits(0)).max() < 0.6, "the neighbour has a row of its own"
    return rows


@pytest.mark.parametrize(
    "name", [n for n, m in TINY_MODELS.items() if m.memory in (MemoryKind.PLAIN, MemoryKind.WINDOW)]
)
def test_rows_are_those_of_single_steps_in_models_of_32_bits(tmp_path: Path, name: str) -> None:
    backend = load_llama(TINY_MODELS[name].write(tmp_path / "tiny.gguf"), ModelParams(n_ctx=256, **EXACT))
    tokens = tokens_of(backend, NUM_PROMPT + NUM_DRAFT + 1)
    try:
        singles, drafted = single_rows(backend, tokens), drafted_rows(backend, tokens)
    finally:
        backend.close()
    assert len(singles) == len(drafted) == NUM_DRAFT + 1
    size = max(np.abs(row).max() for row in singles)
    tolerance = TOLERANCE.get(name, 1e-5 * size)
    for number, (single, row) in enumerate(zip(singles, drafted, strict=True)):
        assert np.abs(single - row).max() <= tolerance, number


def test_rows_of_the_longest_draft_are_those_of_single_steps_and_it_is_taken_back(starter_path: Path) -> None:
    backend = load_llama(starter_path, ModelParams(n_ctx=512, n_threads=1))
    try:
        text = "The cache holds every token once, and each later question reads only what is new. " * 4
        tokens = backend.vocabulary.tokenize(text, parse_special=False)[: NUM_PROMPT + MAX_DRAFT + 1]
        singles, drafted = single_rows(backend, tokens), drafted_rows(backend, tokens)
        for single, row in zip(singles, drafted, strict=True):
            assert np.abs(single - row).max() < 0.6  # another prefix differs by several units
            assert np.corrcoef(single, row)[0, 1] > 0.999
        assert backend.seq_rm(0, NUM_PROMPT + 3)
        assert backend.decode([BatchPart(0, NUM_PROMPT + 3, [tokens[NUM_PROMPT + 3]], True)]) is DecodeStatus.DONE
        assert np.abs(backend.logits(0) - singles[3]).max() < 0.6
    finally:
        backend.close()


@pytest.mark.parametrize("n_seq_max", [1, 4])
def test_every_sequence_has_a_row_beside_the_longest_draft(tmp_path: Path, n_seq_max: int) -> None:
    path = TINY_MODELS["llama"].write(tmp_path / "tiny.gguf")
    # A micro-batch has fewer tokens than the step.
    backend = load_llama(path, ModelParams(n_ctx=512, n_seq_max=n_seq_max, n_ubatch=16, n_batch=64, n_threads=1))
    try:
        tokens = tokens_of(backend, MAX_DRAFT + 1)
        parts = [BatchPart(0, 0, tokens, wants_logits=True, num_drafted=MAX_DRAFT)]
        parts += [BatchPart(seq_id, 0, tokens[:1], wants_logits=True) for seq_id in range(1, n_seq_max)]
        num_rows = sum(part.wants_logits + part.num_drafted for part in parts)
        assert num_rows == backend.max_step_logits
        assert backend.decode(parts) is DecodeStatus.DONE
        rows = [backend.logits(row).copy() for row in range(num_rows)]
        assert all(np.isfinite(row).all() for row in rows)
        for row in rows[MAX_DRAFT + 1 :]:  # they all follow the same token
            assert np.abs(row - rows[0]).max() < 1e-3
    finally:
        backend.close()


def test_longest_step_of_the_same_bits_is_found_and_leaves_nothing(starter_path: Path) -> None:
    backend = load_llama(starter_path, ModelParams(n_ctx=512, n_threads=1))
    try:
        assert 1 <= strict_max(backend, seq_id=0, n_threads=1) <= MAX_DRAFT + 1
        assert backend.seq_len(0) == 0
    finally:
        backend.close()
