"""What a request's settings make of the sampler chain."""

import itertools

import pytest

from engine.params import SamplingParams, param_infos
from engine.params.sampling import MAX_SEED
from engine.sampling import SAMPLER_STEPS, chain_of, seed_of

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
    assert step.arguments(params) == (32, 1.3)


def test_no_step_is_left_when_every_setting_is_neutral():
    assert chain_of(SamplingParams(**NEUTRAL)) == []


@pytest.mark.parametrize(
    ("changed", "name", "arguments"),
    [
        ({"temperature": 0.5}, "temperature", (0.5,)),
        ({"top_k": 7}, "top_k", (7,)),
        ({"top_p": 0.9}, "top_p", (0.9,)),
        ({"top_p": 0.0}, "top_p", (0.0,)),
        ({"min_p": 0.1}, "min_p", (0.1,)),
        ({"repeat_penalty": 1.1, "repeat_last_n": 5}, "penalties", (5, 1.1)),
        ({"repeat_penalty": 0.9}, "penalties", (64, 0.9)),
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


def test_each_step_has_a_setting_that_is_declared_when_steps_are_listed():
    names = [step.name for step in SAMPLER_STEPS]
    assert len(set(names)) == len(names)
    declared = set(param_infos(SamplingParams)) | {"penalties"}
    assert set(names) <= declared


@pytest.mark.parametrize("seed", [0, 1, MAX_SEED])
def test_seed_is_the_one_asked_for_when_it_is_set(seed: int):
    assert seed_of(SamplingParams(seed=seed)) == seed


def test_seed_is_fresh_and_can_be_pinned_when_it_is_random():
    seeds = {seed_of(SamplingParams()) for _ in range(8)}
    assert len(seeds) >= 7  # two equal ones among eight are already rarer than one in 10**8
    for seed in seeds:
        assert SamplingParams(seed=seed).seed == seed
