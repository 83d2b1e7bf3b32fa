"""What a probe's numbers are made of: context size, cache types, and sentences with both sizes."""

import msgspec
import pytest

from engine.backend_llama.devices import Placement
from engine.backend_llama.estimate import LoadPlan, make_plan, size_text
from engine.backend_llama.layer_weights import sum_layers
from engine.backend_llama.native_params import expert_pattern
from engine.backend_llama.probing import Budget, ContextSize, ProbeRequest, ProbeResult, fits, read_size
from engine.errors import OutOfMemory
from engine.free_memory import FreeMemory
from engine.params import LoadMode, ModelParams

GIB, MIB = 1 << 30, 1 << 20


def size_of(n_ctx: int, gib: float, cache_type: str = "f16") -> ContextSize:
    half = int(gib * GIB / 2)
    return ContextSize(n_ctx=n_ctx, type_k=cache_type, type_v=cache_type, key_bytes=half, value_bytes=half)


def plan(result: ProbeResult, params: ModelParams, free_gib: float, address_gib: float | None = None) -> LoadPlan:
    free = FreeMemory(int(free_gib * GIB), None if address_gib is None else int(address_gib * GIB))
    budget = Budget(resident_bytes=free.resident_bytes, address_bytes=free.address_bytes)
    return make_plan(result, ProbeRequest(path="x.gguf", params=params, budget=budget), free)


SIZES = (size_of(16384, 5.1), size_of(8192, 2.6), size_of(4096, 1.3))
RESULT = ProbeResult(n_ctx_train=32768, n_layer=9, weight_bytes=GIB, sizes=SIZES, saving=size_of(16384, 2.7, "q8_0"))


def test_wrong_choice_is_explained_with_numbers_and_ways_out() -> None:
    with pytest.raises(OutOfMemory) as caught:
        plan(RESULT, ModelParams(n_ctx=16384), 3.2)
    assert caught.value.message == "A context of 16,384 tokens needs 5.1 GiB; 3.2 GiB are free."
    assert caught.value.hint == "Try a context of 8,192 tokens (2.6 GiB), or a q8_0 cache (2.7 GiB)."


def test_nothing_is_offered_where_nothing_fits() -> None:
    with pytest.raises(OutOfMemory) as caught:
        plan(RESULT, ModelParams(n_ctx=16384), 1)
    assert caught.value.hint == "Close other programs, or choose a smaller model."


def test_asked_size_is_taken_when_it_fits() -> None:
    found = plan(RESULT, ModelParams(n_ctx=16384), 6.2)
    assert (found.n_ctx, found.notices, found.repacks) == (16384, (), True)


def test_automatic_size_leaves_half_of_the_free_memory() -> None:
    found = plan(RESULT, ModelParams(), 6)
    assert found.n_ctx == 8192
    assert found.notices == ("The context is 8,192 tokens, because little memory is free.",)


@pytest.mark.parametrize("mode", [LoadMode.READ, LoadMode.DIRECT])
def test_weights_count_where_they_are_not_mapped(mode: LoadMode) -> None:
    with pytest.raises(OutOfMemory, match=r"with the weights needs 6\.1 GiB; 5\.5 GiB are free"):
        plan(RESULT, ModelParams(n_ctx=16384, load_mode=mode), 5.5)


def test_weights_count_where_addresses_are_limited() -> None:
    with pytest.raises(OutOfMemory, match=r"with the weights needs 6\.1 GiB; 5\.5 GiB are free"):
        plan(RESULT, ModelParams(n_ctx=16384), 5.5, 5.5)


def test_weights_that_do_not_fit_are_mapped_with_a_notice() -> None:
    found = plan(
        ProbeResult(n_ctx_train=32768, n_layer=9, weight_bytes=9 * GIB, sizes=SIZES), ModelParams(n_ctx=16384), 6
    )
    assert not found.repacks
    assert "9.0 GiB" in found.notices[0]
    assert "6.0 GiB" in found.notices[0]


def test_cache_types_that_a_model_cannot_use_are_named() -> None:
    result = ProbeResult(n_ctx_train=32768, n_layer=9, types_reason="no whole blocks", sizes=SIZES)
    found = plan(result, ModelParams(n_ctx=16384, type_k="q8_0"), 60)
    assert (found.type_k, found.type_v) == ("f16", "f16")
    assert "q8_0" in found.notices[0]
    assert "no whole blocks" in found.notices[0]


def test_file_without_a_context_is_left_to_the_loader() -> None:
    found = plan(ProbeResult(), ModelParams(type_k="q8_0"), 1)
    assert (found.n_ctx, found.size, found.type_k) == (256, None, "f16")


def test_fits_counts_everything_at_the_border() -> None:
    size = ContextSize(
        n_ctx=256, type_k="f16", type_v="f16", key_bytes=1, value_bytes=2, state_bytes=3, compute_bytes=4
    )
    asked = ModelParams(n_ctx=256)
    assert fits(size, 100, asked, Budget(resident_bytes=10))
    assert not fits(size, 100, asked, Budget(resident_bytes=9))
    assert fits(size, 100, asked, Budget(resident_bytes=10, address_bytes=110))
    assert not fits(size, 100, asked, Budget(resident_bytes=10, address_bytes=109))


def test_sizes_are_read_from_the_log() -> None:
    lines = [
        "llama_context:        CPU  output buffer size =     0.75 MiB",
        "llama_kv_cache: size =   10.00 MiB (  2048 cells, 4 layers), K (f16):    6.00 MiB, V (q8_0):    4.00 MiB",
        "llama_kv_cache: size =    2.00 MiB (   512 cells, 20 layers), K (f16):    1.00 MiB, V (q8_0):    1.00 MiB",
        "llama_memory_recurrent: size =    3.50 MiB (     4 cells,  30 layers,  4 seqs  0 rs_seq), R (f32):  1 MiB",
        "sched_reserve:      CUDA0 compute buffer size =    99.00 MiB",
        "sched_reserve:        CPU compute buffer size =    20.00 MiB",
        "sched_reserve:        CPU compute buffer size =    21.25 MiB",
        "anything else = 5.00 MiB",
    ]
    size = read_size(lines, n_ctx=2048, type_k="f16", type_v="q8_0")
    assert (size.key_bytes, size.value_bytes, size.state_bytes) == (7 * MIB, 5 * MIB, 3 * MIB + MIB // 2)
    assert size.compute_bytes == 22 * MIB
    assert size.total_bytes == int(37.5 * MIB)


def test_layers_of_a_plan_leave_out_experts_that_stay_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[int], int]] = []

    def note(params: ModelParams, layer_bytes: list[int], *, compute_bytes: int) -> Placement:
        asked.append((layer_bytes, compute_bytes))
        return Placement("CPU", (), 0)

    monkeypatch.setattr("engine.backend_llama.devices.place", note)
    size = ContextSize(n_ctx=256, type_k="f16", type_v="f16", key_bytes=20, compute_bytes=7)
    result = ProbeResult(
        n_layer=2, weight_bytes=250, sizes=(size,), layer_bytes=(100, 100, 50), expert_bytes=(80, 80, 0)
    )
    plan(result, ModelParams(experts_on_cpu=1), 6)
    plan(msgspec.structs.replace(result, layer_bytes=(), expert_bytes=()), ModelParams(), 6)
    assert asked == [([30, 110, 50], 7), ([90, 90, 90], 7)]


def test_bytes_of_layers_are_summed_with_the_output_last() -> None:
    tensors = [
        ("token_embd.weight", 1000),
        ("blk.0.attn_q.weight", 1),
        ("blk.0.ffn_up_exps.weight", 20),
        ("blk.1.ffn_gate_up_chexps.weight", 300),
        ("blk.1.ffn_up_shexp.weight", 4),
        ("output_norm.weight", 5),
    ]
    tied = sum_layers(iter(tensors), 2)
    assert tied == ((21, 304, 1005), (20, 300, 0))
    assert sum_layers(iter([*tensors, ("output.weight", 700)]), 2).layer_bytes == (21, 304, 705)


def test_expert_pattern_names_the_first_layers_and_stays_small() -> None:
    assert expert_pattern(2) == r"blk\.(0|1)\.ffn_(up|down|gate_up|gate)_(ch|)exps"
    assert len(expert_pattern(10_000)) < 100


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 MiB"), (50 * MIB, "50 MiB"), (GIB // 2, "0.5 GiB"), (9 * GIB, "9.0 GiB")]
)
def test_sizes_are_written_for_a_person(size: int, text: str) -> None:
    assert size_text(size) == text
