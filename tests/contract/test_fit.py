"""What is reckoned from a header is what llama.cpp plans and allocates, for every kind of memory."""

import re
from pathlib import Path

import pytest

from engine.backend_llama import library as native
from engine.backend_llama import probing
from engine.backend_llama.layer_weights import active_weight_bytes
from engine.backend_llama.loading import LlamaLoader
from engine.backend_llama.native_params import context_settings, model_settings
from engine.params import FlashAttention, LoadMode, ModelParams
from models.compute_buffer import compute_bytes
from models.gguf_info import read_gguf_info
from models.kv_layout import CacheSettings
from models.memory import Room, Wish, fit
from tests.support.planned_models import PLANNED_MODELS
from tests.support.tiny_models import TINY_MODELS

MIB = 1 << 20
LONG = 131_072  # so many cells that the rounding of the log is less than a byte of one


@pytest.fixture(params=["starter", *TINY_MODELS])
def model(request: pytest.FixtureRequest, tmp_path: Path, starter_path: Path) -> Path:
    if request.param == "starter":
        return starter_path
    return TINY_MODELS[request.param].write(tmp_path / "tiny.gguf")


def cache_settings(params: ModelParams) -> CacheSettings:
    return CacheSettings(
        type_k=params.type_k,
        type_v=params.type_v,
        n_seq_max=params.n_seq_max,
        n_batch=params.n_batch,
        n_ubatch=params.n_ubatch,
        has_flash=params.flash_attn is not FlashAttention.OFF,
    )


def plans(path: Path, wanted: list[ModelParams]) -> list[tuple[probing.ContextSize, int]]:
    """Return what llama.cpp plans for some contexts, and how many figures each sum has."""
    library = native.library()
    settings = model_settings(ModelParams(load_mode=LoadMode.READ), n_gpu_layers=0)
    settings.native.no_alloc = True
    loaded = library.llama_model_load_from_file(str(path).encode(), settings.native)
    assert loaded
    found = []
    try:
        for params in wanted:
            native_params = context_settings(params, n_ctx=params.n_ctx, type_k=params.type_k, type_v=params.type_v)
            native_params.swa_full = False  # as the loader has it
            with probing.log_lines() as lines:
                context = library.llama_init_from_model(loaded, native_params)
                assert context, lines
                library.llama_free(context)
            size = probing.read_size(lines, n_ctx=params.n_ctx, type_k=params.type_k, type_v=params.type_v)
            found.append((size, sum("size = " in line and bool(re.search(r"cells|RS", line)) for line in lines)))
    finally:
        library.llama_model_free(loaded)
    return found


def assert_cache_is_the_planned_one(path: Path, wanted: list[ModelParams]) -> None:
    layout = read_gguf_info(path).kv_layout
    assert layout is not None
    assert layout.doubts == ()
    for params, (size, num_figures) in zip(wanted, plans(path, wanted), strict=True):
        found = layout.cache_bytes(params.n_ctx, cache_settings(params))
        slack = 0.006 * MIB * max(num_figures, 1)  # the log rounds each figure
        assert found.keys == pytest.approx(size.key_bytes, abs=slack), params
        assert found.values == pytest.approx(size.value_bytes, abs=slack), params
        assert found.state == pytest.approx(size.state_bytes, abs=slack), params


def test_cache_is_the_one_llama_cpp_plans_to_the_byte_of_a_cell(model: Path) -> None:
    wanted = [
        ModelParams(n_ctx=n_ctx, n_threads=1, n_seq_max=n_seq_max, type_k=type_k, type_v=type_v)
        for n_ctx, n_seq_max in ((LONG, 64), (LONG, 1), (300, 4), (512, 4), (2048, 4), (8192, 4))
        for type_k, type_v in (("f16", "f16"), ("f32", "bf16"))
        if type_k == "f16" or "deepseek2" not in read_gguf_info(model).architecture
    ]
    assert_cache_is_the_planned_one(model, wanted)


@pytest.mark.parametrize("n_ctx", [256, 4096])
def test_buffers_of_a_step_are_about_those_llama_cpp_plans(model: Path, n_ctx: int) -> None:
    params = ModelParams(n_ctx=n_ctx, n_threads=1)
    info = read_gguf_info(model)
    assert info.hyperparameters is not None
    assert info.kv_layout is not None
    [(size, _)] = plans(model, [params])
    found = compute_bytes(info.hyperparameters, info.kv_layout, n_ctx, cache_settings(params))
    assert found == pytest.approx(size.compute_bytes, rel=0.2)


@pytest.mark.parametrize("n_ubatch", [16, 512])
@pytest.mark.parametrize("num_tokens", [64, 2_000, 50_000])
def test_buffers_hold_the_results_of_a_draft_whatever_the_vocabulary(
    tmp_path: Path, num_tokens: int, n_ubatch: int
) -> None:
    path = PLANNED_MODELS["olmo2"]._replace(num_tokens=num_tokens).write(tmp_path / "planned.gguf")
    params = ModelParams(n_ctx=2048, n_threads=1, n_ubatch=n_ubatch)
    info = read_gguf_info(path)
    assert info.hyperparameters is not None
    assert info.kv_layout is not None
    [(size, _)] = plans(path, [params])
    found = compute_bytes(info.hyperparameters, info.kv_layout, 2048, cache_settings(params))
    assert found == pytest.approx(size.compute_bytes, rel=0.2, abs=0.1 * MIB)


@pytest.mark.parametrize("free_mib", [64, 200, 400, 1000, 64_000])
def test_context_is_the_one_the_engine_would_choose(starter_path: Path, free_mib: int) -> None:
    params = ModelParams(n_threads=1)
    budget = probing.Budget(resident_bytes=free_mib * MIB)
    planned = probing.probe(probing.ProbeRequest(path=str(starter_path), params=params, budget=budget))
    found = fit(read_gguf_info(starter_path), Wish(cache=cache_settings(params)), Room(free_mib * MIB))
    assert found.n_ctx == planned.sizes[-1].n_ctx


def test_quantised_cache_is_the_one_llama_cpp_plans(starter_path: Path) -> None:
    wanted = [
        ModelParams(n_ctx=LONG, n_threads=1, type_k=cache_type, type_v=cache_type)
        for cache_type in ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
    ]
    assert_cache_is_the_planned_one(starter_path, wanted)


@pytest.mark.parametrize("name", PLANNED_MODELS)
def test_cache_of_other_architectures_is_the_one_llama_cpp_plans(tmp_path: Path, name: str) -> None:
    wanted = [
        ModelParams(n_ctx=n_ctx, n_threads=1, n_seq_max=n_seq_max, type_k=cache_type, type_v=cache_type)
        for n_ctx, n_seq_max, cache_type in ((LONG, 16, "f16"), (LONG, 1, "q8_0"), (8192, 4, "f16"))
    ]
    assert_cache_is_the_planned_one(PLANNED_MODELS[name].write(tmp_path / "planned.gguf"), wanted)


@pytest.mark.parametrize("name", ["deci", "gemma3", "deepseek2", "jamba", "lfm2-window"])
def test_cache_without_flash_attention_is_the_one_llama_cpp_plans(tmp_path: Path, name: str) -> None:
    params = ModelParams(n_ctx=LONG, n_threads=1, flash_attn=FlashAttention.OFF, n_ubatch=64)
    assert_cache_is_the_planned_one(TINY_MODELS[name].write(tmp_path / "tiny.gguf"), [params])


def test_weights_and_cache_are_those_of_the_loaded_model(model: Path) -> None:
    params = ModelParams(n_ctx=2048, n_threads=1)
    backend = LlamaLoader().load(str(model), params, lambda share: True, is_known=True)
    assert backend is not None
    loaded = backend.description
    backend.close()
    info = read_gguf_info(model)
    found = fit(info, Wish(n_ctx=2048, cache=cache_settings(params)), Room(1 << 40))
    assert found.weight_bytes == loaded.weight_bytes
    assert found.active_bytes == loaded.active_weight_bytes
    assert found.kv_bytes_per_token == loaded.kv_bytes_per_token
    assert found.cache.total == pytest.approx(loaded.cache_bytes, abs=0.05 * MIB)
    assert found.weight_bytes + found.cache.total == pytest.approx(loaded.weight_bytes + loaded.cache_bytes, rel=0.1)


def test_weights_by_use_are_those_of_the_engine(model: Path) -> None:
    info = read_gguf_info(model)
    assert info.weights.total_bytes == info.weight_bytes
    assert info.weights.active_bytes(0.25) == pytest.approx(active_weight_bytes(str(model), 0.25), abs=8)
