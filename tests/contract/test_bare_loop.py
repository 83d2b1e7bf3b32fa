"""The bare loop and the matrix product on the real library."""

from pathlib import Path

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.backend_llama import LlamaLoader
from engine.backend_llama.matmul_rate import matmul_rate
from engine.messages import RunBareLoop
from engine.params import ModelParams
from tests.support.tiny_models import TINY_MODELS


@pytest.mark.parametrize("num_sequences", [1, 3])
@pytest.mark.parametrize("name", TINY_MODELS)
def test_bare_loop_runs_beside_every_kind_of_memory(tmp_path: Path, name: str, num_sequences: int) -> None:
    loader = LlamaLoader()
    path = TINY_MODELS[name].write(tmp_path / "tiny.gguf")
    backend = loader.load(str(path), ModelParams(n_ctx=512, n_threads=1), lambda share: True, is_known=True)
    assert backend is not None
    try:
        assert backend.decode([BatchPart(0, 0, (1, 2, 3), wants_logits=True)]) is DecodeStatus.DONE
        request = RunBareLoop(request_id="b", num_prompt_tokens=40, num_tokens=5, num_sequences=num_sequences)
        run = loader.run_bare_loop(backend, request)
        assert backend.seq_len(0) == 3  # it has a context of its own
    finally:
        backend.close()
    assert run.n_threads == 1
    assert run.prefill_s > 0
    assert len(run.step_s) == 4
    assert all(step > 0 for step in run.step_s)


def test_prompt_longer_than_a_batch_is_read_in_several(tmp_path: Path) -> None:
    loader = LlamaLoader()
    path = next(iter(TINY_MODELS.values())).write(tmp_path / "tiny.gguf")
    params = ModelParams(n_ctx=512, n_threads=1, n_batch=64, n_ubatch=64)
    backend = loader.load(str(path), params, lambda share: True, is_known=True)
    assert backend is not None
    try:
        run = loader.run_bare_loop(backend, RunBareLoop(request_id="b", num_prompt_tokens=200, num_tokens=2))
    finally:
        backend.close()
    assert len(run.step_s) == 1


def test_active_bytes_are_those_of_the_experts_in_use(tmp_path: Path) -> None:
    found = {}
    for name, model in TINY_MODELS.items():
        loader = LlamaLoader()
        path = model.write(tmp_path / f"{name}.gguf")
        backend = loader.load(str(path), ModelParams(n_ctx=256, n_threads=1), lambda share: True, is_known=True)
        assert backend is not None
        found[name] = (backend.description.active_weight_bytes, backend.description.weight_bytes)
        backend.close()
    assert all(0 < active <= whole for active, whole in found.values())
    assert any(active < whole for active, whole in found.values()), found


@pytest.mark.parametrize("n_threads", [1, 2])
def test_matrix_product_has_a_rate(n_threads: int) -> None:
    rate = matmul_rate(n_threads)
    assert rate is not None
    assert rate > 0
