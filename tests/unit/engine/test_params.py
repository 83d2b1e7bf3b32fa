"""Settings refuse what they may not be, with a sentence, and describe themselves completely."""

import math
from typing import Any

import pytest

from engine.errors import InvalidParams
from engine.params import (
    CACHE_TYPES,
    CacheParams,
    FlashAttention,
    ModelParams,
    ParamInfo,
    RopeScaling,
    SamplingParams,
    param_infos,
)
from engine.params.sampling import MAX_SEED, MAX_STOP_STRINGS

TYPES = (CacheParams, ModelParams, SamplingParams)
DECLARED = [
    pytest.param(params_type, info, id=f"{params_type.__name__}.{name}")
    for params_type in TYPES
    for name, info in param_infos(params_type).items()
]


WHOLE_NUMBERS = [
    pytest.param(params_type, info, id=f"{params_type.__name__}.{name}")
    for params_type in TYPES
    for name, info in param_infos(params_type).items()
    if info.is_integer
]


def _make(params_type: type, info: ParamInfo, value: object):
    return params_type(**{info.name: value})


@pytest.mark.parametrize(("params_type", "info"), DECLARED)
def test_ends_of_the_range_are_legal_when_set(params_type: type, info: ParamInfo):
    kind = int if info.is_integer else float
    for value in (kind(info.minimum), kind(info.maximum)):
        assert getattr(_make(params_type, info, value), info.name) == value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("beyond", ["below", "above"])
@pytest.mark.parametrize(("params_type", "info"), DECLARED)
def test_value_is_refused_with_its_range_when_it_is_beyond_an_end(params_type: type, info: ParamInfo, beyond: str):
    kind, gap = (int, 1) if info.is_integer else (float, 1e-6)
    value = kind(info.minimum) - gap if beyond == "below" else kind(info.maximum) + gap
    with pytest.raises(InvalidParams) as caught:
        _make(params_type, info, value)
    assert info.name in caught.value.message
    numbers = {number.rstrip(".") for number in caught.value.message.replace(",", "").split()}
    assert {str(kind(info.minimum)), str(kind(info.maximum))} <= {str(kind(float(n))) for n in numbers if _is_number(n)}
    assert caught.value.hint.endswith(".")


BAD_VALUES = [math.nan, math.inf, -math.inf, True, "1", b"1", [1], 1j]


@pytest.mark.parametrize("value", BAD_VALUES, ids=lambda value: f"{str(value)[:6]}-{type(value).__name__}")
@pytest.mark.parametrize(("params_type", "info"), DECLARED)
def test_value_is_refused_with_a_sentence_when_it_is_no_number_of_the_range(
    params_type: type, info: ParamInfo, value: object
):
    with pytest.raises(InvalidParams) as caught:
        _make(params_type, info, value)
    assert info.name in caught.value.message
    assert caught.value.message.endswith(".")


@pytest.mark.parametrize("digits", [30, 400, 4000])
@pytest.mark.parametrize("name", ["temperature", "seed", "max_tokens"])
def test_number_is_refused_with_a_sentence_when_it_is_beyond_all_arithmetic(name: str, digits: int):
    for value in (10**digits, -(10**digits)):
        with pytest.raises(InvalidParams, match=name):
            SamplingParams(**{name: value})


@pytest.mark.parametrize(("params_type", "info"), WHOLE_NUMBERS)
def test_fraction_is_refused_when_the_setting_is_a_whole_number(params_type: type, info: ParamInfo):
    with pytest.raises(InvalidParams, match="whole number"):
        _make(params_type, info, float(info.minimum))


@pytest.mark.parametrize(("params_type", "info"), DECLARED)
def test_none_is_legal_only_when_the_setting_names_it(params_type: type, info: ParamInfo):
    if info.none_label is not None:
        assert getattr(_make(params_type, info, None), info.name) is None
    else:
        with pytest.raises(InvalidParams):
            _make(params_type, info, None)


@pytest.mark.parametrize(("params_type", "info"), DECLARED)
def test_metadata_is_complete_when_a_panel_is_drawn_from_it(params_type: type, info: ParamInfo):
    assert info.label.strip() == info.label != ""
    assert info.help.endswith(".")
    assert info.minimum < info.maximum
    assert 0 < info.step <= info.maximum - info.minimum
    assert info.soft_maximum is None or info.minimum < info.soft_maximum <= info.maximum
    assert info.default == getattr(params_type(), info.name)
    info.check(info.default)
    if info.is_integer:
        assert all(number == int(number) for number in (info.minimum, info.maximum, info.step))


@pytest.mark.parametrize(
    ("params_type", "others"),
    [
        (SamplingParams, {"stop", "samplers", "logit_bias", "grammar", "json_schema", "reproducible"}),
        (ModelParams, {"flash_attn", "type_k", "type_v", "device", "split_mode", "load_mode", "rope_scaling"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_number_is_declared_when_params_are_listed(params_type, others: set[str]):
    assert list(param_infos(params_type)) == [name for name in params_type.__struct_fields__ if name not in others]


def test_repeat_penalty_is_off_and_says_what_it_harms_by_default():
    assert SamplingParams().repeat_penalty == 1.0
    assert "harms" in param_infos(SamplingParams)["repeat_penalty"].help


def test_zero_is_a_seed_and_none_is_random_when_seeds_are_set():
    assert SamplingParams(seed=0).seed == 0
    assert SamplingParams().seed is None
    assert SamplingParams(seed=MAX_SEED).seed == MAX_SEED
    with pytest.raises(InvalidParams):
        SamplingParams(seed=MAX_SEED + 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("",), ()),
        ((" ",), (" ",)),
        (("ok", ""), ("ok",)),
        (("", "", "\n", ""), ("\n",)),
        (("a", "b", "a"), ("a", "b")),
        (("a\ud83d",), ("a\ufffd",)),
        (["x", "y"], ("x", "y")),
        (tuple(f"s{i}" for i in range(50)), tuple(f"s{i}" for i in range(50))),
    ],
    ids=["empty", "blank", "one and empty", "line break", "twice", "surrogate", "list", "fifty"],
)
def test_stop_list_holds_each_string_once_and_no_empty_one_when_set(given, expected):
    assert SamplingParams(stop=given).stop == expected


def test_stop_list_is_refused_when_it_is_too_long():
    most = tuple(f"s{i}" for i in range(MAX_STOP_STRINGS))
    assert len(SamplingParams(stop=most).stop) == MAX_STOP_STRINGS
    with pytest.raises(InvalidParams, match=str(MAX_STOP_STRINGS)):
        SamplingParams(stop=(*most, "one more"))


@pytest.mark.parametrize("name", ["type_k", "type_v"])
@pytest.mark.parametrize("value", ["q2_K", "", "F16", "i8"])
def test_cache_type_is_refused_when_the_library_has_no_such(name: str, value: str):
    params: dict[str, Any] = {name: value}
    with pytest.raises(InvalidParams, match=name) as caught:
        ModelParams(**params)
    assert "q8_0" in caught.value.hint


@pytest.mark.parametrize("cache_type", CACHE_TYPES)
def test_quantised_value_cache_is_refused_only_when_flash_attention_is_off(cache_type: str):
    for flash_attn in (FlashAttention.AUTO, FlashAttention.ON):
        assert ModelParams(type_v=cache_type, type_k=cache_type, flash_attn=flash_attn).type_v == cache_type
    assert ModelParams(type_k=cache_type, flash_attn=FlashAttention.OFF).type_k == cache_type
    if cache_type in ("f16", "f32", "bf16"):
        assert ModelParams(type_v=cache_type, flash_attn=FlashAttention.OFF).type_v == cache_type
    else:
        with pytest.raises(InvalidParams, match="flash attention"):
            ModelParams(type_v=cache_type, flash_attn=FlashAttention.OFF)


@pytest.mark.parametrize("params_type", TYPES)
def test_params_cannot_be_changed_when_made(params_type: type):
    params = params_type()
    with pytest.raises(AttributeError):
        setattr(params, next(iter(param_infos(params_type))), 1)


@pytest.mark.parametrize(
    "values",
    [
        {"device": "x" * 129},
        {"device": "a\nb"},
        {"device": 3},
        {"device": "CPU", "n_gpu_layers": 4},
        {"rope_scaling": RopeScaling.NONE, "rope_freq_scale": 0.5},
        {"rope_freq_base": 0.5},
        {"rope_freq_scale": 1e-6},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_together_are_refused_with_a_sentence(values: dict[str, Any]):
    with pytest.raises(InvalidParams) as caught:
        ModelParams(**values)
    assert caught.value.message.endswith(".")
    assert caught.value.hint.endswith(".")
