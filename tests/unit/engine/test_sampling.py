"""What a request's settings make of the sampler chain."""

import itertools

import pytest

from engine.errors import InvalidParams
from engine.params import SAMPLER_NAMES, SamplingParams
from engine.params.sampling import MAX_SEED
from engine.sampling import SAMPLER_STEPS, SELECTORS, chain_of, num_remembered, seed_of, selector_of

NEUTRAL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}


def _names(params: SamplingParams) -> list[str]:
    return [step.name for step in chain_of(params)]


@pytest.mark.parametrize(
    "others",
    [
        dict(zip(("top_k", "top_p", "min_p", "seed"), values, strict=True))
        for values in itertools.product((0, 1, 40), (0.0, 1.0), (0.0, 1.0), (1, 2, 3))
    ],
    ids=lambda others: ",".join(f"{name}={value}" for name, value in others.items()),
)
def test_chain_is_empty_when_temperature_is_zero_whatever_else_is_set(others: dict):
    assert _names(SamplingParams(temperature=0.0, **others)) == []


def test_repeat_penalty_stays_when_temperature_is_zero():
    params = SamplingParams(temperature=0, repeat_penalty=1.3, repeat_last_n=32)
    (step,) = chain_of(params)
    assert step.name == "penalties"
    assert step.arguments(params) == (32, 1.3, 0.0, 0.0)


def test_no_step_is_left_when_every_setting_is_neutral():
    assert chain_of(SamplingParams(**NEUTRAL)) == []


@pytest.mark.parametrize(
    ("changed", "name", "arguments"),
    [
        ({"temperature": 0.5}, "temperature", (0.5, 0.0, 1.0)),
        ({"dynatemp_range": 0.5}, "temperature", (1.0, 0.5, 1.0)),
        ({"typical_p": 0.5}, "typical_p", (0.5,)),
        ({"top_n_sigma": 1.5}, "top_n_sigma", (1.5,)),
        ({"xtc_probability": 0.5}, "xtc", (0.5, 0.1)),
        ({"dry_multiplier": 0.8}, "dry", (0.8, 1.75, 2, 1024)),
        ({"frequency_penalty": 0.5}, "penalties", (64, 1.0, 0.5, 0.0)),
        ({"presence_penalty": -0.5}, "penalties", (64, 1.0, 0.0, -0.5)),
        ({"top_k": 7}, "top_k", (7,)),
        ({"top_p": 0.9}, "top_p", (0.9,)),
        ({"top_p": 0.0}, "top_p", (0.0,)),
        ({"min_p": 0.1}, "min_p", (0.1,)),
        ({"repeat_penalty": 1.1, "repeat_last_n": 5}, "penalties", (5, 1.1, 0.0, 0.0)),
        ({"repeat_penalty": 0.9}, "penalties", (64, 0.9, 0.0, 0.0)),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_one_step_is_on_with_its_arguments_when_one_setting_is_not_neutral(changed, name, arguments):
    params = SamplingParams(**(NEUTRAL | changed))
    (step,) = chain_of(params)
    assert step.name == name
    assert step.arguments(params) == arguments


def test_repeat_penalty_is_off_when_its_window_is_empty():
    assert chain_of(SamplingParams(**(NEUTRAL | {"repeat_penalty": 1.5, "repeat_last_n": 0}))) == []


def test_default_chain_has_no_penalty_and_selects_before_it_scales_when_run():
    assert _names(SamplingParams()) == ["top_k", "top_p", "min_p", "temperature"]


def test_every_named_step_is_in_the_table():
    assert tuple(SAMPLER_STEPS) == SAMPLER_NAMES


def test_order_is_the_one_asked_for_and_what_is_not_named_is_left_out():
    params = SamplingParams(samplers=("min_p", "top_k"), temperature=0.5, top_p=0.5)
    assert _names(params) == ["min_p", "top_k"]


@pytest.mark.parametrize(
    ("settings", "name", "arguments"),
    [
        ({}, "dist", ()),
        ({"temperature": 0.0, "mirostat": 2}, "greedy", ()),
        ({"mirostat": 1}, "mirostat", (5.0, 0.1)),
        ({"mirostat": 2, "mirostat_tau": 3.0}, "mirostat_v2", (3.0, 0.1)),
        ({"adaptive_target": 0.3}, "adaptive_p", (0.3, 0.9)),
    ],
    ids=str,
)
def test_one_step_chooses_at_the_end(settings: dict, name: str, arguments: tuple):
    params = SamplingParams(**settings)
    assert selector_of(params).name == name
    assert selector_of(params).arguments(params) == arguments
    assert selector_of(params) in SELECTORS


def test_mirostat_takes_the_place_of_the_filters():
    assert _names(SamplingParams(mirostat=2, repeat_penalty=1.2)) == ["penalties", "temperature"]


def test_chain_remembers_the_longest_window_in_use():
    assert num_remembered(SamplingParams()) == 0
    assert num_remembered(SamplingParams(repeat_penalty=1.1)) == 64
    assert num_remembered(SamplingParams(repeat_penalty=1.1, dry_multiplier=0.8)) == 1024
    assert num_remembered(SamplingParams(repeat_penalty=1.1, samplers=("top_k",))) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"samplers": ("top_q",)},
        {"samplers": ("top_k", "top_k")},
        {"logit_bias": ((-1, 0.0),)},
        {"logit_bias": ((1, float("nan")),)},
        {"logit_bias": ((1, 1e9),)},
        {"logit_bias": tuple((n, 1.0) for n in range(2000))},
        {"mirostat": 3},
        {"adaptive_decay": 1.0},
    ],
    ids=lambda settings: str(settings)[:50],
)
def test_setting_that_native_code_must_not_see_is_refused_with_a_sentence(settings: dict):
    with pytest.raises(InvalidParams) as caught:
        SamplingParams(**settings)
    assert caught.value.message.endswith(".")
    assert caught.value.hint


@pytest.mark.parametrize("seed", [0, 1, MAX_SEED])
def test_seed_is_the_one_asked_for_when_it_is_set(seed: int):
    assert seed_of(SamplingParams(seed=seed)) == seed


def test_seed_is_fresh_and_can_be_pinned_when_it_is_random():
    seeds = {seed_of(SamplingParams()) for _ in range(8)}
    assert len(seeds) >= 7  # two equal ones among eight are already rarer than one in 10**8
    for seed in seeds:
        assert SamplingParams(seed=seed).seed == seed
