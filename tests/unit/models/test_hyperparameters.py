"""The sizes of a model: read where they are possible, refused where llama.cpp would abort."""

import struct

import pytest

from models.errors import CorruptGGUF
from models.gguf_values import ArrayValue, Value, ValueType
from models.hyperparameters import MAX_EXPERTS, MAX_LAYERS, Hyperparameters, read_hyperparameters

SOUND: dict[str, Value] = {
    "llama.block_count": 2,
    "llama.context_length": 512,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}


def numbers(*values: int) -> ArrayValue:
    return ArrayValue(ValueType.INT32, len(values), struct.pack(f"<{len(values)}i", *values))


def read(**changes: Value | None) -> Hyperparameters:
    values = SOUND | {f"llama.{name.replace('__', '.')}": value for name, value in changes.items()}
    return read_hyperparameters({name: value for name, value in values.items() if value is not None}, "llama", "x.gguf")


def test_sound_sizes_are_read() -> None:
    sizes = read(attention__sliding_window=128, expert_count=8, expert_used_count=2)
    assert (sizes.block_count, sizes.n_ctx_train, sizes.embedding_length) == (2, 512, 64)
    assert (sizes.head_counts, sizes.head_counts_kv) == ((4, 4), (2, 2))
    assert (sizes.expert_count, sizes.expert_used_count, sizes.sliding_window) == (8, 2, 128)


def test_key_and_value_heads_default_to_the_heads() -> None:
    assert read(attention__head_count_kv=None).head_counts_kv == (4, 4)


def test_heads_may_differ_from_layer_to_layer() -> None:
    sizes = read(attention__head_count=numbers(4, 8), attention__head_count_kv=numbers(0, 2))
    assert (sizes.head_counts, sizes.head_counts_kv) == ((4, 8), (0, 2))


def test_model_without_attention_is_sound() -> None:
    assert read(attention__head_count=0, attention__head_count_kv=None).head_counts == (0, 0)


def test_dense_model_that_names_one_expert_is_sound_where_llama_cpp_takes_it() -> None:
    values = {name.replace("llama", "hunyuan-dense"): value for name, value in SOUND.items()}
    sizes = read_hyperparameters(values | {"hunyuan-dense.expert_count": 1}, "hunyuan-dense", "x.gguf")
    assert sizes.expert_count == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"block_count": 0},
        {"block_count": MAX_LAYERS + 1},
        {"block_count": None},
        {"block_count": "two"},
        {"block_count": True},
        {"block_count": 2.0},
        {"context_length": 0},
        {"context_length": 2**32 - 1},
        {"embedding_length": 0},
        {"nextn_predict_layers": 3},
        {"expert_count": MAX_EXPERTS + 1, "expert_used_count": 1},
        {"expert_count": 2, "expert_used_count": 3},
        {"expert_count": 8},
        {"expert_used_count": 1},
        {"expert_count": 8, "expert_used_count": 2, "expert_group_count": 8},
        {"expert_count": 8, "expert_used_count": 2, "expert_group_count": 3},
        {"expert_count": 8, "expert_used_count": 2, "expert_group_count": 4, "expert_group_used_count": 4},
        {"expert_group_count": 1},
        {"rope__scaling__type": "banana"},
        {"rope__scaling__type": 3},
        {"attention__head_count": -1},
        {"attention__head_count": 2**31},
        {"attention__head_count": numbers(4)},
        {"attention__head_count": numbers(4, -4)},
        {"attention__head_count": ArrayValue(ValueType.STRING, 2, None)},
        {"attention__head_count_kv": 3},
        {"attention__layer_norm_rms_epsilon": -1.0},
        {"attention__layer_norm_rms_epsilon": float("nan")},
        {"attention__layer_norm_epsilon": "small"},
    ],
    ids=lambda changes: ",".join(f"{name}={value!s:.20}" for name, value in changes.items()),
)
def test_impossible_sizes_are_refused(changes: dict[str, Value | None]) -> None:
    with pytest.raises(CorruptGGUF, match=r"^x\.gguf is damaged: it"):
        read(**changes)
