"""Whether drafting may pay: known answers, and what must hold of any prior."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import (
    ACCEPTANCE_PRIOR,
    LEAST_GAIN,
    CacheSettings,
    Kinship,
    cost_ratio,
    draft_bytes,
    expected_gain,
    read_draft_file,
    usual_step_costs,
)
from models.quant_types import TensorType
from tests.support.gguf_files import write_tiny_model

_FLAT = (1.0,) * 9


def test_gain_where_verifying_and_drafting_are_free_is_all_tokens() -> None:
    assert expected_gain(1.0, 0.0, _FLAT) == (9.0, 8)
    assert expected_gain(0.5, 0.0, (1.0, 1.0, 1.0)) == (1.75, 2)


def test_gain_of_a_draft_that_is_never_accepted_is_a_loss() -> None:
    speed_up, num_drafted = expected_gain(0.0, 0.25, (1.0, 1.4, 1.7))
    assert (speed_up, num_drafted) == (pytest.approx(1 / 1.65), 1)


def test_gain_is_the_best_over_all_lengths() -> None:
    costs = (29.0, 29.0 * 1.4, 29.0 * 1.7, 29.0 * 1.8)  # in any unit
    speed_up, num_drafted = expected_gain(0.65, 0.1, costs)
    assert (speed_up, num_drafted) == (pytest.approx((1 + 0.65 + 0.65**2 + 0.65**3) / (1.8 + 0.3)), 3)
    assert expected_gain(0.65, 0.1, (1.0,)) == (0.0, 0)


@given(st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 0.5))
def test_better_acceptance_and_a_smaller_draft_never_gain_less(acceptance: float, less: float, ratio: float) -> None:
    costs = (1.0, 1.4, 1.7, 1.8, 2.0)
    gain = expected_gain(acceptance, ratio, costs).speed_up
    assert expected_gain(acceptance * (1 - less), ratio, costs).speed_up <= gain
    assert expected_gain(acceptance, ratio + less, costs).speed_up <= gain
    assert gain <= 5.0


def test_model_as_its_own_draft_never_pays(tmp_path: Path) -> None:
    file = read_draft_file(write_tiny_model(tmp_path / "tiny.gguf"))
    assert cost_ratio(file.info, file.info) == 1.0
    for costs in (usual_step_costs(file.info), usual_step_costs(file.info, is_on_graphics=True)):
        assert expected_gain(ACCEPTANCE_PRIOR[Kinship.SAME_FILE], 1.0, costs).speed_up < LEAST_GAIN


@pytest.mark.parametrize(
    ("kind", "second"),
    [(TensorType.F16, 1.4), (TensorType.Q4_0, 1.6), (TensorType.Q8_0, 2.3), (TensorType.IQ3_XXS, 2.3)],
)
def test_usual_costs_follow_the_type_of_most_weights(tmp_path: Path, kind: TensorType, second: float) -> None:
    info = read_draft_file(write_tiny_model(tmp_path / "tiny.gguf")).info
    weights = dataclasses.replace(info.weights, matrix_bytes=((TensorType.F32, 10), (kind, 100), (TensorType.Q6_K, 50)))
    costs = usual_step_costs(dataclasses.replace(info, weights=weights))
    assert (costs[0], costs[1]) == (1.0, second)
    assert list(costs) == sorted(costs)
    no_matrices = dataclasses.replace(info, weights=dataclasses.replace(weights, matrix_bytes=()))
    assert usual_step_costs(no_matrices)[1] == 2.3


def test_memory_of_a_draft_is_weights_vocabulary_buffers_and_its_own_cache(tmp_path: Path) -> None:
    info = read_draft_file(write_tiny_model(tmp_path / "tiny.gguf")).info
    one, four = (CacheSettings(n_seq_max=count) for count in (1, 4))
    n_layer, widths, num_bytes = 2, 2 * 32, 2  # keys and values of two heads, as f16
    kept = n_layer * widths * num_bytes * 256
    assert draft_bytes(info, 512, one) - draft_bytes(info, 256, one) >= kept
    assert draft_bytes(info, 256, one) > info.weight_bytes + kept + 274 * 290
    assert draft_bytes(info, 256, four) > draft_bytes(info, 256, one)
    quantised = dataclasses.replace(one, type_k="q8_0", type_v="q8_0")
    assert draft_bytes(info, 256, quantised) == draft_bytes(info, 256, one)
