"""What a model's layers keep: known answers, the rules of architectures, and headers that cannot be."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import CorruptGGUF
from models.gguf_values import ArrayValue, Value, ValueType
from models.hyperparameters import read_hyperparameters
from models.kv_layout import CACHE_TYPES, CacheSettings, KVLayout
from models.kv_rules import read_kv_layout

GIB = 1 << 30
ONE_CHAT = CacheSettings(n_seq_max=1)
LLAMA_2_7B = {"block_count": 32, "embedding_length": 4096, "attention.head_count": 32}
LLAMA_2_70B = {"block_count": 80, "embedding_length": 8192, "attention.head_count": 64, "attention.head_count_kv": 8}
SMALL = {"block_count": 6, "embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}


def array(*values: int, of: str = "i") -> ArrayValue:
    kind = {"i": ValueType.INT32, "?": ValueType.BOOL, "q": ValueType.INT64}[of]
    return ArrayValue(kind, len(values), struct.pack(f"<{len(values)}{of}", *values))


def layout(architecture: str = "llama", **changes: Any) -> KVLayout:
    return layout_of({**SMALL, **{name.replace("__", "."): value for name, value in changes.items()}}, architecture)


def layout_of(sizes: dict[str, Any], architecture: str = "llama") -> KVLayout:
    values: dict[str, Value] = {f"{architecture}.{name}": value for name, value in sizes.items() if value is not None}
    values.setdefault(f"{architecture}.context_length", 4096)
    return read_kv_layout(values, architecture, read_hyperparameters(values, architecture, "x.gguf"))


def test_cache_of_llama_2_7b_is_the_known_one() -> None:
    found = layout_of(LLAMA_2_7B)
    assert found.bytes_per_token(ONE_CHAT) == 524_288
    assert found.cache_bytes(4096, ONE_CHAT).total == 2 * GIB
    assert 16 * found.cache_bytes(4096, ONE_CHAT).total == 32 * GIB > 14e9


def test_grouped_heads_make_the_cache_eight_times_smaller() -> None:
    grouped = layout_of(LLAMA_2_70B).bytes_per_token(ONE_CHAT)
    assert layout_of({**LLAMA_2_70B, "attention.head_count_kv": 64}).bytes_per_token(ONE_CHAT) == 8 * grouped


@pytest.mark.parametrize(
    ("cache_type", "bytes_of_64"),
    [
        *(("f32", 256), ("f16", 128), ("bf16", 128), ("q8_0", 68), ("q5_1", 48), ("q5_0", 44)),
        *(("q4_1", 40), ("q4_0", 36), ("iq4_nl", 36)),
    ],
)
def test_cache_type_decides_about_the_bytes(cache_type: str, bytes_of_64: int) -> None:
    found = layout(embedding_length=256)  # four heads of 64 numbers
    assert found.bytes_per_token(CacheSettings(type_k=cache_type, type_v=cache_type)) == 6 * 2 * 2 * bytes_of_64


def test_table_of_cache_types_is_whole() -> None:
    assert all(layout().bytes_per_token(CacheSettings(type_k=kind, type_v=kind)) > 0 for kind in CACHE_TYPES)


@pytest.mark.parametrize(("n_ctx", "cells"), [(1, 256), (256, 256), (257, 512), (300, 512), (4096, 4096)])
def test_context_is_rounded_up_as_llama_cpp_does(n_ctx: int, cells: int) -> None:
    assert layout().cache_bytes(n_ctx, ONE_CHAT).total == cells * layout().bytes_per_token(ONE_CHAT)


def test_heads_may_differ_from_layer_to_layer() -> None:
    found = layout(
        "deci", attention__head_count=array(4, 4, 0, 4, 4, 4), attention__head_count_kv=array(2, 1, 0, 4, 2, 2)
    )
    assert found.bytes_per_token(ONE_CHAT) == (2 + 1 + 0 + 4 + 2 + 2) * 16 * 2 * 2
    assert found.doubts == ()


def test_values_are_kept_as_wide_as_the_widest_without_flash_attention() -> None:
    found = layout("deci", attention__head_count_kv=array(2, 1, 0, 4, 2, 2), attention__head_count=4)
    without = found.cache_bytes(256, CacheSettings(n_seq_max=1, has_flash=False))
    assert without.values == 256 * 6 * 4 * 16 * 2
    assert without.keys == found.cache_bytes(256, ONE_CHAT).keys


def test_written_lengths_of_heads_count_instead_of_the_default() -> None:
    found = layout(attention__key_length=24, attention__value_length=8)
    cache = found.cache_bytes(256, ONE_CHAT)
    assert (cache.keys, cache.values) == (256 * 6 * 2 * 24 * 2, 256 * 6 * 2 * 8 * 2)


def test_latent_attention_keeps_one_row_and_no_values() -> None:
    found = layout(
        "deepseek2",
        attention__head_count_kv=1,
        attention__key_length=576,
        attention__value_length=512,
        attention__key_length_mla=192,
        attention__value_length_mla=128,
    )
    assert found.bytes_per_token(ONE_CHAT) == 6 * 576 * 2
    assert found.types_reason(CacheSettings(type_k="q8_0")) == "this model needs the same type for keys and values"


def test_layers_for_drafting_keep_nothing() -> None:
    assert layout("glm4moe", nextn_predict_layers=1).bytes_per_token(ONE_CHAT) == 5 * 2 * 16 * 2 * 2


# --- windows ---


@pytest.mark.parametrize(
    ("architecture", "changes", "windowed"),
    [
        pytest.param("gemma2", {}, "101010", id="every other, window by default"),
        pytest.param("gemma3", {"attention__sliding_window": 512}, "111110", id="all but every sixth"),
        pytest.param("gemma3", {}, "000000", id="none without a window"),
        pytest.param(
            "gemma3",
            {"attention__sliding_window": 512, "attention__sliding_window_pattern": 3},
            "110110",
            id="number in the header",
        ),
        pytest.param(
            "gemma3",
            {
                "attention__sliding_window": 512,
                "attention__sliding_window_pattern": array(1, 0, 0, 1, 1, 0, of="?"),
            },
            "100110",
            id="list in the header",
        ),
        pytest.param("gpt-oss", {"attention__sliding_window": 128}, "101010", id="every other"),
        pytest.param("smallthinker", {"attention__sliding_window": 1}, "011101", id="first of four without"),
        pytest.param("llama4", {}, "111011", id="chunks by default"),
        pytest.param("llama4", {"attention__sliding_window": 0}, "000000", id="chunks switched off"),
        pytest.param("exaone4", {"attention__sliding_window": 4096}, "000000", id="only the large one"),
        pytest.param("phi3", {"attention__sliding_window": 2048}, "000000", id="window that is not used"),
        pytest.param("llama", {"attention__sliding_window": 2048}, "000000", id="window of another program"),
    ],
)
def test_layers_with_a_window_are_those_of_the_architecture(
    architecture: str, changes: dict[str, Any], windowed: str
) -> None:
    found = layout(architecture, **changes)
    assert "".join("1" if layer.is_windowed else "0" for layer in found.layers) == windowed
    assert found.doubts == ()


@pytest.mark.parametrize(
    ("window", "n_seq_max", "n_ctx", "cells"),
    [
        pytest.param(300, 1, 8192, 1024, id="rounded up"),
        pytest.param(512, 4, 8192, 2560, id="for each sequence"),
        pytest.param(512, 4, 1024, 1024, id="no more than the context"),
        pytest.param(512, 1, 100, 256, id="small context"),
    ],
)
def test_window_is_kept_for_every_sequence_and_one_step(window: int, n_seq_max: int, n_ctx: int, cells: int) -> None:
    found = layout("gpt-oss", attention__sliding_window=window)
    part = found.layer_bytes(n_ctx, CacheSettings(n_seq_max=n_seq_max))[0]
    assert part.keys == cells * 2 * 16 * 2


def test_only_layers_that_keep_every_token_count_for_a_token() -> None:
    found = layout("gemma3", attention__sliding_window=512)
    assert found.bytes_per_token(ONE_CHAT) == 1 * 2 * 16 * 2 * 2


# --- states ---

MAMBA = {"ssm__conv_kernel": 4, "ssm__inner_size": 128, "ssm__state_size": 16, "ssm__time_step_rank": 4}


def test_recurrent_model_keeps_a_state_for_each_sequence_whatever_the_context() -> None:
    found = layout("mamba", attention__head_count=0, attention__head_count_kv=None, **MAMBA)
    one = found.cache_bytes(256, ONE_CHAT)
    assert (one.keys, one.values, one.state) == (0, 0, 6 * (3 * 128 + 16 * 128) * 4)
    assert found.cache_bytes(65_536, CacheSettings(n_seq_max=4)).total == 4 * one.total
    assert found.bytes_per_token(ONE_CHAT) == 0


@pytest.mark.parametrize(
    ("architecture", "changes", "kept"),
    [
        pytest.param("jamba", {"attention__head_count_kv": array(0, 2, 0, 0, 2, 0), **MAMBA}, "scsscs", id="by heads"),
        pytest.param("qwen3next", {"full_attention_interval": 3, **MAMBA}, "sscssc", id="every third"),
        pytest.param(
            "qwen3next",
            {"attention__recurrent_layers": array(1, 1, 1, 1, 0, 0, of="?"), **MAMBA},
            "sssscc",
            id="list in the header",
        ),
        pytest.param("falcon-h1", MAMBA, "bbbbbb", id="both in each layer"),
        pytest.param(
            "nemotron_h",
            {
                "attention__head_count_kv": array(0, 2, 0, 0, 2, 0),
                "feed_forward_length": array(0, 0, 64, 0, 0, 64),
                **MAMBA,
            },
            "sc-sc-",
            id="with layers that keep nothing",
        ),
        pytest.param("llama", {}, "cccccc", id="plain"),
    ],
)
def test_layers_with_a_state_are_those_of_the_architecture(
    architecture: str, changes: dict[str, Any], kept: str
) -> None:
    names = {(True, False): "c", (False, True): "s", (True, True): "b", (False, False): "-"}
    found = layout(architecture, **changes)
    assert "".join(names[layer.has_cache, layer.state > 0] for layer in found.layers) == kept


@pytest.mark.parametrize(
    ("architecture", "changes", "numbers"),
    [
        pytest.param("rwkv7", {"wkv__head_size": 16}, 2 * 64 + 64 * 16, id="rwkv"),
        pytest.param("lfm2", {"shortconv__l_cache": 3}, 64 * 2, id="short convolutions"),
        pytest.param("kimi-linear", {"kda__head_dim": 8, "ssm__conv_kernel": 4}, 3 * 3 * 4 * 8 + 8 * 8 * 4, id="kda"),
        pytest.param("minimax-01", {"attention__key_length": 16}, 16 * 16 * 4, id="linear attention"),
        pytest.param("granitehybrid", {**MAMBA, "ssm__group_count": 2}, 3 * (128 + 2 * 2 * 16) + 16 * 128, id="mamba2"),
    ],
)
def test_state_has_the_size_of_its_kind(architecture: str, changes: dict[str, Any], numbers: int) -> None:
    found = layout(architecture, attention__head_count_kv=array(0, 0, 0, 0, 0, 2), **changes)
    assert found.layers[0].state == numbers


def test_later_layers_share_the_caches_of_earlier_ones() -> None:
    gemma = {"attention__sliding_window": 512, "attention__sliding_window_pattern": array(*[1, 1, 0] * 2, of="?")}
    found = layout("gemma4", attention__shared_kv_layers=2, **gemma)
    assert [layer.has_cache for layer in found.layers] == [True] * 4 + [False] * 2


# --- what is not known ---


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        pytest.param("deepseek4", {}, id="memory with parts of its own"),
        pytest.param("brand-new", {"attention__sliding_window": 128}, id="window of an unknown architecture"),
        pytest.param("brand-new", {"ssm__state_size": 16}, id="state of an unknown architecture"),
    ],
)
def test_what_is_not_known_is_a_doubt(architecture: str, changes: dict[str, Any]) -> None:
    assert layout(architecture, **changes).doubts


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"attention__key_length": 2**62}, id="huge heads"),
        pytest.param({"attention__key_length": -1}, id="negative heads"),
        pytest.param({"attention__key_length": "16"}, id="text"),
        pytest.param({"attention__value_length": True}, id="truth value"),
        pytest.param({"attention__key_length": 2**20, "attention__head_count": 2**20}, id="heads too wide"),
        pytest.param({"attention__sliding_window": 2**40}, id="huge window"),
        pytest.param({"attention__sliding_window": 64, "attention__sliding_window_pattern": 2**40}, id="huge pattern"),
        pytest.param(
            {"attention__sliding_window": 64, "attention__sliding_window_pattern": array(1, 0, of="?")}, id="short list"
        ),
        pytest.param(
            {"attention__sliding_window": 64, "attention__sliding_window_pattern": ArrayValue(ValueType.BOOL, 9, None)},
            id="list that was not kept",
        ),
    ],
)
def test_header_that_cannot_be_has_no_layout_but_a_reason(changes: dict[str, Any]) -> None:
    heads = changes.get("attention__head_count", 4)
    found = layout("gemma3", **{**changes, "attention__head_count_kv": heads})
    assert found.layers == ()
    assert len(found.doubts) == 1


_NUMBERS = st.sampled_from([0, 1, 2, 6, 64, 2**20, 2**20 + 1, 2**31, 2**63, -1])
_VALUES = st.one_of(
    _NUMBERS,
    st.sampled_from([0.5, True, "16", ArrayValue(ValueType.STRING, 6, None), ArrayValue(ValueType.INT32, 9, None)]),
    st.lists(st.integers(-2, 4), max_size=8).map(lambda numbers: array(*numbers)),
)
_KEYS = (
    *("attention.key_length", "attention.value_length", "attention.key_length_swa", "attention.key_length_mla"),
    *("attention.value_length_mla", "attention.sliding_window", "attention.sliding_window_pattern"),
    *("attention.shared_kv_layers", "attention.recurrent_layers", "full_attention_interval", "nextn_predict_layers"),
    *("attention.head_count", "attention.head_count_kv", "feed_forward_length", "ssm.inner_size", "ssm.state_size"),
    *("ssm.conv_kernel", "ssm.group_count", "wkv.head_size", "shortconv.l_cache", "kda.head_dim"),
)
_ARCHITECTURES = (
    *("llama", "gemma3", "gemma4", "gpt-oss", "lfm2", "jamba", "nemotron_h", "qwen3next", "falcon-h1", "rwkv7"),
    *("deepseek2", "kimi-linear", "minimax-01", "deepseek4", "plamo2", "brand-new"),
)


@settings(max_examples=400)
@given(st.sampled_from(_ARCHITECTURES), st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=6))
def test_no_header_breaks_the_arithmetic(architecture: str, changes: dict[str, Any]) -> None:
    try:
        found = layout_of({**SMALL, **changes}, architecture)
    except CorruptGGUF as error:
        assert error.message.startswith("x.gguf is damaged: ")
        return
    for has_flash in (True, False):
        cache = found.cache_bytes(4096, CacheSettings(has_flash=has_flash))
        assert min(cache) >= 0
        assert cache.total < 2**70
    assert bool(found.layers) or len(found.doubts) == 1


@pytest.mark.parametrize(
    ("cache_settings", "reason"),
    [
        (CacheSettings(type_k="q8_0", type_v="q8_0"), "the heads of 16 key numbers are no whole blocks of q8_0"),
        (CacheSettings(type_v="q4_0"), "the heads of 16 value numbers are no whole blocks of q4_0"),
        (CacheSettings(type_v="q4_0", has_flash=False), "quantised values need flash attention"),
        (CacheSettings(type_k="f32", type_v="bf16"), ""),
    ],
    ids=["keys", "values", "no flash attention", "plain"],
)
def test_cache_types_that_cannot_be_used_have_a_reason(cache_settings: CacheSettings, reason: str) -> None:
    assert layout().types_reason(cache_settings) == reason
