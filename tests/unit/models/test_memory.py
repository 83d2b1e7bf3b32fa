"""Whether a model fits: known answers, verdicts, devices, drafts, and models of which not all is known."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from engine import bandwidth_share, decode_bytes
from models.gguf_info import GGUFInfo
from models.hyperparameters import Hyperparameters
from models.kv_layout import CacheSettings, KVLayout, LayerCache
from models.memory import AUTO_CTX, TIGHT_SHARE, Room, Verdict, Wish, decode_rate, fit
from models.model_kinds import ModelKind
from models.quant_types import TensorType
from models.tensor_entry import TensorEntry
from models.weight_sums import WeightCounter, WeightSums, joined

MIB, GIB, GB = 1 << 20, 1 << 30, 10**9
PLENTY = Room(1 << 50)
USUAL_LAYER = LayerCache(has_cache=True, key_width=1024, value_width=1024)


def sizes(**changes: Any) -> Hyperparameters:
    usual = Hyperparameters(
        n_ctx_train=131_072,
        block_count=32,
        embedding_length=4096,
        head_counts=(32,) * 32,
        head_counts_kv=(8,) * 32,
        expert_count=0,
        expert_used_count=0,
        sliding_window=0,
        feed_forward_length=14_336,
        num_vocabulary=128_256,
        num_merges=280_147,
    )
    return dataclasses.replace(usual, **changes)


def model(
    *,
    layer_bytes: int = 128 * MIB,
    layers: int = 32,
    kv: LayerCache | None = USUAL_LAYER,
    **changes: Any,
) -> GGUFInfo:
    weights = WeightSums(
        layer_bytes=(layer_bytes,) * layers,
        expert_bytes=(0,) * layers,
        input_bytes=256 * MIB,
        other_bytes=256 * MIB,
        has_output=True,
        matrix_bytes=((TensorType.Q4_K, layer_bytes * layers),),
    )
    usual = GGUFInfo(
        path=Path("/models/x.gguf"),
        file_bytes=weights.total_bytes,
        version=3,
        kind=ModelKind.TEXT,
        architecture="llama",
        name="x",
        type_name="Q4_K_M",
        licence="",
        has_chat_template=True,
        num_tensors=291,
        num_parameters=8_000_000_000,
        weight_bytes=weights.total_bytes,
        hyperparameters=sizes(),
        weights=weights,
        kv_layout=KVLayout((kv,) * layers) if kv is not None else None,
    )
    return dataclasses.replace(usual, **changes)


def tensor(name: bytes, tensor_type: TensorType, num_dimensions: int, num_elements: int) -> TensorEntry:
    return TensorEntry(name, (num_elements, *(1,) * (num_dimensions - 1)), tensor_type, 0, num_elements)


# --- known answers ---


@pytest.mark.parametrize(
    ("tensor_type", "gigabytes"),
    [(TensorType.F32, 28.0), (TensorType.F16, 14.0), (TensorType.Q8_0, 7.4), (TensorType.Q4_0, 3.9)],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_weights_of_seven_billion_parameters(tensor_type: TensorType, gigabytes: float) -> None:
    counter = WeightCounter()
    counter.add(tensor(b"blk.0.ffn_up.weight", tensor_type, 2, 7 * GB))
    total = counter.sums().total_bytes / GB
    assert total == pytest.approx(gigabytes, abs=0.05)
    bits = {TensorType.F32: 32, TensorType.F16: 16, TensorType.Q8_0: 8, TensorType.Q4_0: 4}[tensor_type]
    # Quantised blocks have a 16-bit scale beside their numbers.
    assert 7 * bits / 8 <= total <= 7 * (bits + 0.5) / 8


def test_decode_ceiling_of_fourteen_gigabytes_at_a_terabyte_a_second() -> None:
    assert decode_rate(1e12, 14 * GB, 0, 0) == pytest.approx(71, abs=0.5)


def test_experts_of_mixtral_are_held_and_only_some_are_read() -> None:
    # Sizes of Mixtral 8x7B: 32 layers, width 4096, 14336 in each of 8 experts of which 2 are used.
    counter = WeightCounter()
    for layer in range(32):
        name = f"blk.{layer}.".encode()
        for matrix in (b"ffn_gate_exps.weight", b"ffn_up_exps.weight", b"ffn_down_exps.weight"):
            counter.add(tensor(name + matrix, TensorType.F16, 3, 8 * 4096 * 14_336))
        counter.add(tensor(name + b"attn_qkv.weight", TensorType.F16, 2, 4096 * (4096 + 2 * 1024 + 4096)))
        counter.add(tensor(name + b"ffn_gate_inp.weight", TensorType.F16, 2, 4096 * 8))
    counter.add(tensor(b"token_embd.weight", TensorType.F16, 2, 4096 * 32_000))
    counter.add(tensor(b"output.weight", TensorType.F16, 2, 4096 * 32_000))
    weights = counter.sums()
    assert weights.total_bytes / 2 == pytest.approx(47e9, rel=0.02)
    assert weights.active_bytes(2 / 8) / 2 == pytest.approx(13e9, rel=0.03)
    mixtral = model(weights=weights, hyperparameters=sizes(expert_count=8, expert_used_count=2))
    assert fit(mixtral, Wish(n_ctx=4096), PLENTY).active_bytes == weights.active_bytes(0.25)


@pytest.mark.parametrize("num_tokens", [0, 1000])
def test_predicted_rate_is_the_bandwidth_share_the_other_way_around(num_tokens: int) -> None:
    rate = decode_rate(2e10, 5 * GB, 131_072, num_tokens)
    assert rate is not None
    assert bandwidth_share(2e10, decode_bytes(5 * GB, 131_072, num_tokens), rate) == pytest.approx(1.0)


@pytest.mark.parametrize(("bandwidth", "active"), [(0.0, 1), (-1.0, 1), (float("inf"), 1), (float("nan"), 1), (1e9, 0)])
def test_rate_is_unknown_without_a_bandwidth_or_weights(bandwidth: float, active: int) -> None:
    assert decode_rate(bandwidth, active, 0, 0) is None


# --- verdicts ---


def needed(wish: Wish) -> int:
    return fit(model(), wish, PLENTY).needed_bytes


@pytest.mark.parametrize(
    ("share", "verdict"),
    [(1.5, Verdict.FITS), (1.02, Verdict.TIGHT), (0.98, Verdict.DOES_NOT_FIT)],
    ids=["fits", "tight", "does not fit"],
)
def test_verdict_says_how_much_is_needed_and_free(share: float, verdict: Verdict) -> None:
    wish = Wish(n_ctx=8192)
    free = int(needed(wish) * share)
    found = fit(model(), wish, Room(free))
    assert (found.verdict, found.free_bytes, found.needed_bytes) == (verdict, free, needed(wish))
    assert found.is_allowed == (verdict is not Verdict.DOES_NOT_FIT)


def test_what_is_unloaded_first_counts_as_free() -> None:
    wish = Wish(n_ctx=8192)
    half = needed(wish) * 3 // 4
    assert fit(model(), wish, Room(half)).verdict is Verdict.DOES_NOT_FIT
    found = fit(model(), wish, Room(half, released_bytes=half))
    assert (found.verdict, found.free_bytes) == (Verdict.FITS, 2 * half)


def test_verdict_stays_true_when_it_is_overruled() -> None:
    found = fit(model(), Wish(n_ctx=8192, is_forced=True), Room(1))
    assert (found.verdict, found.is_allowed) == (Verdict.DOES_NOT_FIT, True)


def test_needed_is_the_sum_of_its_parts() -> None:
    found = fit(model(), Wish(n_ctx=8192, draft=model(layers=4), adapter_bytes=5 * MIB), PLENTY)
    parts = found.weight_bytes + found.cache.total + found.compute_bytes + found.program_bytes
    assert found.needed_bytes == parts + found.draft_bytes + found.adapter_bytes
    assert found.draft_bytes > model(layers=4).weight_bytes
    assert found.cache.total == 32 * 2 * 1024 * 2 * 8192


def test_offset_of_the_machine_is_part_of_what_is_needed() -> None:
    with_offset = fit(model(), Wish(n_ctx=8192), Room(1 << 50, offset_bytes=40 * MIB))
    assert with_offset.needed_bytes == needed(Wish(n_ctx=8192)) + 40 * MIB


def test_copied_weights_are_in_the_peak_but_not_needed() -> None:
    plain = fit(model(), Wish(n_ctx=8192), PLENTY)
    copied = fit(model(), Wish(n_ctx=8192), Room(1 << 50, repacked_types=frozenset({TensorType.Q4_K})))
    assert plain.peak_bytes == plain.needed_bytes == copied.needed_bytes
    assert copied.peak_bytes == plain.peak_bytes + 32 * 128 * MIB


# --- contexts ---


def test_longest_context_is_the_longest_that_fits() -> None:
    free = fit(model(), Wish(n_ctx=20_000), PLENTY).needed_bytes * 10 // 9
    found = fit(model(), Wish(n_ctx=512), Room(free))
    assert found.largest_n_ctx is not None
    assert fit(model(), Wish(n_ctx=found.largest_n_ctx), Room(free)).verdict is Verdict.FITS
    assert fit(model(), Wish(n_ctx=found.largest_n_ctx + 256), Room(free)).verdict is not Verdict.FITS
    assert found.largest_n_ctx == pytest.approx(20_000, abs=512)


def test_longest_context_may_leave_little_where_none_fits_well() -> None:
    smallest = fit(model(), Wish(n_ctx=256), PLENTY).needed_bytes
    found = fit(model(), Wish(n_ctx=256), Room(int(smallest / TIGHT_SHARE) - MIB))
    assert found.verdict is Verdict.TIGHT
    assert found.largest_n_ctx is not None
    assert found.largest_n_ctx >= 256


def test_longest_context_is_none_where_the_weights_do_not_fit() -> None:
    assert fit(model(), Wish(n_ctx=256), Room(GIB)).largest_n_ctx == 0


def test_longest_context_is_no_longer_than_the_trained_one() -> None:
    found = fit(model(hyperparameters=sizes(n_ctx_train=4096)), Wish(n_ctx=512), PLENTY)
    assert found.largest_n_ctx == 4096


@pytest.mark.parametrize(
    ("trained", "free", "n_ctx"),
    [
        pytest.param(131_072, 1 << 50, AUTO_CTX, id="no more than the engine takes"),
        pytest.param(2048, 1 << 50, 2048, id="no more than trained"),
        pytest.param(131_072, 5 * GIB, 4096, id="what leaves room"),
        pytest.param(131_072, 1, 256, id="never nothing"),
    ],
)
def test_context_is_chosen_as_the_engine_would(trained: int, free: int, n_ctx: int) -> None:
    assert fit(model(hyperparameters=sizes(n_ctx_train=trained)), Wish(), Room(free)).n_ctx == n_ctx


def test_automatic_context_fits_a_machine_of_two_gigabytes() -> None:
    small = model(layer_bytes=4 * MIB)
    found = fit(small, Wish(), Room(2 * GIB))
    assert found.verdict is Verdict.FITS
    assert fit(small, Wish(n_ctx=131_072), Room(2 * GIB)).verdict is Verdict.DOES_NOT_FIT


def test_context_beyond_the_trained_one_is_reckoned_and_told() -> None:
    found = fit(model(hyperparameters=sizes(n_ctx_train=4096)), Wish(n_ctx=8192), PLENTY)
    assert found.cache.total == 32 * 2 * 1024 * 2 * 8192
    assert found.reasons == ("The context of 8,192 tokens is longer than the 4,096 it was trained for.",)


def test_cache_types_that_cannot_be_used_become_f16_and_it_is_said() -> None:
    odd = model(kv_layout=KVLayout((LayerCache(True, 1024, 1024),) * 32, key_heads=(80,), value_heads=(80,)))
    found = fit(odd, Wish(n_ctx=512, cache=CacheSettings(type_k="q8_0", type_v="q8_0")), PLENTY)
    assert (found.type_k, found.type_v) == ("f16", "f16")
    assert "80 key numbers are no whole blocks of q8_0" in found.reasons[0]
    assert found.cache == fit(odd, Wish(n_ctx=512), PLENTY).cache


# --- devices ---


def test_layers_go_to_a_graphics_device_as_far_as_they_fit() -> None:
    room = Room(64 * GIB, device_free_bytes=(4 * GIB,))
    found = fit(model(), Wish(n_ctx=8192), room)
    assert 0 < found.n_gpu_layers < 33
    assert found.device_needed_bytes <= 4 * GIB
    on_host = fit(model(), Wish(n_ctx=8192), Room(64 * GIB))
    moved = found.device_needed_bytes - found.compute_bytes
    assert found.needed_bytes == on_host.needed_bytes - moved
    assert found.decode_rate is None  # a graphics processor reads its own memory


def test_whole_model_goes_to_a_large_device() -> None:
    found = fit(model(), Wish(n_ctx=8192), Room(64 * GIB, device_free_bytes=(24 * GIB,)))
    assert found.n_gpu_layers == 33
    assert found.device_needed_bytes == found.weight_bytes - 256 * MIB + found.cache.total + found.compute_bytes


def test_layers_that_were_asked_for_may_be_too_many() -> None:
    room = Room(64 * GIB, device_free_bytes=(2 * GIB,))
    assert fit(model(), Wish(n_ctx=8192, n_gpu_layers=33), room).verdict is Verdict.DOES_NOT_FIT
    assert fit(model(), Wish(n_ctx=8192, n_gpu_layers=0), room).device_needed_bytes == 0


def test_device_that_shares_the_memory_of_the_machine_adds_none() -> None:
    separate = fit(model(), Wish(n_ctx=8192), Room(64 * GIB, device_free_bytes=(24 * GIB,)))
    shared = fit(model(), Wish(n_ctx=8192), Room(64 * GIB, device_free_bytes=(24 * GIB,), is_unified=True))
    assert shared.needed_bytes == fit(model(), Wish(n_ctx=8192), Room(64 * GIB)).needed_bytes
    assert shared.needed_bytes > separate.needed_bytes


def test_experts_may_stay_with_the_processor() -> None:
    weights = dataclasses.replace(model().weights, expert_bytes=(100 * MIB,) * 32)
    experts = model(weights=weights, hyperparameters=sizes(expert_count=8, expert_used_count=2))
    room = Room(64 * GIB, device_free_bytes=(24 * GIB,))
    all_there = fit(experts, Wish(n_ctx=8192), room)
    some_here = fit(experts, Wish(n_ctx=8192, experts_on_cpu=10), room)
    assert all_there.device_needed_bytes - some_here.device_needed_bytes == 10 * 100 * MIB


# --- several files, and what is not known ---


def test_parts_of_a_split_model_count_together() -> None:
    first = model(layers=16)
    second = dataclasses.replace(first, split_no=1, weights=WeightSums((0,) * 16 + (128 * MIB,) * 16, (0,) * 32))
    found = fit(first, Wish(n_ctx=512), PLENTY, parts=[second])
    assert found.weight_bytes == first.weights.total_bytes + 16 * 128 * MIB
    assert joined([first.weights, second.weights]).layer_bytes == (128 * MIB,) * 32


def test_doubtful_cache_is_a_range() -> None:
    layout = dataclasses.replace(model().kv_layout or KVLayout(()), doubts=("it keeps more than keys and values",))
    found = fit(model(kv_layout=layout), Wish(n_ctx=8192), PLENTY)
    exact = fit(model(), Wish(n_ctx=8192), PLENTY)
    assert found.least_needed_bytes < exact.needed_bytes < found.needed_bytes
    assert (found.verdict, found.largest_n_ctx) == (Verdict.FITS, None)
    assert found.reasons == ("x.gguf: it keeps more than keys and values.",)
    between = (found.least_needed_bytes + found.needed_bytes) // 2
    assert fit(model(kv_layout=layout), Wish(n_ctx=8192), Room(between)).verdict is Verdict.UNKNOWN
    assert fit(model(kv_layout=layout), Wish(n_ctx=8192), Room(GIB)).verdict is Verdict.DOES_NOT_FIT


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(model(kv_layout=KVLayout((), doubts=("its heads are impossibly wide",))), id="broken header"),
        pytest.param(model(hyperparameters=None, kv_layout=None, kind=ModelKind.PROJECTOR), id="projector"),
    ],
)
def test_model_without_a_layout_is_unknown_and_never_a_number(info: GGUFInfo) -> None:
    found = fit(info, Wish(n_ctx=8192), PLENTY)
    assert found.verdict is Verdict.UNKNOWN
    assert (found.cache.total, found.largest_n_ctx, found.decode_rate) == (0, None, None)
    assert len(found.reasons) == 1
    assert fit(info, Wish(n_ctx=8192), Room(GIB)).verdict is Verdict.DOES_NOT_FIT


def test_absurd_wishes_overflow_nothing() -> None:
    found = fit(model(), Wish(n_ctx=1 << 200, cache=CacheSettings(n_seq_max=10**9, n_ubatch=10**9)), Room(GIB))
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert found.n_ctx == 1 << 24


# --- weights by layer ---


def test_weights_are_summed_by_layer_and_use() -> None:
    counter = WeightCounter()
    counter.add(tensor(b"token_embd.weight", TensorType.I8, 2, 1000))
    counter.add(tensor(b"blk.1.attn_q.weight", TensorType.I8, 2, 10))
    counter.add(tensor(b"blk.1.attn_norm.weight", TensorType.I8, 1, 1))
    counter.add(tensor(b"blk.1.ffn_down_exps.weight", TensorType.F16, 3, 50))
    counter.add(tensor(b"blk.1.ffn_down_shexp.weight", TensorType.I8, 2, 7))
    counter.add(tensor(b"output_norm.weight", TensorType.I8, 1, 3))
    sums = counter.sums()
    assert (sums.layer_bytes, sums.expert_bytes) == ((0, 118), (0, 100))
    assert (sums.input_bytes, sums.other_bytes, sums.has_output) == (1000, 3, False)
    assert sums.total_bytes == 1121
    assert sums.active_bytes(0.5) == 1121 - 50  # the table is the output too
    assert dict(sums.matrix_bytes) == {TensorType.I8: 17, TensorType.F16: 100}


def test_layer_numbers_no_model_has_make_no_list() -> None:
    counter = WeightCounter()
    counter.add(tensor(b"blk.9999.attn_q.weight", TensorType.I8, 2, 8))
    counter.add(tensor(b"blk.99999999999.attn_q.weight", TensorType.I8, 2, 8))
    assert counter.sums().layer_bytes == ()
    assert counter.sums().total_bytes == 16
