"""Every pair of cache types, with and without flash attention, in the real worker: a reply, or first a sentence."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import (
    FlashAttention,
    InvalidParams,
    LoadModel,
    ModelDescription,
    ModelLoaded,
    ModelParams,
    ProcessClient,
    SamplingParams,
)
from tests.support.engine_driver import EngineDriver
from tests.support.gguf_files import write_tiny_model
from tests.support.tiny_models import TINY_MODELS

TYPES = ("f16", "q8_0", "q4_0", "f32")
QUANTISED = ("q8_0", "q4_0")
CHOICES = [
    pytest.param((type_k, type_v), flash, id=f"{type_k}-{type_v}-flash {flash.value}")
    for type_k, type_v, flash in itertools.product(TYPES, TYPES, FlashAttention)
    if type_v not in QUANTISED or flash is not FlashAttention.OFF
]
# Loads of the starter take a while: each type is tried with it on either side, and each choice of flash attention.
STARTER_CHOICES = [
    choice for choice in CHOICES if choice.id in ("f16-f32-flash off", "q8_0-q4_0-flash auto", "q4_0-f16-flash on")
]


@pytest.fixture(scope="module")
def driver(tiny: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(ProcessClient())
    described(driver, tiny, ModelParams(n_ctx=256, n_threads=1))  # starts all its processes before the first test
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model whose heads of 16 numbers are half a block."""
    return TINY_MODELS["llama"].write(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model whose heads of 64 numbers are two blocks, as those of the starter."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "whole.gguf", n_embd=256, n_head=4)


@pytest.fixture(scope="module")
def latent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model whose keys and values share a row."""
    return TINY_MODELS["deepseek2"].write(tmp_path_factory.mktemp("models") / "latent.gguf")


def described(driver: EngineDriver, path: Path, params: ModelParams) -> ModelDescription:
    """Load a model, let it reply, and return what it is."""
    request_id = driver.new_id()
    # Of a file that is sound: the trials would take most of the time.
    driver.client.send(LoadModel(request_id=request_id, path=str(path), params=params, is_known=True))
    loaded = driver.wait_final(request_id)
    assert isinstance(loaded, ModelLoaded), loaded
    reply = driver.reply("Say yes.", sampling=SamplingParams(temperature=0, max_tokens=2))
    assert reply.metrics.num_generated_tokens >= 1
    return loaded.description


@pytest.mark.parametrize(("pair", "flash"), STARTER_CHOICES)
def test_pair_ends_in_a_reply_of_the_starter(
    driver: EngineDriver, starter_path: Path, pair: tuple[str, str], flash: FlashAttention
) -> None:
    check_is_kept(driver, starter_path, pair, flash)


@pytest.mark.parametrize(("pair", "flash"), CHOICES)
def test_pair_ends_in_a_reply_of_a_model_whose_heads_are_whole_blocks(
    driver: EngineDriver, whole: Path, pair: tuple[str, str], flash: FlashAttention
) -> None:
    check_is_kept(driver, whole, pair, flash)


def check_is_kept(driver: EngineDriver, path: Path, pair: tuple[str, str], flash: FlashAttention) -> None:
    params = ModelParams(n_ctx=256, n_threads=1, type_k=pair[0], type_v=pair[1], flash_attn=flash)
    found = described(driver, path, params)
    assert (found.type_k, found.type_v, found.notices) == (*pair, ())


@pytest.mark.parametrize("pair", list(itertools.product(TYPES, QUANTISED)), ids="-".join)
def test_quantised_values_without_flash_attention_are_no_choice(pair: tuple[str, str]) -> None:
    with pytest.raises(InvalidParams, match=f"A {pair[1]} value cache needs flash attention"):
        ModelParams(type_k=pair[0], type_v=pair[1], flash_attn=FlashAttention.OFF)


@pytest.mark.parametrize(("pair", "flash"), CHOICES)
def test_pair_ends_in_a_reply_of_a_model_whose_heads_are_no_whole_blocks(
    driver: EngineDriver, tiny: Path, pair: tuple[str, str], flash: FlashAttention
) -> None:
    found = described(
        driver, tiny, ModelParams(n_ctx=256, n_threads=1, type_k=pair[0], type_v=pair[1], flash_attn=flash)
    )
    if any(cache_type in QUANTISED for cache_type in pair):
        assert (found.type_k, found.type_v) == ("f16", "f16")
        assert "cannot be used" in found.notices[0]
    else:
        assert (found.type_k, found.type_v, found.notices) == (*pair, ())


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("f32", "f32"), ""),
        (("bf16", "bf16"), ""),
        (("f16", "f32"), "this model needs the same type for keys and values"),
        (("f32", "q8_0"), "this model needs the same type for keys and values"),
        (("q8_0", "q8_0"), "the heads of 40 key numbers are no whole blocks of q8_0"),
    ],
    ids=str,
)
def test_latent_attention_takes_one_type_for_both(
    driver: EngineDriver, latent: Path, pair: tuple[str, str], reason: str
) -> None:
    found = described(driver, latent, ModelParams(n_ctx=256, n_threads=1, type_k=pair[0], type_v=pair[1]))
    assert (found.type_k, found.type_v) == (("f16", "f16") if reason else pair)
    assert bool(found.notices) == bool(reason)
    assert not reason or reason in found.notices[0]


@pytest.mark.parametrize(
    ("n_batch", "n_ubatch", "n_seq_max"), [(1, 1, 1), (1, 512, 1), (1, 8192, 4), (64, 512, 4), (512, 1, 4)], ids=str
)
def test_batches_of_odd_sizes_end_in_a_reply(
    driver: EngineDriver, whole: Path, n_batch: int, n_ubatch: int, n_seq_max: int
) -> None:
    params = ModelParams(n_ctx=256, n_threads=1, n_batch=n_batch, n_ubatch=n_ubatch, n_seq_max=n_seq_max)
    found = described(driver, whole, params)
    assert found.n_batch >= found.n_ubatch >= n_seq_max
