"""The trial of a file: its numbers are those of the library after the load, and what kills it harms nobody."""

import logging
import os
import re
import time
from pathlib import Path

import pytest

from engine.backend_llama.loading import LlamaLoader
from engine.backend_llama.probing import Budget, ProbeRequest, ProbeResult
from engine.errors import OutOfMemory, UnsupportedModel
from engine.messages import ModelDescription
from engine.params import FlashAttention, LoadMode, ModelParams, RopeScaling
from engine.probe_child import Death, try_file
from tests.support.gguf_files import edit_gguf, write_tiny_model
from tests.support.tiny_models import TINY_MODELS

MIB = 1 << 20
ENOUGH = Budget(resident_bytes=1 << 40)


def trial(path: Path, params: ModelParams, time_limit_s: float = 60.0) -> ProbeResult | Death | None:
    return try_file(ProbeRequest(path=str(path), params=params, budget=ENOUGH), lambda: True, time_limit_s)


def load(path: Path, params: ModelParams) -> ModelDescription:
    backend = LlamaLoader().load(str(path), params, lambda share: True)
    assert backend is not None
    backend.close()
    return backend.description


@pytest.fixture(params=["starter", *TINY_MODELS])
def model(request: pytest.FixtureRequest, tmp_path: Path, starter_path: Path) -> Path:
    if request.param == "starter":
        return starter_path
    return TINY_MODELS[request.param].write(tmp_path / "tiny.gguf")


def test_trial_tells_what_the_library_takes(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    for n_ctx in (512, 2048, 8192):
        params = ModelParams(n_ctx=n_ctx, n_threads=1)
        found = trial(model, params)
        assert isinstance(found, ProbeResult)
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="llama.cpp"):
            description = load(model, params)
        taken = dict.fromkeys(("KV", "RS", "compute", "output"), 0.0)
        for kind, size in re.findall(r"(KV|RS|compute|output) buffer size = +([\d.]+) MiB", caplog.text):
            taken[kind] += float(size)
        [size] = found.sizes
        slack = 0.03 * MIB  # the log rounds each buffer
        assert size.cache_bytes == pytest.approx((taken["KV"] + taken["RS"]) * MIB, rel=0.1, abs=slack)
        assert size.compute_bytes == pytest.approx((taken["compute"] + taken["output"]) * MIB, rel=0.1, abs=slack)
        assert found.weight_bytes == description.weight_bytes
        assert description.cache_bytes + description.compute_bytes == pytest.approx(size.total_bytes, rel=0.1)


def _killing(tmp_path: Path) -> Path:
    source = write_tiny_model(tmp_path / "sound.gguf")
    return edit_gguf(source, tmp_path / "bad.gguf", set={"llama.expert_count": 4, "llama.expert_used_count": 9})


def test_file_that_kills_its_process_fails_with_a_sentence(tmp_path: Path) -> None:
    path = _killing(tmp_path)
    found = trial(path, ModelParams())
    assert isinstance(found, Death)
    assert found.cause == "SIGABRT"
    with pytest.raises(UnsupportedModel, match=r"bad.gguf ended the process that tried it \(SIGABRT\)") as caught:
        load(path, ModelParams())
    assert caught.value.details


def test_trial_ends_when_it_takes_too_long(starter_path: Path) -> None:
    began = time.monotonic()
    assert trial(starter_path, ModelParams(), 0.0) == Death("time limit", ())
    assert time.monotonic() - began < 5


def test_trial_ends_when_it_is_not_wanted(starter_path: Path) -> None:
    request = ProbeRequest(path=str(starter_path), params=ModelParams(), budget=ENOUGH)
    assert try_file(request, lambda: False) is None
    assert LlamaLoader().load(str(starter_path), ModelParams(), lambda share: False) is None


def test_file_is_tried_once_and_again_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def note(request: ProbeRequest, *others: object) -> object:
        tried.append(request.path)
        return try_file(request, *others)  # type: ignore[arg-type]

    monkeypatch.setattr("engine.backend_llama.estimate.try_file", note)
    path = write_tiny_model(tmp_path / "tiny.gguf")
    loader, params = LlamaLoader(), ModelParams(n_ctx=512, n_threads=1)
    for expected in (1, 1, 2):
        if expected == 2:
            os.utime(path, (0, 0))
        backend = loader.load(str(path), params, lambda share: True)
        assert backend is not None
        backend.close()
        assert len(tried) == expected
    backend = LlamaLoader().load(str(path), params, lambda share: True, is_known=True)
    assert backend is not None
    backend.close()
    assert len(tried) == 2


def test_context_that_does_not_fit_is_refused_before_it_is_taken(starter_path: Path) -> None:
    with pytest.raises(OutOfMemory, match=r"16,000,000 tokens needs [\d.]+ GiB; [\d.]+ GiB are free"):
        load(starter_path, ModelParams(n_ctx=16_000_000))


@pytest.mark.parametrize(
    ("pair", "flash"),
    [
        *((("q8_0", "f16"), flash) for flash in FlashAttention),
        *((pair, FlashAttention.ON) for pair in (("f16", "q4_0"), ("q8_0", "q8_0"), ("q4_0", "q8_0"))),
    ],
)
def test_types_that_a_model_cannot_use_become_f16_with_a_notice(
    tmp_path: Path, pair: tuple[str, str], flash: FlashAttention
) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")  # heads of 16 numbers, half a block
    found = load(path, ModelParams(n_ctx=512, n_threads=1, type_k=pair[0], type_v=pair[1], flash_attn=flash))
    assert (found.type_k, found.type_v) == ("f16", "f16")
    assert "no whole blocks" in found.notices[0]


@pytest.mark.parametrize("pair", [("f16", "f16"), ("q8_0", "f16"), ("q8_0", "q4_0"), ("bf16", "q5_1")], ids="-".join)
def test_types_that_a_model_can_use_are_used(starter_path: Path, pair: tuple[str, str]) -> None:
    found = load(starter_path, ModelParams(n_ctx=512, n_threads=1, type_k=pair[0], type_v=pair[1]))
    assert (found.type_k, found.type_v, found.notices) == (*pair, ())


@pytest.mark.parametrize(
    "params",
    [
        *(ModelParams(n_ctx=512, n_threads=1, load_mode=mode) for mode in LoadMode),
        *(ModelParams(n_ctx=512, n_threads=1, rope_scaling=scaling) for scaling in RopeScaling),
        ModelParams(n_ctx=512, n_threads=1, rope_scaling=RopeScaling.YARN, rope_freq_scale=0.25, yarn_orig_ctx=128),
        ModelParams(n_ctx=512, n_threads=1, rope_freq_base=1e9, rope_freq_scale=16),
        ModelParams(n_ctx=512, n_threads=1, device="cpu", experts_on_cpu=10_000),
        ModelParams(n_ctx=512, n_threads=1, n_batch=1, n_ubatch=8192),
    ],
)
def test_every_way_of_loading_ends_in_a_model(tmp_path: Path, params: ModelParams) -> None:
    found = load(write_tiny_model(tmp_path / "a b ä日 #?%20&'.gguf"), params)
    assert (found.n_ctx, found.device, found.n_gpu_layers) == (512, "CPU", 0)


def test_cache_types_are_measured_with_their_bytes(starter_path: Path) -> None:
    loader = LlamaLoader()
    backend = loader.load(str(starter_path), ModelParams(n_ctx=2048, n_threads=1), lambda share: True)
    assert backend is not None
    try:
        rows = {(row.type_k, row.type_v): row for row in loader.measure_cache_types(backend)}
    finally:
        backend.close()
    plain = rows["f16", "f16"]
    assert plain.total_bytes == pytest.approx(2048 * 23_040, rel=0.01)
    assert rows["q8_0", "q8_0"].total_bytes == pytest.approx(plain.total_bytes * 34 / 64, rel=0.01)
    assert plain.decode_rate is not None
    assert plain.decode_rate > 0
    assert all((row.decode_rate is None) == bool(row.reason) for row in rows.values())


def test_cache_types_that_cannot_be_used_have_a_reason(tmp_path: Path) -> None:
    loader = LlamaLoader()
    path = write_tiny_model(tmp_path / "tiny.gguf")
    backend = loader.load(str(path), ModelParams(n_ctx=512, n_threads=1), lambda share: True)
    assert backend is not None
    try:
        rows = loader.measure_cache_types(backend)
    finally:
        backend.close()
    measured = {(row.type_k, row.type_v) for row in rows if row.decode_rate is not None}
    assert measured == {("f16", "f16"), ("bf16", "bf16"), ("f32", "f32")}
    assert all("no whole blocks" in row.reason for row in rows if row.decode_rate is None)
