"""Four layers make the sampling settings; what a file holds can hide a value and never break a reply."""

import json
import tomllib
from typing import Any

import msgspec
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sampling_layers import Origin, changed_values, keep_for_app, keep_for_model, resolve
from engine import SAMPLER_NAMES, SamplingParams, param_infos


def _numbers() -> dict[str, st.SearchStrategy[Any]]:
    drawn: dict[str, st.SearchStrategy[Any]] = {}
    for name, info in param_infos(SamplingParams).items():
        low, high = info.minimum, info.maximum
        number: st.SearchStrategy[Any]
        if info.is_integer:
            number = st.integers(int(low), int(high))
        else:
            number = st.floats(low, high, allow_nan=False).map(lambda value: value + 0.0)
        drawn[name] = st.none() | number if info.none_label is not None else number
    return drawn


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
lists: dict[str, st.SearchStrategy[Any]] = {
    "stop": st.lists(texts, max_size=4).map(tuple),
    "samplers": st.lists(st.sampled_from(SAMPLER_NAMES), unique=True).map(tuple),
    "logit_bias": st.lists(st.tuples(st.integers(0, 999), st.floats(-9, 9, allow_nan=False)), max_size=3).map(tuple),
    "grammar": st.none() | texts,
}
all_params = st.fixed_dictionaries({}, optional=_numbers() | lists).map(lambda values: SamplingParams(**values))
layers = st.tuples(all_params, all_params).map(lambda pair: changed_values(*pair))


@given(all_params, all_params)
@settings(max_examples=60)
def test_changed_values_give_the_settings_back_through_a_file(wanted: SamplingParams, base: SamplingParams) -> None:
    values = changed_values(wanted, base)
    assert json.loads(json.dumps(values)) == values
    values = tomllib.loads(tomli_w.dumps(values))
    found = resolve(changed_values(base, SamplingParams()), {}, values)
    assert found.params == wanted
    assert found.faults == ()
    assert {name for name, origin in found.origins.items() if origin is Origin.CHAT} == set(values)


@given(all_params)
@settings(max_examples=30)
def test_settings_written_whole_are_read_as_well(wanted: SamplingParams) -> None:
    assert resolve({}, {}, msgspec.to_builtins(wanted)).params == wanted


@given(layers, layers, layers)
@settings(max_examples=60)
def test_keeping_the_settings_of_a_chat_changes_nothing_in_it(
    app: dict[str, Any], model: dict[str, Any], chat: dict[str, Any]
) -> None:
    before = resolve(app, model, chat).params
    kept = keep_for_model(app, model, chat)
    assert resolve(app, kept.layer, kept.chat).params == before
    assert kept.chat == {}
    kept = keep_for_app(app, model, chat)
    assert resolve(kept.layer, model, kept.chat).params == before
    assert set(kept.chat) <= set(model) | {"grammar", "json_schema"}


def test_the_nearest_layer_wins() -> None:
    found = resolve({"temperature": 0.1, "top_k": 1, "seed": 5}, {"top_k": 2, "min_p": 0.2}, {"min_p": 0.3})
    params, origins = found.params, found.origins
    assert (params.temperature, params.top_k, params.min_p, params.seed) == (0.1, 2, 0.3, 5)
    assert [origins[name] for name in ("temperature", "top_k", "min_p", "top_p")] == [
        Origin.APP,
        Origin.MODEL,
        Origin.CHAT,
        Origin.DEFAULT,
    ]


def test_a_layer_can_take_a_number_away() -> None:
    found = resolve({"seed": 7, "max_tokens": 100}, {}, {"seed": "none", "max_tokens": "none"})
    assert (found.params.seed, found.params.max_tokens) == (None, None)
    assert found.origins["seed"] is Origin.CHAT


@pytest.mark.parametrize(
    "layer",
    [
        {"temperature": "hot"},
        {"temperature": float("nan")},
        {"temperature": 10**400},
        {"temperature": "none"},
        {"top_k": -1},
        {"top_k": 2.5},
        {"top_k": True},
        {"top_k": {"a": 1}},
        {"no_such": 1},
        {"x" * 10_000: 1},
        {"stop": "abc"},
        {"stop": [1]},
        {"stop": [f"s{n}" for n in range(100)]},
        {"samplers": ["top_k", "top_k"]},
        {"samplers": ["__class__"]},
        {"logit_bias": [[1]]},
        {"logit_bias": [["a", 1.0]]},
        {"seed": 2**32},
    ],
    ids=lambda layer: str(layer)[:40],
)
def test_what_cannot_be_used_is_passed_over_and_named(layer: dict[str, Any]) -> None:
    found = resolve(layer, {}, {"min_p": 0.5})
    assert found.params == SamplingParams(min_p=0.5)
    assert len(found.faults) == 1
    assert len(found.faults[0]) < 200
    assert set(found.origins.values()) == {Origin.DEFAULT, Origin.CHAT}
    assert keep_for_app({}, {}, layer).layer == {}


def test_a_layer_that_is_no_table_is_passed_over() -> None:
    found = resolve(5, [], {"top_k": 3})  # type: ignore[arg-type]
    assert found.params == SamplingParams(top_k=3)
    assert len(found.faults) == 2


@pytest.mark.parametrize(("stop", "expected"), [([""], ()), ([" "], (" ",)), (["ok", ""], ("ok",))])
def test_empty_stop_strings_are_dropped_and_blanks_stay(stop: list[str], expected: tuple[str, ...]) -> None:
    params = resolve({}, {}, {"stop": stop}).params
    assert params.stop == expected
    assert "" not in changed_values(params, SamplingParams()).get("stop", [])


def test_a_schema_takes_the_place_of_a_grammar_below() -> None:
    found = resolve({"grammar": "root ::= x"}, {}, {"json_schema": "{}"})
    assert (found.params.grammar, found.params.json_schema) == (None, "{}")
    assert keep_for_app({"grammar": "root ::= x"}, {}, {"json_schema": "{}"}).layer == {"json_schema": "{}"}
    both = resolve({"grammar": "root ::= x", "json_schema": "{}"}, {}, {})
    assert both.params.json_schema is None
    assert len(both.faults) == 1
