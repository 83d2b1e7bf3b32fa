"""How far the referee is behind the best fixed draft in hindsight, on recorded step times and fixed seeds."""

import pytest

from tests.unit.engine.speculative.simulated_chat import PROCESSES, Cell, cell

_REGRET, _LOSS = 0.03, 0.02


def check(result: Cell) -> None:
    """Assert the bounds of a cell."""
    assert result.regret <= _REGRET, result
    assert result.loss <= _LOSS, result


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("machine", ["deep-f16-2threads", "q4_0-2threads", "q8_0-2threads"])
def test_referee_is_close_to_the_best_fixed_draft_and_never_loses(machine: str, process: str) -> None:
    check(cell(machine, process, num_chats=3, num_replies=6, num_tokens=200))


@pytest.mark.parametrize("machine", ["deep-f16-2threads", "q4_0-2threads"])
def test_drafts_that_are_never_right_cost_little_when_they_had_seemed_good(machine: str) -> None:
    result = cell(machine, "drafts never right", num_chats=3, num_replies=4, num_tokens=200, agreement=0.8)

    assert result.loss <= 0.02
