"""The referee against the best fixed draft in hindsight: every recorded machine, longer chats, more seeds."""

import random

import pytest

from engine.speculative.ngram import NgramIndex
from tests.unit.engine.speculative.simulated_chat import PROCESSES, RECORDED, cell

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("machine", RECORDED)
def test_referee_is_close_to_the_best_fixed_draft_in_longer_chats(machine: str, process: str) -> None:
    result = cell(machine, process, num_chats=8, num_replies=10, num_tokens=256)

    assert result.regret <= 0.03, result
    assert result.loss <= 0.02, result


@pytest.mark.parametrize("seed", range(20))
def test_index_grown_in_random_parts_equals_one_built_at_once(seed: int) -> None:
    chance = random.Random(seed)
    tokens: list[int] = []
    index = NgramIndex()
    for _ in range(300):
        part = [chance.randint(0, 30) for _ in range(chance.randint(0, 5))]
        if tokens and chance.random() < 0.5:
            start = chance.randrange(len(tokens))
            part = tokens[start : start + chance.randint(1, 40)]
        tokens += part
        index.extend(part)

        assert index.propose(16) == NgramIndex(tokens).propose(16)
