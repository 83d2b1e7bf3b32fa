"""The arithmetic of a reply's measures."""

import json

import pytest

from engine.metrics import CacheMissCause, CacheSource, RequestMetrics


def _metrics(**values) -> RequestMetrics:
    counts = {"num_prompt_tokens": 100, "num_cached_tokens": 40, "num_generated_tokens": 11}
    return RequestMetrics(**(counts | values))


def test_rates_follow_their_definitions_when_all_is_known():
    metrics = _metrics(ttft_s=2.5, prefill_s=2.0, decode_s=5.0)
    assert metrics.prefill_rate == 30.0  # (100 - 40) / 2
    assert metrics.decode_rate == 2.0  # (11 - 1) / 5
    assert metrics.tpot_s == 0.5


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "prefill_rate"),
        ({}, "decode_rate"),
        ({}, "tpot_s"),
        ({}, "acceptance_rate"),
        ({"prefill_s": 0.0}, "prefill_rate"),
        ({"prefill_s": 1.0, "num_cached_tokens": 100}, "prefill_rate"),
        ({"decode_s": 0.0}, "decode_rate"),
        ({"decode_s": 0.0, "num_generated_tokens": 1}, "tpot_s"),
        ({"decode_s": 1.0, "num_generated_tokens": 1}, "decode_rate"),
        ({"decode_s": 0.0, "num_generated_tokens": 0}, "tpot_s"),
        ({"decode_s": 0.0, "num_generated_tokens": 0}, "decode_rate"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value) or "nothing",
)
def test_measure_is_none_when_it_cannot_be_known(values: dict, name: str):
    assert getattr(_metrics(**values), name) is None


def test_acceptance_rate_is_accepted_over_drafted_when_tokens_were_drafted():
    assert _metrics(num_drafts=3, num_drafted_tokens=12, num_accepted_tokens=9).acceptance_rate == 0.75


def test_every_measure_is_in_the_plain_form_when_it_is_written():
    metrics = _metrics(
        prefill_s=2.0, decode_s=5.0, cache_source=CacheSource.SLOT, cache_miss_cause=CacheMissCause.EDITED, seed=0
    )
    plain = json.loads(json.dumps(metrics.as_dict()))
    derived = {"prefill_rate", "decode_rate", "tpot_s", "acceptance_rate"}
    assert set(plain) == set(RequestMetrics.__struct_fields__) | derived
    assert plain["cache_source"] == "slot"
    assert plain["cache_miss_cause"] == "edited"
    assert plain["decode_rate"] == 2.0
    assert plain["acceptance_rate"] is None
    assert plain["seed"] == 0


def test_causes_and_sources_have_their_written_names_when_listed():
    assert [source.value for source in CacheSource] == ["none", "slot", "ram", "disk", "response"]
    names = (
        "first_use edited system_prompt_changed template_changed adapter_changed settings_changed trimmed evicted "
        "model_reloaded unsupported_by_model damaged"
    )
    assert " ".join(cause.value for cause in CacheMissCause) == names
