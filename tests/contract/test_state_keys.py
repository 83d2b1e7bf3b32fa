"""What a snapshot is kept under, held against what llama.cpp really computes from."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.backend_llama import LlamaLoader
from engine.backend_llama.context import LlamaBackend
from engine.params import ModelParams
from tests.support.tiny_models import TINY_MODELS, _Writer

ORIGINAL_CONTEXT = 512


@pytest.fixture(scope="module")
def stretched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with one set of rotations for short contexts, and another for long ones."""
    writer = _Writer(tmp_path_factory.mktemp("model") / "stretched.gguf", "llama", n_layer=1)
    writer.file.add_head_count(4)
    writer.file.add_head_count_kv(2)
    writer.file.add_feed_forward_length(128)
    writer.file.add_rope_dimension_count(16)
    writer.file.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
    writer.file.add_rope_scaling_orig_ctx_len(ORIGINAL_CONTEXT)
    writer.file.add_tensor("rope_factors_short.weight", np.ones(8, np.float32))
    writer.file.add_tensor("rope_factors_long.weight", np.linspace(1, 8, 8, dtype=np.float32))
    writer.norms(0, "attn_norm", "ffn_norm")
    writer.attention(0)
    writer.feed_forward(0)
    return writer.finish()


@contextmanager
def loaded(path: Path, n_ctx: int) -> Iterator[LlamaBackend]:
    backend = LlamaLoader().load(str(path), ModelParams(n_ctx=n_ctx, n_threads=1), lambda share: True)
    assert backend is not None
    try:
        yield backend
    finally:
        backend.close()


def logits(backend: LlamaBackend) -> np.ndarray:
    """Return what follows some tokens."""
    assert backend.decode([BatchPart(0, 0, list(range(20, 60)), wants_logits=True)]) is DecodeStatus.DONE
    return backend.logits(0).copy()


def test_snapshots_are_kept_apart_when_the_size_of_the_context_changes_the_rotation(stretched: Path) -> None:
    with loaded(stretched, ORIGINAL_CONTEXT) as short, loaded(stretched, 4 * ORIGINAL_CONTEXT) as long:
        assert np.abs(logits(short) - logits(long)).max() > 0.01
        assert short.state_keys != long.state_keys


def test_snapshots_are_shared_when_the_size_of_the_context_changes_nothing(stretched: Path, tmp_path: Path) -> None:
    plain = TINY_MODELS["llama"].write(tmp_path / "plain.gguf")
    for path, sizes in ((stretched, (2, 4)), (plain, (1, 4))):
        with loaded(path, sizes[0] * ORIGINAL_CONTEXT) as one, loaded(path, sizes[1] * ORIGINAL_CONTEXT) as other:
            assert np.abs(logits(one) - logits(other)).max() < 0.001
            assert one.state_keys == other.state_keys
