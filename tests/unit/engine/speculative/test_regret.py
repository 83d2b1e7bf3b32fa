"""How far the referee is behind the best fixed draft in hindsight, on recorded step times and fixed seeds."""

import pytest

from tests.unit.engine.speculative.simulated_chat import PROCESSES, Cell, cell

_THIN = 1.15  # a best draft that gains less is not to be told from chance within a few replies


def check(result: Cell) -> None:
    """Assert the bounds of every cell."""
    assert result.regret <= (0.03 if not 1.02 < result.gain < _THIN else 0.06), result
    assert result.loss <= 0.02, result


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("machine", ["deep-f16-2threads", "q4_0-2threads", "q8_0-2threads", "q4_k_m-2threads"])
def test_referee_is_close_to_the_best_fixed_draft_and_never_loses(machine: str, process: str) -> None:
    check(cell(machine, process, num_chats=3, num_replies=6, num_tokens=200))


@pytest.mark.parametrize("machine", ["deep-f16-2threads", "q4_0-2threads"])
def test_drafts_that_are_never_right_cost_little_when_they_had_seemed_good(machine: str) -> None:
    result = cell(machine, "drafts never right", num_chats=3, num_replies=4, num_tokens=200, agreement=0.8)

    assert result.loss <= 0.02
