"""The trial of a file: its numbers are those of the library after the load, and what kills it harms nobody."""

import functools
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest

from engine.backend_llama import cache_types
from engine.backend_llama.loading import LlamaLoader
from engine.backend_llama.probing import Budget, ProbeRequest, ProbeResult, probe
from engine.errors import OutOfMemory, UnsupportedModel
from engine.messages import CacheTypeRow, ModelDescription
from engine.params import FlashAttention, LoadMode, ModelParams, RopeScaling
from engine.probe_child import Death, NoChild, try_file
from tests.support import probe_children
from tests.support.gguf_files import bpe_vocabulary, edit_gguf, write_tiny_model
from tests.support.tiny_models import TINY_MODELS

MIB = 1 << 20
ENOUGH = Budget(resident_bytes=1 << 40)


def trial(path: Path, params: ModelParams, time_limit_s: float = 60.0) -> ProbeResult | Death | NoChild | None:
    return try_file(ProbeRequest(path=str(path), params=params, budget=ENOUGH), lambda: True, time_limit_s)


def tried_here(request: ProbeRequest) -> ProbeResult:
    """Probe in this process, by way of the messages that cross to a child and back."""
    here = msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=ProbeRequest)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(probe(here)), type=ProbeResult)


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the start of a process where the file is known to harm nobody."""
    monkeypatch.setattr("engine.backend_llama.estimate.try_file", lambda request, *others: tried_here(request))


def load(path: Path, params: ModelParams, *, is_known: bool = False) -> ModelDescription:
    backend = LlamaLoader().load(str(path), params, lambda share: True, is_known=is_known)
    assert backend is not None
    backend.close()
    return backend.description


BYTES_PER_TOKEN = {  # of layers that keep every token
    "starter": 23_040,
    "llama": 256,
    "llama-spm": 256,
    "qwen2vl": 256,
    "deci": 448,  # layers of 2, 1, 0 and 4 heads
    "olmoe": 512,
    "deepseek2": 160,  # one row of 40 numbers a layer, and no values
    "gemma3": 128,  # one layer of three without a window
    "gpt-oss": 256,
    "mamba": 0,
    "mamba2": 0,
    "jamba": 256,  # two layers of four with attention
    "granitehybrid": 256,
    "lfm2": 256,
    "lfm2-window": 256,
}


@pytest.mark.parametrize("name", ["starter", *TINY_MODELS])
def test_trial_tells_what_the_library_takes(
    name: str, starter_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = starter_path if name == "starter" else TINY_MODELS[name].write(tmp_path / "tiny.gguf")
    for n_ctx in (512, 2048, 8192):
        params = ModelParams(n_ctx=n_ctx, n_threads=1)
        request = ProbeRequest(path=str(model), params=params, budget=ENOUGH)
        found = trial(model, params) if n_ctx == 512 else tried_here(request)
        assert isinstance(found, ProbeResult)
        monkeypatch.setattr("engine.backend_llama.estimate.try_file", lambda *arguments, found=found: found)
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
        assert description.kv_bytes_per_token == BYTES_PER_TOKEN[name]


@pytest.mark.parametrize("name", ["llama", "olmoe", "deepseek2", "jamba"])
def test_layers_add_up_to_the_weights(tmp_path: Path, name: str) -> None:
    path = TINY_MODELS[name].write(tmp_path / "ä 日#%.gguf")
    request = ProbeRequest(path=str(path), params=ModelParams(n_ctx=512), budget=ENOUGH, has_graphics=True)
    found = tried_here(request)
    assert len(found.layer_bytes) == len(found.expert_bytes) == found.n_layer + 1
    input_bytes = len(bpe_vocabulary().tokens) * 64 * 4  # stays on the processor
    assert sum(found.layer_bytes) == found.weight_bytes - input_bytes
    assert any(found.expert_bytes) == (name != "llama")


def test_input_that_is_the_output_too_counts_once_for_a_device(starter_path: Path) -> None:
    request = ProbeRequest(path=str(starter_path), params=ModelParams(n_ctx=512), budget=ENOUGH, has_graphics=True)
    found = try_file(request, lambda: True)
    assert isinstance(found, ProbeResult)
    assert sum(found.layer_bytes) == found.weight_bytes
    assert found.layer_bytes[-1] > 5 * found.layer_bytes[0]


def test_cache_becomes_f16_when_llama_cpp_makes_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.backend_llama.probing.types_reason", lambda *arguments: "")
    path = write_tiny_model(tmp_path / "tiny.gguf")  # heads of 16 numbers, which only llama.cpp itself now checks
    params = ModelParams(n_ctx=512, n_threads=1, type_k="q8_0", type_v="q8_0", flash_attn=FlashAttention.ON)
    backend = LlamaLoader().load(str(path), params, lambda share: True, is_known=True)
    assert backend is not None
    backend.close()
    assert (backend.description.type_k, backend.description.type_v) == ("f16", "f16")
    assert "keys as q8_0 with values as q8_0 cannot be used" in backend.description.notices[0]


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
    assert trial(starter_path, ModelParams(), 0.0) == Death("", ())
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        pytest.param(probe_children.die, "ended the process that tried it (SIGSEGV).", id="dies"),
        pytest.param(probe_children.hang, "could not read tiny.gguf within 0 seconds.", id="hangs"),
        pytest.param(probe_children.talk, "could not read tiny.gguf within 0 seconds.", id="talks"),
    ],
)
def test_load_fails_with_a_sentence_and_the_next_works_when_the_trial_ends_badly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[Connection], None], sentence: str
) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    loader, params = LlamaLoader(trial_limit_s=0.2), ModelParams(n_ctx=512, n_threads=1)
    with monkeypatch.context() as patch:
        patch.setattr("engine.backend_llama.estimate.try_file", functools.partial(try_file, run=run))
        with pytest.raises(UnsupportedModel, match=re.escape(sentence)):
            loader.load(str(path), params, lambda share: True)
    assert load(path, params, is_known=True).n_ctx == 512


def test_model_is_loaded_without_a_trial_when_its_process_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow_log: Callable[[str], None]
) -> None:
    allow_log(r"WARNING engine.backend_llama.estimate: .* without a trial: .*\(exit code 1\)")
    monkeypatch.setattr("engine.backend_llama.estimate.try_file", functools.partial(try_file, run=probe_children.leave))
    found = load(write_tiny_model(tmp_path / "tiny.gguf"), ModelParams(n_ctx=512, n_threads=1))
    assert found.kv_bytes_per_token > 0


def test_script_without_a_main_guard_loads_a_model(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from engine.backend_llama.loading import LlamaLoader\n"
        "from engine.params import ModelParams\n"
        "backend = LlamaLoader().load(sys.argv[1], ModelParams(n_ctx=512, n_threads=1), lambda share: True)\n"
        "print(backend.description.n_ctx)\n"
        "backend.close()\n",
        "utf-8",
    )
    command = [sys.executable, str(script), str(write_tiny_model(tmp_path / "tiny.gguf"))]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "512\n"), done.stderr


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
@pytest.mark.usefixtures("no_child")
def test_types_that_a_model_cannot_use_become_f16_with_a_notice(
    tmp_path: Path, pair: tuple[str, str], flash: FlashAttention
) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")  # heads of 16 numbers, half a block
    found = load(path, ModelParams(n_ctx=512, n_threads=1, type_k=pair[0], type_v=pair[1], flash_attn=flash))
    assert (found.type_k, found.type_v) == ("f16", "f16")
    assert "no whole blocks" in found.notices[0]


@pytest.fixture
def whole_blocks(tmp_path: Path) -> Path:
    """Return a model whose heads of 32 numbers fill the blocks of every cache type."""
    return write_tiny_model(tmp_path / "blocks.gguf", n_embd=128)


@pytest.mark.parametrize(
    ("pair", "kv_bytes_per_token"),
    [(("f16", "f16"), 512), (("q8_0", "f16"), 392), (("q8_0", "q4_0"), 208), (("bf16", "q5_1"), 352)],
    ids=["f16-f16", "q8_0-f16", "q8_0-q4_0", "bf16-q5_1"],
)
@pytest.mark.usefixtures("no_child")
def test_types_that_a_model_can_use_are_used_and_counted(
    whole_blocks: Path, pair: tuple[str, str], kv_bytes_per_token: int
) -> None:
    found = load(whole_blocks, ModelParams(n_ctx=512, n_threads=1, type_k=pair[0], type_v=pair[1]))
    assert (found.type_k, found.type_v, found.notices) == (*pair, ())
    assert found.kv_bytes_per_token == kv_bytes_per_token


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
@pytest.mark.usefixtures("no_child")
def test_every_way_of_loading_ends_in_a_model(tmp_path: Path, params: ModelParams) -> None:
    found = load(write_tiny_model(tmp_path / "a b ä日 #?%20&'.gguf"), params)
    assert (found.n_ctx, found.device, found.n_gpu_layers) == (512, "CPU", 0)


def measured(path: Path, params: ModelParams) -> tuple[CacheTypeRow, ...]:
    loader = LlamaLoader()
    backend = loader.load(str(path), msgspec.structs.replace(params, n_threads=1), lambda share: True, is_known=True)
    assert backend is not None
    try:
        return loader.measure_cache_types(backend)
    finally:
        backend.close()


def test_cache_types_are_measured_with_their_bytes(whole_blocks: Path) -> None:
    rows = {(row.type_k, row.type_v): row for row in measured(whole_blocks, ModelParams(n_ctx=2048))}
    plain = rows["f16", "f16"]
    assert plain.total_bytes == pytest.approx(2048 * 512, rel=0.01)
    assert rows["q8_0", "q8_0"].total_bytes == pytest.approx(plain.total_bytes * 34 / 64, rel=0.01)
    assert all(row.decode_rate and row.decode_rate > 0 and not row.reason for row in rows.values())


@pytest.mark.parametrize("name", TINY_MODELS)
def test_types_in_use_are_measured_for_every_kind_of_memory(tmp_path: Path, name: str) -> None:
    rows = measured(TINY_MODELS[name].write(tmp_path / "tiny.gguf"), ModelParams(n_ctx=512, type_k="f32", type_v="f32"))
    assert [(row.type_k, row.type_v) for row in rows[:2]] == [("f32", "f32"), ("f16", "f16")]
    assert all(row.decode_rate and row.prefill_rate and not row.reason for row in rows[:2])


def test_single_slow_step_does_not_spoil_a_measured_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [0.01, 0.5, 0.1, 9.0, 0.1]  # warming up, prefill, and steps of which one is delayed
    monkeypatch.setattr("engine.backend_llama.cache_types._step_s", lambda context, count: times.pop(0))
    row = measured(write_tiny_model(tmp_path / "tiny.gguf"), ModelParams(n_ctx=512))[0]
    assert (row.prefill_rate, row.decode_rate) == (100.0, 10.0)


@pytest.mark.parametrize(("num_steps", "has_prefill"), [(0, False), (1, False), (2, True), (4, True)], ids=str)
def test_measuring_ends_between_any_two_steps_when_its_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_steps: int, has_prefill: bool
) -> None:
    now = [0.0]
    monkeypatch.setattr("engine.backend_llama.cache_types.time.perf_counter", lambda: now[0])

    def step_s(context: object, count: int) -> float:
        now[0] += cache_types.WHOLE_LIMIT_S / num_steps
        return 0.01

    if num_steps == 0:
        monkeypatch.setattr("engine.backend_llama.cache_types.WHOLE_LIMIT_S", 0.0)
    monkeypatch.setattr("engine.backend_llama.cache_types._step_s", step_s)
    rows = measured(write_tiny_model(tmp_path / "tiny.gguf"), ModelParams(n_ctx=512))
    assert (rows[0].prefill_rate is not None, rows[0].decode_rate) == (has_prefill, None)
    assert rows[0].reason == "the time for measuring was up"
    assert all(row.bytes_per_token for row in rows)


def test_cache_types_that_cannot_be_used_have_a_reason(tmp_path: Path) -> None:
    rows = measured(write_tiny_model(tmp_path / "tiny.gguf"), ModelParams(n_ctx=512))
    assert {(row.type_k, row.type_v) for row in rows if row.decode_rate is not None} == {("f16", "f16")}
    assert all("no whole blocks" in row.reason for row in rows if row.decode_rate is None)
